"""A graph of scaled integers whose formats a source gives: the one place where importers make quantised modules.

A file of integers says the scale, the zero point and the width of every tensor, and the integers of every parameter.
:class:`GivenIntegers` makes the plan of one node after the other from that, in order of execution, and
:meth:`GivenIntegers.write` puts all of them into the graph. Nothing is chosen and nothing is observed.

Usage::

    given = GivenIntegers(graph)                 # a float graph with common metadata
    given.enter(placeholder, data)               # the host rounds an input to these numbers
    given.sums(conv, Stored(weights, fmt), Stored(bias), result, Requantizing())
    given.requantize(relu, result)               # the node becomes a requantisation
    given.combination(add, None, result)         # a sum, difference or product of two operands
    given.selection(pool)                        # as its inputs
    given.passed(reshape)                        # an implicit node
    given.write()

The arithmetic is exact: sums of products of integers at the scale of the products, then one requantisation.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import torch
from torch import Tensor, fx, nn

from mase_hw.catalogue import Arithmetic, OpDef
from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, Multipliers, ScaledFormat, as_scaled, format_of_places, refuse_scaled, steps_of
from mase_hw.formats.attributes import Attributes
from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.numerics import quantize
from mase_hw.ops._functions import CODES
from mase_hw.passes.base import GraphPass, Info, NoArgs
from mase_hw.passes.quantize.formats import Decision
from mase_hw.passes.quantize.integers.around import formats_around
from mase_hw.passes.quantize.integers.combine import product_of, side_by_side, sum_of, total_of
from mase_hw.passes.quantize.integers.pieces import in_pieces, slopes_of, steps_format
from mase_hw.passes.quantize.integers.sums import (
    Stored,
    at_products,
    finer,
    products_of,
    shares_for,
    sum_in_place_of,
    sums_of,
)
from mase_hw.passes.quantize.integers.thresholds import MOST_BITS_OF_RESULT, Requantizing, exact_requantization
from mase_hw.passes.quantize.operands import Operands, data_inputs, entry_of, operands_of
from mase_hw.passes.quantize.plan import Plan
from mase_hw.passes.quantize.quantize import DECISIONS, write_plans

SLOPE_BITS = 24
"""Bits of the slopes of a PReLU that a source has as real numbers."""


class GivenIntegers:
    """Plans of nodes whose formats are given; see the module for the order of calls.

    Every method raises :class:`~mase_hw.errors.UnsupportedError` or :class:`~mase_hw.errors.FormatError` for formats
    that hardware does not take, and changes nothing then.

    Args:
        graph: A float graph with common metadata.
    """

    def __init__(self, graph: MaseGraph) -> None:
        self.graph = graph
        self.plans: dict[str, Plan] = {}
        self.formats: dict[str, FixedFormat] = {}
        """Format of what the readers of a node get, by its name."""
        self.entries: dict[str, FixedFormat] = {}
        self.places: dict[str, int] = {}
        self.spent: set[fx.Node] = set()
        self.how: dict[str, Requantizing] = {}
        self.found: dict[str, Multipliers] = {}
        """Multipliers behind sums."""

    def enter(self, placeholder: fx.Node, fmt: FixedFormat) -> None:
        """An input of the model: the host rounds it half to even to numbers of a format."""
        self.entries[placeholder.name] = self.formats[placeholder.name] = fmt

    def passed(self, node: fx.Node) -> None:
        """An implicit node: its result is as its input."""
        self.formats[node.name] = self.formats[data_inputs(self.graph, node)[0].name]

    def sums(
        self,
        node: fx.Node,
        weight: Stored,
        bias: Stored | None = None,
        result: FixedFormat | None = None,
        how: Requantizing | None = None,
        *,
        reader: tuple[FixedFormat, Requantizing] | None = None,
    ) -> None:
        """A layer of exact sums, and the requantisation behind it.

        Args:
            node: A convolution or a linear layer.
            weight: With a format.
            bias: With a format at the scale of the products, up to the rounding of a scale to float32, its integers;
                else real numbers, for which the sums get as many bits more as they need.
            result: Format behind the requantisation; None leaves the exact sums, at the scale of the products.
            how: The requantisation.
            reader: Without a ``result``, the format and the settings of the one reader, if that is a requantisation.

        Raises:
            UnsupportedError: Nothing that hardware has makes every result right, and the bias says that all must be.
        """
        op, operands = self._op(node)
        assert op.scaled is not None and op.scaled.sums is not None and weight.fmt is not None  # the caller looked
        how = Requantizing() if how is None else how
        attributes = self._attributes(node, operands)
        data = self.data(operands.inputs[0])
        if data.zero_point and op.scaled.at_zero(attributes):
            data = data.centred  # the same numbers; the requantisation between them multiplies by 1
        outputs = weight.values.shape[0]
        if bias is None and data.zero_point:
            bias = Stored(torch.zeros(outputs))  # only to take off what the zero point adds
        if bias is not None:
            bias = at_products(bias, data, weight.fmt)
        behind = reader if result is None else (result, how)
        step = None if behind is None else steps_of(behind[0])[0]
        extra = [0] * weight.fmt.channels if bias is None else finer(node.name, op, bias, data, weight.fmt, step)
        found = None
        if bias is not None and behind is not None and (bias.exact or any(extra)):
            want, settings = as_scaled(behind[0]), behind[1]
            found = exact_requantization(data, weight, bias, extra, want, settings)
            if found is None and bias.exact and want.width <= MOST_BITS_OF_RESULT:
                raise UnsupportedError(
                    "no multipliers and bias that hardware has make every result right",
                    node=node.name,
                    remedy="take scales that are powers of two, or fewer bits for the data, the weights and the result",
                )
        extra = extra if found is None else found.extra
        given = steps_of(weight.fmt) * (len(extra) // weight.fmt.channels)
        fmt = ScaledFormat.make(
            weight.fmt.width,
            [float(each / 2**bits) for each, bits in zip(given, extra, strict=True)],
            low=[low for low, _ in weight.fmt.limits],
            high=[high for _, high in weight.fmt.limits],
        )
        shift = torch.tensor(extra * (outputs // len(extra)), dtype=torch.int64) if any(extra) else None
        products = torch.tensor(products_of(data, fmt), dtype=torch.float64)
        rounded = None if bias is None else (bias.values.detach().double().cpu() / products).round() * products
        if found is not None:
            rounded = torch.tensor(found.bias, dtype=torch.float64) * products
            self.found[node.name] = found.multipliers
            how = dataclasses.replace(how, found=found.multipliers)
        shape = tuple(self.graph.tensor(node, "data_in_0").shape)
        made = sums_of(op, data, Stored(weight.values, fmt), rounded, shape, shift=shift)
        formats, parameters = made.formats, made.parameters
        self._plan(node, op, Arithmetic(formats, attributes=attributes), parameters, operands, result, how)

    def requantize(
        self, node: fx.Node, result: FixedFormat, how: Requantizing | None = None, times: Fraction = Fraction(1)
    ) -> None:
        """A node that only brings its input into another format, such as a clamp, becomes a requantisation.

        Args:
            node: The node.
            result: Format behind it.
            how: The requantisation.
            times: The positive number by which the node multiplies.
        """
        _, operands = self._op(node)
        how = Requantizing() if how is None else how
        source = operands.inputs[0].name
        how = dataclasses.replace(how, found=self.found.get(source))
        arithmetic, parameters = how.between(self.formats[source], result, times)
        op = self.graph.catalogue["requantize"]
        operands = dataclasses.replace(operands, constant=None)
        self.plans[node.name] = Plan(node, op, arithmetic, parameters, operands.inputs, operands)
        self.formats[node.name] = result

    def selection(self, node: fx.Node, result: FixedFormat | None = None, how: Requantizing | None = None) -> None:
        """A node that chooses among the numbers of its inputs, or moves them.

        Args:
            node: The node.
            result: Format behind it. Inputs in another one are brought into it before; of one input, its result after.
                None leaves the numbers as they are, of several scales as integers of a common one.
            how: Of these requantisations.
        """
        op, operands = self._op(node)
        assert op.scaled is not None  # the caller looked
        attributes = self._attributes(node, operands)
        given = [self.data(source) for source in operands.inputs]
        if len(given) > 1 and result is not None:
            given = [as_scaled(result)] * len(given)
        if given[0].zero_point and op.scaled.at_zero(attributes):
            given = [fmt.centred for fmt in given]
        given, fmt = side_by_side(given)
        formats: dict[str, FixedFormat] = {f"data_in_{i}": each for i, each in enumerate(given)}
        formats["data_out_0"] = fmt
        self._plan(node, op, Arithmetic(formats, attributes=attributes), {}, operands, result, how)

    def combination(
        self,
        node: fx.Node,
        constant: Stored | None = None,
        result: FixedFormat | None = None,
        how: Requantizing | None = None,
    ) -> None:
        """An exact sum, difference or product of two operands, and the requantisation behind it.

        Args:
            node: The node.
            constant: A stored operand, with a format of one scale.
            result: Format behind the requantisation; None leaves the exact numbers, of a sum at a common scale.
            how: The requantisation; its bits are also those of the multipliers that make a scale common.
        """
        op, operands = self._op(node)
        assert op.scaled is not None  # the caller looked
        how = Requantizing() if how is None else how
        attributes = self._attributes(node, operands)
        have = [self.data(source) for source in operands.inputs]
        if op.scaled.at_zero(attributes):
            have = [fmt.centred for fmt in have]
        parameters: dict[str, Tensor] = {}
        if constant is not None:
            assert constant.fmt is not None
            have.append(constant.fmt)
            parameters[op.constant] = constant.values
        x, y = have
        if op.scaled.kind == "product":
            made = product_of(x, y, constant=constant is not None)
            if op.scaled.sums is not None:
                shapes = {f"data_in_{i}": tuple(self.graph.tensor(node, f"data_in_{i}").shape) for i in range(2)}
                made = Arithmetic({**made.formats, "data_out_0": op.scaled.sums(made.formats, shapes)})
        else:
            step = max(*steps_of(x), *steps_of(y)) if result is None else steps_of(result)[0]
            kinds = {"constant": constant is not None, "reversed": operands.reversed}
            made = sum_of(x, y, step, bits=how.bits, **kinds)
        attributes |= made.attributes
        self._plan(node, op, Arithmetic(dict(made.formats), attributes=attributes), parameters, operands, result, how)

    def total(self, node: fx.Node, result: FixedFormat | None = None, how: Requantizing | None = None) -> None:
        """An exact sum over some dimensions, and the requantisation behind it.

        Args:
            node: The node.
            result: Format behind the requantisation; None leaves the exact numbers, at the scale of the data.
            how: The requantisation.
        """
        op, operands = self._op(node)
        assert op.scaled is not None and op.scaled.count is not None  # the caller looked
        attributes, data = self._attributes(node, operands), self.data(operands.inputs[0])
        count = op.scaled.count(tuple(self.graph.tensor(node, "data_in_0").shape), attributes)
        formats: dict[str, FixedFormat] = {"data_in_0": data, "data_out_0": total_of(data, count)}
        self._plan(node, op, Arithmetic(formats, attributes=attributes), {}, operands, result, how)

    def mean(self, node: fx.Node, result: FixedFormat | None = None, how: Requantizing | None = None) -> None:
        """An average: an exact sum, which the requantisation behind it divides and rounds once."""
        op, operands = self._op(node)
        attributes = self._attributes(node, operands)
        data, out = self.data(operands.inputs[0]), self.graph.meta_of(node).common.results["data_out_0"].shape
        shape = self.graph.tensor(node, "data_in_0").shape
        name, attributes, count, bordered = sum_in_place_of(op.name, attributes, shape, out, node.name)
        data = data.centred if bordered else data  # the border is zeros
        op = self.graph.catalogue[name]
        formats: dict[str, FixedFormat] = {"data_in_0": data, "data_out_0": total_of(data, count, mean=True)}
        self._plan(node, op, Arithmetic(formats, attributes=attributes), {}, operands, result, how)

    def function(self, node: fx.Node, result: ScaledFormat, how: Requantizing | None = None) -> None:
        """A function of one value, as a table over the codes of its input; rounded once.

        Linear pieces of wide data are exact, and the requantisation behind them rounds.

        Args:
            node: The node.
            result: Format of its results.
            how: Its rounding is that of the table.
        """
        op, operands = self._op(node)
        data, attributes = self.data(operands.inputs[0]), self._attributes(node, operands)
        formats: dict[str, FixedFormat] = {"data_in_0": data, "data_out_0": result}
        how = Requantizing() if how is None else how
        assert op.scaled is not None  # the caller looked
        if op.scaled.kind == "pieces":
            op, made = in_pieces(self.graph.catalogue, op, attributes, data, result, how.rounding)
            formats, attributes = dict(made.formats), made.attributes
        self._plan(node, op, Arithmetic(formats, how.rounding, attributes=attributes), {}, operands, result, how)

    def table(
        self, node: fx.Node, source: fx.Node, values: Tensor, result: ScaledFormat, how: Requantizing | None = None
    ) -> None:
        """Any function of one value, as a table over the codes of its input; rounded once.

        Args:
            node: The last node that computes it.
            source: What the first one reads.
            values: The exact results of all codes of that, in the order of :func:`mase_hw.ops._functions.codes`.
            result: Format of its results.
            how: Its rounding is that of the table.
        """
        how = Requantizing() if how is None else how
        formats: dict[str, FixedFormat] = {"data_in_0": self.data(source), "data_out_0": result}
        attributes: Attributes = {CODES: tuple(quantize(values, result, how.rounding).long().tolist())}
        operands = dataclasses.replace(self._op(node)[1], inputs=[source], constant=None)
        op = self.graph.catalogue["table"]
        self._plan(node, op, Arithmetic(formats, how.rounding, attributes=attributes), {}, operands, result, how)

    def steps(self, node: fx.Node, result: FixedFormat | None = None, how: Requantizing | None = None) -> None:
        """A sign, or a comparison with a number: exact, by thresholds among the codes of its input.

        Args:
            node: The node.
            result: Format behind the requantisation; None leaves the whole numbers.
            how: The requantisation.
        """
        op, operands = self._op(node)
        formats: dict[str, FixedFormat] = {"data_in_0": self.data(operands.inputs[0]), "data_out_0": steps_format(op)}
        a = Arithmetic(formats, attributes=self._attributes(node, operands))
        self._plan(node, op, a, {}, operands, result, how)

    def shares(self, node: fx.Node, result: ScaledFormat, how: Requantizing | None = None) -> None:
        """A softmax, rounded once.

        Args:
            node: The node.
            result: Format of its results; a requantisation behind it adds a zero point.
            how: Its rounding is that of the quotient.
        """
        op, operands = self._op(node)
        how = Requantizing() if how is None else how
        masks = {f"data_in_{i}": self.data(source).centred for i, source in enumerate(operands.inputs) if i}
        formats: dict[str, FixedFormat] = {
            "data_in_0": self.data(operands.inputs[0]),
            **masks,
            "data_out_0": shares_for(result),
        }
        a = Arithmetic(formats, how.rounding, attributes=self._attributes(node, operands))
        self._plan(node, op, a, {}, operands, result, how)

    def slopes(
        self, node: fx.Node, weight: Tensor, result: FixedFormat | None = None, how: Requantizing | None = None
    ) -> None:
        """A PReLU, exact but for its slopes, and the requantisation behind it.

        Args:
            node: The node.
            weight: Its slopes, which are kept with :data:`SLOPE_BITS` bits.
            result: Format behind the requantisation; None leaves the exact numbers.
            how: The requantisation.
        """
        op, operands = self._op(node)
        formats = slopes_of(self.data(operands.inputs[0]), weight, SLOPE_BITS)
        a = Arithmetic(formats, attributes=self._attributes(node, operands))
        self._plan(node, op, a, {"weight": weight}, operands, result, how)

    def rows(
        self, node: fx.Node, table: Stored, result: FixedFormat | None = None, how: Requantizing | None = None
    ) -> None:
        """Rows of a table, by the places that it reads; an input of the model enters as these.

        Args:
            node: The node.
            table: With a format of one scale.
            result: Format behind it; None leaves the numbers of the table.
            how: The requantisation.
        """
        op, operands = self._op(node)
        assert op.places is not None and table.fmt is not None  # the caller looked
        (source,), count = operands.inputs, len(table.values)
        chain = entry_of(self.graph, source)
        if chain is not None:
            name = chain[-1].name
            self.places[name] = min(count, self.places.get(name, count))
            wide = max(count, 1 << self.entries[name].width if name in self.entries else 1)
            self.enter(chain[-1], format_of_places(wide))
            self.formats |= {each.name: self.entries[name] for each in chain}
        formats: dict[str, FixedFormat] = {"data_in_0": self.formats[source.name]}
        formats |= {"weight": table.fmt, "data_out_0": table.fmt}
        parameters = {"weight": table.values}
        a = Arithmetic(formats, attributes=self._attributes(node, operands))
        self._plan(node, op, a, parameters, operands, result, how)

    def around(
        self, node: fx.Node, parameters: dict[str, Tensor], result: ScaledFormat, how: Requantizing | None = None
    ) -> None:
        """An op that hardware has in fixed point only; see :mod:`mase_hw.passes.quantize.integers.around`.

        Args:
            node: The node.
            parameters: Its stored tensors, a stored operand included.
            result: Format of its results.
            how: The requantisation behind it.
        """
        op, operands = self._op(node)
        have = {f"data_in_{i}": self.formats[source.name] for i, source in enumerate(operands.inputs)}
        formats = formats_around(op, have, parameters, result)
        a = Arithmetic(formats, attributes=self._attributes(node, operands))
        self._plan(node, op, a, parameters, operands, result, how)

    def data(self, source: fx.Node) -> ScaledFormat:
        """The format of an input, as scaled integers."""
        return as_scaled(self.formats[source.name])

    def _plan(
        self,
        node: fx.Node,
        op: OpDef,
        arithmetic: Arithmetic,
        parameters: dict[str, Tensor],
        operands: Operands,
        result: FixedFormat | None,
        how: Requantizing | None,
    ) -> None:
        refuse_scaled(node.name, op.name, op.scaled, arithmetic.formats, arithmetic.overflow, arithmetic.attributes)
        made = arithmetic.formats["data_out_0"]
        behind = None if result is None or result == made else result
        kept = {name: _parameter(value) for name, value in parameters.items()}
        self.plans[node.name] = Plan(node, op, arithmetic, kept, operands.inputs, operands, result=behind)
        self.formats[node.name] = made if behind is None else behind
        self.how[node.name] = how or Requantizing()

    def _op(self, node: fx.Node) -> tuple[OpDef, Operands]:
        op = self.graph.op_of(node)
        assert op is not None  # the caller looked
        return op, operands_of(self.graph, node, op)

    def _attributes(self, node: fx.Node, operands: Operands) -> Attributes:
        found = operands.attributes(self.graph.meta_of(node).common.args.attributes)
        op = self.graph.op_of(node)
        if op is not None and op.check is not None:
            op.check(node.name, found)
        return found

    def write(self) -> Info:
        """Put the modules into the graph, which is then quantised.

        Returns:
            As :func:`~mase_hw.passes.quantize.quantize.quantize_transform_pass`.
        """

        def behind(plan: Plan) -> Requantizing:
            return self.how.get(plan.node.name, Requantizing())

        def before(plan: Plan) -> Requantizing:
            return dataclasses.replace(behind(plan), found=None)

        def written(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
            info = write_plans(graph, self, behind, before)
            graph.meta[DECISIONS] = {
                name: ({k: Decision(fmt, "as the source says") for k, fmt in plan.arithmetic.formats.items()}, [])
                for name, plan in self.plans.items()
            }
            return graph, info

        gives = ("quantize_transform_pass",)
        outdated = ("add_hardware_metadata_analysis_pass",)
        step = GraphPass("write_given_integers", written, NoArgs, (COMMON_PASS,), gives, outdated)
        return step(self.graph)[1]


def _parameter(value: Tensor) -> Tensor:
    if isinstance(value, nn.Parameter) or not value.dtype.is_floating_point:
        return value
    return nn.Parameter(value, requires_grad=False)
