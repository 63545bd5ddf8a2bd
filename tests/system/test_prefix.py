"""Two systems in one project, one program and one SoC: a prefix before every name that could meet another."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.host.toolchain import find
from mase_hw.simulate.build.tools import find_build_tools, run_tool
from mase_hw.system import make_system, system_options
from mase_hw.system.selftest import build_program
from mase_hw.system.soc import build_soc, run_soc, write_soc
from tests.handoff.designs import FRAMES as PAIRS
from tests.handoff.designs import emit
from tests.system.test_driver import FRAMES
from tests.system.test_driver import bundle as bundle

MAIN = """
#include "p_mase_model.h"
#include "p_mase_selftest.h"
#include "q_mase_model.h"
#include "q_mase_selftest.h"
#include <stdio.h>

static void say(const char *text) { fputs(text, stdout); }

int main(void)
{
    struct p_mase_hal p;
    struct q_mase_hal q;
    struct p_mase_buffers in_p = { 0, 2 * P_MASE_INPUT_BYTES, 0, 2 * P_MASE_OUTPUT_BYTES };
    struct q_mase_buffers in_q = { 0, 2 * Q_MASE_INPUT_BYTES, 0, 2 * Q_MASE_OUTPUT_BYTES };

    p_model_open(&p, 20, 0);
    q_model_open(&q, 0, 1);
    in_p.input = p_model_buffer(in_p.input_bytes);
    in_p.output = p_model_buffer(in_p.output_bytes);
    in_q.input = q_model_buffer(in_q.input_bytes);
    in_q.output = q_model_buffer(in_q.output_bytes);
    return p_mase_selftest(&p, &in_p, 100000, say) + q_mase_selftest(&q, &in_q, 100000, say);
}
"""
"""Both drivers with both models, one polling and one with its interrupt."""


@pytest.fixture(scope="module")
def systems(bundle: mase_hw.Design, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Of a bundle without a prefix, and of another design whose bundle has one, with a clock for its core."""
    folder = tmp_path_factory.mktemp("two")
    make_system(bundle.path, folder / "p", system_options(prefix="p_"))
    make_system(
        emit(folder / "bundle", prefix="q_").path,
        folder / "q",
        system_options(bus=32, elements="packed", core_clock=True),
    )
    return folder / "p", folder / "q"


def rtl(system: Path) -> list[str]:
    """The files in their order."""
    return [str(system / line) for line in (system / "rtl/files.f").read_text().split()]


def test_they_elaborate_together(systems: tuple[Path, Path]) -> None:
    """By Verilator without a warning but that of several tops."""
    tools = find_build_tools()
    lint = [str(tools.verilator), "--lint-only", "-Wall"]
    done = run_tool([*lint, *(file for system in systems for file in rtl(system))], tools.env)
    assert set(re.findall(r"^%(\S+):", done.stdout, re.MULTILINE)) == {"Warning-MULTITOP", "Error"}, done.stdout


def test_no_symbol_of_one_is_in_the_other(systems: tuple[Path, Path], tmp_path: Path) -> None:
    """Of the C that is compiled for a board; nor a macro, a file or a memory, and every header in one source."""
    defined, files, macros = [], [], []
    for system in systems:
        software = system / "software"
        sources = [p for p in software.glob("*.c") if not p.stem.endswith(("main", "server", "litex", "uio"))]
        objects = tmp_path / system.name
        objects.mkdir()
        strict = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{software}", "-c"]
        subprocess.run([*strict, *map(str, sources)], cwd=objects, check=True)
        said = subprocess.run(["nm", "-g", "--defined-only", *map(str, objects.glob("*.o"))], capture_output=True)
        defined.append(set(re.findall(r" [A-Z] (\w+)$", said.stdout.decode(), re.MULTILINE)))
        headers = [p for p in software.glob("*.h") if "litex" not in p.name]
        macros.append({m for p in headers for m in re.findall(r"#define (\w+)", p.read_text())})
        there = (p for folder in ("rtl", "mem", "software") for p in (system / folder).rglob("*") if p.is_file())
        files.append({p.name for p in there} - {"files.f", "top.f", "Makefile"})
    both = tmp_path / "both.c"
    names = sorted(p.name for system in systems for p in (system / "software").glob("*.h") if "litex" not in p.name)
    both.write_text("".join(f'#include "{name}"\n' for name in names))
    include = [f"-I{system / 'software'}" for system in systems]
    subprocess.run(["gcc", "-std=c99", "-Wall", "-Werror", "-pedantic", *include, "-fsyntax-only", both], check=True)
    for kind in (defined, files, macros):
        assert len(kind[0]) > 5 and kind[0].isdisjoint(kind[1])


def test_the_python_driver_finds_its_files(systems: tuple[Path, Path]) -> None:
    """Registers and codes of both are the same, read from their own headers."""
    found = []
    for system, prefix in zip(systems, "pq", strict=True):
        path = system / f"software/{prefix}_mase_driver.py"
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
        found.append((module.REG, module.CODES, module.TEXTS))
    assert found[0] == found[1] and "MAGIC" in found[0][0] and "OK" in found[0][1]


def test_a_prefix_is_given_once(systems: tuple[Path, Path], tmp_path: Path) -> None:
    """A bundle's own prefix cannot be another one, and systems of one SoC cannot share theirs."""
    bundle = systems[1].parent / "bundle"
    with pytest.raises(ConfigError, match="another prefix"):
        make_system(bundle, tmp_path / "s", system_options(prefix="r_"))
    with pytest.raises(ConfigError, match="different prefixes"):
        write_soc(systems[1], beside=[systems[1]])
    with pytest.raises(ConfigError, match="out of range"):
        system_options(prefix="9")


@pytest.mark.slow
def test_both_drivers_in_one_program(systems: tuple[Path, Path], tiny: str, tmp_path: Path) -> None:
    """Both Verilated models are linked with both drivers, and both self-tests pass."""
    tools = find_build_tools()
    for system in systems:
        build_program(system, make=tiny)
    main = tmp_path / "main.c"
    main.write_text(MAIN)
    include = [f"-I{system / 'software'}" for system in systems]
    subprocess.run(["gcc", "-std=c99", *include, "-c", "main.c"], cwd=tmp_path, check=True)
    parts = [p for system in systems for p in (system / "build").glob("*mase_*.o")]
    models = [p for system in systems for p in (system / "build/model").glob("*Vsystem__ALL.a")]
    objects = [*parts, *models, systems[0] / "build/model/libverilated.a"]
    link = [*tools.compiler, "-o", "both", "main.o", *map(str, objects), "-pthread"]
    done = run_tool(link, tools.env, tmp_path)
    assert done.returncode == 0, done.stdout
    for system in systems:
        (system.parent / "mem").exists() or (system.parent / "mem").mkdir()
        for file in (system / "mem").iterdir():
            (system.parent / "mem" / file.name).write_bytes(file.read_bytes())
    done = run_tool([str(tmp_path / "both")], tools.env, systems[0].parent)
    assert done.returncode == 0, done.stdout
    assert re.fullmatch(rf"PASS: {FRAMES} frames.*\nPASS: {PAIRS} frames.*\n", done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(bool(find("litex").problem or find("riscv-gcc").problem), reason="no LiteX, or no RISC-V compiler")
def test_two_accelerators_in_one_soc(systems: tuple[Path, Path]) -> None:
    """Each at its own address, with its own interrupt and driver, the second core in another clock domain.

    A wrong vector of the second is its failure alone.
    """
    p, q = systems
    gateware = write_soc(p, beside=[q])
    generated = gateware.parent / "software/include/generated"
    text = (generated / "mem.h").read_text() + (generated / "soc.h").read_text()
    for what in ("BASE 0x", "INTERRUPT "):
        places = re.findall(rf"#define [PQ]_MASE_{what}(\w+)", text)
        assert len(places) == len(set(places)) == 2
    simulator = build_soc(gateware)
    result = run_soc(simulator, gateware)
    assert result.passed
    said = [
        re.match(r"PASS: (\d+) frames, (\d+) cycles for the last \((\d+) predicted\)", line)
        for line in result.text.splitlines()[:2]
    ]
    assert [one and (int(one[1]), one[2] == one[3]) for one in said] == [(FRAMES, True), (PAIRS, True)]
    vectors = q / "software/q_mase_vectors.c"
    before, begin, rest = vectors.read_text().partition(
        "q_mase_vectors_out[Q_MASE_VECTORS][Q_MASE_OUTPUT_BYTES] = {\n    {"
    )
    assert begin
    first, comma, others = rest.partition(",")
    vectors.write_text(f"{before}{begin}{int(first) ^ 1}{comma}{others}")
    result = run_soc(simulator, write_soc(p, beside=[q]))
    lines = result.text.splitlines()
    assert not result.passed and lines[0].startswith("PASS") and lines[1].startswith("FAIL: frame 0, element 0")
