"""A simulation that fails explains itself: the probes' findings are on the failure, the result and the screen."""

from __future__ import annotations

import json
import math
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw import cli
from mase_hw.cli._common import judge
from mase_hw.cli.progress import Voice
from mase_hw.design.design import attach_model
from mase_hw.errors import ConfigError, HangError, MismatchError, ToolError
from mase_hw.model_spec import load_model
from mase_hw.simulate.diagnose import diagnose as explain
from mase_hw.simulate.diagnose.diagnose import expected_beats, find_edges

X = torch.rand(5, 4, generator=torch.Generator().manual_seed(2)) - 0.5


@pytest.fixture(scope="module")
def design(work: Path) -> mase_hw.Design:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    return mase_hw.compile(model.eval(), X[:1], out=work / "explain", vectors=X)


@pytest.fixture
def broken(design: mase_hw.Design, tmp_path: Path) -> Callable[..., mase_hw.Design]:
    """A copy of the bundle with one file changed."""

    def make(file: str, change: Callable[[str], str]) -> mase_hw.Design:
        shutil.copytree(design.path, tmp_path / "bundle")
        path = tmp_path / "bundle" / file
        after = change(path.read_text())
        assert after != path.read_text()
        path.write_text(after)
        return mase_hw.Design(tmp_path / "bundle", design.graph, verify=False)

    return make


def _flip(text: str) -> str:
    """The sign of lane 0 of the first word."""
    words = text.split("\n")
    words[0] = f"{int(words[0], 16) ^ 0x80:0{len(words[0])}x}"
    return "\n".join(words)


def _options(design: mase_hw.Design, **more: Any) -> dict[str, Any]:
    # Beside the undamaged bundle: what was built for one test serves the next.
    return {"engine": "batch", "waves": False, "check": False, "work_dir": design.path.parent / "explain.work"} | more


@pytest.mark.parametrize("inputs", [X, None])
def test_mismatch(design: mase_hw.Design, broken: Callable[..., mase_hw.Design], inputs: torch.Tensor | None) -> None:
    lines: list[str] = []
    damaged = broken(_second(design), _flip)
    result = damaged.simulate(inputs, **_options(design, progress=lines.append)).result
    assert type(result.failure) is MismatchError and result.diagnosis is not None
    assert result.failure.diagnosis is result.diagnosis
    text = result.diagnosis.report()
    assert "first divergence: parameter weight of node" in text and text in result.failure.__notes__
    assert "diagnosis:\n  first divergence" in result.report()
    found = result.to_json()["failure"]["diagnosis"]
    assert json.loads(json.dumps(found)) == json.loads((result.run_dir / explain.FILE).read_text())
    assert (found["divergence"]["parameter"], found["divergence"]["mismatch"]["beat"]) == ("weight", 0)
    assert "MismatchError: running again with probes on every edge" in lines


def _second(design: mase_hw.Design) -> str:
    return next(m["file"] for m in reversed(design.manifest["memories"]) if "weight" in m["file"])


def test_hang(
    design: mase_hw.Design, broken: Callable[..., mase_hw.Design], capsys: pytest.CaptureFixture[str]
) -> None:
    """Also through the command line, which prints the same."""
    top = f"rtl/{design.manifest['top']}.sv"
    stuck = broken(top, lambda text: text.replace("= data_in_0_valid;", "= 1'b0 & data_in_0_valid;"))
    options = {
        "engine": "batch",
        "seed": 0,
        "stalls": 0.0,
        "inner_stalls": 0.0,
        "waves": False,
        "jobs": 1,
        "threads": 1,
        "no_diagnose": False,
        "reset_at": [],
        "coverage": False,
        "intervene": None,
        "reproduce": None,
    }
    arguments = Namespace(**options, work=design.path.parent / "explain-hang.work")
    stuck.simulate = _without_waves(stuck.simulate)  # type: ignore[method-assign]
    code, found = judge(stuck, arguments, Voice(sys.stdout))
    assert code == cli.FAILED and not found["passed"] and found["failure"]["kind"] == "HangError"
    text = capsys.readouterr().out
    assert "HangError" in text and "everything waits for data_in_0" in text and "nothing moved after cycle" in text
    stuck.graph = None
    result = stuck.simulate(**_options(design, work_dir=design.path.parent / "explain-hang.work")).result
    assert type(result.failure) is HangError and result.diagnosis is None, "without a model there is no diagnosis"


MODEL = """
import torch
from torch import nn

def build(outputs=2):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, outputs)).eval(), torch.full((1, 4), 0.25)

def other():
    return build(3)
"""


def test_a_bundle_gets_its_model_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another model, or none of the same hardware, is refused before anything is built."""
    (tmp_path / "net.py").write_text(MODEL)
    bundle, model = str(tmp_path / "bundle"), f"{tmp_path / 'net.py'}:build"
    assert cli.main(["compile", model, "--out", bundle]) == cli.OK
    assert cli.main(["sim", bundle, "--model", f"{tmp_path / 'net.py'}:other"]) == cli.UNUSABLE
    assert "does not give the hardware of the bundle" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.work"))
    design, spec = mase_hw.load_design(bundle), load_model(model)
    assert design.graph is None
    attach_model(design, lambda out: mase_hw.compile(spec.model, spec.example_inputs, out=out))
    again = mase_hw.compile(spec.model, spec.example_inputs, out=tmp_path / "again")
    assert torch.equal(design.model(X[:1]), again.model(X[:1]))


def _without_waves(simulate: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *inputs, **options: simulate(*inputs, **(options | {"waves": False}))


def test_switched_off(design: mase_hw.Design, broken: Callable[..., mase_hw.Design]) -> None:
    result = broken(_second(design), _flip).simulate(**_options(design, diagnose=False)).result
    assert type(result.failure) is MismatchError
    assert result.diagnosis is None and result.failure.diagnosis is None
    assert "diagnosis" not in result.to_json()["failure"]


def test_a_diagnosis_that_fails_hides_nothing(
    design: mase_hw.Design, broken: Callable[..., mase_hw.Design], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_compiler(*_: Any, **__: Any) -> None:
        raise ToolError("no compiler")

    monkeypatch.setattr(explain, "diagnose", no_compiler)
    result = broken(_second(design), _flip).simulate(**_options(design)).result
    assert type(result.failure) is MismatchError and result.diagnosis is None
    assert result.failure.__notes__ == ["no diagnosis, the run with probes failed: no compiler"]


def test_a_pass_is_not_diagnosed(design: mase_hw.Design) -> None:
    whole = design.simulate(**_options(design))
    shared = design.simulate(**_options(design, jobs=2))
    assert whole.passed and shared.passed and whole.result.diagnosis is None
    assert torch.equal(whole.output, shared.output)
    assert (shared.result.run_dir / "parts" / "1").is_dir() and not (whole.result.run_dir / "diagnosis.json").exists()


def test_jobs_of_other_engines(design: mase_hw.Design) -> None:
    for engine in ("cocotb", "fast"):
        with pytest.raises(ConfigError, match="runs in one process"):
            design.simulate(engine=engine, jobs=2)


class Scaled(nn.Module):
    """A stored tensor of a shape that is broadcast."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.conv, self.scale = (
            nn.Conv2d(1, 8, 1),
            nn.Parameter(torch.linspace(-1, 1, 8)[: math.prod(shape)].view(shape)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x) * self.scale


@pytest.mark.parametrize("shape", [(1,), (8, 1, 1), (1, 1, 4)])
def test_a_constant_is_expected_as_pytorch_broadcasts_it(shape: tuple[int, ...], tmp_path: Path) -> None:
    """In the order of the data, channels last, from one pass over the memory."""
    model = Scaled(*shape).eval()
    images = torch.rand(2, 1, 3, 4)
    graph = mase_hw.compile(model, images[:1], out=tmp_path / "bundle", calibration=[images]).graph
    assert graph is not None
    edges = find_edges(graph)
    (edge,) = (edge for edge in edges if edge.parameter == "constant")
    fmt = edge.stream.fmt
    codes = (model.scale.detach().double() / fmt.scale).round().clamp(fmt.min_mantissa, fmt.max_mantissa).long()
    order = codes.expand(8, 3, 4).permute(1, 2, 0).reshape(-1, edge.stream.lanes).numpy()
    found = expected_beats(graph, edges, {"x": images})[edge.net.name]
    assert (found == order[: len(found)]).all() and len(order) % len(found) == 0
