"""What PyTorch is told to do around a call of compile changes no byte of the bundle, or is refused."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import mase_hw
from mase_hw.errors import ConfigError, GraphError, MaseHwError
from mase_hw.ir.faithful.surroundings import ordinary
from tests.faithful.tampering import DATA, Net, X, net


class Functions(TorchFunctionMode):
    """Sees every function of PyTorch, and doubles one."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        return result * 2 if function is torch.nn.functional.linear else result


class Operations(TorchDispatchMode):
    """Sees every operation."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


@contextlib.contextmanager
def setting(put: Callable[[Any], Any], value: Any, before: Any) -> Iterator[None]:
    put(value)
    try:
        yield
    finally:
        put(before)


QUIET: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "double": lambda: setting(torch.set_default_dtype, torch.float64, torch.float32),
    "half": lambda: setting(torch.set_default_dtype, torch.float16, torch.float32),
    "matmul": lambda: setting(torch.set_float32_matmul_precision, "medium", "highest"),
    "denormal": lambda: setting(torch.set_flush_denormal, True, False),
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
    "device": lambda: torch.device("cpu"),
}
LOUD: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "functions": Functions,
    "operations": Operations,
    "meta": lambda: torch.device("meta"),
}


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("plain") / "b"
    mase_hw.compile(net(), X, out=folder, calibration=[DATA])
    return content(folder)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", QUIET)
def test_nothing_changes(name: str, plain: dict[str, bytes], tmp_path: Path) -> None:
    model = net()
    with QUIET[name]():
        mase_hw.compile(model, X, out=tmp_path / "b", calibration=[DATA])
    assert content(tmp_path / "b") == plain


def test_autocast_is_off_inside() -> None:
    with torch.autocast("cpu", torch.bfloat16), ordinary():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("name", LOUD)
def test_what_sees_everything_is_refused(name: str, tmp_path: Path) -> None:
    model = net()
    with LOUD[name](), pytest.raises(ConfigError) as caught:
        mase_hw.compile(model, X, out=tmp_path / "b", calibration=[DATA])
    assert caught.value.got and caught.value.remedy and not list(tmp_path.iterdir())


class Leaves(Net):
    """Ends the program where no forward runs."""

    def named_buffers(self, *args: Any, **kwargs: Any) -> Any:
        raise SystemExit(0)


def test_a_model_that_ends_the_program(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="asked to end") as caught:
        mase_hw.compile(net(Leaves), X, out=tmp_path / "b")
    assert f"{os.path.basename(__file__)}:" in (caught.value.node or "") and "raise SystemExit(0)" in caught.value.node  # type: ignore[operator]


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("data", [None, [torch.ones(3, 4)]], ids=["without-data", "with-data"])
def test_torch_has_its_threads_for_calibration_data_alone(tmp_path: Path, data: Any) -> None:
    seen = dict[str, int]()
    model = nn.Linear(4, 2)
    mase_hw.compile(
        model, torch.ones(1, 4), out=tmp_path / "d", calibration=data,
        progress=lambda step: seen.setdefault(str(step), torch.get_num_threads()),
    )  # fmt: skip
    steps = ["tracing the model", "observing value ranges", "quantising", "choosing test vectors"]
    assert [seen[step] for step in steps] == [1, 1 if data is None else 2, 1, 1]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_torch_has_its_threads_back_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(MaseHwError):
        mase_hw.compile(nn.Linear(4, 2), torch.ones(1, 5), out=tmp_path / "d")
    assert torch.get_num_threads() == 2
