"""Drawing a token: one of ``k`` candidates, by their weights and by random numbers that are the same everywhere.

The random number ``r`` of the token at position ``t`` of a sequence is the upper 16 of the 32 bits of a generator
after ``t + 1`` steps from its seed: xorshift32 of G. Marsaglia ("Xorshift RNGs", Journal of Statistical Software 8,
2003), a step of which is ``x ^= x << 13; x ^= x >> 17; x ^= x << 5``. Of weights ``w``, which are integers, the first
candidate is drawn whose running sum exceeds ``floor(r * sum(w) / 2**16)``: each with a probability that is
proportional to its weight to within ``2**-16``, and one without weight never, unless all are.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Params, Tensor3, port
from mase_hw.nn.streaming import AFTER, BEFORE
from mase_hw.numerics import as_carrier, carrier, magnitude
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._slots import SLOT, interleaved, positions, slot_port, slots_of
from mase_hw.ops._tensors import lanes_within
from mase_hw.steps import Steps

RANDOM_BITS = 16
"""Of a random number."""
_STATE = (1 << 32) - 1


class DrawParams(Params, frozen=True):
    """Parameters of ``fixed_draw``: weights and candidates, one after the other for every token; the seed."""

    data_in_0: Tensor3
    data_in_1: Tensor3
    slot: Tensor3
    data_out_0: Tensor3
    seed: int
    has_slot: bool

    def attributes(self) -> Attributes:
        """What the random numbers depend on."""
        return {"seed": self.seed, "slots": slots_of(self.slot.fmt)}


def random_numbers(seed: int, count: int) -> list[int]:
    """Those of the first tokens of a sequence."""
    found, x = [], seed
    for _ in range(count):
        x ^= x << 13 & _STATE
        x ^= x >> 17
        x ^= x << 5 & _STATE
        found.append(x >> (32 - RANDOM_BITS))
    return found


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights ``data_in_0 (N, T, k)`` and candidates ``data_in_1`` -> ``data_out_0 (N, T)``."""
    weights, candidates = t["data_in_0"].to(torch.int64), t["data_in_1"].to(torch.int64)
    tokens = weights.shape[1]
    numbers = torch.tensor(random_numbers(int(a.attributes["seed"]), tokens), device=weights.device)
    handed: dict[str, Tensor] = {}
    if SLOT in t:
        before = t[BEFORE].tolist() if BEFORE in t else ()
        places, following = positions(t[SLOT], a.attributes["slots"], tokens, before)
        numbers = numbers[[position for _, position in places]]
        handed[AFTER] = torch.tensor(following)
    sums = weights.cumsum(-1)
    threshold = numbers[:, None] * sums[..., -1:] >> RANDOM_BITS
    # Where all weights are 0 no sum exceeds it, and the last candidate is taken.
    first = (sums <= threshold).sum(-1, keepdim=True).clamp(max=weights.shape[-1] - 1)
    found = candidates.gather(-1, first).squeeze(-1)
    return {"data_out_0": as_carrier(found, carrier(magnitude(a.formats["data_out_0"]))), **handed}


def _build(r: Request) -> DrawParams:
    formats, shape = r.arithmetic.formats, r.shapes["data_in_0"]
    weights, candidates, out = (formats[name] for name in ("data_in_0", "data_in_1", "data_out_0"))
    if len(shape) != 3 or shape[0] != 1 or weights.signed or weights.width > 24 or candidates != out:
        raise UnsupportedError(
            "a token is drawn from candidates by their weights",
            node=r.node,
            got=f"weights {list(shape)} of {weights}, candidates of {candidates}, drawn ones of {out}",
            expected="one sequence of tokens, weights without a sign of up to 24 bits, one format of candidates",
        )
    for name, lanes in r.parallelism.items():  # no more than one is used
        if name in r.shapes:
            lanes_within(r.node, name, lanes, r.shapes[name])
    return DrawParams(
        data_in_0=port(shape, weights, 1),
        data_in_1=port(shape, candidates, 1),
        slot=slot_port(r.slots, shape[1]),
        data_out_0=port(shape[1:2], out, 1),
        seed=int(r.arithmetic.attributes["seed"]),
        has_slot=r.slots > 1,
    )


def _latency(p: DrawParams) -> Latency:
    """A step takes a candidate, one makes the threshold, and then one looks at each candidate again."""
    count, tokens = p.data_in_0.size[0], p.data_in_0.size[1]
    begin = np.arange(tokens, dtype=np.int64) * (2 * count + 1)
    taken = (begin[:, None] + np.arange(count)).reshape(-1)
    return Latency.from_steps(
        Steps.at(
            tokens * (2 * count + 1), needed=(taken, taken), freed=(taken, taken), emitted=begin + 2 * count,
            delay=(0, 0), room=(0, 0), pipe=1, queue=1, queue_lag=0,
        )
    )  # fmt: skip


def _case(name: str, tokens: int, count: int, formats: str, seed: int, slots: int = 1) -> Case:
    names, frames = ("data_in_0", "data_in_1", "data_out_0"), 8
    a = Arithmetic.read(formats, names, {"seed": seed})
    shapes = {"data_in_0": (1, tokens, count), "data_in_1": (1, tokens, count), "data_out_0": (1, tokens)}
    given = {SLOT: interleaved(frames * tokens, slots)} if slots > 1 else {}
    return Case(name, _build(Request(name, a, shapes, {}, slots=slots)), frames, given=given)


OPS = (
    OpDef(
        name="draw",
        mase_type="builtin_func",
        attributes=("seed",),
        golden=golden,
        hardware=Hardware(
            module="fixed_draw",
            params=DrawParams,
            build=_build,
            latency=_latency,
            cases=lambda: [
                _case("five", 6, 5, "u16.16 u7.0 u7.0", 1),
                _case("two", 3, 2, "u3.3 u8.0 u8.0", 0x5EADBEEF),
                _case("one", 4, 1, "u8.8 s4.0 s4.0", 7),
                _case("slots", 5, 3, "u12.12 u6.0 u6.0", 0x12345678, slots=4),
            ],
            static=(SLOT,),
            layout="row_major",
        ),
    ),
)
