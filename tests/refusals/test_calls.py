"""Arguments of compile and simulate of every wrong kind: an error of ours that says what it is, and nothing written."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.errors import ConfigError, EmitError, FormatError, GraphError, MaseHwError
from mase_hw.model_spec import MOST_NUMBERS, ModelSpec
from tests.unit.pipeline import MLP, inputs, seeded

X = inputs(1, 6)
Made = Callable[[], Any]

MODELS: list[tuple[str, Made, type[MaseHwError], tuple[str, ...]]] = [
    ("none", lambda: None, GraphError, ("the model is not a module", "NoneType")),
    ("text", lambda: "net", GraphError, ("the model is not a module", "str")),
    ("class", lambda: MLP, GraphError, ("pass an instance of the model",)),
    ("function", lambda: lambda x: x, GraphError, ("the model is not a module", "function")),
    ("list", lambda: [seeded(MLP)], GraphError, ("the model is not a module", "list")),
    ("script", lambda: torch.jit.script(seeded(MLP)), GraphError, ("TorchScript",)),
    ("trace", lambda: torch.jit.trace(seeded(MLP), X), GraphError, ("TorchScript",)),
    ("parallel", lambda: nn.DataParallel(seeded(MLP)), GraphError, ("several devices", "model.module")),
    ("lazy", lambda: nn.Sequential(nn.LazyLinear(3)), GraphError, ("without a shape", "0.weight")),
    ("meta", lambda: seeded(MLP).to("meta"), GraphError, ("without values", "fc1.weight")),
    ("no forward", nn.Module, GraphError, ("cannot be traced",)),
    ("list of modules", lambda: nn.ModuleList([nn.Linear(6, 3)]), GraphError, ("cannot be traced",)),
    ("half", lambda: seeded(MLP).half(), GraphError, ("cannot be evaluated", "Half")),
    ("complex", lambda: nn.Linear(6, 3, dtype=torch.complex64), GraphError, ("Complex",)),
    ("a lambda inside", lambda: _holding(lambda x: x), GraphError, ("cannot be copied", "keep only parameters")),
]
"""Models: what it is, how it is made, and the error."""


def _holding(function: Any) -> nn.Module:
    net = seeded(MLP)
    net.held = (i for i in [function])  # a generator, which nothing can copy
    return net


@pytest.mark.filterwarnings("ignore")  # PyTorch has much to say about TorchScript
@pytest.mark.parametrize(("name", "make", "kind", "says"), MODELS, ids=[name for name, *_ in MODELS])
def test_models(name: str, make: Made, kind: type[MaseHwError], says: tuple[str, ...], tmp_path: Path) -> None:
    refuses(kind, says, tmp_path, model=make())


class Shifted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, ids: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
        return self.fc(ids.flatten(1)) + data


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.float64, torch.float16])
def test_an_input_of_another_type_than_the_parameters(dtype: torch.dtype, tmp_path: Path) -> None:
    """It is named with both types, however it gets to the parameters."""
    says = (f"give the input 'ids' as torch.float32, which the parameters are, instead of {dtype}", f"of {dtype}, ")
    example = (torch.ones(1, 2, 3, dtype=dtype), torch.ones(1, 3))
    refuses(GraphError, says, tmp_path, model=Shifted(), example=example)
    assert mase_hw.check(Shifted(), (torch.ones(1, 2, 3), torch.ones(1, 3))).accepted


class Counts:
    """An iterable whose length cannot be told."""

    def __iter__(self) -> Iterator[Any]:
        return iter([X])

    def __len__(self) -> int:
        raise ZeroDivisionError("no length")


EXAMPLES: list[tuple[Made, tuple[str, ...]]] = [
    (lambda: np.array([None] * 6), ("does not hold real numbers", "object")),
    (lambda: np.array([["a"] * 6]), ("does not hold real numbers",)),
    (lambda: np.ones((1, 6), complex), ("does not hold real numbers", "complex128")),
    (lambda: np.zeros((0, 6)), ("a tensor holds no frames",)),
    (lambda: np.array(1.0), ("a tensor holds no frames",)),
    (lambda: torch.nested.nested_tensor([torch.randn(6)]), ("a tensor holds no frames", "nested")),
    (lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.qint8), ("a tensor holds no frames", "qint8")),
    (lambda: X.to_sparse_csr(), ("a tensor holds no frames", "sparse_csr")),
    (lambda: (t for t in [X]), ("the example is no input of a model", "generator")),
    (lambda: {1, 2}, ("the example is no input of a model", "set")),
    (lambda: nn.Linear(1, 1), ("the example is no input of a model", "Linear")),
    (lambda: torch.Tensor, ("the example is no input of a model",)),
    (lambda: 3, ("the example is no input of a model", "int")),
    (lambda: b"abc", ("the example is no input of a model", "bytes")),
    (lambda: {"x": 3.0}, ("not a tensor but float",)),
    (lambda: {"x": None}, ("not a tensor but NoneType",)),
    (lambda: [{"x": X}], ("the model cannot be run on the example", "not dict")),
    (lambda: [[None]], ("not a tensor but list",)),
    (lambda: {"y": X, "z": 1}, ("the model cannot be run on the example", "not dict")),
]


@pytest.mark.parametrize(("example", "says"), EXAMPLES)
@pytest.mark.filterwarnings("ignore")  # PyTorch has much to say about these kinds
def test_examples(example: Made, says: tuple[str, ...], tmp_path: Path) -> None:
    refuses(ConfigError, says, tmp_path, example=example())


@pytest.mark.parametrize(
    "made", [X.as_subclass(nn.Parameter), X.clone().requires_grad_(), X.numpy()[:, ::-1], X.expand(1, 6)]
)
def test_examples_that_are_ordinary_after_all(made: Any, tmp_path: Path) -> None:
    assert mase_hw.compile(seeded(MLP), made, out=tmp_path / "b").path.is_dir()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (Counts(), ("calibration data cannot be counted", "no length")),
        (type("Broken", (), {"__iter__": lambda self: 1})(), ("cannot be read, at batch 0", "TypeError")),
        ((1 / 0 for _ in [1]), ("cannot be read, at batch 0", "ZeroDivisionError", "test_calls.py:")),
        ([X.half()], ("cannot be evaluated",)),
        ([{"y": X}], ("x: missing", "y: the model has no such input")),
        ([{"x": 2.0}], ("must be Tensor, not float",)),
        ({"x": X}, ("not an iterable of batches",)),
    ],
)  # fmt: skip
def test_calibration(data: Any, says: tuple[str, ...], tmp_path: Path) -> None:
    refuses(MaseHwError, says, tmp_path, calibration=data)


def depthwise() -> nn.Module:
    """Every channel with a kernel of its own."""
    return nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Conv1d(2, 2, 2, groups=2), nn.Flatten())


@pytest.mark.parametrize(
    ("make", "config", "says"),
    [
        (MLP, {"family": "ecp5", "implementation": {"fc1": "packed"}}, ("blocks of ecp5", "'tree'")),
        (MLP, {"family": "gowin", "implementation": {"fc2": "chain"}}, ("blocks of gowin", "'tree'")),
        (MLP, {"family": "xc7", "implementation": {"act": "packed"}}, ("a node without several",)),
        (depthwise, {"family": "xcup", "implementation": {"_1": "packed"}}, ("share an activation", "'chain'")),
        (depthwise, {"family": "ice40", "implementation": {"_1": "packed"}}, ("blocks of ice40", "'tree'")),
    ],
)
def test_multipliers(make: Any, config: dict[str, Any], says: tuple[str, ...], tmp_path: Path) -> None:
    """What cannot be, and where nothing is to be chosen: with the reason and the nearest choice."""
    refuses(MaseHwError, says, tmp_path, model=seeded(make), config={"hardware": config})


@pytest.mark.parametrize(
    ("out", "says"),
    [
        (None, ("not a folder",)),
        (3, ("not a folder",)),
        (["a"], ("not a folder",)),
        (b"bundle", ("not a folder",)),
        ("a\0b", ("the output folder cannot be used", "NUL")),
        ("x" * 3000, ("the output folder cannot be used", "too long")),
        ("/".join(["d" * 200] * 30), ("the output folder cannot be used", "too long")),
        ("/dev/null", ("is a file",)),
    ],
)
def test_folders(out: Any, says: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refuses(MaseHwError, says, tmp_path, out=out)


def test_a_name_that_is_just_short_enough(tmp_path: Path) -> None:
    """The longest file of a bundle has 255 bytes; one more and nothing is written, not even the parent folder."""
    longest = max(len(Path(f).name) for f in _layer(100, tmp_path / "a").manifest["files"])
    fits = 255 - longest + 100
    assert _layer(fits, tmp_path / "b").path.is_dir()
    with pytest.raises(EmitError, match="a longer name than file systems take"):
        _layer(fits + 1, tmp_path / "parent" / "c")
    assert not (tmp_path / "parent").exists()


def _layer(length: int, out: Path) -> mase_hw.Design:
    net = nn.Sequential()
    net.add_module("n" * length, nn.Linear(6, 3))
    return mase_hw.compile(net.eval(), X, out=out)


def test_a_bundle_with_the_longest_name(tmp_path: Path) -> None:
    for _ in range(2):  # the second takes the first one's place
        assert mase_hw.compile(seeded(MLP), X, out=tmp_path / ("b" * 255)).path.is_dir()
    assert len(list(tmp_path.iterdir())) == 1


def test_parents_are_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full, say, when the first file is written."""

    def full(self: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    (tmp_path / "there").mkdir()
    with pytest.raises(EmitError, match="No space left"):
        mase_hw.compile(seeded(MLP), X, out=tmp_path / "there/parent/inner/bundle")
    assert [p.name for p in tmp_path.rglob("*")] == ["there"]


def test_parents_that_were_there_stay(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    net = nn.Sequential()
    net.add_module("n" * 300, nn.Linear(6, 3))
    with pytest.raises(EmitError):
        mase_hw.compile(net.eval(), X, out=tmp_path / "kept/new/b")
    assert [p.name for p in tmp_path.rglob("*")] == ["kept"]


@pytest.mark.parametrize("frames", [0, -3, MOST_NUMBERS // 6 + 1, 10**40])
def test_frames_of_a_model_specification(frames: int) -> None:
    with pytest.raises(ConfigError, match="a number of frames that cannot be"):
        ModelSpec(seeded(MLP), X).vectors(frames, seed=0)
    with pytest.raises(ConfigError, match="at most 64 bits"):
        ModelSpec(seeded(MLP), X).vectors(1, seed=10**40)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"seed": 10**40}, "at most 64 bits"),
        ({"work_dir": "x" * 3000}, "not a folder"),
        ({"work_dir": "a\0b"}, "not a folder"),
        ({"work_dir": "/dev/null"}, "the work folder cannot be made"),
        ({"work_dir": "/dev/null/below"}, "the work folder cannot be made"),
    ],
)
def test_simulations(arguments: dict[str, Any], says: str, place: Path) -> None:
    """Refused before anything is built."""
    with pytest.raises(ConfigError, match=says):
        mase_hw.load_design(place / "good").simulate(**arguments)
    assert not (place / "good.work").exists()


def test_synthesis_in_the_bundle(place: Path) -> None:
    from mase_hw.synth.synthesise import synthesise

    with pytest.raises(ConfigError, match="the work folder is in the bundle"):
        synthesise(mase_hw.load_design(place / "good"), "xc7", work_dir=place / "good" / "synth")


def test_a_value_that_no_format_can_hold(tmp_path: Path) -> None:
    refuses(FormatError, ("NaN",), tmp_path, vectors=X * float("nan"))


def refuses(kind: type[MaseHwError], says: tuple[str, ...], folder: Path, **given: Any) -> None:
    """Compile refuses it, says so, and leaves the folder empty."""
    model = given.pop("model") if "model" in given else seeded(MLP)
    example = given.pop("example", X)
    given.setdefault("out", folder / "parent" / "bundle")
    with pytest.raises(MaseHwError) as caught:
        mase_hw.compile(model, example, **given)
    assert isinstance(caught.value, kind), caught.value
    for text in says:
        assert text in str(caught.value), str(caught.value)
    assert not list(folder.iterdir()), "something was written"
