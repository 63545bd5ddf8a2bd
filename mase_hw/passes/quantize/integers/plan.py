"""The plan of a node with scaled integers.

Layers give exact sums at the scale of their products, with one scale for each output channel. Where these become data
again, one requantisation stands: the one reader that clamps, such as a ReLU, becomes it; else it is put behind the
layer. Ops that choose among numbers or move them keep the scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import torch
from torch import Tensor, fx

from mase_hw.catalogue import Arithmetic, OpDef
from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Overflow, ScaledFormat, ScaledUse, as_scaled, steps_of
from mase_hw.formats.attributes import Attributes
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ops._functions import TABLE_BITS
from mase_hw.ops.requantize import requantization
from mase_hw.passes.quantize.calibrate import CALIBRATED
from mase_hw.passes.quantize.config import NodeConfig, QuantizeArgs
from mase_hw.passes.quantize.formats import Decision
from mase_hw.passes.quantize.formats import from_statistics as fixed_from_statistics
from mase_hw.passes.quantize.integers.combine import product_of, sum_of, total_of
from mase_hw.passes.quantize.integers.formats import aligned, from_statistics, of_range, of_weights
from mase_hw.passes.quantize.integers.pieces import in_pieces, slopes_of, steps_format
from mase_hw.passes.quantize.integers.sums import Stored, shares_of, sums_of
from mase_hw.passes.quantize.operands import Operands, ends_of, leaves, parameters_of, passes_out

ALIGNED_BITS = 8
"""From so many bits on the steps of what is added, and of the sum, are powers of two of each other."""


@dataclass(frozen=True)
class ScaledPlan:
    """What becomes of a node.

    Args:
        op: The op, or ``requantize`` in place of one that clamps.
        arithmetic: Formats, modes, attributes.
        parameters: Of the quantised module.
        decisions: Why each tensor has its format.
        result: The format of what follows the node: that of a requantisation behind it, else its own result.
    """

    op: OpDef
    arithmetic: Arithmetic
    parameters: dict[str, Tensor]
    decisions: dict[str, Decision]
    result: FixedFormat


class Surroundings(Protocol):
    """What a plan asks of the planner of the whole graph."""

    graph: MaseGraph
    args: QuantizeArgs
    formats: dict[str, FixedFormat]

    def statistics(self, node: fx.Node, name: str) -> Json:
        """What calibration recorded of a tensor."""


def in_fixed_point(op: OpDef, width: int) -> bool:
    """Whether an op among scaled integers is planned as one in fixed point: between requantisations, or with places.

    Args:
        op: The op.
        width: Bits of its data; a function of more than a table takes is one in segments.
    """
    if op.scaled is None or op.scaled.kind in ("around", "rows"):
        return True
    return op.scaled.kind == "function" and width > TABLE_BITS


def plan_scaled(
    around: Surroundings,
    node: fx.Node,
    op: OpDef,
    config: NodeConfig,
    operands: Operands,
    attributes: Attributes,
) -> ScaledPlan:
    """Decide the formats of a node whose data is to be scaled integers.

    Raises:
        ConfigError: If a width is missing.
        PassOrderError: If a range was not observed.
    """
    assert op.scaled is not None  # the caller looked
    planner = _Planner(around, node, config, op.scaled, op.scaled.at_zero(attributes))
    if op.scaled.kind == "clamp":
        return planner.clamp(operands.inputs[0], attributes)
    if op.scaled.kind == "selection":
        return planner.selection(op, operands.inputs, attributes)
    if op.scaled.kind == "shares":
        return planner.shares(op, operands.inputs, attributes)
    if op.scaled.kind in ("sum", "product"):
        return planner.combination(op, operands, attributes)
    of_one_input = {
        "function": planner.function,
        "pieces": planner.pieces,
        "steps": planner.steps,
        "slopes": planner.slopes,
        "total": planner.total,
    }
    return of_one_input.get(op.scaled.kind, planner.sums)(op, operands.inputs[0], attributes)


class _Planner:
    def __init__(self, around: Surroundings, node: fx.Node, config: NodeConfig, use: ScaledUse, at_zero: bool) -> None:
        self.around, self.node, self.config, self.use, self.at_zero = around, node, config, use, at_zero
        self.decisions: dict[str, Decision] = {}

    def decided(self, name: str, fmt: FixedFormat, reason: str) -> FixedFormat:
        """Keep a decision."""
        self.decisions[name] = Decision(fmt, reason)
        return fmt

    def width(self, name: str) -> int:
        """The configured bits of a tensor."""
        return self.config.width(self.node.name, name)

    def observed(self, name: str, width: int | None = None) -> ScaledFormat:
        """The format of data, from its range."""
        statistics = self.around.statistics(self.node, name)
        affine = self.config.data_affine and not self.at_zero
        bits = self.width(name) if width is None else width
        fmt, reason = from_statistics(statistics, bits, self.config.of(name)[2], affine)
        self.decided(name, fmt, reason)
        return fmt

    def requantised(self, step: Fraction | None = None, exact: FixedFormat | None = None) -> FixedFormat:
        """The format behind exact numbers: in fixed point where all that reads them keeps a state in that.

        Args:
            step: Of the numbers of a sum, to which that of its result is fitted.
            exact: Format of exact sums. What adds to them before it rounds gets as many bits of them in fixed point.
        """
        graph, width = self.around.graph, self._out_width()
        readers = [graph.op_of(user) for user in self.node.users]
        if not readers or any(op is None or op.inner is None for op in readers):
            return self.aligned(self.observed("data_out_0", width), self._added_to() or step)
        if exact is not None and all(op is not None and "data_in_0" in op.exact_inputs for op in readers):
            fraction, exponent = math.frexp(float(max(steps_of(exact))))
            fmt = FixedFormat(exact.width, (fraction == 0.5) - exponent, exact.signed)
            return self.decided("data_out_0", fmt, "in fixed point, as wide as the exact sums are")
        statistics = self.around.statistics(self.node, "data_out_0")
        made = fixed_from_statistics(self.node.name, "data_out_0", self.config, width, statistics)
        self.decisions["data_out_0"] = made
        return made.fmt

    def _added_to(self) -> Fraction | None:
        """The step of what the result is added to, if that is known already."""
        graph = self.around.graph
        for user in self.node.users:
            op = graph.op_of(user)
            if op is None or op.scaled is None or op.scaled.kind != "sum":
                continue
            for other in user.all_input_nodes:
                have = self.around.formats.get(other.name)
                if other is not self.node and isinstance(have, ScaledFormat) and not have.per_channel:
                    return steps_of(have)[0]
        return None

    def aligned(self, fmt: ScaledFormat, step: Fraction | None, name: str = "data_out_0") -> ScaledFormat:
        """A format of data, with a step that is a power of two of another one where bits are enough for that.

        Sums of such numbers need no multipliers, and what brings them to such a step is a shift.
        """
        if step is None or fmt.width < ALIGNED_BITS:
            return fmt
        found = aligned(fmt, step)
        reason = f"{self.decisions[name].reason}, its step a power of two of another in a sum"
        self.decisions[name] = Decision(found, reason)
        return found

    def given(self, name: str, source: fx.Node) -> ScaledFormat | None:
        """The format in which an input comes, if its bits fit."""
        have, width = self.around.formats.get(source.name), self.config.of(name)[0]
        have = None if have is None else as_scaled(have)
        width = None if passes_out(self.around.graph, self.around.args, self.node) else width
        fits = isinstance(have, ScaledFormat) and not have.per_channel and width in (None, have.width)
        return have if isinstance(have, ScaledFormat) and fits else None

    def taken(self, name: str, source: fx.Node, step: Fraction | None = None) -> ScaledFormat:
        """The format of an input: as it is given if the bits fit, else from its range, its step fitted to another."""
        have = self.given(name, source)
        if have is not None:
            if self.at_zero and have.zero_point:
                # Exactly the same numbers; the requantisation between them multiplies by 1.
                have = have.centred
                self.decided(name, have, f"as {source.name} gives it, less the zero point")
            else:
                self.decided(name, have, f"as {source.name} gives it")
            return have
        return self.aligned(self.observed(name), step, name)

    def clamp(self, source: fx.Node, attributes: Attributes) -> ScaledPlan:
        """An op that clamps is the requantisation of what it reads."""
        assert self.use.ends is not None  # the op clamps
        have = self.around.formats.get(source.name) or self.taken("data_in_0", source)
        self.decisions.setdefault("data_in_0", Decision(have, f"as {source.name} gives it"))
        own = self.around.graph.op_of(source)
        step = steps_of(have)[0] if own is not None and own.scaled is not None and own.scaled.kind == "sum" else None
        want = self.aligned(self.observed("data_out_0", self._out_width()), self._added_to() or step)
        want = want.clamped(*self.use.ends(attributes))
        self.decisions["data_out_0"] = Decision(want, self.decisions["data_out_0"].reason)
        arithmetic, parameters = self._requantization(have, want)
        for name in parameters:
            self.decided(name, arithmetic.formats[name], "the ratio of the scales")
        op = self.around.graph.catalogue["requantize"]
        return ScaledPlan(op, arithmetic, parameters, self.decisions, want)

    def _requantization(self, have: FixedFormat, want: FixedFormat) -> tuple[Arithmetic, dict[str, Tensor]]:
        return requantization(have, want, bits=self.config.multiplier_width, rounding=self.config.rounding)

    def _out_width(self) -> int:
        width, wide = self.width("data_out_0"), self.around.args.output_width
        return (
            max(width, wide) if wide is not None and leaves(self.around.graph, self.around.args, self.node) else width
        )

    def selection(self, op: OpDef, inputs: list[fx.Node], attributes: Attributes) -> ScaledPlan:
        """Numbers of the inputs, at one scale."""
        if attributes.get("divisor_override"):
            return self.divided(op, inputs[0], attributes)
        if len(inputs) == 1:
            fmt = self.taken("data_in_0", inputs[0])
            reason = "as its input"
        else:
            fmt, reason = self.observed("data_out_0", self._out_width()), "as the result"
        formats: dict[str, FixedFormat] = {f"data_in_{i}": fmt for i in range(len(inputs))}
        formats["data_out_0"] = fmt
        for name in formats:
            self.decisions.setdefault(name, Decision(fmt, reason))
        return ScaledPlan(op, self._arithmetic(formats, attributes), {}, self.decisions, fmt)

    def _arithmetic(self, formats: dict[str, FixedFormat], attributes: Attributes) -> Arithmetic:
        return Arithmetic(formats, self.config.rounding, Overflow.SATURATE, attributes)

    def sums(self, op: OpDef, source: fx.Node, attributes: Attributes) -> ScaledPlan:
        """Exact sums, and the format of what follows them."""
        config, node = self.config, self.node
        data = self.taken("data_in_0", source)
        parameters = parameters_of(self.around.graph, node, op)
        weight = parameters["weight"]
        fmt, reason = of_weights(
            node.name,
            weight,
            self.width("weight"),
            channels=config.weight_granularity == "channel",
            affine=config.weight_affine,
            narrow=config.weight_narrow,
            method=self._method(),
        )
        self.decided("weight", fmt, reason)
        shape = tuple(self.around.graph.tensor(node, "data_in_0").shape)
        made = sums_of(op, data, Stored(weight, fmt), parameters.get("bias"), shape, limit=config.bias_limit)
        formats, parameters = made.formats, made.parameters
        if "bias" in formats:
            self.decided("bias", formats["bias"], "at the scale of the products, as wide as its integers are")
        kept = _reader_clamps(self.around, node)
        self.at_zero = False  # of the data, not of the result
        result = formats["data_out_0"] if kept else self.requantised(exact=formats["data_out_0"])
        self.decided("data_out_0", formats["data_out_0"], "exact, at the scale of the products")
        return ScaledPlan(op, self._arithmetic(formats, attributes), parameters, self.decisions, result)

    def combination(self, op: OpDef, operands: Operands, attributes: Attributes) -> ScaledPlan:
        """An exact sum, difference or product of two operands, and the format of what follows it."""
        parameters: dict[str, Tensor] = {}
        named = [(f"data_in_{i}", source) for i, source in enumerate(operands.inputs)]
        steps = [steps_of(fmt)[0] for fmt in (self.given(*each) for each in named) if fmt is not None]
        have: list[FixedFormat] = []
        for each in named:
            have.append(self.taken(*each, steps[0] if steps and self.use.kind == "sum" else None))
            steps.append(steps_of(have[-1])[0])
        stored = operands.constant is not None
        if operands.constant is not None:
            parameters[op.constant] = operands.constant
            held = self._stored(op.constant, operands)
            one = self.use.kind != "sum" or held.width < ALIGNED_BITS  # or one number, which is exact as it is
            have.append(held if one else self.aligned(held, steps[0], op.constant))
        x, y = (fmt for fmt in have if isinstance(fmt, ScaledFormat))
        kept = _reader_clamps(self.around, self.node)
        result = None if kept else self.requantised(steps_of(x)[0] if self.use.kind == "sum" else None)
        if self.use.kind == "product":
            made = product_of(x, y, constant=stored)
            if self.use.sums is not None:
                graph, names = self.around.graph, ("data_in_0", "data_in_1")
                shapes = {name: tuple(graph.tensor(self.node, name).shape) for name in names}
                made = Arithmetic({**made.formats, "data_out_0": self.use.sums(made.formats, shapes)})
        else:
            step = max(*steps_of(x), *steps_of(y)) if result is None else steps_of(result)[0]
            width = max(x.width, y.width) if result is None else result.width
            given: Json = {"bits": self.config.multiplier_width, "width": width, "constant": stored}
            made = sum_of(x, y, step, **given, reversed=operands.reversed)
        exact = self.decided("data_out_0", made.formats["data_out_0"], "exact, at a common scale")
        arithmetic = self._arithmetic(dict(made.formats), {**attributes, **made.attributes})
        return ScaledPlan(op, arithmetic, parameters, self.decisions, result or exact)

    def total(self, op: OpDef, source: fx.Node, attributes: Attributes) -> ScaledPlan:
        """Exact sums of numbers of one scale, and the format of what follows them."""
        assert self.use.count is not None  # the op adds
        data = self.taken("data_in_0", source)
        count = self.use.count(tuple(self.around.graph.tensor(self.node, "data_in_0").shape), attributes)
        kept = _reader_clamps(self.around, self.node)
        exact = total_of(data, count)
        result = exact if kept else self.requantised()
        self.decided("data_out_0", exact, "exact, at the scale of its data")
        arithmetic = self._arithmetic({"data_in_0": data, "data_out_0": exact}, attributes)
        return ScaledPlan(op, arithmetic, {}, self.decisions, result)

    def function(self, op: OpDef, source: fx.Node, attributes: Attributes) -> ScaledPlan:
        """A table over the codes of the data; its results are rounded once."""
        data = self.taken("data_in_0", source)
        result = self.observed("data_out_0", self._out_width())
        arithmetic = self._arithmetic({"data_in_0": data, "data_out_0": result}, attributes)
        return ScaledPlan(op, arithmetic, {}, self.decisions, result)

    def pieces(self, op: OpDef, source: fx.Node, attributes: Attributes) -> ScaledPlan:
        """Linear pieces: a table over the codes of the data, or exact ones that a requantisation follows."""
        data, result = self.taken("data_in_0", source), self.observed("data_out_0", self._out_width())
        made = in_pieces(self.around.graph.catalogue, op, attributes, data, result, self.config.rounding)
        for name, fmt in made[1].formats.items():
            if fmt != self.decisions[name].fmt:
                why = "the same, less the zero point" if name == "data_in_0" else "exact, as fine as its constants"
                self.decided(name, fmt, why)
        return ScaledPlan(*made, {}, self.decisions, result)

    def steps(self, op: OpDef, source: fx.Node, attributes: Attributes) -> ScaledPlan:
        """A sign, or a comparison with a number: whole numbers, which need no range."""
        fmt = steps_format(op)
        self.decided("data_out_0", fmt, "whole numbers")
        formats: dict[str, FixedFormat] = {"data_in_0": self.taken("data_in_0", source), "data_out_0": fmt}
        arithmetic = self._arithmetic(formats, attributes)
        return ScaledPlan(op, arithmetic, {}, self.decisions, fmt)

    def slopes(self, op: OpDef, source: fx.Node, attributes: Attributes) -> ScaledPlan:
        """The data or its product with a slope, exact, and the format of what follows."""
        parameters = parameters_of(self.around.graph, self.node, op)
        formats = slopes_of(self.taken("data_in_0", source), parameters["weight"], self.width("weight"))
        kept = _reader_clamps(self.around, self.node)
        result = formats["data_out_0"] if kept else self.observed("data_out_0", self._out_width())
        reasons = ("as its input, without a zero point", "as its largest slope needs", "exact, at the finer scale")
        for (name, fmt), reason in zip(formats.items(), reasons, strict=True):
            self.decided(name, fmt, reason)
        return ScaledPlan(op, self._arithmetic(formats, attributes), parameters, self.decisions, result)

    def shares(self, op: OpDef, inputs: list[fx.Node], attributes: Attributes) -> ScaledPlan:
        """Shares of 1, which need no range; a second input is a mask."""
        data, width = self.taken("data_in_0", inputs[0]), self._out_width()
        fmt = shares_of(width, bool(self.config.of("data_out_0")[2]) and width > 1)
        self.decided("data_out_0", fmt, "shares of 1")
        masks = {f"data_in_{i}": self._mask(f"data_in_{i}", source) for i, source in enumerate(inputs) if i}
        arithmetic = self._arithmetic({"data_in_0": data, **masks, "data_out_0": fmt}, attributes)
        return ScaledPlan(op, arithmetic, {}, self.decisions, fmt)

    def _mask(self, name: str, source: fx.Node) -> FixedFormat:
        """The format of what only matters as 0 or not: as it comes, less a zero point."""
        have = self.around.formats.get(source.name)
        if have is None:
            truth = self.around.graph.tensor(source, "data_out_0").torch_dtype is torch.bool
            have = FixedFormat(1, 0, signed=False) if truth else self.observed(name)
        return self.decided(name, have.centred if isinstance(have, ScaledFormat) else have, "only whether it is 0")

    def divided(self, op: OpDef, source: fx.Node, attributes: Attributes) -> ScaledPlan:
        """An average with another divisor, at the scale of its data but not within its range."""
        assert self.use.count is not None  # the op adds
        data = self.taken("data_in_0", source)
        count = self.use.count(tuple(self.around.graph.tensor(self.node, "data_in_0").shape), attributes)
        more = (count // int(attributes["divisor_override"] or 1)).bit_length()
        wide = ScaledFormat.make(data.width + more, data.scales, signed=data.signed)
        self.at_zero = False  # of the data, not of the result
        result = self.observed("data_out_0", self._out_width())
        self.decided("data_out_0", wide, "as its input, as wide as its sums")
        arithmetic = self._arithmetic({"data_in_0": data, "data_out_0": wide}, attributes)
        return ScaledPlan(op, arithmetic, {}, self.decisions, result)

    def _stored(self, name: str, operands: Operands) -> ScaledFormat:
        """The format of a stored operand, from its values; one number is 1 or -1 at a scale of its own."""
        value = operands.constant
        assert value is not None  # the caller looked
        low, high = ends_of(value)
        if not (math.isfinite(low) and math.isfinite(high)):
            raise FormatError("a stored operand is not finite", node=f"{self.node.name}.{name}", expected="numbers")
        if low == high:
            fmt, reason = ScaledFormat.make(2, abs(low) or 1.0), "exact"
        else:
            fmt, reason = of_range(low, high, self.width(name), None, False), f"observed [{low:.6g}, {high:.6g}]"
        self.decided(name, fmt, reason)
        return fmt

    def _method(self) -> str:
        software = self.around.graph.meta_of(self.node).software
        return str(software.args.get("weight", {}).get(CALIBRATED, {}).get("method", "min_max"))


def _reader_clamps(around: Surroundings, node: fx.Node) -> bool:
    """Whether all that reads a node is one op that becomes a requantisation."""
    readers = list(node.users)
    if len(readers) != 1:
        return False
    op = around.graph.op_of(readers[0])
    if op is None or op.scaled is None or op.scaled.kind != "clamp":
        return False
    return around.args.config_for(readers[0].name, op.name)[0].scaled
