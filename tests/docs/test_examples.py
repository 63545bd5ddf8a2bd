"""The examples that need a simulator or a package of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from mase_hw import cli
from mase_hw.errors import SimulationError
from mase_hw.host.toolchain import require, verilator_env
from scripts import gallery
from tests.docs.pages import PAGES, ROOT, blocks, shown_files
from tests.docs.test_docs import assert_shown
from tests.docs.test_gallery import assert_on_the_page
from tests.docs.triggers import simulated

NEW_OP = ROOT / "docs" / "adding_an_op.md"


def test_every_comment_means_something() -> None:
    """No block is left out because of a comment that nobody reads."""
    known = ("simulates", "run with the new op", "run with the plug-in", "not run")
    for block in blocks("python"):
        assert block.note in ("", *known) or block.file, block.id


def test_simulations(workplace: Path) -> None:
    """The README's design, and what other pages do with it; all with one build."""
    torch.manual_seed(0)
    for page in PAGES:
        names: dict[str, object] = {"__name__": "page"}
        for block in blocks("python", page=page):
            if block.note == "simulates":
                block.run(names)
    demo = Path("build/demo")
    for name, fail in simulated(demo).items():
        with pytest.raises(SimulationError) as caught:
            fail()
        assert_shown(name, caught.value)
    script = demo / "sim" / "simulate.py"
    for option in ("--seed", "--stalls", "--waves"):
        assert option in script.read_text(encoding="utf-8")

    # The instantiation in bundle.md.
    (wrapper,) = (b for b in blocks("systemverilog") if b.file == "wrapper.sv")
    Path("wrapper.sv").write_text(wrapper.text, encoding="utf-8")
    verilator = str(require("verilator")["verilator"].path)
    command = [verilator, "--lint-only", "-Wall", "--top-module", "wrapper", "-f", "rtl/files.f"]
    done = subprocess.run(
        [*command, str(workplace / "wrapper.sv")],
        cwd=demo,
        env=verilator_env(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_page_shows_what_the_example_prints(workplace: Path) -> None:
    """Every line, in its order; of figures only those that no machine changes."""
    (shown,) = (b.text for b in blocks("text", page=ROOT / "docs/first_steps.md") if "==> training" in b.text)
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "digits_mlp.py"), "--out", "build/digits_mlp"],
        cwd=workplace,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "500"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Paths are whole ones; how far a slow simulation is, is said now and then.
    text = done.stdout.replace(f"{workplace}{os.sep}", "")
    printed = [line for line in text.splitlines() if not line.startswith("==> simulated ")]

    def words(lines: list[str]) -> list[str]:
        return [re.sub(r"[ \d.%]+", " ", line).strip() for line in lines if line.strip()]

    def exact(lines: list[str]) -> list[str]:
        return [line for line in lines if re.search("images|fill|interval|beats|mismatches|cycles", line)]

    assert words(printed) == words(shown.splitlines())
    assert exact(printed) == exact(shown.splitlines())
    manifest = json.loads((workplace / "build" / "digits_mlp" / "manifest.json").read_text(encoding="utf-8"))
    assert_on_the_page(gallery.row("digits_mlp", text, manifest))


def test_own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model and the configuration of first_steps.md, through the command line."""
    monkeypatch.chdir(tmp_path)
    for name, text in shown_files(ROOT / "docs/first_steps.md").items():
        Path(name).write_text(text, encoding="utf-8")
    assert cli.main(["compile", "mynet.py:build", "--config", "mynet.toml", "--out", "build/mynet"]) == cli.OK
    assert (tmp_path / "build" / "mynet" / "manifest.json").is_file()


def test_new_op(workplace: Path) -> None:
    """The op of adding_an_op.md, in a copy of the package: it compiles, and the catalogue's tests prove it."""
    ignore = shutil.ignore_patterns("__pycache__")
    for folder in ("mase_hw", "rtl_templates", "sim", "tests/catalogue"):
        shutil.copytree(ROOT / folder, workplace / folder, ignore=ignore)
    (workplace / "tests" / "unit").mkdir()
    for file in ("pyproject.toml", "tests/conftest.py", "tests/long_runs.toml", "tests/unit/oracle.py", "tests/rtl.py"):
        shutil.copy(ROOT / file, workplace / file)
    files = shown_files(NEW_OP)
    assert set(files) == {"mase_hw/ops/square.py", "rtl_templates/ops/fixed_square.sv.j2"}
    for name, text in files.items():
        (workplace / name).write_text(text, encoding="utf-8")
    for command in (("check",), ("format", "--check")):
        python = str(workplace / "mase_hw" / "ops" / "square.py")
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, python], cwd=workplace, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
    (model,) = (b for b in blocks("python", page=NEW_OP) if b.note == "run with the new op")
    page = f"import mase_hw\nassert mase_hw.__file__.startswith({str(workplace)!r})\n{model.text}"
    body = "def test_page():\n" + textwrap.indent(page, "    ")
    (workplace / "tests" / "catalogue" / "test_page.py").write_text(body, encoding="utf-8")

    # Not the package under test, and nothing of a surrounding pytest; but as if by a worker of it, so that the
    # compiled runtime beside the base folder is used.
    (workplace / "runtime-cache").symlink_to(workplace / "build" / "runtime-cache", target_is_directory=True)
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    env |= {"PYTHONPATH": str(workplace), "PYTEST_XDIST_WORKER": "gw0"}
    # Everything there is about the op but further builds of simulators, and a synthesis beside what slang reads.
    chosen = "test_page or (square and not synthesis and not (test_simulation and rounded))"
    options = ["-v", "-p", "no:cacheprovider", "--basetemp", str(workplace / "t"), "-k", chosen, "tests/catalogue"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=workplace, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for test in (
        "test_full_rate[square-every_code]",
        "test_random_stalls[square-every_code]",
        "test_full_rate[square-wide]",
        "test_verible[square]",
        "test_slang[square]",
        "test_every_module_by_itself[fixed_square]",
        "test_every_fatal_is_a_guard_or_an_assertion[fixed_square]",
        "test_facets_build_the_parameters[square-rounded]",
        "test_page",
    ):
        assert re.search(rf"{re.escape(test)} PASSED|PASSED .*{re.escape(test)}", done.stdout), test
