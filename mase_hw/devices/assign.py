"""Which device every node is on, and the part of the network for each."""

from __future__ import annotations

from collections.abc import Mapping

from torch import fx

from mase_hw.devices.records import not_divided
from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.ir.parts import HARDWARE, Part, part_of, sources
from mase_hw.partition.quantised import entered, with_entries
from mase_hw.passes.mapping.args import HardwareArgs, check_places, with_node_names


def devices_of(graph: MaseGraph, args: HardwareArgs) -> tuple[HardwareArgs, dict[int, Part]]:
    """Divide a quantised graph.

    Args:
        graph: Quantised, with common metadata.
        args: With ``device``.

    Returns:
        The arguments with names of nodes, and the part for every device, in order.

    Raises:
        ConfigError: If a node is not there, or is on a device before one of those that it reads.
        UnsupportedError: If an input is read on two devices, or a stream would have to go to several places.
    """
    check_places(graph, named := with_node_names(graph, args))
    model, reasons, free, shared = with_entries(graph)
    if reasons:
        name, why = next(iter(reasons.items()))
        raise UnsupportedError(why, node=name, remedy="let the model end with what hardware computes")
    place = _placed(model, named.device, free, shared)
    _check_inputs(model, place, shared)
    groups: dict[int, list[fx.Node]] = {}
    for node in model.graph.nodes:
        if node in place:
            groups.setdefault(place[node], []).append(node)
    parts = [part_of(model, f"device_{number}", HARDWARE, groups[number], shared) for number in sorted(groups)]
    _check_streams(model, place, parts)
    return named, dict(zip(sorted(groups), entered(model, parts), strict=True))


def _placed(
    model: fx.GraphModule, given: Mapping[str, int], free: frozenset[str], shared: frozenset[str]
) -> dict[fx.Node, int]:
    """The device of every node that computes; one that only renames elements is where it is read."""
    place: dict[fx.Node, int] = {}
    nodes = [n for n in model.graph.nodes if n.op.startswith("call_") and n.name not in shared]
    for node in nodes:
        before = {source: place[source] for source in sources(node, shared) if source in place}
        at = max(before.values(), default=0)
        place[node] = given.get(node.name, at)
        if place[node] < at:
            late = next(source for source, number in before.items() if number == at)
            raise ConfigError(
                "a cut goes backwards: a node is on a device before that of what it reads",
                node=node.name,
                field=f"hardware.device.{node.name}",
                got=f"{place[node]}, and {late.name} is on {at}",
                expected=f"{at} or more",
            )
    for node in reversed(nodes):
        readers = [place[user] for user in node.users if user in place]
        if node.name in free and readers:
            place[node] = min(readers)
    return place


def _check_inputs(model: fx.GraphModule, place: Mapping[fx.Node, int], shared: frozenset[str]) -> None:
    for node in model.graph.nodes:
        if node.op != "placeholder":
            continue
        numbers = {place[user] for user in place if node in sources(user, shared)}
        if len(numbers) > 1:
            raise not_divided(
                "an input of the model is read on several devices",
                node=node.name,
                got=f"devices {', '.join(map(str, sorted(numbers)))}",
                expected="one",
                remedy="put all nodes that read it on one device",
            )


def _check_streams(model: fx.GraphModule, place: Mapping[fx.Node, int], parts: list[Part]) -> None:
    """Refuse a result that leaves its device for several places."""
    by_name = {node.name: node for node in model.graph.nodes}
    for name in (name for part in parts for name in part.outputs):
        node = by_name[name]
        to = {place.get(user, -1) for user in node.users} - {place[node]}
        if len(to) > 1:
            raise not_divided(
                "a stream leaves its device for several places",
                node=name,
                got=", ".join("the output of the model" if n < 0 else f"device {n}" for n in sorted(to)),
                expected="one other device, or the output of the model",
                remedy="cut where it goes to one, or put its readers on one device",
            )
