"""Plug-ins: what entry points add, and how a wrong one is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw import plugins
from mase_hw.compiler.stages import HARDWARE_STEPS, compile_pipeline, hardware_steps
from mase_hw.cost.devices import device_of
from mase_hw.errors import ConfigError, ToolError
from mase_hw.simulate.engines.registry import engine

EXAMPLE = {"input": torch.zeros(1, 4)}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which a test writes the entry points of a package; what was loaded is forgotten before and after."""
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.plugins.cache_clear()
    yield tmp_path
    plugins.plugins.cache_clear()


def write(folder: Path, name: str, entries: str, code: str = "") -> None:
    """An installed package."""
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(entries, encoding="utf-8")
    (folder / f"{name}.py").write_text(code, encoding="utf-8")


def test_two_of_one_name(package: Path) -> None:
    write(package, "first_one", "[mase_hw.targets]\nchip = first_one:X\n", "X = 1")
    write(package, "second_one", "[mase_hw.targets]\nchip = second_one:X\n", "X = 1")
    with pytest.raises(ToolError, match="the same name") as caught:
        device_of("chip")
    assert caught.value.got == "first_one 1.0 and second_one 1.0"


def test_what_cannot_be_loaded(package: Path) -> None:
    write(package, "broken_one", "[mase_hw.engines]\nnew = broken_one:Engine\n", "raise OSError('no licence')")
    assert engine("batch"), "engines of the package need no plug-in"
    with pytest.raises(ToolError, match="cannot be loaded") as caught:
        engine("new")
    assert "no licence" in str(caught.value) and caught.value.remedy == "mend or uninstall broken_one 1.0"


def test_a_pass_stands_where_it_is_asked_for(package: Path) -> None:
    code = "def look(graph, args):\n    return graph, {'seen': len(graph.nodes), 'modified': False}\n"
    write(package, "looking", "[mase_hw.passes]\nlook = looking:look\n", code)
    for step in ("calibrate", "top"):
        config = {"passes": [{"name": "look", "after": step}]}
        names = compile_pipeline(EXAMPLE, config, out="unused").names
        assert names[names.index(step) + 1] == "look"
    made = mase_hw.compile(nn.Linear(4, 2), torch.zeros(1, 4), config, out=package / "bundle")
    plain = mase_hw.compile(nn.Linear(4, 2), torch.zeros(1, 4), out=package / "plain")
    assert made.manifest["timing"] == plain.manifest["timing"]


def test_a_step_or_a_pass_that_is_not_there(package: Path) -> None:
    write(package, "looking", "[mase_hw.passes]\nlook = looking:look\n", "look = print")
    with pytest.raises(ConfigError, match="no such step") as caught:
        compile_pipeline(EXAMPLE, {"passes": [{"name": "look", "after": "quantise"}]}, out="unused")
    assert "quantize" in str(caught.value.expected) and "handoff" in str(caught.value.expected)
    with pytest.raises(ConfigError, match="no installed package") as caught:
        compile_pipeline(EXAMPLE, {"passes": [{"name": "lok", "after": "quantize"}]}, out="unused")
    assert caught.value.remedy == "did you mean 'look'?"


def test_the_steps_that_are_named_are_those_that_there_are() -> None:
    assert tuple(step.name for step in hardware_steps(EXAMPLE, None, out="unused")) == HARDWARE_STEPS
