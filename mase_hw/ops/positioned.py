"""Ids with the positions of their tokens: the number of a row in a table that has rows for every position."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, format_of_places
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Params, Tensor3, port
from mase_hw.nn.streaming import AFTER, BEFORE
from mase_hw.numerics import as_carrier, carrier, magnitude
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._slots import SLOT, interleaved, positions, slot_port, slots_of
from mase_hw.ops._tensors import lanes_within
from mase_hw.steps import Steps


def positioned(input: Tensor, size: int) -> Tensor:
    """``input + size * position`` of every token.

    Args:
        input: Ids ``(batch, tokens)``, from 0 to ``size - 1``.
        size: Rows for each position, a power of two: what the bits of an id can name.
    """
    if has_torch_function((input,)):  # tracing records one call
        result: Tensor = handle_torch_function(positioned, (input,), input, size)
        return result
    return input + size * torch.arange(input.shape[-1], device=input.device)


class PositionedParams(Params, frozen=True):
    """Parameters of ``fixed_positioned``."""

    data_in_0: Tensor3
    slot: Tensor3
    data_out_0: Tensor3
    has_slot: bool

    def attributes(self) -> Attributes:
        """What the result depends on besides the ids."""
        own: Attributes = {"size": 1 << self.data_in_0.fmt.width}
        return {**own, "slots": slots_of(self.slot.fmt)} if self.has_slot else own


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 (N, T)`` -> ``data_out_0 (N, T)``."""
    ids, rows = t["data_in_0"], int(a.attributes["size"])
    places = torch.arange(ids.shape[-1], device=ids.device)
    handed: dict[str, Tensor] = {}
    if SLOT in t:
        before = t[BEFORE].tolist() if BEFORE in t else ()
        found, following = positions(t[SLOT], a.attributes["slots"], ids.shape[-1], before)
        places = torch.tensor([position for _, position in found], device=ids.device)
        handed[AFTER] = torch.tensor(following)
    numbers = ids + rows * places.to(ids.dtype)
    return {"data_out_0": as_carrier(numbers, carrier(magnitude(a.formats["data_out_0"]))), **handed}


def _format(formats: Mapping[str, FixedFormat], shape: Sequence[int], attributes: Attributes) -> FixedFormat:
    return format_of_places(int(attributes["size"]) * shape[-1])


def _build(r: Request) -> PositionedParams:
    formats, shape = r.arithmetic.formats, r.shapes["data_in_0"]
    ids, rows = formats["data_in_0"], int(r.arithmetic.attributes["size"])
    if math.prod(shape[:-1]) != 1 or ids.signed or ids.frac_width or rows != 1 << ids.width:
        raise UnsupportedError(
            "positions are those of one sequence of ids, which have rows for all that their bits can name",
            node=r.node,
            got=f"ids {list(shape)} of {ids}, {rows} rows",
            expected="(1, tokens), unsigned integers, a row for each",
            remedy="let tabulate_transform_pass make the node, and give ids no other format",
        )
    for name, lanes in r.parallelism.items():  # no more than one is used
        if name.startswith("data"):
            lanes_within(r.node, name, lanes, shape)
    return PositionedParams(
        data_in_0=port(shape, ids, 1),
        slot=slot_port(r.slots, shape[-1]),
        data_out_0=port(shape, _format(formats, shape, r.arithmetic.attributes), 1),
        has_slot=r.slots > 1,
    )


def _case(name: str, tokens: int, bits: int, slots: int = 1, frames: int = 4) -> Case:
    a = Arithmetic({"data_in_0": FixedFormat(bits, 0, signed=False)}, attributes=Attributes(size=1 << bits))
    given = {SLOT: interleaved(frames * tokens, slots)} if slots > 1 else {}
    request = Request(name, a, {"data_in_0": (1, tokens)}, {}, slots=slots)
    return Case(name, _build(request), frames, given=given)


OPS = (
    OpDef(
        name="positioned",
        mase_type="builtin_func",
        functions=(positioned,),
        attributes=("size",),
        golden=golden,
        formats=("data_in_0",),
        places=lambda _, attributes: int(attributes["size"]),
        exact_out=_format,
        hardware=Hardware(
            module="fixed_positioned",
            params=PositionedParams,
            build=_build,
            latency=lambda p: Latency.from_steps(Steps.registered(p.data_in_0.beats)),
            cases=lambda: [
                _case("five", 5, 3),
                _case("one", 1, 4),
                _case("sixteen", 16, 1),
                _case("slots", 5, 3, slots=4, frames=8),
            ],
            static=(SLOT,),
            layout="row_major",
        ),
    ),
)
