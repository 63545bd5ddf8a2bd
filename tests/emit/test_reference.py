"""The reference computes many frames at a time, with the bits of each frame alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.emit import reference as module
from mase_hw.emit.reference import Reference
from tests.ir.nets import Of

FRAMES = 40


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], bool]] = {
    "linear": (lambda: nn.Linear(6, 4), (6,), True),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), (3, 8), True),
    "mean_of_all": (lambda: Of(lambda x: (x * 2).mean()), (6,), False),
    "fixed_size": (lambda: Of(lambda x: (x * 2).reshape(1, 3, 2)), (6,), False),
}
"""Model, shape of a frame, and whether a stack of frames gives what each frame gives."""


def computed_alone(design: mase_hw.Design, frames: Tensor) -> np.ndarray:
    """Mantissas of what the quantised model gives for one frame after the other."""
    port = Reference(design.graph).outputs[0]  # type: ignore[arg-type]
    values = [design.model(frame[None]).detach().double() * 2**port.fmt.frac_width for frame in frames]
    return np.stack([value.numpy().astype(np.int64) for value in values])


@pytest.mark.parametrize("name", MODELS)
def test_the_bits_of_each_frame_alone(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, shape, stacks = MODELS[name]
    frames = torch.randn(FRAMES, *shape)
    design = mase_hw.compile(make().eval(), frames[:1], out=tmp_path / "b", calibration=[frames[:1]])
    reference, calls = Reference(design.graph), 0  # type: ignore[arg-type]
    inner = reference._results

    def counted(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return inner(*args)

    monkeypatch.setattr(reference, "_results", counted)
    monkeypatch.setattr(module, "ROOM", 0)  # two frames at a time, so that there are many stacks
    done: list[tuple[int, int]] = []
    _, outputs = reference.run(frames, lambda now, of: done.append((now, of)))
    assert np.array_equal(outputs["data_out_0"], computed_alone(design, frames))
    assert done[-1] == (FRAMES, FRAMES)
    assert calls < FRAMES if stacks else calls >= FRAMES
    calls = 0
    _, few = reference.run(frames[:8], stacks=True)
    assert np.array_equal(few["data_out_0"], outputs["data_out_0"][:8])
    assert calls == 5 if stacks else calls > 8, "four stacks and the last frame"


def test_a_stack_that_gives_something_else_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two frames agree; only a frame that is computed alone as well shows the difference."""
    frames = torch.randn(FRAMES, 6)
    design = mase_hw.compile(nn.Linear(6, 4), frames[:1], out=tmp_path / "b", calibration=[frames])
    reference = Reference(design.graph)  # type: ignore[arg-type]
    inner = reference._results

    def wrong(tensors: Any, begin: int, end: int) -> Any:
        found = inner(tensors, begin, end)
        return {p: v + (end - begin > 2) for p, v in found.items()}

    monkeypatch.setattr(reference, "_results", wrong)
    for some, stacks in ((frames, False), (frames[:5], True)):
        _, outputs = reference.run(some, stacks=stacks)
        assert np.array_equal(outputs["data_out_0"], computed_alone(design, some))
