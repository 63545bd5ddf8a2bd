"""From a graph whose file says scales and zero points to a graph of scaled integers with exactly these formats.

As :mod:`mase_hw.importers.settle`, for files whose scales are any positive numbers. The modules are made by
:class:`~mase_hw.passes.quantize.integers.given.GivenIntegers`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import torch
from torch import Tensor, fx

from mase_hw.formats import FixedFormat, Rounding, ScaledFormat, as_scaled, steps_of
from mase_hw.formats.taken import Ends
from mase_hw.importers.entries import marker_of_input
from mase_hw.importers.exact import exact_format
from mase_hw.importers.graph import ON_HOST, Known, Marker, Refused, plan_each
from mase_hw.ir import MaseGraph
from mase_hw.ir.paths import called
from mase_hw.numerics import magnitude
from mase_hw.numerics.integer_cast import rounded
from mase_hw.opdef import OpDef
from mase_hw.ops._functions import TABLE_BITS, codes
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.quantize.integers.given import GivenIntegers
from mase_hw.passes.quantize.integers.sums import MEANS, Stored
from mase_hw.passes.quantize.integers.thresholds import Requantizing
from mase_hw.passes.quantize.operands import Operands, data_inputs, operands_of, parameters_of, stored

_BEHIND = f"quantise its result, so that the file says its scale, or {ON_HOST}"
_ROUNDED = 2.0**-22
"""How far a product of a scale and an integer may be from that product in float32."""
_SIDES = {"ge_number": math.floor, "lt_number": math.floor, "gt_number": math.ceil, "le_number": math.ceil}
"""Comparisons of an integer plus a number with 0, and the integer with which they give the same."""
_AFFINE, _ENDS = ("add", "sub", "mul", "div"), ("data_in_0", "data_out_0")
_BEFORE = "put a quantisation before it (a Quant, or a QuantizeLinear and a DequantizeLinear)"


class Integers:
    """Quantises a graph as its markers say; see :func:`mase_hw.importers.settle.settle` for the arguments."""

    def __init__(
        self, graph: MaseGraph, markers: Mapping[str, Marker], known: Mapping[str, Known], sources: Mapping[str, str]
    ) -> None:
        self.graph, self.markers, self.known, self.sources = graph, markers, known, sources
        self.given = GivenIntegers(graph)
        self.entries: dict[str, Marker] = {}
        self.spent: dict[fx.Node, fx.Node] = {}
        """Markers that something before them does, and the node whose result they had."""
        self.runs: dict[fx.Node, tuple[fx.Node, list[fx.Node]]] = {}
        """Of nodes that end a run of functions of one value which nothing quantises: what the run reads, and it."""
        self.outside: set[str] = set()
        """Inputs of the model, and the same moved."""

    def run(self) -> None:
        """Make all plans, and write them.

        Raises:
            UnsupportedError: Naming every node that cannot be computed so.
        """
        plan_each(self.graph, self.sources, self._node)
        for plan in self.given.plans.values():
            plan.inputs[:] = map(self._kept, plan.inputs)
        for marker, node in self.spent.items():
            edit.takes_result_of(self.graph, node, marker)
            edit.bypass(self.graph, marker, node)
        edit.finish(self.graph)
        self.given.write()

    def _kept(self, node: fx.Node) -> fx.Node:
        """The node that gives what a marker gave that is taken out."""
        while node in self.spent:
            node = self.spent[node]
        return node

    def _node(self, node: fx.Node, op: OpDef) -> None:
        if node in self.spent:
            self.given.formats[node.name] = self.given.formats[data_inputs(self.graph, node)[0].name]
            return
        if op.places is None:
            for source in data_inputs(self.graph, node):
                self._entered(node, source)
        if node.name in self.markers:
            self._marker(node, self.markers[node.name])
        elif self.graph.is_implicit(node):
            self.given.passed(node)
        else:
            self._computes(node, op)

    def _entered(self, node: fx.Node, source: fx.Node) -> None:
        """The format of an input of the model that a node reads."""
        outside = source.name not in self.given.formats or source.name in self.outside
        if not outside or source.op == "get_attr":
            return
        start, marker = marker_of_input(self.graph, self.markers, self.sources, node, source)
        if self.entries.setdefault(start.name, marker).fmt != marker.fmt:
            raise Refused(f"the input {start.name} is quantised in two ways", "quantise it once")
        self.given.enter(start, as_scaled(marker.fmt))
        self.outside.add(start.name)
        while source is not start:
            self.outside.add(source.name)
            self.given.formats[source.name] = self.given.formats[start.name]
            (source,) = data_inputs(self.graph, source)

    def _marker(self, node: fx.Node, marker: Marker) -> None:
        (source,) = data_inputs(self.graph, node)
        have, want = self.given.formats[source.name], as_scaled(marker.fmt)
        alone = source.op == "placeholder" and any(user.op == "output" for user in node.users)
        if _within(have, want) and not alone:
            self.given.formats[node.name] = have
            self.spent[node] = source
            return
        self.given.requantize(node, want, marker.requantizing)
        self._as_the_file(node, marker)

    def _as_the_file(self, node: fx.Node, marker: Marker) -> None:
        """Refuse what a planned requantisation does not round as the file does."""
        plan = self.given.plans[node.name]
        if plan.op.name == "requantize":
            have, a, parameters = plan.arithmetic.formats["data_in_0"], plan.arithmetic, plan.parameters
        elif plan.result is not None:
            have = plan.arithmetic.formats["data_out_0"]
            a, parameters = self.given.how[node.name].between(have, plan.result)
        else:
            return
        if marker.given is not None and not _within(have, as_scaled(marker.given)):
            raise Refused(f"it truncates numbers of the format {have}", "quantise its input to its scale and width")
        if not marker.tied and may_tie(have, int(a.attributes["shift"]), parameters["multiplier"].flatten().tolist()):
            raise Refused(
                f"its zero point of {as_scaled(marker.fmt).zero_point} is added before rounding, which decides ties",
                "use the rounding mode ROUND, or scales of which no sum lies in the middle between two numbers",
            )

    def _computes(self, node: fx.Node, op: OpDef) -> None:
        if op.scaled is None and op.derive is not None:
            raise Refused("its numbers have no scale", "fold it into the layer before, and quantise that")
        self._refuse_unquantised(node, "fixed" if op.scaled is None else op.scaled.kind)
        marker = self._behind(node)
        want = None if marker is None else as_scaled(marker.fmt)
        how = None if marker is None else marker.requantizing
        operands = operands_of(self.graph, node, op)
        number = _number(operands)
        if self._run(node, op, operands, want, how):
            pass
        elif op.name == "div" and number is not None and number > 0 and not operands.reversed and want is not None:
            self.given.requantize(node, want, how, 1 / number)
        elif op.scaled is None or op.scaled.kind == "around":
            if op.inner is not None:
                raise Refused(
                    "hardware has it in fixed point only, and nothing says the formats of what it keeps",
                    f"quantise what it reads and gives with scales that are powers of two, or {ON_HOST}",
                )
            if want is None:
                raise Refused("nothing behind it quantises its result", _BEHIND)
            parameters = parameters_of(self.graph, node, op)
            if operands.constant is not None:
                parameters[op.constant] = operands.constant
            self.given.around(node, parameters, want, how)
        elif op.scaled.kind == "clamp":
            assert op.scaled.ends is not None  # it clamps
            common = self.graph.meta_of(node).common.args
            ends = op.scaled.ends(common.attributes)
            have = self.given.data(operands.inputs[0])
            rounding = Rounding.HALF_EVEN if marker is None else marker.rounding
            self.given.requantize(node, _limited(want or _on_grid(have, ends), ends, rounding), how)
        elif op.scaled.kind == "selection":
            if operands.constant is not None:
                raise Refused("it has a stored operand", f"clamp instead, or {ON_HOST}")
            if op.name in MEANS:
                self.given.mean(node, want, how)
            else:
                self.given.selection(node, want, how)
        elif op.scaled.kind in ("function", "pieces"):
            if want is None:
                raise Refused("nothing behind it quantises its result", _BEHIND)
            self.given.function(node, want, how)
        elif op.scaled.kind == "total":
            self.given.total(node, want, how)
        elif op.scaled.kind == "steps":
            self.given.steps(node, want, how)
        elif op.scaled.kind == "shares":
            if want is None:
                raise Refused("nothing behind it quantises its result", _BEHIND)
            self.given.shares(node, want, how)
        elif op.scaled.kind in ("sum", "product"):
            constant = None if operands.constant is None else self._constant(operands)
            if constant is not None and not constant.values.any():
                x = self.given.data(operands.inputs[0])  # zeros have any scale
                constant = Stored(constant.values, ScaledFormat.make(2, x.scales))
            self.given.combination(node, constant, want, how)
        elif op.scaled.kind == "slopes":
            self.given.slopes(node, parameters_of(self.graph, node, op)["weight"], want, how)
        elif op.scaled.kind == "sums":
            self._sums(node, op, marker)
        elif op.scaled.kind == "rows":
            self.given.rows(node, self._table(node, op), want, how)
        else:
            raise Refused("no file says how it is rounded", ON_HOST)
        if marker is not None:
            self._as_the_file(node, marker)

    def _run(
        self, node: fx.Node, op: OpDef, operands: Operands, want: ScaledFormat | None, how: Requantizing | None
    ) -> bool:
        """Take a node as a part of a run of functions of one value, of which only the last is quantised: one table.

        Returns:
            Whether it is one.
        """
        for source in operands.inputs:
            if source in self.runs and not _of_one_value(op, operands):
                raise Refused("nothing quantises what it reads", _BEFORE)
        if len(operands.inputs) != 1 or op.places is not None:
            return False
        source, before = self.runs.get(operands.inputs[0], (operands.inputs[0], []))
        narrow = self.given.data(source).width <= TABLE_BITS
        if want is not None:
            # A quotient by a number is a requantisation.
            alone = op.scaled is None and narrow and _of_one_value(op, operands) and operands.constant is None
            if before or alone:
                self.given.table(node, source, self._values(source, [*before, node]), want, how)
                self.given.spent.update(before)
            return bool(before) or alone
        if not _of_one_value(op, operands) or not narrow:
            return False
        readers = list(node.users)
        then = self.graph.op_of(readers[0]) if len(readers) == 1 else None
        if then is None or not _of_one_value(then, operands_of(self.graph, readers[0], then)):
            if before and not self._exact_end(node, source, before):
                raise Refused("nothing behind it quantises its result", _BEHIND)
            return bool(before)
        self.runs[node] = source, [*before, node]
        self.given.formats[node.name] = self.given.formats[source.name]
        return True

    def _exact_end(self, node: fx.Node, source: fx.Node, before: Sequence[fx.Node]) -> bool:
        """End a run that nothing quantises where its results are exact in fixed point of hardly more bits."""
        values = self._values(source, [*before, node])
        if not bool(values.isfinite().all()) or not torch.equal(values, values.float().double()):
            return False
        fmt = as_scaled(exact_format(values))
        if fmt.width > self.given.data(source).width + 1:
            return False
        self.given.table(node, source, values, fmt)
        self.given.spent.update(before)
        return True

    def _values(self, source: fx.Node, run: Sequence[fx.Node]) -> Tensor:
        """The results of a run for every code of what it reads, in float64."""
        fmt = self.given.data(source)
        found: dict[fx.Node, Tensor] = {source: fmt.values(codes(fmt).double())}

        def given(argument: fx.Node) -> Tensor:
            if argument not in found:
                chain: list[fx.Node] = []
                value = stored(self.graph, argument, chain)
                assert value is not None  # all else is data
                found[argument] = value.double().reshape(-1)
            return found[argument]

        for node in run:
            found[node] = called(self.graph.model, node, given)
        return found[run[-1]].detach()

    def _refuse_unquantised(self, node: fx.Node, kind: str) -> None:
        """Refuse sums that a node reads before they are quantised, if it takes no such numbers."""
        read = [source for source in data_inputs(self.graph, node) if source.name in self.given.formats]
        given = [self.given.data(source) for source in read if source.op != "get_attr"]
        if kind not in ("clamp", "steps") and any(fmt.per_channel for fmt in given):
            raise Refused("it reads sums that have a scale for each channel, which nothing has quantised", _BEFORE)
        widest = max((fmt.width for fmt in given), default=0)
        if kind == "function" and widest > TABLE_BITS:
            raise Refused(
                f"it reads numbers of {widest} bits, and its table has at most {TABLE_BITS}",
                f"{_BEFORE}, of at most {TABLE_BITS} bits",
            )

    def _constant(self, operands: Operands) -> Stored:
        """A stored operand: the integers of the file, or a number that is one integer at its own scale."""
        value = operands.constant
        assert value is not None  # the caller looked
        stored = [n for n in operands.chain if n.op == "get_attr"]
        known = self.known.get(str(stored[-1].target), Known()) if stored else Known()
        fmt = known.integers
        if fmt is None:
            numbers = set(value.double().abs().reshape(-1).tolist())
            largest = max(numbers, default=0.0)
            single = len(numbers) == 1 and math.isfinite(largest) and largest > 0
            fmt = ScaledFormat.make(2, largest) if single else self._made_of(value, channels=False)
            fmt = as_scaled(exact_format(value)) if fmt is None else fmt
        if fmt.per_channel:
            raise Refused("a stored operand with a scale for each channel", "quantise it with one scale")
        return Stored(value, fmt)

    def _table(self, node: fx.Node, op: OpDef) -> Stored:
        values = parameters_of(self.graph, node, op)["weight"]
        fmt = self.known.get(self._path(node, "weight"), Known()).integers or self._made_of(values, channels=False)
        if fmt is None or fmt.per_channel:
            raise Refused("its table has no integers of one scale", "quantise it with one scale")
        return Stored(values, fmt)

    def _sums(self, node: fx.Node, op: OpDef, marker: Marker | None) -> None:
        parameters = parameters_of(self.graph, node, op)
        known = {name: self.known.get(self._path(node, name), Known()) for name in parameters}
        fmt = known["weight"].integers or self._made_of(parameters["weight"])
        if fmt is None:
            raise Refused("its weights are no integers with a scale", "quantise them")
        if fmt.per_channel and fmt.axis != 0:
            raise Refused("its weights have a scale for each of what is not its outputs", "quantise each output alone")
        weight, bias = Stored(parameters["weight"], fmt), parameters.get("bias")
        added: Stored | None = None
        if bias is not None:
            said = known["bias"]
            added = Stored(bias if said.exact is None else said.exact, said.integers, said.every)
            added = self._only_signs(node, added, fmt)
        run = [] if marker is not None else self._affine_run(node)
        if run:
            weight, added = self._times(weight, added, *_affine(run))
            self.spent.update((each, node) for each, _, _ in run)
        self.given.sums(
            node,
            weight,
            added,
            None if marker is None else as_scaled(marker.fmt),
            None if marker is None else marker.requantizing,
            reader=self._requantising_reader(node),
        )

    def _affine_run(self, node: fx.Node) -> list[tuple[fx.Node, OpDef, Operands]]:
        """The sums with and products by numbers between a layer and a result of the model, if their slope is above 0.

        Nothing rounds them there. They become scales and a bias of the layer.
        """
        found: list[tuple[fx.Node, OpDef, Operands]] = []
        last = node
        while len(last.users) == 1:
            (last,) = last.users
            op = self.graph.op_of(last)
            if last.name in self.markers or op is None or op.name not in _AFFINE:
                break
            operands = operands_of(self.graph, last, op)
            number, shapes = _number(operands), [self.graph.tensor(last, name).shape for name in _ENDS]
            turned = op.name == "div" and (operands.reversed or number == 0)
            if number is None or turned or shapes[0] != shapes[1]:
                break
            found.append((last, op, operands))
        last = found[-1][0] if found else node
        while len(last.users) == 1 and self.graph.is_implicit(next(iter(last.users))):
            (last,) = last.users
        ends = last.name not in self.markers and all(user.op == "output" for user in last.users)
        return found if ends and _affine(found)[0] > 0 else []

    def _times(
        self, weight: Stored, bias: Stored | None, factor: Fraction, shift: Fraction
    ) -> tuple[Stored, Stored | None]:
        """Weights and a bias of a layer whose results are multiplied and added to."""
        assert weight.fmt is not None  # the caller looked
        fmt = dataclasses.replace(weight.fmt, scales=tuple(float(factor * step) for step in steps_of(weight.fmt)))
        made = Stored(weight.values.detach().double() * float(factor), fmt)
        if bias is None and not shift:
            return made, None
        have = torch.zeros(len(weight.values)) if bias is None else bias.values
        values = [float(factor * Fraction(v) + shift) for v in have.detach().double().tolist()]
        return made, Stored(torch.tensor(values, dtype=torch.float64))

    def _only_signs(self, node: fx.Node, bias: Stored, weight: ScaledFormat) -> Stored:
        """A bias as integers where one comparison with 0 reads the sums: the next one by which no sum changes sides."""
        readers = list(node.users)
        op = self.graph.op_of(readers[0]) if len(readers) == 1 else None
        number = self.graph.meta_of(readers[0]).common.args.get("number") if op is not None else None
        towards = _SIDES.get(op.name) if op is not None and number == 0 else None
        if towards is None or bias.fmt is not None:
            return bias
        (step,) = steps_of(self.given.data(data_inputs(self.graph, node)[0]))
        products = [step * each for each in steps_of(weight)]
        values = bias.values.detach().double().tolist()
        products = products * (len(values) // len(products))
        found = [towards(Fraction(b) / p) * float(p) for b, p in zip(values, products, strict=True)]
        return Stored(torch.tensor(found, dtype=torch.float64))

    def _made_of(self, weight: Tensor, *, channels: bool = True) -> ScaledFormat | None:
        """The format of numbers that were made of stored integers, such as weights of a transposed convolution.

        Whatever scales of the file make integers of all of them are right, since they are the same numbers then.

        Args:
            weight: The numbers.
            channels: Whether every index of the first dimension may have a scale of its own.
        """
        rows = weight.detach().double().cpu().reshape(weight.shape[0] if channels else 1, -1)
        for fmt in {k.integers: None for k in self.known.values() if k.integers is not None}:
            low, high = fmt.min_mantissa, fmt.max_mantissa
            scales = [0.0] * len(rows)
            for scale in sorted(set(fmt.scales)):  # of several the largest
                codes = rows / scale
                near = (codes - codes.round()).abs() <= codes.abs() * _ROUNDED
                fits = (near & (codes >= low - 0.5) & (codes <= high + 0.5)).all(1).tolist()
                scales = [scale if fit else before for fit, before in zip(fits, scales, strict=True)]
            if min(scales, default=0.0) > 0.0:
                one = scales[:1] if len(set(scales)) == 1 else scales
                return ScaledFormat.make(fmt.width, one, signed=fmt.signed, low=low, high=high)
        return None

    def _requantising_reader(self, node: fx.Node) -> tuple[FixedFormat, Requantizing] | None:
        """To what and how the one reader of a node, a clamp, rounds."""
        readers = list(node.users)
        op = self.graph.op_of(readers[0]) if len(readers) == 1 else None
        if op is None or op.scaled is None or op.scaled.kind != "clamp":
            return None
        found = self._marker_behind(readers[0])
        marker = None if found is None else self.markers[found.name]
        return None if marker is None else (marker.fmt, marker.requantizing)

    def _path(self, node: fx.Node, name: str) -> str:
        """Where a parameter of a layer or of a function is stored."""
        if node.op == "call_module":
            return f"{node.target}.{name}"
        return str(self.graph.sources(node)[name][0].target)

    def _behind(self, node: fx.Node) -> Marker | None:
        """The marker behind a node, which is taken out: the requantisation at the end of it."""
        found = self._marker_behind(node)
        if found is None:
            return None
        self.spent[found] = data_inputs(self.graph, found)[0]
        return self.markers[found.name]

    def _marker_behind(self, node: fx.Node) -> fx.Node | None:
        """The marker that alone reads a node's result.

        What moves numbers, or takes the largest of them, may stand between: rounding them before gives the same.
        """
        last = node
        while last.users:
            if len(last.users) > 1:
                return self._marker_of_all(last)
            (last,) = last.users
            if last.name in self.markers:
                return last
            op = self.graph.op_of(last)
            moves = op is not None and op.scaled is not None and op.scaled.kind == "selection"
            alone = moves and op is not None and op.name not in MEANS and len(data_inputs(self.graph, last)) == 1
            if last.op == "output" or not (self.graph.is_implicit(last) or alone):
                return None
        return None

    def _marker_of_all(self, node: fx.Node) -> fx.Node | None:
        """One of the markers that read a node's result, moved or not, if these are all that do, and all the same."""
        found = []
        for last in node.users:
            while self.graph.is_implicit(last) and last.name not in self.markers and len(last.users) == 1:
                (last,) = last.users
            found.append(last)
        first = self.markers.get(found[0].name)
        return found[0] if all(first == self.markers.get(each.name, object) for each in found) else None


def _affine(run: Sequence[tuple[fx.Node, OpDef, Operands]]) -> tuple[Fraction, Fraction]:
    """By what sums with and products by numbers multiply, and what they then add."""
    factor, shift = Fraction(1), Fraction(0)
    for _, op, operands in run:
        number = _number(operands)
        assert number is not None  # the caller looked
        if op.name in ("mul", "div"):
            number = 1 / number if op.name == "div" else number
            factor, shift = factor * number, shift * number
            continue
        sign = -1 if operands.reversed and op.name == "sub" else 1
        factor, shift = factor * sign, shift * sign + (-number if op.name == "sub" and sign > 0 else number)
    return factor, shift


def _number(operands: Operands) -> Fraction | None:
    """The one number of a stored operand; None if there is none, or several."""
    value = operands.constant
    if value is None or not value.numel() or not bool((value == value.reshape(-1)[0]).all()):
        return None
    number = float(value.reshape(-1)[0])
    return Fraction(number) if math.isfinite(number) else None


def _of_one_value(op: OpDef, operands: Operands) -> bool:
    """Whether a result depends on one number of one input alone."""
    if len(operands.inputs) != 1:
        return False
    if operands.constant is not None:
        return bool(op.constant) and _number(operands) is not None
    use = op.scaled
    return op.oracle is not None if use is None else use.kind in ("function", "pieces", "steps", "clamp")


def _within(have: FixedFormat, want: ScaledFormat) -> bool:
    """Whether numbers of a format are numbers of another one as they are."""
    if not isinstance(have, ScaledFormat) or have.per_channel or want.per_channel:
        return have == want
    same = (have.scales, have.zero_point, have.signed) == (want.scales, want.zero_point, want.signed)
    return same and want.min_mantissa <= have.min_mantissa and have.max_mantissa <= want.max_mantissa


def may_tie(fmt: FixedFormat, shift: int, factors: Sequence[int]) -> bool:
    """Whether the product of a number of a format with one of these lies in the middle between two results."""
    largest = magnitude(as_scaled(fmt).centred)
    for factor in factors:
        zeros = (factor & -factor).bit_length() - 1
        # In the middle: an odd multiple of 2**(shift - 1).
        if shift >= 1 and largest >= 1 << max(0, shift - 1 - zeros):
            return True
    return False


def _steps(fmt: ScaledFormat, value: float) -> Fraction:
    return Fraction(value) / Fraction(fmt.scales[0])


def _on_grid(have: ScaledFormat, ends: Ends) -> ScaledFormat:
    """The format of what is clamped at numbers of its own format."""
    if have.per_channel or any(end is not None and _steps(have, end).denominator != 1 for end in ends):
        raise Refused("its ends are no numbers of its input, and nothing behind it quantises it", _BEHIND)
    return have


def _limited(fmt: ScaledFormat, ends: Ends, rounding: Rounding) -> ScaledFormat:
    """The numbers of a format between two ends, which are rounded as all other numbers are."""
    (first, last), *_ = fmt.limits
    zero, odd = fmt.zero_point, fmt.odd_ties
    low, high = (None if end is None else zero + rounded(_steps(fmt, end), rounding, odd) for end in ends)
    bottom = first if low is None else min(max(first, low), last)
    top = last if high is None else max(min(last, high), bottom)
    return dataclasses.replace(fmt, lows=(bottom,), highs=(top,))
