"""Quantisation of the layers of any module, without a graph: for a look at accuracy, and for what no tracer takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx, nn

from mase_hw.catalogue import OpDef, default_catalogue
from mase_hw.errors import ConfigError, GraphError, MaseHwError
from mase_hw.ir import MaseGraph
from mase_hw.ir.binding import op_of_module
from mase_hw.ir.trace.tracer import private_copy
from mase_hw.passes.base import Info, validate
from mase_hw.passes.quantize.calibrate import calibrate_analysis_pass
from mase_hw.passes.quantize.config import NodeConfig, QuantizeArgs, Rule, known_tensors
from mase_hw.passes.quantize.quantize import quantize_transform_pass

LAYER = "layer"
"""Name of the node in the graph of a layer alone."""


class QuantizedLayer(nn.Module):
    """A layer in fixed point, quantised by its first inputs: their shapes, and their range for widths left out.

    Args:
        path: What errors call it.
        layer: The float layer.
        args: A default, and what is configured for :data:`LAYER`.
    """

    def __init__(self, path: str, layer: nn.Module, args: QuantizeArgs) -> None:
        super().__init__()
        self.path, self.layer, self.args = path, layer, args
        self.info: Info | None = None
        """What the quantisation reported of the layer; None before it."""

    def forward(self, *inputs: Any) -> Any:
        """The result of the layer."""
        if self.info is None:
            try:
                graph, info = quantised_layer(self.layer, self.args, inputs)
            except MaseHwError as error:
                error.node = self.path
                raise
            self.layer, self.info = graph.model, info["nodes"][LAYER]
        return self.layer(*inputs)


def quantised_layer(layer: nn.Module, args: QuantizeArgs, inputs: Sequence[Any]) -> tuple[MaseGraph, Info]:
    """A graph with one layer, calibrated by its inputs and quantised; and what that reports."""
    calls = fx.Graph()
    dummy = {f"x{index}": value for index, value in enumerate(inputs)}
    calls.output(calls.call_module(LAYER, tuple(calls.placeholder(name) for name in dummy)))
    metadata = {"dummy_in": dummy, "add_value": False}
    graph = MaseGraph(calls, root=nn.ModuleDict({LAYER: layer}), add_metadata_args=metadata)
    calibrate_analysis_pass(graph, {"data": [dummy]})
    return quantize_transform_pass(graph, args)


def quantize_module_transform_pass(network: nn.Module, pass_args: Any = None) -> tuple[nn.Module, Info]:
    """Put layers of a module into fixed point, by type, name or regular expression; nothing is traced.

    Every layer quantises its inputs and its result, bit-true as in hardware. What stands between layers stays in float:
    functions, methods, and layers that no rule covers. The first call of the network says the shapes of every layer,
    and chooses fraction widths that are left out: make it with data for the calibration.

    Args:
        network: Any module; it is not changed.
        pass_args: Those of ``quantize_transform_pass``, in which names are paths of modules.

    Returns:
        A copy with quantised layers; under ``nodes``, by path, the op of each.

    Raises:
        GraphError: If ``network`` is no module.
        ConfigError: If an argument is wrong, or a rule applies to nothing.
        MaseHwError: On the first call of the network, as ``quantize_transform_pass``.
    """
    where = "quantize_module_transform_pass"
    if not isinstance(network, nn.Module):
        raise GraphError(f"{where} works on a module", got=type(network).__name__, expected="torch.nn.Module")
    args = validate(where, QuantizeArgs, pass_args)
    if args.output_width is not None:
        raise ConfigError("which results leave a network is known of a graph only", field="output_width")
    known, holder = default_catalogue(), nn.ModuleDict({"network": private_copy(network)})
    found: dict[str, tuple[nn.Module, OpDef]] = {}
    for path, module in holder["network"].named_modules():
        op = op_of_module(known, module)
        if op is not None and not op.implicit and not any(path.startswith(f"{above}.") for above in found):
            found[path] = module, op
    args.check({path: op.name for path, (_, op) in found.items()}, known_tensors(known))
    made: dict[str, QuantizedLayer] = {}
    places = [(parent, name, child) for parent in holder.modules() for name, child in parent.named_children()]
    for path, (module, op) in found.items():
        config, specific = args.config_for(path, op.name)
        if config.quantised:
            rule = Rule(config=NodeConfig(**{key: getattr(config, key) for key in specific}))
            made[path] = QuantizedLayer(path, module, QuantizeArgs(default=args.default, overrides={LAYER: rule}))
            for parent, name in [(parent, name) for parent, name, child in places if child is module]:
                parent.add_module(name, made[path])
    nodes = {path: {"op": found[path][1].name} for path in made}
    return holder["network"], {"nodes": nodes, "modified": bool(made)}
