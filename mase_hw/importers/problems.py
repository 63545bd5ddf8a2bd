"""What an importer cannot take, collected, so that one error names all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from torch import fx

from mase_hw.errors import MaseHwError, UnsupportedError
from mase_hw.importers.graph import Refused
from mase_hw.ir import MaseGraph
from mase_hw.opdef import OpDef

ON_HOST = "leave it to the host: ask for a partition (import_model(file, host=True), compile --partition)"
"""What to do with a node that hardware does not have."""
SHOWN = 40
"""Nodes that an error names one by one."""


class NodesRefused(UnsupportedError):
    """The error of :class:`Problems`; ``places`` has the reason by name of the node in the graph, as far as known."""

    places: dict[str, str]


@dataclass
class Problems:
    """The nodes of a source that cannot be taken.

    Args:
        source: What the file is, for the message.
        found: The node, its operation, the reason and the remedy.
        places: The reason by name of the node in the graph.
    """

    source: str
    found: list[tuple[str, str, str, str | None]] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)

    def add(self, node: str, operation: str, error: Exception, place: str | None = None) -> None:
        """Note why a node cannot be taken; anything but :class:`Refused` is what a damaged file makes torch say."""
        if place is not None:
            self.places[place] = error.why if isinstance(error, Refused) else str(error).splitlines()[0]
        if isinstance(error, Refused):
            self.found.append((node, operation, error.why, error.remedy))
        elif isinstance(error, MaseHwError):
            why = error.message.splitlines()[0] + (f" ({error.got!s:.200})" if error.got is not None else "")
            # A file has no rules of a quantisation that one could change.
            told = error.remedy is not None and "quantize." not in error.remedy
            self.found.append((node, operation, why, error.remedy if told else None))
        else:
            text = (str(error).strip().splitlines() or [type(error).__name__])[0]
            why = f"it cannot be computed as the file describes it ({text:.200})"
            self.found.append((node, operation, why, None))

    def refuse(self) -> None:
        """Raise one error for all.

        Raises:
            NodesRefused: Names every node, as the source calls it, its operation and the reason.
        """
        if not self.found:
            return
        lines = [f"{node[:120]} ({operation[:60]}): {why}" for node, operation, why, _ in self.found]
        more = [f"... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
        remedies = dict.fromkeys(remedy for *_, remedy in self.found if remedy)
        error = NodesRefused(
            f"{len(lines)} node(s) of the {self.source} cannot be taken:\n  " + "\n  ".join(lines[:SHOWN] + more),
            node="; ".join(node[:120] for node, *_ in self.found[:SHOWN]),
            expected="operations that docs/importing.md lists, with constant attributes and static shapes",
            remedy="; ".join(remedies) or "replace the operation in the model",
        )
        error.places = dict(self.places)
        raise error


def plan_each(
    graph: MaseGraph,
    sources: Mapping[str, str],
    plan: Callable[[fx.Node, OpDef], None],
    lost: Callable[[fx.Node], Iterable[str]] = lambda node: (),
) -> None:
    """Plan every node that computes, in order of execution; what follows a refused node is passed over.

    Args:
        graph: The graph.
        sources: The file's names of nodes.
        plan: Plans a node, or raises why it cannot be taken.
        lost: Names of the nodes that a refused node takes with it, besides what reads it.

    Raises:
        NodesRefused: Naming every node that cannot be taken.
    """
    gone: set[str] = set()
    problems = Problems("model")
    for node in list(graph.nodes):
        op = graph.op_of(node)
        if op is None or not graph.meta_of(node).common.results.tensors:
            continue
        if gone & {node.name, *(n.name for n in node.all_input_nodes)}:
            gone.add(node.name)
            continue
        try:
            plan(node, op)
        except Exception as error:
            gone |= {node.name, *lost(node)}
            what = "quantisation" if op.name == "passed_on" else op.name  # what a marker is
            problems.add(sources.get(node.name, node.name), what, error, node.name)
    problems.refuse()
