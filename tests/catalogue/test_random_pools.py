"""Pools nobody thought of, several positions a beat: random sizes, windows, strides, padding, lanes and formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mase_hw.catalogue import OpDef, default_catalogue
from mase_hw.errors import UnsupportedError
from mase_hw.ops._cases import case
from mase_hw.simulate.plan import Stalls

from .conftest import Builder
from .harness import Item, check_departures, check_steps, hardware_of, play


def made(op: OpDef, seed: int, rng: np.random.Generator) -> Item | None:
    """A random case; None if it has a window outside the image, or one position a beat."""

    def pick(*values: Any) -> Any:
        return values[int(rng.integers(len(values)))]

    positions, channels, lanes = pick(2, 2, 3, 4, 8), pick(1, 2, 3), pick(1, 2)
    kernel = (pick(1, 2, 3, 4), pick(1, 2, 3, 3, 5))
    attributes: dict[str, Any] = {
        "kernel_size": kernel,
        "stride": (pick(1, 2), pick(1, 1, 2, 2, 3, 4)),
        "padding": (pick(0, kernel[0] // 2), pick(0, kernel[1] // 2, kernel[1] // 2)),
        "ceil_mode": pick(False, False, True),
    }
    attributes |= {"dilation": (1, pick(1, 1, 2))} if op.name == "max_pool2d" else {"count_include_pad": pick(0, 1)}
    size = (pick(1, 1, 2), channels, pick(3, 4, 5), positions * pick(1, 2, 3, 4))
    formats = pick("s8.4 s8.4", "u8.4 u8.3", "s4.2 s6.1 floor")
    try:
        found = case(
            hardware_of(op).build, f"seed{seed}", size, min(lanes, channels), formats, positions=positions, **attributes
        )
    except UnsupportedError:
        return None
    return Item(op, found) if found.params.data_in_0.lanes[1] > 1 else None


def draw(name: str, seed: int) -> Item:
    """The first case of a seed that has several positions a beat."""
    op, rng = default_catalogue()[name], np.random.default_rng([11, seed])
    return next(item for item in iter(lambda: made(op, seed, rng), "never") if item is not None)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("max_pool2d", 0),
        *(
            pytest.param(name, seed, marks=pytest.mark.slow)
            for name in ("max_pool2d", "avg_pool2d")
            for seed in range(1, 16)
        ),
    ],
)
def test_random_pool(name: str, seed: int, builder: Builder, tmp_path: Path) -> None:
    """Bits and every cycle at full rate, bits under stalls; a row takes its beats, those of its windows if more."""
    it = draw(name, seed)
    params = it.case.params
    (tiles, come, rows, images), (_, leave, *_) = params.data_in_0.tiles, params.data_out_0.tiles
    assert it.hardware.latency(params).interval == max(tiles * max(come, leave) * rows * images, it.sink.beats)
    built = builder(it.dut(), f"{it.id}-{name}")
    result = play(built, it, tmp_path / "full").raise_on_failure()
    check_departures(it, result)
    check_steps(it, result)
    play(built, it, tmp_path / "stalls", Stalls.random(0.4, 0.4), seed=seed).raise_on_failure()
