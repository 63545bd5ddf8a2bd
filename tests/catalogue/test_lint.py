"""Exactly the declared files pass Verilator, Verible, slang and Yosys, with the parameters of every case."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from mase_hw.catalogue import OpDef, verilog_params
from mase_hw.host.lint import lint
from mase_hw.resources import rtl_root
from mase_hw.simulate.build.simulator import FLAGS
from mase_hw.simulate.build.tools import run_tool
from mase_hw.simulate.engines.cocotb.engine import BuildTools

from .conftest import Yosys
from .elaborate import with_parts
from .harness import HARDWARE_OPS, ITEMS, Item, files_of
from .memories import file_of

every_op = pytest.mark.parametrize("op", HARDWARE_OPS, ids=lambda op: op.name)
every_case = pytest.mark.parametrize("it", ITEMS, ids=lambda it: it.id)

# Verilator and slang write the values of parameters, and everything else, differently.
VERILATOR = ("--lint-only", "-Wall", "--assert")


def verilate(
    tools: BuildTools, root: Path, top: str, files: Sequence[str], parameters: Mapping[str, int | str], *flags: str
) -> tuple[int, str]:
    """Elaborate a module in Verilator; return the exit code and what it printed, the statistics aside."""
    command = [str(tools.verilator), *VERILATOR, "--quiet", *flags, "--top-module", top]
    for name, value in parameters.items():
        literal = f'"{value}"' if isinstance(value, str) else f"32'sh{value & 0xFFFFFFFF:08x}"
        command.append(f"-G{name}={literal}")
    done = run_tool([*command, *(str(root / file) for file in files)], tools.env)
    return done.returncode, done.stdout


@every_case
def test_verilator(it: Item, tools: BuildTools) -> None:
    """Silent as synthesised: without the assertions, which use signals too.

    As simulated every case is built in ``test_simulation.py``, where no warning is switched off.
    """
    args = (it.hardware.module, files_of(it.op), verilog_params(it.case.params), "-DSYNTHESIS")
    assert verilate(tools, rtl_root(), *args) == (0, "")


def test_no_warning_is_switched_off_where_cases_are_built() -> None:
    assert {"-Wall", "--assert"} <= set(FLAGS)
    assert not [flag for flag in FLAGS if flag.startswith("-Wno")]


@every_op
def test_verible(op: OpDef) -> None:
    complaints = lint(rtl_root() / file for file in files_of(op))
    assert not complaints, "\n".join(complaints)


def read_slang(it: Item) -> str:
    """The Yosys command that reads one case from exactly its declared files."""
    values = " ".join(f"-G{name}={value}" for name, value in verilog_params(it.case.params).items())
    if (folder := it.memory_folder) is not None:
        # Unlike simulators, synthesis reads the memories.
        folder = folder.relative_to(rtl_root().parent)
        values += "".join(f' -G{n}="{folder / file_of(n)}"' for n in it.hardware.memories(it.arithmetic))
    files = " ".join(f"{rtl_root().name}/{file}" for file in files_of(it.op))
    return f"read_slang -j 1 --ignore-assertions --top {it.hardware.module} {values} {files}"


def yosys_script(items: Sequence[Item], commands: str) -> str:
    """Read each case afresh and run commands on it; a failure is preceded by the name of its case."""
    return "; ".join(f"design -reset; log ==== {it.id} ====; {read_slang(it)}; {commands}" for it in items)


NO_LATCH = "select -assert-none t:$*latch* t:$sr t:$_SR_* t:$_DLATCH*"
# With every register and memory taken out, what an input still reaches is combinational.
CUT = "delete t:$*ff* t:$mem*; select -assert-none t:$*ff* t:$mem*"


@every_op
def test_slang(op: OpDef, yosys: Yosys) -> None:
    """Every case: no complaint, no latch, no combinational loop, and valid never waits for ready."""
    commands = f"proc; flatten; opt_clean; check -assert; {NO_LATCH}; {CUT}; "
    commands += "select -assert-none i:*ready %co* o:*valid %i"
    items = [it for it in ITEMS if it.op is op]
    code, log = yosys(yosys_script(items, commands))
    assert code == 0, log[-3000:]
    for line in ("Build succeeded: 0 errors, 0 warnings", "Found and reported 0 problems."):
        assert log.count(line) == len(items), re.findall(r"(?i)^.*warning.*$", log, re.MULTILINE)


@every_op
def test_synthesis(op: OpDef, yosys: Yosys) -> None:
    """The smallest case, down to gates."""
    items = [it for it in ITEMS if it.op is op]
    smallest = min(items, key=lambda it: math.prod(s.bits for s in it.streams))
    # Nothing but gates is left, flip-flops among them.
    checks = f"check -assert; {NO_LATCH}; select -assert-any t:$_*DFF*; select -assert-none t:* t:$_* %d"
    code, log = yosys(yosys_script([smallest], f"synth -top {smallest.hardware.module}; {checks}"))
    # What Yosys prints after ABC is lost; its exit code is not.
    assert code == 0 and "Executing ABC pass" in log, log[-3000:]


@pytest.mark.parametrize("path", sorted(rtl_root().glob("*/*.sv")), ids=lambda path: path.stem)
def test_every_module_by_itself(path: Path, tools: BuildTools) -> None:
    """With its default parameters, the smallest ones of most; test_guards.py refuses everything else around them."""
    files = with_parts(rtl_root(), path.name)
    for flags in ((), ("-DSYNTHESIS",)):
        assert verilate(tools, rtl_root(), path.stem, files, {}, *flags) == (0, "")
