"""Ids with the positions of their tokens, against a count of tokens by sequence."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.catalogue.harness import ITEMS, Item, expected, stimulus

CASES = [it for it in ITEMS if it.op.name == "positioned"]


@pytest.mark.parametrize("it", CASES, ids=lambda it: it.id)
def test_a_row_for_every_position(it: Item) -> None:
    """``id + rows * position``; a position follows those before it in its slot, and is 0 where a sequence begins."""
    given = stimulus(it, seed=11)
    results = expected(it, given)[it.sinks[0].name]
    rows, tokens = it.arithmetic.attributes["size"], it.case.params.data_in_0.size[0]
    slots = it.arithmetic.attributes.get("slots", 1)
    following: dict[int, int] = {}
    for frame, ids in enumerate(given["data_in_0"].reshape(len(results), -1).tolist()):
        codes = (
            given["slot"][frame].reshape(-1).tolist() if "slot" in given else [slots * (t == 0) for t in range(tokens)]
        )
        for token, (number, code) in enumerate(zip(ids, codes, strict=True)):
            slot, begins = code % slots, code >= slots
            position = 0 if begins else following.get(slot, 0)
            following[slot] = (position + 1) % tokens
            assert Fraction(int(results[frame].reshape(-1)[token])) == Fraction(number) + rows * position
