"""What quantisation changes in a graph."""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx, nn

from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotate import describe, new_metadata
from mase_hw.nn import Quantized, QuantizeInput


class Rewriter:
    """Changes a graph: golden modules in place of float nodes, casts, the boundary.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: MaseGraph) -> None:
        self.graph = graph
        self.fx_graph = graph.fx_graph

    def replace(self, node: fx.Node, inputs: Sequence[fx.Node], module: Quantized) -> None:
        """Put the golden module where the float node was; the node keeps its name."""
        target = self._target(node)
        self.graph.model.add_submodule(target, module)
        if node.op != "call_module":
            node.op = "call_module"
        node.target = target
        node.args, node.kwargs = tuple(inputs), {}
        meta = self.graph.meta_of(node)
        meta.common.mase_type, meta.common.mase_op = module.op.mase_type, module.op.name
        self._describe(node, module)

    def _describe(self, node: fx.Node, module: Quantized) -> None:
        """Write parameters and attributes that the float node had not into the metadata."""
        args = self.graph.meta_of(node).common.args
        for name, value in module.arithmetic.attributes.items():
            if name in module.op.attributes and name not in args:
                args[name] = value
        for name in module.parameter_names:
            if name not in args:
                args[name] = describe(getattr(module, name).detach()).as_parameter()

    def requantize(self, node: fx.Node, module: Quantized, what: str = "requantize") -> str:
        """Put a requantisation, or another cast, behind a node, for all its readers."""
        users = list(node.users)
        made = self._insert(node, module, f"{node.name}_{what}")
        for user in users:
            user.replace_input_with(node, made)
        self._describe(made, module)
        return made.name

    def _target(self, node: fx.Node) -> str:
        """A path for the node's module: its old one unless another node uses that too."""
        if node.op == "call_module":
            shared = [n for n in self.graph.nodes if n.op == "call_module" and n.target == node.target]
            if len(shared) == 1:
                return str(node.target)
        return self._free(f"{node.name}_quantized" if node.op == "call_module" else node.name)

    def _free(self, name: str) -> str:
        while hasattr(self.graph.model, name):
            name += "_"
        return name

    def enter(self, placeholder: fx.Node, fmt: FixedFormat, places: int | None = None) -> str:
        """Quantise a placeholder right where it enters; ``places`` as of :class:`~mase_hw.nn.QuantizeInput`."""
        users = list(placeholder.users)
        module = QuantizeInput(fmt, str(placeholder.target), places)
        node = self._insert(placeholder, module, f"{placeholder.name}_quantize")
        for user in users:
            user.replace_input_with(placeholder, node)
        return node.name

    def cast(self, user: fx.Node, source: fx.Node, module: Quantized, name: str = "cast") -> str:
        """Put a cast, or what else has a name, between a producer and one consumer."""
        node = self._insert(source, module, f"{user.name}_{name}")
        user.replace_input_with(source, node)
        self._describe(node, module)
        return node.name

    def _insert(self, after: fx.Node, module: nn.Module, name: str) -> fx.Node:
        target = self._free(name)
        self.graph.model.add_submodule(target, module)
        with self.fx_graph.inserting_after(after):
            node = self.fx_graph.create_node("call_module", target, (after,), {}, name=name)
        meta = new_metadata(self.graph, node)
        tensor = self.graph.tensor(after, "data_out_0")
        meta.common.args["data_in_0"], meta.common.results["data_out_0"] = tensor.copy(), tensor.copy()
        return node
