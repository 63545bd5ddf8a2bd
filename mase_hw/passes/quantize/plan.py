"""What a quantisation will do to every node, decided before anything is changed: formats, and why each was chosen."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.catalogue import Arithmetic, OpDef
from mase_hw.errors import GraphError, PassOrderError, UnsupportedError
from mase_hw.formats import (
    MAX_WIDTH,
    MINIFLOATS,
    BlockFormat,
    FixedFormat,
    Overflow,
    ScaledFormat,
    any_scaled,
    format_of_places,
    steps_of,
)
from mase_hw.formats.attributes import Attributes
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized, QuantizeInput
from mase_hw.numerics import carrier, magnitude
from mase_hw.ops._binary import covering_both
from mase_hw.passes.quantize import sign_weights as signs
from mase_hw.passes.quantize.calibrate import CALIBRATED, UNITED
from mase_hw.passes.quantize.concept_weights import concept_weights
from mase_hw.passes.quantize.config import NodeConfig, QuantizeArgs, group_of, known_tensors
from mase_hw.passes.quantize.formats import Decision, block_weights, from_statistics, per_channel, shift_decision
from mase_hw.passes.quantize.group_weights import group_weights
from mase_hw.passes.quantize.integers.around import OWN_GUARD, counts_steps, data_around, fixed_for, in_steps, steps_out
from mase_hw.passes.quantize.integers.formats import from_statistics as scale_from_statistics
from mase_hw.passes.quantize.integers.formats import of_weights
from mase_hw.passes.quantize.integers.plan import in_fixed_point, plan_scaled
from mase_hw.passes.quantize.operands import (
    Operands,
    check_data,
    data_inputs,
    ends_of,
    entry_of,
    exact_format,
    leaves,
    operands_of,
    parameters_of,
    passes_out,
    refuse_without_hardware,
    sign_is_dropped,
)
from mase_hw.passes.quantize.paths import gone, with_node_names

TRUTH = FixedFormat(1, 0, signed=False)
"""What is true or false."""


@dataclass
class Plan:
    """What will happen to one node, decided before anything is changed."""

    node: fx.Node
    op: OpDef
    arithmetic: Arithmetic
    parameters: dict[str, Tensor]
    inputs: list[fx.Node]
    operands: Operands
    reasons: dict[str, str] = field(default_factory=dict)
    result: FixedFormat | None = None
    """Format of a requantisation behind the node; None if there is none."""


class Planner:
    """Decides the format of every tensor of a graph, and refuses what cannot be quantised; changes nothing.

    Args:
        graph: A graph with common metadata.
        args: What was configured.
    """

    def __init__(self, graph: MaseGraph, args: QuantizeArgs) -> None:
        self.graph = graph
        self.args, self.paths = with_node_names(graph, args)
        self.plans: dict[str, Plan] = {}
        self.formats: dict[str, FixedFormat] = {}
        """Format of every node's result that is fixed point, by node name."""
        self.entries: dict[str, FixedFormat] = {}
        """Format in which a placeholder enters, by its name."""
        self.observed: dict[tuple[str, str], str] = {}
        """Under which name a node's input was observed: of ``3 - x`` the float node calls the constant ``data_in_0``
        and x ``data_in_1``; the quantised node, which holds the constant, calls x ``data_in_0``."""
        self.places: dict[str, int] = {}
        """Of inputs of the model that are places in a table: how many there are."""
        self.spent: set[fx.Node] = set()
        """Nodes that only made a constant, which its reader now holds."""
        self.decisions: dict[str, dict[str, Decision]] = {}
        """Why every tensor of a node has its format, by node name."""

    def run(self) -> None:
        """Plan every node, in order of execution."""
        for node in self.graph.nodes:
            if isinstance(self.graph.meta_of(node).module, Quantized | QuantizeInput):
                raise GraphError(
                    "the graph is quantised already",
                    node=node.name,
                    remedy="quantize the float model instead, with all rules in one configuration",
                )
        found = ((n.name, self.graph.op_of(n)) for n in self.graph.nodes)
        own = {name: op.name for name, op in found if op is not None and not op.implicit}
        self.args.check(own, known_tensors(self.graph.catalogue), lambda name: gone(self.graph, name))
        refuse_without_hardware(self.graph, self.args)
        signs.refuse(self.graph, self.args)
        for node in self.graph.nodes:
            op = self.graph.op_of(node)
            if op is None:
                continue
            if op.check is not None:
                op.check(node.name, self._attributes(node))
            if self.graph.is_implicit(node):
                source = data_inputs(self.graph, node)[:1]
                if source and source[0].name in self.formats:
                    self.formats[node.name] = self.formats[source[0].name]
                continue
            config, specific = self.args.config_for(node.name, op.name)
            computes = bool(self.graph.meta_of(node).common.results.tensors)
            if config.quantised and computes:
                self._plan(node, op, config, specific)
        for node in self.graph.nodes:
            if node.op == "placeholder" and not node.users and self.graph.meta_of(node).common.results.tensors:
                self._enter_unread(node)
        for node in self.graph.nodes:
            # A later reader may have widened the format in which an input enters.
            source = data_inputs(self.graph, node)[:1] if self.graph.op_of(node) is not None else []
            if source and self.graph.is_implicit(node) and source[0].name in self.formats:
                self.formats[node.name] = self.formats[source[0].name]

    def _plan(self, node: fx.Node, op: OpDef, config: NodeConfig, specific: set[str]) -> None:
        operands = operands_of(self.graph, node, op)
        attributes = operands.attributes(self._attributes(node))
        inputs = operands.inputs
        check_data(self.graph, node, op, inputs)
        self.spent.update(operands.chain)
        have = [self.formats[source.name] for source in inputs[:1] if source.name in self.formats]
        width = have[0].width if have else config.of("data_in_0")[0] or 0
        if config.scaled and not in_fixed_point(op, width):
            self._plan_scaled(node, op, config, operands, attributes)
            return
        formats: dict[str, FixedFormat] = {}
        reasons: dict[str, str] = {}
        for index, source in enumerate(inputs):
            name = f"data_in_{index}"
            self.observed[node.name, name] = operands.names[index]
            formats[name], reasons[name] = self._input_format(node, op, name, source, config)
            self._enter(source, formats[name])
        parameters = parameters_of(self.graph, node, op)
        if op.derive is not None:
            rank = len(self.graph.tensor(node, "data_in_0").shape)
            parameters = op.derive(node.name, parameters, attributes, rank)
        if op.inner is not None:  # the result is a state, which the op multiplies with its weights
            formats["data_out_0"], reasons["data_out_0"] = self._output_format(node, op, config, specific, formats)
        weights = self._weights(node, op, config, specific, parameters)
        behind: ScaledFormat | None = None
        step: Fraction | None = None
        if config.scaled and counts_steps(op, parameters):
            behind, reasons["data_out_0"] = self._observed_scaled(node, config, specific)
            formats["data_out_0"], (step,) = steps_out(behind), steps_of(behind)
        for name in parameters:
            ends = ends_of(parameters[name]) if op.derive is not None or step is not None else None
            if ends is not None and (seen := self._observed(node, name)) and seen.get(UNITED):
                ends = min(ends[0], seen["min"]), max(ends[1], seen["max"])
            if step is not None and ends is not None:
                ends = ends[0] / float(step), ends[1] / float(step)
            limit = op.finest(name, formats) if op.finest is not None else None
            if name in weights:
                fmt, reason = weights[name]
            elif op.places is not None and config.of(name)[1] is None and _only_truths(parameters[name]):
                fmt, reason = TRUTH, "zeros and ones"
            elif op.places is not None and config.scaled:
                fmt, reason = self._table_of_scaled(node, config, parameters[name])
            elif limit is not None and config.of(name)[0] is None:
                fmt, reason = self._as_wide_as_needed(node, name, config, ends, limit)
            else:
                fmt, reason = self._format(node, name, config, ends)
            if limit is not None and config.of(name)[1] is None and fmt.frac_width > limit:
                fmt, reason = dataclasses.replace(fmt, frac_width=limit), f"{reason}, no finer than the products"
            formats[name], reasons[name] = fmt, reason
        if operands.constant is not None:
            parameters[op.constant] = operands.constant
            formats[op.constant], reasons[op.constant] = self._constant(
                node, op, config, operands.constant, operands.number
            )
        if op.inner is not None:
            for name in op.inner.names(attributes):
                width = config.of(name)[0] or op.inner.width(name, formats["data_out_0"].width)
                given = config.model_copy(update={f"{name}_width": width})
                formats[name], reasons[name] = self._format(node, name, given)
        shape = self.graph.tensor(node, "data_in_0").shape
        exact = op.exact_out(formats, shape, attributes) if op.exact_out is not None else None
        if exact is not None:
            formats["data_out_0"], reasons["data_out_0"] = exact, "exact"
        elif step is not None:
            pass  # decided above
        elif op.inner is None and config.scaled and op.places is None:
            behind, reasons["data_out_0"] = self._observed_scaled(node, config, specific)
            formats["data_out_0"] = fixed_for(behind, OWN_GUARD)
        elif op.inner is None:
            formats["data_out_0"], reasons["data_out_0"] = self._output_format(node, op, config, specific, formats)
        bias, finest = parameters.get("bias"), formats["data_out_0"].frac_width
        seen = self._observed(node, "bias") or {}
        zeros = bias is not None and not bias.any() and not (seen.get("min") or seen.get("max"))
        if zeros and config.of("bias")[1] is None and formats["bias"].frac_width < finest:
            limit = op.finest("bias", formats) if op.finest is not None else None
            if limit is None or limit >= finest:
                formats["bias"] = dataclasses.replace(formats["bias"], frac_width=finest)
                reasons["bias"] = "zeros, as fine as the result"
        if step is not None:
            formats |= {name: in_steps(fmt, step) for name, fmt in formats.items() if name != "data_in_0"}
        decided = self.decisions.setdefault(node.name, {})
        for name, fmt in formats.items():
            made = decided.get(name)
            decided[name] = dataclasses.replace(made or Decision(fmt, ""), fmt=fmt, reason=reasons[name])
        overflow = Overflow.SATURATE if config.scaled else config.overflow
        arithmetic = Arithmetic(formats, config.rounding, overflow, attributes)
        behind = None if behind == formats["data_out_0"] else behind
        self.plans[node.name] = Plan(node, op, arithmetic, parameters, inputs, operands, reasons, behind)
        self.formats[node.name] = formats["data_out_0"] if behind is None else behind

    def _plan_scaled(
        self, node: fx.Node, op: OpDef, config: NodeConfig, operands: Operands, attributes: Attributes
    ) -> None:
        """The same with scaled integers."""
        for index, name in enumerate(operands.names):
            self.observed[node.name, f"data_in_{index}"] = name
        made, inputs = plan_scaled(self, node, op, config, operands, attributes), operands.inputs
        for index, source in enumerate(inputs):
            self._enter(source, made.arithmetic.formats[f"data_in_{index}"])
        self.decisions[node.name] = made.decisions
        reasons = {name: each.reason for name, each in made.decisions.items()}
        behind = None if made.result == made.arithmetic.formats["data_out_0"] else made.result
        self.plans[node.name] = Plan(node, made.op, made.arithmetic, made.parameters, inputs, operands, reasons, behind)
        self.formats[node.name] = made.result

    def _observed_scaled(self, node: fx.Node, config: NodeConfig, specific: set[str]) -> tuple[ScaledFormat, str]:
        """Scaled integers for a result, from what was observed."""
        width, _, signed = config.of("data_out_0")
        if width is None:
            self._format(node, "data_out_0", config)  # refuses it
        assert width is not None
        if "data_out_width" not in specific and leaves(self.graph, self.args, node):
            width = max(width, self.args.output_width or 0)
        return scale_from_statistics(self.statistics(node, "data_out_0"), width, signed, config.data_affine)

    def _table_of_scaled(self, node: fx.Node, config: NodeConfig, table: Tensor) -> tuple[FixedFormat, str]:
        """One scale for the rows of a table."""
        width = config.of("weight")[0]
        if width is None:
            return self._format(node, "weight", config)  # which refuses it
        method = (self._observed(node, "weight") or {}).get("method", "min_max")
        given: dict[str, Any] = {"affine": False, "narrow": config.weight_narrow, "method": method}
        return of_weights(node.name, table, width, channels=False, **given)

    def _constant(
        self, node: fx.Node, op: OpDef, config: NodeConfig, value: Tensor, number: bool
    ) -> tuple[FixedFormat, str]:
        """Format of a constant operand, from its own values: a number exactly if the bits suffice."""
        width, frac, _ = config.of(op.constant)
        if number and frac is None and width is not None:
            exact = exact_format(float(value), width)
            if exact is not None:
                return exact, "exact"
        return self._format(node, op.constant, config, ends_of(value, self._observed(node, "data_out_0")))

    def _output_format(
        self, node: fx.Node, op: OpDef, config: NodeConfig, specific: set[str], formats: Mapping[str, FixedFormat]
    ) -> tuple[FixedFormat, str]:
        """Format of a result: configured, as the input, or from what was observed."""
        width, frac, signed = config.of("data_out_0")
        open_width = "data_out_width" not in specific and frac is None
        wide = (self.args.output_width or 0) if open_width and leaves(self.graph, self.args, node) else 0
        if op.default_out is None and width is not None and width < wide:
            fmt, reason = self._format(node, "data_out_0", config.model_copy(update={"data_out_width": wide}))
            return fmt, f"{reason}, with {wide} bits as it leaves the model"
        given = {key for key in specific if key.startswith("data_out_")}
        if op.exact is not None and not given and self._read_exactly(node):
            shapes = {name: tuple(t.shape) for name, t in self.graph.meta_of(node).common.args.tensors.items()}
            exact = op.exact(formats, shapes)
            if carrier(magnitude(exact), wide=True).is_floating_point:  # else no value of the model holds it
                return exact, "exact, as its reader adds to it"
        if op.default_out is not None:
            fmt, reason = op.default_out(formats), "as its input"
            if op.non_negative and frac is None and signed is None and fmt.signed and fmt.width > 1:
                fmt, reason = FixedFormat(fmt.width - 1, fmt.frac_width, signed=False), "as its input, without the sign"
            if op.rounds and fmt.width < wide:
                fmt = FixedFormat(wide, fmt.frac_width + wide - fmt.width, fmt.signed)
            if not given or (given == {"data_out_width"} and width == fmt.width):
                return fmt, reason
        fmt, reason = self._format(node, "data_out_0", config)
        open_sign = frac is None and signed is None and fmt.signed and width != MAX_WIDTH
        if open_sign and sign_is_dropped(self.graph, self.args, node, width):
            wider = config.model_copy(update={"data_out_width": fmt.width + 1})
            fmt, reason = self._format(node, "data_out_0", wider)
            return fmt, f"{reason}, one bit more as its readers drop the sign"
        return fmt, reason

    def _read_exactly(self, node: fx.Node) -> bool:
        """Whether all that reads a node takes it as exact as it is."""
        for user, arg in self.graph.consumers(node, "data_out_0"):
            op = self.graph.op_of(user)
            if op is None or arg not in op.exact_inputs:
                return False
        return bool(node.users)

    def _weights(
        self, node: fx.Node, op: OpDef, config: NodeConfig, specific: set[str], parameters: dict[str, Tensor]
    ) -> dict[str, tuple[FixedFormat, str]]:
        """Formats of weights that are signs, or of weights and shifts where channels or blocks have their own.

        The shifts are added to the parameters.
        """
        if config.signs:
            frac, threshold = signs.checked(node.name, signs.given(self.args, node.name, op.name), config)
            return {"weight": signs.weight_format(node.name, parameters["weight"], config.signs, frac, threshold)}
        if config.blocks:
            given = signs.given(self.args, node.name, op.name)
            fmt: BlockFormat
            if config.name == "groups":
                fmt, exponents, reason = group_weights(node.name, parameters["weight"], config, given)
            elif config.concept:
                fmt, exponents = concept_weights(node.name, parameters["weight"], config, given)
                reason = f"{config.name} of MASE"
            else:
                fmt, exponents = block_weights(node.name, parameters["weight"], config, given)
                reason = "an exponent by block"
            found = {"weight": Decision(fmt, reason)}
            if config.name == "groups" or exponents.any():
                found["weight_shift"] = shift_decision(exponents)
                parameters["weight_shift"] = exponents.to(parameters["weight"].device)
            self.decisions.setdefault(node.name, {}).update(found)
            return {name: (each.fmt, each.reason) for name, each in found.items()}
        has_none = "weight" not in parameters or "weight_shift" not in op.parameters
        if config.weight_granularity == "tensor" or (has_none and "weight_granularity" not in specific):
            return {}
        if has_none:
            raise UnsupportedError(
                f"{op.name} has no weights with a format per output channel",
                node=node.name,
                field="quantize.*.config.weight_granularity",
                got="channel",
                remedy=f"set overrides.{node.name}.config.weight_granularity = 'tensor'",
            )
        width = config.of("weight")[0]
        if width is None:
            return {}  # refused where the width is missed
        method = (self._observed(node, "weight") or {}).get("method", "min_max")
        decision, shift = per_channel(node.name, parameters["weight"], config, width, method)
        found = {"weight": decision}
        if shift is not None:
            found["weight_shift"] = shift_decision(shift)
            parameters["weight_shift"] = shift.to(parameters["weight"].device)
        self.decisions.setdefault(node.name, {}).update(found)
        return {name: (each.fmt, each.reason) for name, each in found.items()}

    def _input_format(
        self, node: fx.Node, op: OpDef, name: str, source: fx.Node, config: NodeConfig
    ) -> tuple[FixedFormat, str]:
        width, frac, signed = config.of(name)
        if op.places is not None:
            shapes = {n: tuple(value.shape) for n, value in parameters_of(self.graph, node, op).items()}
            count = op.places(shapes, self.graph.meta_of(node).common.args.attributes)
            name = (entry_of(self.graph, source) or [source])[-1].name
            self.places[name] = min(count, self.places.get(name, count))
            return format_of_places(count), f"{count} places"
        if config.data_in_element is not None and config.data_in_block_size is None:
            one = MINIFLOATS[config.data_in_element]
            return FixedFormat(one.top + 2, one.top - one.emax), f"minifloats, {config.data_in_element}"
        have = self.formats.get(source.name)
        if isinstance(have, ScaledFormat):
            if config.scaled and op.inner is None:
                return data_around(op, have, OWN_GUARD), f"as {source.name} gives it"
            have = None  # a cast follows
        if have == TRUTH and frac is None and signed is not True:
            return have, f"as {source.name} gives it"
        truth = self.graph.tensor(source, "data_out_0").torch_dtype is torch.bool
        if truth and (have is None or entry_of(self.graph, source) is not None):
            return TRUTH, "true or false"
        if have is not None and name in op.exact_inputs:
            return have, f"as exact as {source.name} gives it"
        if have is not None and frac is None and signed in (None, have.signed):
            # Without a sign, one bit less holds as much, and one bit more is no gain to an op that drops it.
            fits = {have.width, have.width - 1 if have.signed and op.non_negative else have.width + 1 - have.signed}
            if width is None or width in fits or passes_out(self.graph, self.args, node):
                return have, f"as {source.name} gives it"
        return self._format(node, name, config)

    def _format(
        self, node: fx.Node, name: str, config: NodeConfig, ends: tuple[float, float] | None = None
    ) -> tuple[FixedFormat, str]:
        width, (_, frac, signed) = config.width(node.name, name), config.of(name)
        if frac is not None:
            return FixedFormat(width, frac, signed is not False), "configured"
        statistics = self.statistics(node, name) if ends is None else {"min": ends[0], "max": ends[1]}
        if name == "data_out_0" and config.overflow is Overflow.WRAP:  # what is clipped is far off then
            statistics = {end: statistics[end] for end in ("min", "max")}
        decision = from_statistics(node.name, name, config, width, statistics)
        self.decisions.setdefault(node.name, {})[name] = decision
        return decision.fmt, decision.reason

    def _as_wide_as_needed(
        self, node: fx.Node, name: str, config: NodeConfig, ends: tuple[float, float] | None, finest: int
    ) -> tuple[FixedFormat, str]:
        """Format of a bias whose width is open: its LSB is that of the products, unless it would get too wide."""
        _, frac, signed = config.of(name)
        seen = self.statistics(node, name) if ends is None else {"min": ends[0], "max": ends[1]}
        low, high = float(seen["min"]), float(seen["max"])
        limit, wanted = config.bias_width_limit, finest if frac is None else frac
        for width in range(2, limit + 1):
            if low == high == 0.0 or FixedFormat.covering(low, high, width, signed is not False).frac_width >= wanted:
                reason = f"observed [{low:.6g}, {high:.6g}], as wide as its exact sum needs"
                break
        else:
            width, reason = limit, f"observed [{low:.6g}, {high:.6g}], as wide as configured"
            wanted = FixedFormat.covering(low, high, width, signed is not False).frac_width if frac is None else frac
        fmt = FixedFormat(width, wanted, signed is not False)
        self.decisions.setdefault(node.name, {})[name] = Decision(fmt, reason)
        return fmt, reason

    def _observed(self, node: fx.Node, name: str) -> Json | None:
        """What calibration recorded of a tensor."""
        name = self.observed.get((node.name, name), name)
        software = self.graph.meta_of(node).software
        found: Json | None = {**software.args, **software.results}.get(name, {}).get(CALIBRATED)
        return found

    def statistics(self, node: fx.Node, name: str) -> Json:
        """What calibration recorded of a tensor.

        Raises:
            PassOrderError: If it recorded nothing.
        """
        found = self._observed(node, name)
        if found is None:
            key = group_of(name)
            raise PassOrderError(
                f"the fraction width of {name} is neither configured nor observed",
                node=node.name,
                field=f"quantize.*.config.{key}_frac_width",
                remedy=f"run calibrate_analysis_pass first, or set {key}_frac_width",
            )
        return found

    def _enter(self, source: fx.Node, fmt: FixedFormat) -> None:
        """A placeholder that reaches a quantised node enters in that node's input format."""
        chain = entry_of(self.graph, source)
        if chain is None:
            return
        name = chain[-1].name
        there = self.entries.get(name, fmt)
        # Scaled integers enter as their first reader wants them; others get a cast.
        scaled = any_scaled({"wanted": fmt, "there": there})
        self.entries[name] = there if scaled else covering_both({"wanted": fmt, "there": there})
        for node in chain:
            self.formats[node.name] = self.entries[name]

    def _enter_unread(self, node: fx.Node) -> None:
        """An input that nothing reads enters as the default says, and goes nowhere."""
        if self.graph.tensor(node, "data_out_0").torch_dtype is torch.bool:
            self.entries[node.name] = TRUTH
            return
        config = self.args.default.config if self.args.default is not None else NodeConfig()
        if config.quantised and config.data_in_width is not None:
            self.entries[node.name], _ = self._format(node, "data_out_0", config.entering())
            self.decisions.pop(node.name, None)

    def _attributes(self, node: fx.Node) -> Attributes:
        return self.graph.meta_of(node).common.args.attributes


def _only_truths(table: Tensor) -> bool:
    """Whether the rows of a table are zeros and ones, such as those of a unit matrix."""
    return bool(((table == 0) | (table == 1)).all())
