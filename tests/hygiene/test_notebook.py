"""In a notebook rich shows what it is given, whatever file it writes to: texts stay texts, and files become files."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from pathlib import Path

import pytest
import rich.console
import torch

import mase_hw
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
