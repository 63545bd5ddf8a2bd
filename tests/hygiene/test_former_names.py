"""The names that modules had before a room was divided still work, and say where to go."""

import importlib
import sys
from pathlib import Path

import pytest

from mase_hw.cli.main import COMMANDS, FORMER, main
from mase_hw.simulate.result import SimResult

DIVIDED = ("mase_hw.flow", "mase_hw.ir", "mase_hw.emit", "mase_hw.passes.analysis")
MOVED = {
    f"{package}.{name}": f"mase_hw.{present}"
    for package in DIVIDED
    for name, present in importlib.import_module(package).MOVED.items()
}


@pytest.mark.parametrize("name", sorted(MOVED))
def test_a_former_name_leads_to_the_present_module(name: str) -> None:
    sys.modules.pop(name, None)
    with pytest.warns(DeprecationWarning, match=f"^{name} is deprecated, use {MOVED[name]}$"):
        former = importlib.import_module(name)
    present = importlib.import_module(MOVED[name])
    public = [key for key in vars(present) if not key.startswith("_")]
    assert public and all(getattr(former, key) is getattr(present, key) for key in public)


def test_a_name_that_changed_after_its_module_moved() -> None:
    with pytest.warns(DeprecationWarning, match="use mase_hw.simulate.engines.precompile.precompile_runtime$"):
        from mase_hw.flow.prepare import prepare
    assert prepare is importlib.import_module("mase_hw.simulate.engines.precompile").precompile_runtime


def test_the_warning_points_at_the_caller() -> None:
    module = importlib.import_module("mase_hw.simulate.engines.precompile")
    with pytest.warns(DeprecationWarning, match="prepare is deprecated") as caught:
        assert module.prepare is module.precompile_runtime
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]
    with pytest.raises(AttributeError, match="has no attribute 'absent'"):
        _ = module.absent


def test_names_of_a_diagnosis() -> None:
    report = importlib.import_module("mase_hw.simulate.diagnose.report")
    with pytest.warns(DeprecationWarning, match="use mase_hw.simulate.diagnose.report.FifoState$"):
        assert report.QueueState is report.FifoState
    state = report.FifoState("u_add_fifo", "add.data_in_1", depth=4, level=3, most=4)
    found = report.Diagnosis(SimResult({}, {}, 0, 0.0, Path(), None), (), None, (), (state,))
    with pytest.warns(DeprecationWarning, match=r"use Diagnosis\.fifos$") as caught:
        assert found.queues == found.fifos == (state,)
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]


def test_a_former_subcommand_works_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(FORMER.values()) <= set(COMMANDS) and not set(FORMER) & set(COMMANDS)
    for former, present in FORMER.items():
        with pytest.warns(FutureWarning, match=f"use mase-hw {present}$"), pytest.raises(SystemExit) as caught:
            main([former, "--help"])
        assert caught.value.code == 0 and f"usage: mase-hw {present}" in capsys.readouterr().out


def test_every_former_name_goes_through_one_helper(root: Path) -> None:
    """Whoever warns of a former name in words of his own is not found when its time is over."""
    users = [p for p in (root / "mase_hw").rglob("*.py") if "DeprecationWarning" in p.read_text(encoding="utf-8")]
    assert [p.name for p in users] == ["deprecation.py"]


def test_other_names_are_no_modules() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("mase_hw.flow.nothing")
