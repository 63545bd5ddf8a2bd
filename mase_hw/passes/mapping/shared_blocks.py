"""Blocks of a network that share one set of hardware: which nodes are copies of which, and that they are equal.

Blocks are the children of a module, such as the layers of a transformer. Their nodes follow one another in the graph,
as many for each; what a block computes from is what the block before gives, and nothing else but its parameters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from torch import fx

from mase_hw.errors import ConfigError, UnsupportedError, suggest
from mase_hw.ir import MaseGraph
from mase_hw.ir.module_paths import paths_of
from mase_hw.ir.records import Entries
from mase_hw.nn import Quantized
from mase_hw.passes.base import Info
from mase_hw.passes.quantize.calibrate import CALIBRATED, UNITED

Result = tuple[fx.Node, str]
"""A node and the name of its result."""


@dataclass(frozen=True)
class Shared:
    """Equal blocks, one after the other.

    Args:
        path: The module whose children they are.
        copies: The nodes of every block, in the same order.
        enters: What the first block reads.
        leaves: The place of the node that a block gives, and its result.
    """

    path: str
    copies: tuple[tuple[fx.Node, ...], ...]
    enters: Result
    leaves: tuple[int, str]

    @property
    def passes(self) -> int:
        """How many blocks there are."""
        return len(self.copies)

    @property
    def results(self) -> list[Result]:
        """What every block gives."""
        place, name = self.leaves
        return [(nodes[place], name) for nodes in self.copies]

    def twins(self) -> Iterator[tuple[fx.Node, ...]]:
        """The nodes that share an instance, in the order of the blocks."""
        return zip(*self.copies, strict=True)

    def check_ends(self, what: str, read: object, given: object) -> None:
        """Refuse blocks whose result could not be what they read.

        Args:
            what: What is compared.
            read: That of what the first block reads.
            given: That of its result.

        Raises:
            UnsupportedError: If they differ.
        """
        if read != given:
            raise not_shared(
                f"blocks that share hardware give another {what} than they read",
                node=self.path,
                got=f"{given} of {self.results[0][0].name}",
                expected=f"{read} of {self.enters[0].name}",
                remedy="give both tensors one format in the table quantize",
            )


def engines(graph: MaseGraph, asked: Iterable[str] | Mapping[str, int], *, is_mapped: bool = False) -> list[Shared]:
    """The blocks that share hardware, a record for each hardware.

    Args:
        graph: A graph with common metadata.
        asked: Modules whose children are the blocks, and how many of them have hardware; one if that is not said.
        is_mapped: Whether modules and lanes of these arguments are in the metadata: they must be equal as well then.

    Raises:
        ConfigError: As :func:`shared_blocks`, or if blocks cannot be dealt out evenly.
        UnsupportedError: As :func:`shared_blocks`.
    """
    found: list[Shared] = []
    for path in asked:
        blocks, number = shared_blocks(graph, path), asked[path] if isinstance(asked, Mapping) else 1
        each, rest = divmod(blocks.passes, number)
        if rest or each < 2:
            raise ConfigError(
                "blocks that share hardware cannot be dealt out so",
                field=f"hardware.shared.{path}",
                got=f"{number}, for {blocks.passes} blocks",
                expected=f"one of {', '.join(map(str, numbers(blocks.passes)))}",
                remedy="leave the module out of hardware.shared for hardware of every block",
            )
        for first in range(0, blocks.passes, each):
            enters = blocks.results[first - 1] if first else blocks.enters
            found.append(dataclasses.replace(blocks, copies=blocks.copies[first : first + each], enters=enters))
    for twins in (of for each in found for of in each.twins() if is_mapped):
        for node in twins[1:]:
            _refuse_unequal(twins[0], node, *(_mapped_facts(graph, of) for of in (twins[0], node)))
    return found


def numbers(blocks: int) -> list[int]:
    """How many hardwares so many blocks may share, each as many in a row, the fewest first."""
    return [number for number in range(1, blocks) if blocks % number == 0]


def shared_blocks(graph: MaseGraph, path: str) -> Shared:
    """The blocks below a module.

    Args:
        graph: A graph with common metadata.
        path: Of the module, such as ``encoder.layer``.

    Raises:
        ConfigError: If there is no such module, or it has fewer than two blocks.
        UnsupportedError: If the blocks are not equal, naming the first difference.
    """
    nodes = [n for n in graph.nodes if n.op in ("call_module", "call_function", "call_method") and _computes(graph, n)]
    places: dict[str, list[int]] = {}
    for place, node in enumerate(nodes):
        if (child := _child(node, path)) is not None:
            places.setdefault(child, []).append(place)
    if len(places) < 2:
        raise ConfigError(
            "there are no blocks that could share hardware",
            field="hardware.shared",
            got=path,
            expected="the path of a module with two children or more that are used one after the other",
            remedy=suggest(path, sorted({p for node in nodes for p in _parents(node)})),
        )
    spans = sorted((min(found), max(found), child) for child, found in places.items())
    length = spans[1][0] - spans[0][0]
    for (before, _, one), (begin, end, child) in pairwise(spans):
        if begin - before != length or end - spans[0][1] != begin - spans[0][0]:
            raise _unequal(f"{path}.{child}", f"{path}.{one}", "other nodes, or nodes in another order")
    # Nodes that no module contains may stand before or behind those that say where they are from.
    first = None
    for begin in range(spans[0][0], spans[0][1] - length, -1):
        copies = [nodes[begin + i * length : begin + (i + 1) * length] for i in range(len(spans))]
        if begin < 0 or len(copies[-1]) < length:
            continue
        try:
            return _verified(graph, path, tuple(map(tuple, copies)))
        except UnsupportedError as error:
            first = first or error
    assert first is not None, "the blocks begin where the first of their nodes is"
    raise first


def _computes(graph: MaseGraph, node: fx.Node) -> bool:
    return graph.op_of(node) is not None and graph.meta_of(node).common.mase_op != "quantize"


def _parents(node: fx.Node) -> list[str]:
    return [path.rpartition(".")[0] for path in paths_of(node) if "." in path]


def _child(node: fx.Node, path: str) -> str | None:
    """Below which child of a module a node is."""
    below = (each.removeprefix(f"{path}.") for each in paths_of(node) if each.startswith(f"{path}."))
    return next((each.partition(".")[0] for each in below), None)


def _verified(graph: MaseGraph, path: str, copies: tuple[tuple[fx.Node, ...], ...]) -> Shared:
    where = {node: (number, place) for number, nodes in enumerate(copies) for place, node in enumerate(nodes)}
    crossing: set[tuple[int, str]] = set()
    entering: set[Result] = set()
    for number, nodes in enumerate(copies):
        for place, node in enumerate(nodes):
            _same(graph, copies[0][place], node)
            ours, theirs = graph.sources(copies[0][place]), graph.sources(node)
            if ours.keys() != theirs.keys():
                raise _unequal(node.name, copies[0][place].name, f"inputs {', '.join(theirs)}")
            for arg, (source, result) in theirs.items():
                twin = ours[arg]
                if source.op == twin[0].op == "get_attr":
                    continue  # a parameter
                at = where.get(source)
                if at is not None and at[0] == number:
                    if where.get(twin[0]) != (0, at[1]) or twin[1] != result:
                        raise _unequal(f"{node.name}.{arg}", f"{copies[0][place].name}.{arg}", f"{source.name}")
                    continue
                if twin[0] in where or (number and (at is None or at[0] != number - 1)):
                    raise _outside(node, source, path)
                if number:
                    crossing.add((at[1], result) if at is not None else (-1, result))
                else:
                    entering.add((source, result))
    if len(entering) != 1 or len(crossing) != 1:
        several = sorted({f"{n.name}.{r}" for n, r in entering} | {f"{copies[0][p].name}.{r}" for p, r in crossing})
        raise not_shared(
            "blocks that share hardware read several values of what is before them",
            node=path,
            got=", ".join(several),
            expected="one, which the block before gives; all else a parameter",
            remedy="compute the others inside the block, or store them as constants of it",
        )
    ((place, name),) = crossing
    for number, nodes in enumerate(copies):
        for node in nodes:
            for user in node.users:
                at = where.get(user)
                inside = at is not None and at[0] == number
                leaves = node is nodes[place]
                behind = at is None if number == len(copies) - 1 else at is not None and at[0] == number + 1
                if not inside and not (leaves and behind):
                    raise _outside(user, node, path)
                if inside and leaves:
                    raise _outside(user, node, path)
    return Shared(path, copies, entering.pop(), (place, name))


def _same(graph: MaseGraph, first: fx.Node, node: fx.Node) -> None:
    """Refuse a node that is another operation, or of other shapes, or, once they are chosen, of other formats."""
    ops = [graph.op_of(each) for each in (first, node)]
    names = [op.name if op is not None else "" for op in ops]
    if names[0] != names[1]:
        raise _unequal(node.name, first.name, f"{names[1]} in place of {names[0]}")
    _refuse_unequal(first, node, _facts(graph, first), _facts(graph, node))


def _refuse_unequal(first: fx.Node, node: fx.Node, ours: Entries, theirs: Entries) -> None:
    for what in sorted({*ours, *theirs}):
        if ours.get(what) != theirs.get(what):
            raise _unequal(f"{node.name}.{what}", f"{first.name}.{what}", f"{theirs.get(what)}, not {ours.get(what)}")


def _facts(graph: MaseGraph, node: fx.Node) -> Entries:
    """What must be equal of two nodes, by name."""
    meta = graph.meta_of(node)
    tensors = {**meta.common.args.tensors, **meta.common.results.tensors}
    found: Entries = {f"shape of {name}": list(tensor.shape) for name, tensor in tensors.items()}
    if isinstance(meta.module, Quantized):
        arithmetic = meta.module.arithmetic
        found |= {f"format of {name}": str(fmt) for name, fmt in arithmetic.formats.items()}
        found |= {"rounding": arithmetic.rounding, "overflow": arithmetic.overflow}
    return found


def _mapped_facts(graph: MaseGraph, node: fx.Node) -> Entries:
    """The same of the hardware that was chosen."""
    hardware = graph.meta_of(node).hardware
    ends = {"order of elements": hardware.layouts, "lanes": hardware.parallelism}
    return {**hardware.verilog_param, **ends} if hardware.module else {}


def not_shared(message: str, *, node: str, got: str, expected: str, remedy: str) -> UnsupportedError:
    """The refusal of blocks that cannot share hardware."""
    return UnsupportedError(message, node=node, field="hardware.shared", got=got, expected=expected, remedy=remedy)


def _unequal(got: str, first: str, what: str) -> UnsupportedError:
    return not_shared(
        "blocks that share hardware are not equal",
        node=got,
        got=what,
        expected=f"the same as of {first}",
        remedy="give them the same configuration, or hardware of their own",
    )


def _outside(reader: fx.Node, source: fx.Node, path: str) -> UnsupportedError:
    return not_shared(
        "a value goes past blocks that share hardware",
        node=path,
        got=f"{reader.name} reads {source.name}",
        expected="each block to read what the block before gives, and nothing else",
        remedy="compute it inside the block, or let the blocks have hardware of their own",
    )


def unite_ranges(graph: MaseGraph, paths: Iterable[str]) -> tuple[MaseGraph, Info]:
    """Give tensors that share hardware one observed range, which holds that of every block, so that formats are equal.

    The ends of the observed values are all that is kept, whatever the method of the calibration was. What enters the
    first block is one tensor with what every block gives.

    Args:
        graph: A calibrated graph.
        paths: As for :func:`shared_blocks`.
    """
    for path in paths:
        _unite_below(graph, shared_blocks(graph, path))
    return graph, {}


def _unite_below(graph: MaseGraph, shared: Shared) -> None:
    boundary: list[Entries] = []
    for end in (shared.enters, *shared.results):
        for node, name in _formed(graph, *end):
            boundary += _entries(graph.meta_of(node).software.results, name)
            for user, arg in graph.consumers(node, name):
                boundary += _entries(graph.meta_of(user).software.args, arg)
    _unite(boundary)
    within = {id(entry) for entry in boundary}
    for twins in shared.twins():
        branches = [graph.meta_of(node).software for node in twins]
        for side in ("args", "results"):
            for name in getattr(branches[0], side):
                entries = [entry for each in branches for entry in _entries(getattr(each, side), name)]
                if not any(id(entry) in within for entry in entries):
                    _unite(entries)


def _formed(graph: MaseGraph, node: fx.Node, name: str) -> Iterator[Result]:
    """A result, and those before it from which its format follows: a relu gives that of its input."""
    yield node, name
    op, sources = graph.op_of(node), graph.sources(node)
    if op is not None and (op.implicit or op.default_out is not None) and "data_in_0" in sources:
        yield from _formed(graph, *sources["data_in_0"])


def _entries(branch: Entries, name: str) -> list[Entries]:
    found = branch.get(name, {})
    return [found] if CALIBRATED in found else []


def _unite(entries: list[Entries]) -> None:
    found = [entry[CALIBRATED] for entry in entries]
    if found:
        ends = {"min": min(each["min"] for each in found), "max": max(each["max"] for each in found)}
        for entry in entries:
            entry[CALIBRATED] = {
                "method": "min_max",
                "count": sum(each["count"] for each in found),
                UNITED: True,
                **ends,
            }
