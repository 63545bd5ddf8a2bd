"""Every command has ``--json``: one object of one style, whatever it finds, and nothing else on the standard output."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import mase_hw
from mase_hw import cli
from mase_hw._version import __version__
from mase_hw.catalogue import Arithmetic
from mase_hw.numerics import cast
from mase_hw.synth.report import Report
from mase_hw.system.selftest import SelfTest
from tests.cli.conftest import Inline, Place

Words = Callable[[Place, Path], list[str]]


def commands() -> dict[str, argparse.ArgumentParser]:
    """Every command of the parser itself."""
    found = [a for a in cli.parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(found[0].choices)


def in_ram(place: Place, out: Path) -> list[str]:
    """The same model as a design that loads its parameters."""
    config, bundle = out / "ram.toml", out / "ram"
    config.write_text('[hardware]\nparameters = "ram"\n')
    words = ["--config", str(config), "--out"]
    with contextlib.redirect_stdout(sys.stderr):
        assert cli.main(["compile", place.model, *words, str(bundle), "--save-model"]) == cli.OK
    return [place.model, "--bundle", str(bundle), *words, str(out / "image")]


def in_cpp(place: Place, out: Path) -> list[str]:
    """A model with an op in C++ for an HLS tool."""
    source = Path(__file__).resolve().parents[2] / "examples" / "hls_op" / "src"
    spec: Any = {"module": "leaky_shift_hls", "toolchain": "HLS", "root": source, "golden": halved, "like": "relu"}
    spec |= {"args": {"x": "data_in", "shift": "config"}, "stand_in": "leaky_shift_stand_in.sv"}
    model = torch.nn.Sequential(Halved())
    mase_hw.compile(model, torch.ones(1, 2), out=out / "cpp", custom_ops={"modules": {Halved: spec}})
    return [str(out / "cpp")]


class Halved(torch.nn.Module):
    shift = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x < 0, x / 2, x)


def halved(a: Arithmetic, t: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    x, fmt = t["data_in_0"].double(), a.formats["data_in_0"]
    return {"data_out_0": cast(torch.where(x < 0, x, 2 * x), fmt.frac_width + 1, a.formats["data_out_0"])}


RIGHT: Mapping[str, Words] = {
    "doctor": lambda place, out: [],
    "docs": lambda place, out: ["bundle"],
    "config": lambda place, out: [],
    "new": lambda place, out: ["toy", "--out", str(out)],
    "check": lambda place, out: [place.model],
    "fit": lambda place, out: [place.model, "--interval", "4096", "--plot", str(out / "rates.svg")],
    "compile": lambda place, out: [place.model, "--out", str(out / "made")],
    "sim": lambda place, out: [str(place.bundle), "--engine", "batch"],
    "report": lambda place, out: [str(place.bundle)],
    "explain": lambda place, out: [place.model],
    "draw": lambda place, out: [place.model, "--out", str(out / "net.svg")],
    "noise": lambda place, out: [place.model],
    "evaluate": lambda place, out: [place.model],
    "calibrate": lambda place, out: [place.model, "--out", str(out / "state.json")],
    "search": lambda place, out: [place.model, "--out", str(out / "plan.toml"), "--target", "0.8"],
    "precompile": lambda place, out: [],
    "cache": lambda place, out: [str(place.folder / "designs" / "runtime-cache")],
    "env": lambda place, out: [],
    "regress": lambda place, out: [str(place.folder / "designs"), "--out", str(place.runs), "--jobs", "1"],
    "synth": lambda place, out: [str(place.bundle)],
    "power": lambda place, out: [str(place.bundle), "--target", "generic"],
    "hls": in_cpp,
    "system": lambda place, out: [str(place.bundle), "--out", str(out / "system")],
    "soc": lambda place, out: [str(place.bundle), "--out", str(out / "soc")],
    "weights": in_ram,
    "lint": lambda place, out: [str(out / "one.sv")],
    "ops": lambda place, out: [],
}
"""Arguments with which a command finds something."""
KEYS = {
    "doctor": {"ok", "tools"},
    "docs": {"page", "text"},
    "config": {"config"},
    "new": {"files"},
    "check": {"accepted", "problems", "layers", "timing", "estimate"},
    "fit": {"interval", "latency", "layers", "use", "limit", "proven", "front", "plot"},
    "compile": {"bundle", "digest", "timing", "multipliers", "quantisation", "simulation"},
    "sim": {"bundle", "simulation"},
    "report": {"timing", "instances", "simulations", "missing"},
    "explain": {"nodes"},
    "draw": {"picture", "nodes"},
    "noise": {"outputs", "nodes"},
    "evaluate": {"criterion", "frames", "float", "quantised", "rtl"},
    "calibrate": {"file", "batches", "complete", "ranges"},
    "search": {"method", "score", "plan", "cost"},
    "precompile": {"runtime"},
    "cache": {"entries", "removed", "tools"},
    "env": {"variables"},
    "regress": {"passed", "jobs", "results", "differences"},
    "synth": {"target", "total"},
    "power": {"target", "total", "rows"},
    "hls": {"passed", "nodes"},
    "system": {"system", "selftest"},
    "soc": {"system", "selftest"},
    "weights": {"weights", "evaluation"},
    "lint": {"files", "complaints"},
    "ops": {"ops", "others"},
}
"""What it finds."""
WRONG: Mapping[str, list[str]] = {
    **{name: ["nowhere.py:build"] for name in ("check", "fit", "explain", "noise", "evaluate")},
    "compile": ["nowhere.py:build", "--out", "made"],
    "draw": ["nowhere.py:build", "--out", "x.png"],
    "calibrate": ["nowhere.py:build", "--out", "x.json"],
    "search": ["nowhere.py:build", "--out", "x.toml"],
    **{name: ["nowhere"] for name in ("sim", "report", "synth", "power", "hls", "cache", "lint")},
    "regress": ["nowhere.toml", "--out", "out"],
    "new": ["no-name"],
    "docs": ["nowhere"],
    "env": ["no-such-program"],
    "system": ["nowhere", "--out", "made"],
    "soc": ["nowhere", "--out", "made"],
    "weights": ["nowhere.py:build", "--bundle", "nowhere", "--out", "made"],
}
"""Arguments that no command takes; the others take none that could be wrong."""


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that takes long: no processes; synthesis and the runtime of Verilator are other tests'."""
    monkeypatch.setattr("mase_hw.host.pools.LocalPool", Inline)
    monkeypatch.setattr("mase_hw.simulate.engines.precompile.precompile_runtime", lambda tell: Path("runtime"))
    counts = {"lut": 1, "ff": 2, "dsp": 3, "bram": 4}
    made = Report.__new__(Report)
    monkeypatch.setattr(Report, "to_json", lambda _: {"target": "xc7", "total": counts, "ratio": float("inf")})
    monkeypatch.setattr(Report, "text", lambda _: "text")
    monkeypatch.setattr(Report, "reached", property(lambda _: True))
    monkeypatch.setattr("mase_hw.synth.synthesise.synthesise", lambda *_, **__: made)
    for name, found in (("write", Path("gateware")), ("build", Path("soc")), ("run", SelfTest(True, "PASS"))):
        monkeypatch.setattr(f"mase_hw.system.soc.{name}_soc", lambda *_, found=found, **__: found)


def one_object(text: str) -> dict[str, Any]:
    """The one object, and nothing else; numbers that JSON does not have are refused."""

    def refused(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON")

    found: dict[str, Any] = json.loads(text, parse_constant=refused)
    assert list(found)[:3] == ["command", "mase_hw", "exit_code"] and found["mase_hw"] == __version__
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", key) for key in found)
    return found


def test_every_command_is_looked_at() -> None:
    assert set(commands()) == set(RIGHT) == set(KEYS) == set(cli.COMMANDS)
    for name, parser in commands().items():
        assert "--json" in parser._option_string_actions, name
        takes = [a for a in parser._actions if not a.option_strings]
        assert (name in WRONG) == bool(takes), name


@pytest.mark.parametrize("name", sorted(commands()))
@pytest.mark.usefixtures("alone")
def test_one_object(name: str, place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.sv").write_text("module one;\nendmodule\n")
    code = cli.main([name, *RIGHT[name](place, tmp_path), "--json"])
    found = one_object(capfd.readouterr().out)
    assert (found["command"], found["exit_code"]) == (name, code)
    assert found.keys() >= KEYS[name] and "error" not in found
    assert code == cli.OK or name == "doctor"


@pytest.mark.parametrize("name", sorted(WRONG))
def test_an_error_is_an_object_too(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = cli.main([name, "--json", *WRONG[name]])  # what follows a command of `env` is its own
    said = capfd.readouterr()
    found = one_object(said.out)
    assert (found["command"], found["exit_code"], code) == (name, cli.UNUSABLE, cli.UNUSABLE)
    assert set(found["error"]) == {"kind", "message", "node", "field", "got", "expected", "remedy"}
    assert f"mase-hw: {found['error']['message']}" in said.err
    assert list(tmp_path.iterdir()) == []
