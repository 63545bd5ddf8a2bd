"""Branches and loops whose course is known, and sequences of tensors: what runs is written into the graph."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor

from mase_hw.importers.graph import Ref, Refused
from mase_hw.importers.onnx.source import Subgraph
from mase_hw.importers.onnx.step import Step

MOST_ROUNDS = 1 << 10
"""Rounds of a loop that are written out."""
_REMEDY = "export the model with its loops unrolled and its conditions known"


class Gone(Exception):
    """A graph inside of a node has nodes that cannot be taken, which are noted."""


def _graph(s: Step, name: str) -> Subgraph:
    found = s.node.get(name)
    if not isinstance(found, Subgraph):
        raise Refused(f"the attribute {name} is no graph")
    return found


def _inside(s: Step, graph: Subgraph, given: list[Any]) -> list[Any]:
    if len(given) != len(graph.inputs):
        raise Refused(f"a graph of {len(graph.inputs)} inputs, of which {len(given)} are given")
    assert s.inside is not None  # of every step of a file
    return s.inside(graph, given)


def _truth(value: Any, what: str) -> bool:
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise Refused(f"control flow: {what} is decided by data", _REMEDY)
    return bool(value)


def branch(s: Step) -> list[Any]:
    """``If`` with a condition that is known."""
    taken = _truth(s.any(0), "which branch runs")
    if s.of_many is not None and _truth(s.of_many[0], "which branch runs") != taken:
        raise Refused("control flow: which branch runs depends on the number of frames", _REMEDY)
    graphs = [_graph(s, name) for name in ("else_branch", "then_branch")]
    return _inside(s, graphs[taken], [])


def loop(s: Step) -> list[Any]:
    """``Loop`` whose number of rounds is known, written out."""
    body = _graph(s, "body")
    most = s.numbers(0, "the number of rounds")[0] if s.has(0) else MOST_ROUNDS + 1
    goes = _truth(s.any(1), "whether a loop goes on") if s.has(1) else True
    kept, stacked = list(s.inputs[2:]), list[list[Any]]()
    rounds = 0
    while goes and rounds < most:
        if rounds >= MOST_ROUNDS:
            raise Refused(f"a loop of more than {MOST_ROUNDS} rounds", "use a recurrent layer, or fewer rounds")
        more, *found = _inside(s, body, [torch.tensor(rounds), torch.tensor(True), *kept])
        goes, kept = _truth(more, "whether a loop goes on"), found[: len(kept)]
        stacked.append(found[len(kept) :])
        rounds += 1
    if not rounds and len(s.node.outputs) > len(kept):
        raise Refused("a loop without a round, which gives no rows")
    return [*kept, *(s.call(torch.stack, list(rows)) for rows in zip(*stacked, strict=True))]


def _sequence(s: Step) -> list[Any]:
    found = s.any(0)
    if not isinstance(found, list):
        raise Refused("it reads what is no sequence of tensors")
    return found


def _place(s: Step, index: int, count: int, behind: int = 0) -> int:
    """A place in a sequence, counted from its end if negative; so many places behind the last tensor are others."""
    place = s.numbers(index, "a place")[0]
    if not -count <= place < count + behind:
        raise Refused(f"the place {place} of {count} tensors")
    return place if place >= 0 else place + count


def sequence_insert(s: Step) -> list[Any]:
    """``SequenceInsert``."""
    found = _sequence(s)
    at = _place(s, 2, len(found), behind=1) if s.has(2) else len(found)
    return [[*found[:at], s.any(1), *found[at:]]]


def sequence_erase(s: Step) -> list[Any]:
    """``SequenceErase``."""
    found = _sequence(s)
    at = _place(s, 1, len(found)) if s.has(1) else len(found) - 1
    return [[*found[:at], *found[at + 1 :]]]


def split_to_sequence(s: Step) -> list[Any]:
    """``SplitToSequence``."""
    axis, size = s.axis(s.node.get("axis", 0), len(s.shape())), 1
    s.frame_axis(axis)
    total, keep = s.shape()[axis], s.node.get("keepdims", 1)
    sizes: list[int] = [1] * total
    if s.has(1):
        given = s.known(1, "the sizes")
        keep, numbers = 1, s.numbers(1, "the sizes")
        size = numbers[0]
        sizes = numbers if given.dim() else [min(size, total - at) for at in range(0, total, max(size, 1))]
    if sum(sizes) != total or any(n < 1 for n in sizes):
        raise Refused(f"the parts {sizes} of {total} elements")
    whole = s.call(torch.split, s.any(0), tuple(sizes), axis)
    parts = [s.call(operator.getitem, whole, i) for i in range(len(sizes))]
    return [parts if keep else [s.call(torch.squeeze, part, axis) for part in parts]]


def concat_from_sequence(s: Step) -> Ref:
    """``ConcatFromSequence``."""
    parts, new = _sequence(s), s.node.get("new_axis", 0)
    axis = s.axis(s.node.get("axis"), len(s.writer.shape(parts[0])) + bool(new))
    if not new and any(s.writer.frames_dim(p) == axis for p in parts):
        raise Refused("it works along the batch", "frames are computed one by one")
    return s.call(torch.stack if new else torch.cat, parts, axis)


def sequence_map(s: Step) -> list[Any]:
    """``SequenceMap``."""
    body, count = _graph(s, "body"), len(_sequence(s))
    given = [v if isinstance(v, list) else [v] * count for v in s.inputs]
    rounds = [_inside(s, body, list(values)) for values in zip(*given, strict=True)]
    return [list(values) for values in zip(*rounds, strict=True)]


RULES = {
    "If": branch,
    "Loop": loop,
    "SequenceMap": sequence_map,
    "SequenceConstruct": lambda s: [list(s.inputs)],
    "SequenceEmpty": lambda s: [[], s.node.get("dtype", 1)][:1],
    "SequenceAt": lambda s: [_sequence(s)[_place(s, 1, len(_sequence(s)))]],
    "SequenceLength": lambda s: torch.tensor(len(_sequence(s))),
    "SequenceInsert": sequence_insert,
    "SequenceErase": sequence_erase,
    "SplitToSequence": split_to_sequence,
    "ConcatFromSequence": concat_from_sequence,
}
"""Operation -> what writes it."""
