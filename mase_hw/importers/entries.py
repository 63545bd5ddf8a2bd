"""Where inputs of the model are quantised."""

from __future__ import annotations

from collections.abc import Mapping

from torch import fx

from mase_hw.errors import ConfigError, suggest
from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledFormat
from mase_hw.importers.graph import ON_HOST, Marker, Refused, Writer
from mase_hw.ir import MaseGraph
from mase_hw.ops.cast import passed_on


def marker_of_input(
    graph: MaseGraph, markers: Mapping[str, Marker], sources: Mapping[str, str], node: fx.Node, source: fx.Node
) -> tuple[fx.Node, Marker]:
    """The input of the model that a node reads, moved or not, and the first marker behind it.

    Args:
        graph: The graph.
        markers: By name of the node.
        sources: The file's names of nodes.
        node: The node that reads it.
        source: What it reads.

    Raises:
        Refused: If the input is not quantised before something computes with it.
    """
    start = source
    while start.op != "placeholder":
        before = graph.sources(start).get("data_in_0") if graph.is_implicit(start) else None
        if before is None:
            raise Refused("it reads what cannot be taken")
        start = before[0]
    last = node
    while last.name not in markers:
        op = graph.op_of(last)
        clamps = op is not None and op.scaled is not None and op.scaled.kind == "clamp"
        if op is None or len(last.users) != 1 or not (graph.is_implicit(last) or clamps):
            raise Refused(
                f"it reads the input {sources.get(start.name, start.name)} before that is quantised",
                f"quantise the inputs of the model (a Quant, or a QuantizeLinear and a DequantizeLinear), or {ON_HOST}",
            )
        (last,) = last.users
    marker = markers[last.name]
    if marker.given is not None:
        raise Refused(f"it truncates the input {start.name}, which nothing has quantised", "put a Quant before it")
    if marker.elements:
        raise Refused(
            f"the input {start.name} has a format for every element, and the host rounds it to one",
            "put a quantisation with one scale before it, to steps as fine as the finest",
        )
    if marker.rounding is not Rounding.HALF_EVEN or marker.overflow is not Overflow.SATURATE:
        raise Refused("an input of the model is rounded half to even, by the host", "use the rounding mode ROUND")
    return start, marker


def enter(module: fx.GraphModule, writer: Writer, formats: Mapping[str, FixedFormat]) -> None:
    """Quantise inputs of a model right where they enter, as the caller says.

    Args:
        module: The graph.
        writer: What wrote it; gets the markers.
        formats: By what the source calls the input.

    Raises:
        ConfigError: If the model has no such input.
    """
    named = {writer.sources[n.name]: n for n in module.graph.nodes if n.op == "placeholder"}
    for name, fmt in formats.items():
        if name not in named:
            hint = suggest(name, named)
            raise ConfigError("the model has no such input", field="inputs", got=name, expected=hint)
        node = named[name]
        with module.graph.inserting_after(node):
            made = module.graph.call_function(passed_on, (node,))
        node.replace_all_uses_with(made, lambda user, own=made: user is not own)
        writer.sources[made.name] = name
        writer.markers[made.name] = Marker(fmt, Rounding.HALF_EVEN)
        writer.integers |= isinstance(fmt, ScaledFormat)
    module.recompile()
