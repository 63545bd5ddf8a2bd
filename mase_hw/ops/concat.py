"""Concatenation: tensors one after the other, each cast once to the format of the result."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, Params, Pixels, port
from mase_hw.layouts import Layout
from mase_hw.numerics import cast
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._cases import case
from mase_hw.ops._scaled import SELECTION
from mase_hw.ops._tensors import lanes_within, positions_of
from mase_hw.steps import Steps

MOST = 4
"""Inputs that the module has ports for."""


class ConcatParams(Params, frozen=True):
    """Parameters of ``fixed_concat``; the inputs from ``inputs`` on are not used."""

    inputs: int
    data_in_0: Pixels
    data_in_1: Pixels
    data_in_2: Pixels
    data_in_3: Pixels
    data_out_0: Pixels
    cast: Cast

    def attributes(self) -> Attributes:
        """The dimension, of blocks with their innermost size in the middle."""
        return {"dim": 1 if self.data_out_0.size[0] != self.data_in_0.size[0] else 2}


def cat_exactly(tensors: Sequence[Tensor], dim: int) -> Tensor:
    """A concatenation that loses nothing: a part of one of more tensors than the module has ports.

    Args:
        tensors: 2 to ``MOST`` of them.
        dim: Dimension, not negative.
    """
    return torch.cat(list(tensors), dim)


def _inputs(names: Mapping[str, object]) -> list[str]:
    return [name for name in (f"data_in_{k}" for k in range(len(names))) if name in names]


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_k``, of equal shapes but for dimension ``dim`` -> ``data_out_0``."""
    out = a.formats["data_out_0"]
    parts = [cast(t[n], a.formats[n].frac_width, out, a.rounding, a.overflow) for n in _inputs(t)]
    return {"data_out_0": torch.cat(parts, dim=a.attributes.get("dim", 0))}


def blocks(layout: Layout, dim: int, sizes: Sequence[int]) -> list[tuple[int, int, int]]:
    """Parts of a tensor as (rounds, what a round takes further out, innermost size) of its stream.

    Args:
        layout: Order of the whole.
        dim: Dimension of the concatenation, not negative.
        sizes: Of the parts along it.
    """
    beside = layout.beside
    factors = [layout.factors[i] for i in layout.order]
    place = layout.order.index(layout.factors_of(dim)[0])
    outer, (*within, inner) = factors[:place], factors[place : len(factors) - (beside > 1)]
    rounds = math.prod(outer)
    if not within:
        return [(rounds, beside, size) for size in sizes]
    whole = math.prod(within) * beside
    return [(rounds, whole * size // layout.shape[dim], inner) for size in sizes]


def _build(r: Request) -> ConcatParams:
    names = _inputs(r.shapes)
    if not 2 <= len(names) <= MOST:
        raise UnsupportedError(
            "a concatenation of that many tensors is not in hardware",
            node=r.node,
            got=len(names),
            expected=f"2 to {MOST}",
            remedy="concatenate in two steps",
        )
    shape = list(r.shapes["data_in_0"])
    dim = r.arithmetic.attributes.get("dim", 0) % len(shape)
    sizes = [r.shapes[name][dim] for name in names]
    shape[dim] = sum(sizes)
    made = r.layouts.get("data_out_0") or Layout.tiled(shape, positions_of(r)[0])
    beside, (joined, *parts) = made.beside, blocks(made, dim, [shape[dim], *sizes])
    shapes = dict(zip(names, parts, strict=True))
    lanes = min(lanes_within(r.node, n, r.parallelism[n], s) for n, s in {**shapes, "data_out_0": joined}.items())
    while joined[2] != parts[0][2] and any(s[2] % lanes for s in parts[:-1]):
        lanes -= 1
    idle = port((1, 1, 1), FixedFormat(1, 0, signed=False), 1)
    taken = {name: port(shapes[name], r.arithmetic.formats[name], lanes, beside) for name in names}
    return ConcatParams(
        inputs=len(names),
        **{f"data_in_{k}": taken.get(f"data_in_{k}", idle) for k in range(MOST)},
        data_out_0=port(joined, r.arithmetic.formats["data_out_0"], lanes, beside),
        cast=r.arithmetic.modes,
    )


def _latency(p: ConcatParams) -> Latency:
    *inputs, out = p.streams()
    each = [s.tiles[0] * s.tiles[1] for s in inputs]
    starts = np.cumsum([0, *each])
    taken = []
    for k, beats in enumerate(each):
        rounds = np.arange(out.tiles[2], dtype=np.int64)[:, None] * starts[-1]
        taken.append((rounds + starts[k] + np.arange(beats, dtype=np.int64)[None]).reshape(-1))
    none = (0,) * len(inputs)
    every = np.arange(out.beats, dtype=np.int64)
    return Latency.from_steps(
        Steps.at(out.beats, needed=taken, freed=taken, emitted=every, delay=none, room=none, pipe=1, queue=2)
    )


def _default(formats: Mapping[str, FixedFormat]) -> FixedFormat:
    """The range of all inputs in the bits of the widest."""
    parts = [formats[name] for name in _inputs(formats)]
    signed = any(f.signed for f in parts)
    integer = max(f.width - f.frac_width - int(f.signed) for f in parts)
    width = max(f.width + int(signed and not f.signed) for f in parts)
    frac = min(max(f.frac_width for f in parts), width - integer - int(signed))
    return FixedFormat(integer + frac + int(signed), frac, signed)


def holding_all(formats: Mapping[str, FixedFormat]) -> FixedFormat:
    """The narrowest format that holds every value of all inputs."""
    parts = [formats[name] for name in _inputs(formats)]
    signed, frac = any(f.signed for f in parts), max(f.frac_width for f in parts)
    integer = max(f.width - f.frac_width - int(f.signed) for f in parts)
    return FixedFormat(integer + frac + int(signed), frac, signed)


def _case(
    name: str, shapes: Sequence[tuple[int, int, int]], dim: int, lanes: int, formats: str, positions: int = 1
) -> Case:
    """Of blocks ``(rounds, further out, innermost)``, as they travel."""
    sizes = {f"data_in_{k}": (rounds, inner, outer) for k, (rounds, outer, inner) in enumerate(shapes)}
    names = (*sizes, "data_out_0")
    where = {1: 2, 2: 1}[dim]
    return case(_build, name, sizes, dict.fromkeys(names, lanes), formats, names, 5, dim=where, positions=positions)


def _cases() -> list[Case]:
    return [
        _case("channels", [(6, 1, 4), (6, 1, 8)], 2, 4, "s8.4 s8.6 s8.4"),
        _case("pad_at_the_end", [(3, 1, 4), (3, 1, 7)], 2, 2, "s8.4 u6.3 s8.4 half_up wrap"),
        _case("three", [(2, 1, 3), (2, 1, 6), (2, 1, 4)], 2, 3, "s8.4 s8.4 u6.3 s9.5"),
        _case("four_serial", [(3, 1, 1), (3, 1, 2), (3, 1, 1), (3, 1, 3)], 2, 1, "s2.0 s2.0 s2.0 s2.0 s2.0"),
        _case("outer", [(2, 3, 5), (2, 1, 5)], 1, 2, "s8.4 s8.6 s10.6"),
        _case("three_rows", [(2, 1, 2), (2, 3, 2), (2, 2, 2)], 1, 2, "s2.0 s2.0 s2.0 s2.0"),
        _case("one_after_the_other", [(1, 4, 3), (1, 2, 3)], 1, 3, "s16.9 s8.4 s12.5"),
        _case("two_positions", [(2, 6, 4), (2, 6, 3)], 2, 2, "s8.4 s8.6 s8.4", 2),
        _case("four_positions_outer", [(2, 4, 3), (2, 8, 3)], 1, 2, "s8.4 s8.6 s10.6", 4),
    ]


def _positions(attributes: Attributes, shapes: Mapping[str, tuple[int, ...]], arriving: int, _: int) -> tuple[int, int]:
    """As many as arrive, where they divide the widths of all inputs."""
    beside = math.gcd(arriving, *(shapes[name][-1] for name in _inputs(shapes))) if arriving > 1 else 1
    return beside, beside


_HARDWARE = Hardware(
    module="fixed_concat",
    params=ConcatParams,
    build=_build,
    latency=_latency,
    cases=_cases,
    layout="channels_last",
    positions=_positions,
    joined=lambda attributes: int(attributes.get("dim", 0)),
)
_FORMATS = (*(f"data_in_{k}" for k in range(MOST)), "data_out_0")

OPS = (
    OpDef(
        name="cat",
        mase_type="implicit_func",
        functions=(torch.cat, torch.concat, torch.concatenate),
        golden=golden,
        formats=_FORMATS,
        default_out=_default,
        scaled=SELECTION,
        hardware=_HARDWARE,
    ),
    OpDef(
        name="cat_part",
        mase_type="implicit_func",
        functions=(cat_exactly,),
        golden=golden,
        formats=_FORMATS,
        default_out=holding_all,
        hardware=dataclasses.replace(_HARDWARE, cases=lambda: _cases()[-1:]),
    ),
)
