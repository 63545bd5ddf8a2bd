"""A graph that is quantised already: what of it is for the host, and the formats in which segments take their data.

Every part that reads an input of the model, or what the host gives, rounds it by itself: the modules that do so, which
are the host's work in any case, stand in each part. What comes from another segment is rounded to its own format, so
that nothing changes.
"""

from __future__ import annotations

import dataclasses

from torch import fx

from mase_hw.errors import GraphError
from mase_hw.ir import MaseGraph
from mase_hw.ir.parts import HARDWARE, Part, copied, formats_of
from mase_hw.nn import Quantized, QuantizeInput
from mase_hw.nn.on_host import OnHost


def with_entries(graph: MaseGraph) -> tuple[fx.GraphModule, dict[str, str], frozenset[str], frozenset[str]]:
    """What :func:`~mase_hw.ir.parts.split` asks for.

    Returns:
        The model, changed so that no result of it is one that several parts compute; why nodes are on the host; the
        names of those that compute nothing; those of the nodes that every part has for itself.

    Raises:
        GraphError: If a node is neither quantised nor for the host.
    """
    model = copied(graph.model, "Quantised")
    modules = dict(model.named_modules())
    by_name = {n.name: n for n in graph.nodes}
    implicit = {name for name, node in by_name.items() if graph.is_implicit(node)}
    formats, reasons = formats_of(model, implicit), dict[str, str]()
    free, shared = set(), set()
    for node in list(model.graph.nodes):
        if not node.op.startswith("call_"):
            continue
        module = modules.get(str(node.target)) if node.op == "call_module" else None
        if isinstance(module, QuantizeInput):
            shared.add(node.name)
        elif isinstance(module, OnHost):
            reasons[node.name] = module.reason
        elif not isinstance(module, Quantized):
            if not graph.is_implicit(by_name[node.name]):
                raise GraphError(
                    "a part of the quantised model is in float",
                    node=node.name,
                    expected="quantised nodes and those for the host",
                    remedy="import the file with host=True, or give the float model",
                )
            free.add(node.name)
            if formats[node.name] is None:
                reasons[node.name] = f"it moves what {node.all_input_nodes[0].name} gives, which nothing rounds"
    (last,) = (n for n in model.graph.nodes if n.op == "output")
    for node in [n for n in last.all_input_nodes if n.name in shared]:
        with model.graph.inserting_after(node):
            own = model.graph.call_module(str(node.target), node.args)
        last.replace_input_with(node, own)
        reasons[own.name] = f"it rounds what leaves the model, from {node.all_input_nodes[0].name}"
    model.graph.eliminate_dead_code()
    model.recompile()
    return model.eval(), reasons, frozenset(free), frozenset(shared)


def entered(model: fx.GraphModule, parts: list[Part]) -> list[Part]:
    """The parts, their segments with a rounding of everything that another one gives them."""
    formats = formats_of(model)
    found = []
    for part in parts:
        module = part.module
        for node in [n for n in module.graph.nodes if n.op == "placeholder"] if part.where == HARDWARE else []:
            inner = dict(module.named_modules())
            users = [u for u in node.users if not isinstance(inner.get(str(u.target)), QuantizeInput)]
            fmt = formats[node.name]
            if users and fmt is not None:
                module.add_submodule(f"{node.name}_again", QuantizeInput(fmt, str(node.target)))
                with module.graph.inserting_after(node):
                    again = module.graph.call_module(f"{node.name}_again", (node,))
                for user in users:
                    user.replace_input_with(node, again)
        module.recompile()
        found.append(dataclasses.replace(part, module=module))
    return found
