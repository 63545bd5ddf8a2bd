"""In a notebook rich shows what it is given, whatever file it writes to: texts stay texts, and files become files."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import rich.console
import torch

import mase_hw
from mase_hw.host.progress import Counting
from mase_hw.passes import report_node_type_analysis_pass
from tests.ir.nets import annotated

MODEL = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
EXAMPLE = torch.zeros(1, 4)


class ZMQInteractiveShell:
    """What rich takes for a notebook."""


@pytest.fixture
def in_notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    shown: list[object] = []
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    monkeypatch.setattr("rich.jupyter.display", lambda segments, text: shown.append(text))
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a build server may say
    assert rich.console.Console().is_jupyter
    yield shown


def test_texts_are_what_they_are_elsewhere(in_notebook: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    found = mase_hw.check(MODEL, EXAMPLE)
    inside = found.text()
    monkeypatch.undo()
    assert inside == found.text() and "fixed_linear" in inside and "\x1b" not in inside
    assert not in_notebook
    assert repr(found).startswith("Check(compile would take it; ") and "\n" not in repr(found)
    assert "fixed_linear" in found._repr_html_() and found._repr_html_().startswith("<pre>")


def test_a_report_in_a_file(in_notebook: list[object], tmp_path: Path) -> None:
    graph = annotated(MODEL, {"input": EXAMPLE})
    report_node_type_analysis_pass(graph, {"file_name": tmp_path / "report.txt"})
    assert "call_module" in (tmp_path / "report.txt").read_text(encoding="utf-8")
    assert not in_notebook


def test_a_bar_is_there_while_something_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    handle = SimpleNamespace(update=lambda told: shown.append(told._repr_html_()))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=lambda *_, **__: handle))
    told = mase_hw.NotebookProgress()
    assert isinstance(told, Counting)
    told("<begun>")
    told.count("simulating", 3, 8, "beats")
    assert 'value="3" max="8"' in shown[-1] and "3 of 8 beats" in shown[-1] and "&lt;begun&gt;" in shown[-1]
    told.count("simulating", 4, 8, "beats")
    assert len(shown) == 2, "a notebook is not told of every beat"
    told("done")
    assert "<progress" not in shown[-1] and "done" in shown[-1]


CELLS = (
    """
import torch
import mase_hw
torch.manual_seed(0)
model, data = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()), torch.rand(8, 4)
mase_hw.check(model, data[:1])""",
    """
told = mase_hw.NotebookProgress()
design = mase_hw.compile(model, data[:1], out="design", calibration=[data], vectors=data, progress=told)""",
    "design",
    "design.simulate(progress=told)",
    "design.report()",
)


def test_a_notebook_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a kernel, as a person would: tables, the drawing, what is told, and the report where it was asked."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(Path(mase_hw.__file__).parents[1]))
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    nbformat.write(book, tmp_path / "run.ipynb")
    shown = ["".join(output.get("data", {}).get("text/html", "") for output in cell.outputs) for cell in book.cells]
    check, compiled, design, simulated, report = shown
    assert check.startswith("<pre>") and "fixed_linear" in check
    assert "quantising" in compiled and "simulating 8 frames" in compiled, "the cell shows what was told later, too"
    assert "<progress" not in compiled, "nothing is counted any more"
    assert "<table>" in design and "<td>fixed_linear</td>" in design and "<svg" in design
    assert "passed: " in simulated and "interval: predicted" in simulated
    assert report.startswith("<iframe srcdoc=") and "cycles per frame" in report
    assert not [output for cell in book.cells for output in cell.outputs if output.output_type == "stream"]
