"""``evaluate``, ``calibrate`` and ``search`` answer what Python answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mase_hw
from mase_hw import cli
from mase_hw.compiler.quantised_graph import calibrated_graph
from mase_hw.errors import ConfigError
from mase_hw.model_spec import load_model
from mase_hw.passes import CalibrationState
from mase_hw.passes.evaluation import evaluate_statistic
from mase_hw.passes.mixed_precision import noise_based_mixed_precision_quantization, uniform
from mase_hw.report.proof import EVALUATIONS, evaluations
from mase_hw.search.search import search
from tests.cli.conftest import Place

Said = pytest.CaptureFixture[str]
WIDTHS = ["--method", "trials", "--vary", "widths", "--against", "bit_operations"]


def answer(capfd: Said, *words: object) -> dict[str, Any]:
    capfd.readouterr()
    assert cli.main([*map(str, words), "--json"]) == cli.OK
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    return found


def test_evaluate(place: Place, capfd: Said) -> None:
    """Float, quantised and hardware: as Python counts hits; and the bundle keeps it."""
    found = answer(capfd, "evaluate", place.model, "--calibration", place.state, "--bundle", place.bundle)
    spec = load_model(place.model)
    hits = sum(int((spec.model(x).argmax(1) == y).sum()) for x, y in spec.labelled)
    assert found["float"] == hits / 60 == 0.9 and found["frames"] == 60
    state = CalibrationState.load(place.state)
    made = mase_hw.compile(spec.model, spec.example_inputs, out=place.folder / "again", calibration=state)
    assert made.graph is not None
    assert found["quantised"] == evaluate_statistic(made.graph, spec.labelled, "accuracy")
    assert found["rtl"] == found["quantised"] and found["passed"] and found["engine"] == "batch"
    kept = evaluations(place.bundle, mase_hw.load_design(place.bundle).manifest["digest"])
    assert [each["rtl"] for each in kept] == [found["rtl"]]
    assert evaluations(place.bundle, "another") == []


def test_hardware_is_judged_by_what_it_gave(place: Place, tmp_path: Path) -> None:
    """A bundle with another weight: its accuracy is its own, and it fails; what was kept is not the model's."""
    import shutil

    from mase_hw.design.design import Design

    folder = tmp_path / "broken"
    shutil.copytree(place.bundle, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    memory = folder / next(m["file"] for m in manifest["memories"] if "weight" in m["file"])
    lines = memory.read_text().splitlines()
    memory.write_text(
        "\n".join(f"{~int(line, 16) & ((1 << 4 * len(line)) - 1):0{len(line)}x}" for line in lines) + "\n"
    )
    spec = load_model(place.model)
    graph = mase_hw.compile(
        spec.model, spec.example_inputs, out=tmp_path / "good", calibration=CalibrationState.load(place.state)
    ).graph
    design = Design(folder, graph, verify=False)
    work = place.folder / "designs" / "broken.work"  # what was built for the other one is there
    found = design.evaluate(spec.labelled, float_model=spec.model, work_dir=work, diagnose=False, waves=False)
    assert not found.passed and "not the quantised model" in found.text()
    assert found.rtl < 0.7 < found.quantised
    assert json.loads((folder / EVALUATIONS).read_text())["evaluations"][0]["passed"] is False


def test_evaluate_a_file(place: Place, tmp_path: Path, capfd: Said) -> None:
    x, y = load_model(place.model).labelled[0]
    np.savez(tmp_path / "one.npz", pixels=x.numpy(), targets=y.numpy())
    assert answer(capfd, "evaluate", place.model, "--data", tmp_path / "one.npz")["frames"] == 20
    wrong = {
        "none.npz": {"pixels": x.numpy()},
        "short.npz": {"pixels": x.numpy(), "targets": y.numpy()[:3]},
        "objects.npz": {"pixels": np.array([{}], object), "targets": y.numpy()[:1]},
    }
    for name, arrays in wrong.items():
        np.savez(tmp_path / name, **arrays)  # type: ignore[arg-type]
    (tmp_path / "text.npz").write_text("no archive")
    for name in (*wrong, "text.npz", "absent.npz"):
        assert cli.main(["evaluate", place.model, "--data", str(tmp_path / name)]) == cli.UNUSABLE
        assert name in capfd.readouterr().err


def test_a_model_without_labels(tmp_path: Path, capfd: Said) -> None:
    (tmp_path / "bare.py").write_text(
        "import torch\ndef build():\n    return torch.nn.Linear(2, 2), torch.rand(1, 2)\n"
    )
    for words in (["evaluate"], ["search", "--out", str(tmp_path / "x.toml"), "--target", "1"]):
        assert cli.main([words[0], f"{tmp_path / 'bare.py'}:build", *words[1:]]) == cli.UNUSABLE
        assert "labelled_batches" in capfd.readouterr().err


def test_calibrate(place: Place, tmp_path: Path, capfd: Said) -> None:
    """The saved state is Python's, in one go or two, and compiling with it gives the bundle that the data gives."""
    found = answer(capfd, "calibrate", place.model, "--out", tmp_path / "state.json")
    spec, state = load_model(place.model), CalibrationState()
    calibrated_graph(spec.model, spec.example_inputs, calibration=spec.calibration, state=state)
    saved = CalibrationState.load(tmp_path / "state.json")
    assert saved.to_document() == state.to_document() and found["batches"] == 3
    assert found["ranges"]["_2.data_out_0"] == saved.observers["_2.data_out_0"].range()
    half = CalibrationState()
    calibrated_graph(spec.model, spec.example_inputs, calibration=spec.calibration[:1], state=half)
    half.save(tmp_path / "half.json")
    assert answer(capfd, "calibrate", place.model, "--out", tmp_path / "half.json", "--resume")["batches_before"] == 1
    assert json.loads((tmp_path / "half.json").read_text()) == json.loads((tmp_path / "state.json").read_text())
    by_data = mase_hw.compile(spec.model, spec.example_inputs, out=tmp_path / "data", calibration=spec.calibration)
    assert by_data.manifest["digest"] == mase_hw.load_design(place.bundle).manifest["digest"]


def test_calibrations_that_do_not_fit(place: Place, tmp_path: Path, capfd: Said) -> None:
    spec, state = load_model(place.model), CalibrationState.load(place.state)
    with pytest.raises(ConfigError, match="other weights"):
        with torch.no_grad():
            spec.model[0].weight[0, 0] += 1
        mase_hw.compile(spec.model, spec.example_inputs, out=tmp_path / "x", calibration=state)
    with pytest.raises(ConfigError, match="by what happens on data"):
        calibrated_graph(spec.model, spec.example_inputs, {"rounding": {"method": "gptq"}}, calibration=state)
    document = state.to_document()
    for name, changed in (("version", 1), ("frames", {"stride": "x"}), ("frames", {"stride": 1, "seen": 1, "kept": 3})):
        (tmp_path / "bad.json").write_text(json.dumps({**document, name: changed}))
        words = ["noise", place.model, "--calibration", str(tmp_path / "bad.json")]
        assert cli.main(words) == cli.UNUSABLE, (name, changed)
    words = ["calibrate", place.model, "--out"]
    assert cli.main([*words, str(place.state)]) == cli.UNUSABLE
    assert "--resume" in capfd.readouterr().err
    assert cli.main([*words, str(place.state), "--resume"]) == cli.UNUSABLE
    assert "all batches were looked at" in capfd.readouterr().err
    assert cli.main([*words, str(tmp_path / "no" / "x.json")]) == cli.UNUSABLE
    assert not (tmp_path / "x").exists()


def test_search_by_noise(place: Place, tmp_path: Path, capfd: Said) -> None:
    words = ["search", place.model, "--out", tmp_path / "plan.toml", "--low", 2, "--high", 8, "--target", 0.85]
    found = answer(capfd, *words)
    spec = load_model(place.model)
    graph = calibrated_graph(spec.model, spec.example_inputs, calibration=spec.calibration)
    theirs = noise_based_mixed_precision_quantization(
        graph, {"low": 2, "high": 8}, "accuracy", 0.85, data=spec.labelled
    )
    assert (found["score"], found["raised"], found["cost"]) == (theirs.score, list(theirs.raised), theirs.cost)
    assert (tmp_path / "plan.toml").read_text() == theirs.plan.text()
    again = answer(capfd, "evaluate", place.model, "--config", tmp_path / "plan.toml")
    assert again["quantised"] == theirs.score >= 0.85


def test_searches_keep_the_family(place: Place, tmp_path: Path, capfd: Said) -> None:
    """The configuration says scaled integers, per channel: so does the plan, which evaluates as it was found."""
    pytest.importorskip("optuna")
    keys = {"name": "integer", "weight_granularity": "channel"}
    (tmp_path / "c.toml").write_text('[quantize.default.config]\nname = "integer"\nweight_granularity = "channel"\n')
    spec = load_model(place.model)
    graph = calibrated_graph(spec.model, spec.example_inputs, calibration=spec.calibration)
    noise = noise_based_mixed_precision_quantization(
        graph, {"low": uniform(2, **keys), "high": uniform(8, **keys)}, "accuracy", 0.85, data=spec.labelled
    )
    of_widths: Any = {"vary": ["widths"], "against": ["bit_operations"], "widths": (3, 8), "trials": 2}
    widths = search(graph, "accuracy", data=spec.labelled, base=uniform(8, **keys), **of_widths)
    for plan, words in (
        (noise.plan, ["--low", 2, "--high", 8]),
        (widths.choose(target=0.85), [*WIDTHS, "--widths", "3,8", "--trials", 2]),
    ):
        file = tmp_path / "plan.toml"
        answer(capfd, "search", place.model, "--config", tmp_path / "c.toml", "--out", file, "--target", 0.85, *words)
        assert file.read_text() == plan.text() and 'name = "integer"' in plan.text()
        again = answer(capfd, "evaluate", place.model, "--config", file)
        assert again["quantised"] == plan.facts["accuracy"]
        file.unlink()


def test_search_of_widths(place: Place, tmp_path: Path, capfd: Said) -> None:
    pytest.importorskip("optuna")
    words = ["--out", tmp_path / "plan.toml", *WIDTHS, "--widths", "3,8", "--trials", 4, "--target", 0.85]
    found = answer(capfd, "search", place.model, *words)
    spec = load_model(place.model)
    graph = calibrated_graph(spec.model, spec.example_inputs, calibration=spec.calibration)
    of_widths: Any = {"vary": ["widths"], "against": ["bit_operations"], "widths": (3, 8), "trials": 4}
    theirs = search(graph, "accuracy", data=spec.labelled, **of_widths)
    assert found["front"] == [point.to_json() for point in theirs.front]
    assert (tmp_path / "plan.toml").read_text() == theirs.choose(target=0.85).text()


@pytest.mark.parametrize(
    "words",
    [
        ["--method", "x"],
        [],
        ["--target", "2"],
        [*WIDTHS, "--widths", "a"],
        ["--target", "nan"],
        ["--target", "0.8", "--storage", "x"],
        [*WIDTHS, "--exact", "1"],
        [*WIDTHS, "--dask", "tcp://x:1"],
        [*WIDTHS, "--report", "x.svg"],
    ],
)
def test_searches_that_cannot_be(place: Place, tmp_path: Path, words: list[str], capfd: Said) -> None:
    assert cli.main(["search", place.model, "--out", str(tmp_path / "plan.toml"), *words]) == cli.UNUSABLE
    assert list(tmp_path.iterdir()) == []


class Several(torch.nn.Module):
    """Two results of the same shape, in a dict with a list."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 3), torch.nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"second": self.b(x), "first": [self.a(x), None]}


class Largest:
    """The largest error of the result in the list."""

    name, higher_is_better = "largest error", False

    def __init__(self) -> None:
        self.peak = 0.0

    def update(self, outputs: Any, targets: torch.Tensor) -> None:
        assert len(outputs["first"][0]) == len(outputs["second"]) == len(targets) and outputs["first"][1] is None
        self.peak = max(self.peak, float((outputs["first"][0] - targets).abs().max()))

    def result(self) -> float:
        return self.peak


def test_evaluate_a_model_of_several_results(tmp_path: Path) -> None:
    """The hardware's results are where the model's are: where no bit differs, no figure does."""
    torch.manual_seed(2)
    net, data = Several().eval(), [torch.randn(count, 6) for count in (3, 5)]
    design = mase_hw.compile(net, data[0][:1], out=tmp_path / "several", calibration=data)
    found = design.evaluate([(x, net.a(x).detach()) for x in data], Largest, float_model=net)
    assert found.passed and found.float_model == 0 < found.quantised < 0.1
    assert found.rtl == found.quantised


def test_a_stream_is_evaluated_by_itself(tmp_path: Path) -> None:
    """The state of the hardware goes on where a model begins with a new batch: the figures would not be the same."""
    torch.manual_seed(2)
    net, hops = torch.nn.Sequential(torch.nn.Conv1d(1, 2, 3)), torch.randn(12, 1, 4)
    wide = torch.nn.Sequential(torch.nn.ConstantPad1d((2, 0), 0.0), *net).eval()
    design = mase_hw.compile(wide, hops[:1], {"streaming": True}, out=tmp_path / "stream", calibration=[hops])
    pairs = [(half, torch.zeros(len(half), 2, 4)) for half in hops.split(6)]
    with pytest.raises(ConfigError, match="one batch of consecutive hops"):
        design.evaluate(pairs, "mse")
    found = design.evaluate([(hops, torch.zeros(12, 2, 4))], "mse")
    assert found.passed and found.rtl == found.quantised > 0
