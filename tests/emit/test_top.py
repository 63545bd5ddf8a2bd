"""The generated top level: its text to the last character, and clean under the linters."""

from __future__ import annotations

import builtins
import os
import re
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.hardware.library import with_dependences
from mase_hw.host.lint import lint, references_into_blocks
from mase_hw.opdef import SUPPORT
from mase_hw.simulate.build.tools import BuildTools, lint_bundle
from tests.emit.designs import DESIGNS
from tests.rtl import LIBRARY
from tests.unit.pipeline import OWN_FRAMES

GOLDEN = Path(__file__).parent / "golden" / "top.sv"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, mase_hw.Design]:
    folder = tmp_path_factory.mktemp("top")
    return {
        name: mase_hw.compile(model, example, {**config, **OWN_FRAMES}, out=folder / name)
        for name, (model, example, config) in DESIGNS.items()
    }


def test_golden_text(bundles: dict[str, mase_hw.Design]) -> None:
    """Every character. After an intended change: MASE_HW_REGENERATE=1 pytest -k golden_text, then read the diff."""
    text = (bundles["small"].path / "rtl" / "top.sv").read_text()
    if os.environ.get("MASE_HW_REGENERATE") == "1":
        GOLDEN.write_text(text)
    assert text.splitlines() == GOLDEN.read_text().splitlines()
    assert text == GOLDEN.read_text()


@pytest.mark.parametrize("name", DESIGNS)
def test_verilator_has_no_warning(bundles: dict[str, mase_hw.Design], tools: BuildTools, name: str) -> None:
    """Exactly the files of the list, in its order, no warning switched off; with and without the simulation checks."""
    design = bundles[name]
    for flags in ((), ("-DSYNTHESIS",)):
        assert lint_bundle(design.path, design.manifest["top"], tools, *flags) == ""


def library_names(pattern: str, *files: str) -> set[str]:
    """What that pattern finds in files of the library."""
    return {name for file in files for name in re.findall(pattern, (LIBRARY / file).read_text())}


def test_nodes_with_names_of_the_library_hide_nothing(tmp_path: Path, tools: BuildTools) -> None:
    """Nodes called like functions of the library, and like instances in the modules that the design has."""
    every = [path.relative_to(LIBRARY).as_posix() for path in sorted(LIBRARY.glob("*/*.sv"))]
    names = library_names(r"\bfunction\s+automatic\b[^;(]*?(\w+)\s*\(", *every)
    names |= library_names(r"\bu_(\w+)", *with_dependences(["ops/fixed_linear.sv"]))
    # Modules have attributes of their own, and fx gives no node the name of a builtin.
    names = {name for name in names if not hasattr(nn.Module(), name) and not hasattr(builtins, name)}
    assert {"sum_width", "unread", "tree"} < names
    # The prefixes of the top level's other names are none of the library's.
    assert not library_names(r"\b(?:net|check)_\w+", *every)
    model = nn.Sequential(OrderedDict((name, nn.ReLU()) for name in sorted(names)))
    model.append(nn.Linear(2, 2))
    design = mase_hw.compile(model.eval(), torch.randn(1, 2), OWN_FRAMES, out=tmp_path / "b")
    assert {f"u_{name}" for name in names} <= {instance["name"] for instance in design.manifest["instances"]}
    assert lint_bundle(design.path, design.manifest["top"], tools) == ""


@pytest.mark.parametrize("name", DESIGNS)
def test_verible_has_no_complaint(bundles: dict[str, mase_hw.Design], name: str) -> None:
    design = bundles[name]
    assert not lint([design.path / "rtl" / f"{design.manifest['top']}.sv"])
    assert not [
        complaint for file in design.manifest["rtl"] for complaint in references_into_blocks(design.path / file)
    ]


@pytest.mark.parametrize("name", DESIGNS)
def test_a_module_a_file_and_only_what_is_used(bundles: dict[str, mase_hw.Design], name: str) -> None:
    design = bundles[name]
    files = {Path(f).stem: (design.path / f).read_text() for f in design.manifest["rtl"]}
    for module, text in files.items():
        assert f"\nmodule {module} " in text
        used = any(f"  {module} #(" in other or f"  {module} " in other for m, other in files.items() if m != module)
        assert used or module == design.manifest["top"] or f"lib/{module}.sv" in SUPPORT, module


@pytest.mark.parametrize(
    "name",
    [
        *("", "1top", "my-top", "top level", "na\u00efve", "a/b", "../x"),
        *("module", "logic", "always", "assert", "real", "clk", "data_in_0", "fixed_linear", "rom_source"),
    ],
)
def test_names_of_the_top(tmp_path: Path, name: str) -> None:
    """Keywords, names of library modules and of ports cannot be the module's name."""
    model, example, _ = DESIGNS["scalar"]
    with pytest.raises(ConfigError, match="top"):
        mase_hw.compile(model, example, {"top": name}, out=tmp_path / "b")
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_fine(tmp_path: Path) -> None:
    model, example, _ = DESIGNS["scalar"]
    design = mase_hw.compile(model, example, {"top": "My_top2"}, out=tmp_path / "b")
    assert "module My_top2 #(" in (design.path / "rtl" / "My_top2.sv").read_text()
