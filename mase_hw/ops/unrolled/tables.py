"""Forests of decision trees, and layers of truth tables: modules of their own, or parts of a whole frame per beat.

By itself an op is a frame of one step. A threshold is rounded down to the grid of the input: a value of the grid is at
most the one exactly if it is at most the other. See :mod:`mase_hw.nn.tables`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.formats.attributes import Attributes, attributes_of
from mase_hw.nn.tables import Forest, TableLayer, Tree, codes_of, forest_format, grown, look_up, reached
from mase_hw.numerics import as_carrier, carrier, cast, magnitude
from mase_hw.opdef import Arithmetic, Case, Generated, Golden, Hardware, OpDef, Request
from mase_hw.ops.unrolled import frame
from mase_hw.ops.unrolled._network import Program, Step
from mase_hw.ops.unrolled._tables import limits
from mase_hw.ops.unrolled.unrolled import TEMPLATE

FOREST, TABLES = "forest", "tables"


def forest(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 (..., features)`` -> ``data_out_0 (..., results)``: the leaves that are reached, added exactly."""
    trees, x = a.attributes["trees"], t["data_in_0"]
    found = [limits(tree, a.formats["data_in_0"]) for tree in trees]
    total = grown(trees, a.attributes["base_leaf"], reached(trees, x.reshape(-1, x.shape[-1]), found))
    return {"data_out_0": as_carrier(total.reshape(*x.shape[:-1], -1), carrier(magnitude(a.formats["data_out_0"])))}


@functools.lru_cache(maxsize=32)
def _tensor(rows: tuple[tuple[int, ...], ...]) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64)


def tables(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 (..., in)``, cast to the format of the tables, -> ``data_out_0 (..., out)``: words of all tables."""
    x, fmt = t["data_in_0"], a.attributes["formats"]["data"]
    codes = codes_of(cast(x, a.formats["data_in_0"].frac_width, fmt), fmt.min_mantissa)
    sources, words = (
        _tensor(rows).to(x.device) for rows in (a.attributes["table_sources"], a.attributes["table_words"])
    )
    found = look_up(codes.reshape(-1, x.shape[-1]), fmt.width, sources, words).reshape(*x.shape[:-1], -1)
    return {"data_out_0": as_carrier(found, carrier(magnitude(a.formats["data_out_0"])))}


def words_format(formats: Mapping[str, FixedFormat], sizes: Sequence[int], attributes: Attributes) -> FixedFormat:
    """That of the words, whatever comes."""
    return attributes["formats"]["words"]


def _sums(formats: Mapping[str, FixedFormat], sizes: Sequence[int], attributes: Attributes) -> FixedFormat:
    return forest_format(attributes)


def _whole(name: str, a: Arithmetic, sizes: Mapping[str, int], levels: int) -> Arithmetic:
    """The arithmetic of a frame of one step."""
    step = Step(name, _OF[name], a, {}, (0,), (1, sizes["data_out_0"]))
    program = Program((1, sizes["data_in_0"]), a.formats["data_in_0"], (step,), levels)
    return Arithmetic(a.formats, attributes=attributes_of({"program": program}))


def _build(name: str, r: Request) -> frame.FrameParams:
    sizes = {tensor: torch.Size(shape).numel() for tensor, shape in r.shapes.items()}
    if r.shapes["data_in_0"][-1] != sizes["data_in_0"]:
        raise UnsupportedError(
            "tables and trees of several rows are no module by themselves",
            node=r.node,
            field="shape",
            got=list(r.shapes["data_in_0"]),
            expected="one row",
            remedy='set hardware.unroll = "frame", which makes one module of the network',
        )
    whole = _whole(name, r.arithmetic, sizes, r.levels)
    shapes = {tensor: (1, size) for tensor, size in sizes.items()}
    return frame.build(Request(r.node, whole, shapes, {}))


def _generated(name: str, node: str, p: frame.FrameParams, a: Arithmetic) -> Generated:
    sizes = {"data_in_0": p.data_in_0.size[0], "data_out_0": p.data_out_0.size[0]}
    return frame.generated(node, p, _whole(name, a, sizes, p.levels))


def _forest_cases() -> tuple[Case, ...]:
    # Depths 1 to 4; a threshold on the grid, ones between and beyond it, and a comparison that is known already.
    small = Tree((1, -1, -1), (2.0, 0, 0), (1, 1, 2), (2, 1, 2), ((0, 0), (3, -1), (-4, -1)))
    inner = {0: (1, 2), 1: (3, 4), 2: (5, 6), 3: (7, 8), 6: (9, 10), 7: (11, 12), 9: (13, 14)}
    feature = tuple(n % 3 if n in inner else -1 for n in range(15))
    threshold = tuple(n * 1.3 - 4 for n in range(15))
    left, right = (tuple(inner[n][side] if n in inner else n for n in range(15)) for side in (0, 1))
    leaf = tuple((0, 0) if n in inner else (n * 5 % 11 - 5, n * 3 % 7) for n in range(15))
    deep = Tree(feature, threshold, left, right, leaf)
    whole = _complete(4, 3)
    several = {"trees": (small, deep, whole), "base_leaf": (1, -2), "leaf_frac": 2}
    one = {"trees": (whole,), "base_leaf": (0, 0), "leaf_frac": 0}
    return _case(FOREST, "several", "s5.1", 3, several), _case(FOREST, "one_tree", "u3.0", 3, one, levels=1)


def _complete(depth: int, features: int) -> Tree:
    """A tree whose leaves all have one depth."""
    inner, count = (1 << depth) - 1, (1 << (depth + 1)) - 1
    feature = tuple(n * 7 % features if n < inner else -1 for n in range(count))
    threshold = tuple(float(n * 5 % 7) - 1.0 for n in range(count))
    left = tuple(2 * n + 1 if n < inner else n for n in range(count))
    right = tuple(2 * n + 2 if n < inner else n for n in range(count))
    leaf = tuple((n * 11 % 13 - 6, n * 7 % 9) if n >= inner else (0, 0) for n in range(count))
    return Tree(feature, threshold, left, right, leaf)


def _table_cases() -> tuple[Case, ...]:
    draw = torch.Generator().manual_seed(0)

    def layer(bits: str, words: str, fan_in: int, out: int, inputs: int) -> dict[str, Any]:
        formats = Arithmetic.read(f"{bits} {words}", ("data", "words")).formats
        sources = torch.randint(inputs, (out, fan_in), generator=draw)
        ends = formats["words"].min_mantissa, formats["words"].max_mantissa + 1
        content = torch.randint(*ends, (out, 1 << (fan_in * formats["data"].width)), generator=draw)
        content[0] = content[0, 0]  # no table at all
        rows = {"table_sources": sources, "table_words": content}
        return {"formats": formats, **{name: tuple(map(tuple, t.tolist())) for name, t in rows.items()}}

    return (
        _case(TABLES, "signed", "s2.1", 5, layer("s2.1", "s3.0", 3, 7, 5)),
        _case(TABLES, "gates", "u1.0", 6, layer("u1.0", "u1.0", 2, 8, 6), levels=1),
        _case(TABLES, "rounded", "s6.3", 4, layer("u3.1", "s4.2", 2, 5, 4)),
    )


def _case(op: str, name: str, fmt: str, inputs: int, attributes: Mapping[str, Any], levels: int = 3) -> Case:
    given = Arithmetic.read(fmt, ("data_in_0",), attributes)
    out = words_format if op == TABLES else _sums
    formats = {**given.formats, "data_out_0": out(given.formats, (1, inputs), given.attributes)}
    results = len(attributes["base_leaf"] if op == FOREST else attributes["table_words"])
    shapes = {"data_in_0": (1, inputs), "data_out_0": (1, results)}
    a = Arithmetic(formats, attributes=given.attributes)
    return Case(name, _build(op, Request(name, a, shapes, {}, levels=levels)), 12, attributes=given.attributes)


def _hardware(name: str, cases: Callable[[], tuple[Case, ...]]) -> Hardware:
    return Hardware(
        module="fixed_frame",
        file=TEMPLATE,
        params=frame.FrameParams,
        build=functools.partial(_build, name),
        latency=frame.latency,
        cases=cases,
        generated=functools.partial(_generated, name),
        layout="row_major",
        whole=True,
        levels=3,
    )


def _op(
    name: str, module: type[torch.nn.Module], attributes: tuple[str, ...], golden: Golden, out: Any, cases: Any
) -> OpDef:
    return OpDef(
        name=name,
        mase_type="module",
        modules=(module,),
        attributes=attributes,
        golden=golden,
        exact_out=out,
        hardware=_hardware(name, cases),
    )


OPS = (
    _op(FOREST, Forest, ("trees", "base_leaf", "leaf_frac"), forest, _sums, _forest_cases),
    _op(TABLES, TableLayer, ("table_sources", "table_words", "formats"), tables, words_format, _table_cases),
)
_OF = {op.name: op for op in OPS}
