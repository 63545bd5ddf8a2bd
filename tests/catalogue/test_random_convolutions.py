"""Convolutions nobody thought of: random sizes, kernels, strides, padding, dilation, groups, lanes and formats."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mase_hw.catalogue import default_catalogue
from mase_hw.ops._conv import geometry_of
from mase_hw.ops.conv import case
from mase_hw.simulate.plan import Stalls

from .conftest import Builder
from .harness import Item, check_departures, check_steps, play


def draw(seed: int) -> Item | None:
    """A random case; None if it has no output position."""
    rng = np.random.default_rng([7, seed])

    def pick(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    groups = pick(1, 1, 2, 3)
    inside, outside = groups * pick(1, 2, 3), groups * pick(1, 2, 4)
    kernel = (pick(1, 2, 3, 4), pick(1, 2, 3, 4))
    attributes = {
        "groups": groups,
        "stride": (pick(1, 1, 2, 3), pick(1, 1, 2, 3)),
        "padding": tuple(int(rng.integers(0, k)) for k in kernel),
        "dilation": (pick(1, 1, 2), pick(1, 1, 2)),
    }
    size = (pick(3, 4, 5, 7), pick(3, 4, 5, 8))
    if min(geometry_of(attributes, kernel).out(size, kernel)) < 1:
        return None
    if groups == 1:
        lanes = (pick(*range(1, inside + 1)), pick(*range(1, outside + 1)))
    elif groups == inside == outside:
        lanes = (pick(*range(1, inside + 1)),) * 2
    else:
        lanes = (math.gcd(inside // groups, pick(1, 2, 3)), math.gcd(outside // groups, pick(1, 2, 4)))
    width = pick(2, 4, 8, 16)
    # The output shows the middle of the sums.
    frac = width - 2 - math.ceil(math.log2(inside // groups * math.prod(kernel)) / 2)
    bias, shift = pick("-", f"s{width}.{width}"), pick("", "", "weight_shift=u1.0")
    made = case(
        f"seed{seed}",
        (pick(1, 1, 2), inside, *size),
        (outside, inside // groups, *kernel),
        lanes,
        f"s{width}.{width - 1} s{width}.{width - 1} {bias} s{width}.{frac} {shift}",
        unroll=math.prod(kernel) > 1 and bool(rng.integers(2)),
        **attributes,
    )
    return Item(default_catalogue()["conv2d"], made)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_random_convolution(seed: int, builder: Builder, tmp_path: Path) -> None:
    """Bits and every cycle at full rate, bits under stalls; the interval is the work."""
    it = draw(seed)
    if it is None:
        pytest.skip("no output position")
    weight = next(s for s in it.streams if s.name == "weight")
    assert it.hardware.latency(it.case.params).interval == max(weight.frame_beats, it.source.beats)
    built = builder(it.dut(), it.id)
    result = play(built, it, tmp_path / "full").raise_on_failure()
    # Not evenly spaced from the start: with a stride the first image is waited for.
    timing = result.timing(it.source.name, it.sink.name)
    assert timing is not None and timing.output_intervals[-1] == it.hardware.latency(it.case.params).interval
    check_departures(it, result)
    check_steps(it, result)
    play(built, it, tmp_path / "stalls", Stalls.random(0.4, 0.4), seed=seed).raise_on_failure()
