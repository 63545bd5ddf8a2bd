"""Sequences in turn: tokens of several sequences through one design, each of which has a slot.

A *slot* is a place for one sequence: its rows of keys and values, and its position. The port ``slot`` of an op says
of every token whose it is: the low bits are the number of the slot, and the high bit begins the sequence in it anew.
Behind as many tokens as the slot has rows, and after a reset, a sequence begins anew as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.hardware.params import Port, port
from mase_hw.nn.streaming import BEFORE
from mase_hw.streams import IntArray

SLOT = "slot"
"""Name of the port, which has a beat for every token."""
AHEAD = 15
"""Most tokens whose rows are written before they are read."""


def not_in_turn(message: str, *, node: str | None, got: str, expected: str) -> UnsupportedError:
    """The refusal of what sequences in turn cannot have."""
    remedy = "leave decode.slots out"
    return UnsupportedError(message, node=node, field="decode.slots", got=got, expected=expected, remedy=remedy)


def slot_format(slots: int) -> FixedFormat:
    """The format of the port, of so many slots: a power of two, at least 2."""
    return FixedFormat((slots - 1).bit_length() + 1, 0, signed=False)


def slot_port(slots: int, tokens: int) -> Port:
    """The port of a module; of one slot a smallest one that carries no stream."""
    return port((1, tokens if slots > 1 else 1), slot_format(max(slots, 2)), 1)


def slots_of(fmt: FixedFormat) -> int:
    """How many slots a format names."""
    return 1 << (fmt.width - 1)


def code(slot: int, begins: bool, slots: int) -> int:
    """What the port carries for a token of a slot, of so many, with which a sequence begins or goes on."""
    return slot + (slots if begins else 0)


def sequences(count: int, tokens: int, slots: int) -> IntArray:
    """What the port carries of so many whole sequences, each in the next slot, ``(count, 1, tokens)``."""
    whole = [[code(number % slots, token == 0, slots) for token in range(tokens)] for number in range(count)]
    return np.array(whole, np.int64)[:, None]


def interleaved(count: int, slots: int) -> list[int]:
    """What the port carries of so many tokens in any slots; a sequence begins with every tenth or so."""
    rng = np.random.default_rng(slots)
    return [code(int(rng.integers(slots)), rng.random() < 0.1, slots) for _ in range(count)]


def positions(
    given: Tensor, slots: int, rows: int, before: Sequence[int] = ()
) -> tuple[list[tuple[int, int]], list[int]]:
    """Slot and position of every token.

    Args:
        given: What the port carries.
        slots: How many there are.
        rows: Tokens of a sequence at most.
        before: Of every slot the position of the next token; 0 if nothing is given.

    Returns:
        Slots and positions in the order of tokens, and the position of the next token of every slot.
    """
    following, found = list(before) or [0] * slots, []
    for code in given.reshape(-1).to(torch.int64).tolist():
        slot = code % slots
        position = 0 if code >= slots else following[slot]
        following[slot] = (position + 1) % rows
        found.append((slot, position))
    return found, following


def caches(rows: Tensor, given: Tensor, slots: int, count: int, t: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """What every token sees.

    Args:
        rows: One row of every token, ``(tokens, *)``.
        given: What the port carries.
        slots: How many there are.
        count: Rows of a slot.
        t: Tensors of a golden, with what was handed on from frames before.

    Returns:
        ``(tokens, count, *)`` with zeros for the rows that a token does not see, and what is handed on.
    """
    flat = rows.reshape(len(rows), -1).to(torch.int64)
    kept = t[BEFORE].clone() if BEFORE in t else flat.new_zeros(slots, count * flat.shape[1] + 1)
    places, following = positions(given, slots, count, [int(n) for n in kept[:, -1]])
    held = kept[:, :-1].reshape(slots, count, -1)
    seen = flat.new_zeros(len(rows), count, flat.shape[1])
    for token, (slot, position) in enumerate(places):
        held[slot, position] = flat[token]
        seen[token, : position + 1] = held[slot, : position + 1]
    after = torch.cat((held.reshape(slots, -1), kept.new_tensor(following)[:, None]), 1)
    return seen.reshape(len(rows), count, *rows.shape[1:]).to(rows.dtype), after
