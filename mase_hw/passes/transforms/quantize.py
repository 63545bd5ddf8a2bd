"""Quantisation: float nodes become golden fixed-point modules, with casts where formats meet."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, fx, nn

from mase_hw.catalogue import Arithmetic, OpDef
from mase_hw.errors import ConfigError, GraphError, PassOrderError, UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph, MaseMetadata
from mase_hw.nn import Quantized, QuantizeInput
from mase_hw.passes.analysis.calibrate import CALIBRATED
from mase_hw.passes.base import graph_pass
from mase_hw.passes.transforms.quantize_config import NodeConfig, QuantizeArgs


@dataclass
class _Plan:
    """What will happen to one node, decided before anything is changed."""

    node: fx.Node
    op: OpDef
    arithmetic: Arithmetic
    parameters: dict[str, Tensor]
    inputs: list[fx.Node]
    reasons: dict[str, str] = field(default_factory=dict)


class _Planner:
    def __init__(self, graph: MaseGraph, args: QuantizeArgs) -> None:
        self.graph = graph
        self.args = args
        self.plans: dict[str, _Plan] = {}
        self.formats: dict[str, FixedFormat] = {}
        """Format of every node's result that is fixed point, by node name."""
        self.entries: dict[str, FixedFormat] = {}
        """Format in which a placeholder enters, by its name."""

    def run(self) -> None:
        for node in self.graph.nodes:
            if isinstance(self.graph.meta_of(node).module, Quantized | QuantizeInput):
                raise GraphError(
                    "the graph is quantised already",
                    node=node.name,
                    remedy="quantize the float model instead, with all rules in one configuration",
                )
        nodes = {n.name: op.name for n in self.graph.nodes if (op := self.graph.op_of(n)) is not None}
        self.args.check(nodes, {o.name for o in self.graph.catalogue if o.modules or o.functions or o.methods})
        for node in self.graph.nodes:
            op = self.graph.op_of(node)
            if op is None:
                continue
            if op.check is not None:
                op.check(node.name, self._attributes(node))
            if self.graph.is_implicit(node):
                source = self._data_inputs(node)[:1]
                if source and source[0].name in self.formats:
                    self.formats[node.name] = self.formats[source[0].name]
                continue
            config, specific = self.args.config_for(node.name, op.name)
            computes = bool(self.graph.meta_of(node).common.results.tensors)
            if config.quantised and computes:
                self._plan(node, op, config, specific)
        for node in self.graph.nodes:
            # A later reader may have widened the format in which an input enters.
            source = self._data_inputs(node)[:1] if self.graph.op_of(node) is not None else []
            if source and self.graph.is_implicit(node) and source[0].name in self.formats:
                self.formats[node.name] = self.formats[source[0].name]

    def _plan(self, node: fx.Node, op: OpDef, config: NodeConfig, specific: set[str]) -> None:
        if op.golden is None or op.hardware is None:
            raise UnsupportedError(
                f"op {op.name!r} cannot be quantised",
                node=node.name,
                expected="an op with hardware: "
                + ", ".join(o.name for o in self.graph.catalogue if o.hardware and o.mase_type),
                remedy="replace it in the model, or compile only the part before or after it "
                f"(overrides.{node.name}.config.name = null leaves it in float, for PyTorch only)",
            )
        attributes = self._attributes(node)
        inputs = self._data_inputs(node)
        formats: dict[str, FixedFormat] = {}
        reasons: dict[str, str] = {}
        for index, source in enumerate(inputs):
            name = f"data_in_{index}"
            formats[name], reasons[name] = self._input_format(node, name, source, config)
            self._enter(source, formats[name])
        parameters = self._parameters(node, op)
        for name in parameters:
            fmt, reason = self._format(node, name, config)
            limit = op.finest(name, formats) if op.finest is not None else None
            if config.of(name)[1] is None and limit is not None and fmt.frac_width > limit:
                fmt, reason = dataclasses.replace(fmt, frac_width=limit), f"{reason}, no finer than the products"
            formats[name], reasons[name] = fmt, reason
        given = any(key.startswith("data_out_") for key in specific)
        if op.default_out is not None and not given:
            formats["data_out_0"], reasons["data_out_0"] = op.default_out(formats), "as its input"
        else:
            formats["data_out_0"], reasons["data_out_0"] = self._format(node, "data_out_0", config)
        arithmetic = Arithmetic(formats, config.rounding, config.overflow, attributes)
        self.plans[node.name] = _Plan(node, op, arithmetic, parameters, inputs, reasons)
        self.formats[node.name] = formats["data_out_0"]

    def _input_format(self, node: fx.Node, name: str, source: fx.Node, config: NodeConfig) -> tuple[FixedFormat, str]:
        width, frac, _ = config.of(name)
        have = self.formats.get(source.name)
        if have is not None and frac is None and (width is None or width == have.width):
            return have, f"as {source.name} gives it"
        return self._format(node, name, config)

    def _format(self, node: fx.Node, name: str, config: NodeConfig) -> tuple[FixedFormat, str]:
        width, frac, signed = config.of(name)
        key = name.rstrip("0123456789").rstrip("_")
        if width is None:
            raise ConfigError(
                f"no width for {name}",
                node=node.name,
                field=f"quantize.*.config.{key}_width",
                expected="a number of bits",
                remedy=f"set {key}_width in the rule for this node, or in quantize.default.config",
            )
        if frac is not None:
            return FixedFormat(width, frac, signed), "configured"
        low, high = self._range(node, name)
        if low < 0 and not signed:
            raise ConfigError(
                f"{name} is configured as unsigned, but negative values were observed",
                node=node.name,
                field=f"quantize.*.config.{key}_signed",
                got=low,
                remedy="make it signed, or give its fraction width to accept clipping at 0",
            )
        return FixedFormat.covering(low, high, width, signed), f"observed [{low:.6g}, {high:.6g}]"

    def _range(self, node: fx.Node, name: str) -> tuple[float, float]:
        software = self.graph.meta_of(node).software
        stat = {**software.args, **software.results}.get(name, {}).get(CALIBRATED)
        if stat is None:
            key = name.rstrip("0123456789").rstrip("_")
            raise PassOrderError(
                f"the fraction width of {name} is neither configured nor observed",
                node=node.name,
                field=f"quantize.*.config.{key}_frac_width",
                remedy=f"run calibrate_analysis_pass first, or set {key}_frac_width",
            )
        return float(stat["min"]), float(stat["max"])

    def _enter(self, source: fx.Node, fmt: FixedFormat) -> None:
        """A placeholder that reaches a quantised node enters in that node's input format."""
        chain = [source]
        while chain[-1].op != "placeholder":
            before = self._data_inputs(chain[-1]) if self.graph.is_implicit(chain[-1]) else []
            if not before:
                return
            chain.append(before[0])
        name = chain[-1].name
        self.entries[name] = _covering_both(self.entries[name], fmt) if name in self.entries else fmt
        for node in chain:
            self.formats[node.name] = self.entries[name]

    def _data_inputs(self, node: fx.Node) -> list[fx.Node]:
        sources = self.graph.sources(node)
        return [producer for name, (producer, _) in sources.items() if name.startswith("data_in_")]

    def _parameters(self, node: fx.Node, op: OpDef) -> dict[str, Tensor]:
        module = self.graph.meta_of(node).module
        found: dict[str, Tensor] = {}
        sources = self.graph.sources(node)
        for name in op.parameters:
            value: Any = getattr(module, name, None) if module is not None else None
            if value is None and name in sources:
                producer = sources[name][0]
                if producer.op != "get_attr":
                    raise UnsupportedError(
                        f"{name} is computed by the model, not stored",
                        node=node.name,
                        got=producer.name,
                        expected="a parameter or buffer of the model",
                    )
                value = _attribute(self.graph.model, str(producer.target))
            if value is not None:
                found[name] = value
        return found

    def _attributes(self, node: fx.Node) -> dict[str, Any]:
        common = self.graph.meta_of(node).common
        return {k: v for k, v in common.args.items() if k not in common.args.tensors}


def _covering_both(a: FixedFormat, b: FixedFormat) -> FixedFormat:
    """The narrowest format that holds every value of two; an input that two nodes read enters in it."""
    signed = a.signed or b.signed
    integer = max(f.width - f.frac_width - int(f.signed) for f in (a, b))
    frac = max(a.frac_width, b.frac_width)
    return FixedFormat(integer + frac + int(signed), frac, signed)


def _attribute(model: nn.Module, path: str) -> Tensor:
    value: Any = model
    for part in path.split("."):
        value = getattr(value, part)
    if not isinstance(value, Tensor):
        raise UnsupportedError("a parameter of the model is not a tensor", node=path, got=type(value).__name__)
    return value


class _Rewriter:
    def __init__(self, graph: MaseGraph, plans: Mapping[str, _Plan]) -> None:
        self.graph = graph
        self.plans = plans
        self.fx_graph = graph.fx_graph

    def replace(self, plan: _Plan, module: Quantized) -> None:
        """Put the golden module where the float node was; the node keeps its name."""
        node = plan.node
        target = self._target(node)
        self.graph.model.add_submodule(target, module)
        if node.op != "call_module":
            node.op = "call_module"
        node.target = target
        node.args, node.kwargs = tuple(plan.inputs), {}

    def _target(self, node: fx.Node) -> str:
        """A path for the node's module: its old one unless another node uses that too."""
        if node.op == "call_module":
            shared = [n for n in self.graph.nodes if n.op == "call_module" and n.target == node.target]
            if len(shared) == 1:
                return str(node.target)
        return self._free(f"{node.name}_quantized" if node.op == "call_module" else node.name)

    def _free(self, name: str) -> str:
        taken = set(self.graph.modules) | {name for name, _ in self.graph.model.named_parameters()}
        while name in taken or hasattr(self.graph.model, name):
            name += "_"
        return name

    def enter(self, placeholder: fx.Node, fmt: FixedFormat) -> str:
        """Quantise a placeholder right where it enters."""
        users = list(placeholder.users)
        node = self._insert(placeholder, QuantizeInput(fmt, str(placeholder.target)), f"{placeholder.name}_quantize")
        for user in users:
            user.replace_input_with(placeholder, node)
        return node.name

    def cast(self, user: fx.Node, source: fx.Node, module: Quantized) -> str:
        """Put a cast between a producer and one consumer."""
        node = self._insert(source, module, f"{user.name}_cast")
        user.replace_input_with(source, node)
        return node.name

    def _insert(self, after: fx.Node, module: nn.Module, name: str) -> fx.Node:
        target = self._free(name)
        self.graph.model.add_submodule(target, module)
        with self.fx_graph.inserting_after(after):
            node = self.fx_graph.create_node("call_module", target, (after,), {}, name=name)
        meta = node.meta["mase"] = MaseMetadata(node, self.graph.model)
        tensor = self.graph.tensor(after, "data_out_0")
        op = self.graph.op_of(node)
        assert op is not None  # cast and quantize are in every catalogue
        meta.common.mase_type, meta.common.mase_op = op.mase_type, op.name
        meta.common.args["data_in_0"], meta.common.results["data_out_0"] = tensor.copy(), tensor.copy()
        return node


@graph_pass(
    "quantize_transform_pass",
    args=QuantizeArgs,
    needs=("add_common_metadata_analysis_pass",),
    gives=("fixed_point",),
    invalidates=("add_hardware_metadata_analysis_pass",),
)
def quantize_transform_pass(graph: MaseGraph, args: QuantizeArgs) -> tuple[MaseGraph, dict[str, Any]]:
    """Replace float nodes by bit-true fixed-point ones.

    Formats come from the configuration or, where a fraction width is not given, from the observed range. Inputs of
    the model are quantised where they enter; a cast is put wherever a producer's format is not the one its consumer
    wants. Everything is decided, and refused if need be, before the graph is touched.

    Returns:
        The same graph, and per node its op, formats and the reason for each format.

    Raises:
        ConfigError: A rule that applies to nothing, or a missing width.
        PassOrderError: A fraction width that is neither configured nor observed.
        UnsupportedError: A node that cannot be quantised.
        FormatError: NaN in a parameter.
    """
    planner = _Planner(graph, args)
    planner.run()
    modules = {name: Quantized(p.op, p.arithmetic, p.parameters) for name, p in planner.plans.items()}
    for name, module in modules.items():
        module.label = name
        module.check_parameters()
    rewriter = _Rewriter(graph, planner.plans)
    info: dict[str, Any] = {"nodes": {}, "casts": [], "inputs": {}}
    wanted: list[tuple[fx.Node, fx.Node, FixedFormat, FixedFormat]] = []
    for name, plan in planner.plans.items():
        formats = plan.arithmetic.formats
        for index, source in enumerate(plan.inputs):
            have = planner.formats.get(source.name)
            if have is not None and have != formats[f"data_in_{index}"]:
                wanted.append((plan.node, source, have, formats[f"data_in_{index}"]))
        rewriter.replace(plan, modules[name])
        info["nodes"][name] = {
            "op": plan.op.name,
            "formats": {k: str(v) for k, v in formats.items()},
            "reasons": plan.reasons,
        }
    cast_op = graph.catalogue["cast"]
    for user, source, have, want in wanted:
        arithmetic = Arithmetic({"data_in_0": have, "data_out_0": want})
        info["casts"].append(rewriter.cast(user, source, Quantized(cast_op, arithmetic)))
    for name, fmt in planner.entries.items():
        info["inputs"][name] = {"node": rewriter.enter(graph.node(name), fmt), "format": str(fmt)}
    _finish(graph)
    return graph, info


def _finish(graph: MaseGraph) -> None:
    for node in reversed(graph.nodes):
        if node.op == "get_attr" and not node.users:
            graph.fx_graph.erase_node(node)
    graph.fx_graph.lint()
    graph.model.delete_all_unused_submodules()
    graph.model.recompile()
    graph.refresh()
