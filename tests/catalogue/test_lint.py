"""Exactly the declared files pass Verilator, Verible, slang and Yosys, with the parameters of every case."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from mase_hw.catalogue import OpDef, verilog_params
from mase_hw.flow.bench import BuildTools
from mase_hw.flow.lint import lint
from mase_hw.flow.tools import run_tool
from mase_hw.resources import rtl_root

from .conftest import Yosys
from .harness import HARDWARE_OPS, ITEMS, Item, files_of, hardware_of

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
    """Silent as simulated, and as synthesised (without the assertions, which use signals too)."""
    for flags in ((), ("-DSYNTHESIS",)):
        args = (it.hardware.module, files_of(it.op), verilog_params(it.case.params), *flags)
        assert verilate(tools, rtl_root(), *args) == (0, "")


@every_op
def test_verible(op: OpDef) -> None:
    complaints = lint(rtl_root() / file for file in files_of(op))
    assert not complaints, "\n".join(complaints)


def read_slang(it: Item) -> str:
    """The Yosys command that reads one case from exactly its declared files."""
    values = " ".join(f"-G{name}={value}" for name, value in verilog_params(it.case.params).items())
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


@pytest.mark.parametrize("path", sorted(rtl_root().glob("lib/*.sv")), ids=lambda path: path.stem)
def test_every_library_module_by_itself(path: Path, tools: BuildTools) -> None:
    """With its default parameters, which need not make sense."""
    for flags in ((), ("-DSYNTHESIS",)):
        assert verilate(tools, rtl_root(), path.stem, needed_files(path.stem), {}, *flags) == (0, "")


# What is wrong, and whose message says so; the other parameters keep their defaults.
Bad = list[tuple[dict[str, int], str]]
ELEMENTWISE: Bad = [
    ({"DATA_IN_0_PRECISION_0": 0}, "fixed_cast_unit: .*IN_WIDTH 0 "),
    ({"DATA_OUT_0_PRECISION_0": 0}, "fixed_cast_unit: .*OUT_WIDTH 0 "),
    ({"DATA_IN_0_SIGNED": 2}, "fixed_cast_unit: .*IN_SIGNED 2 "),
    ({"ROUNDING": 4}, "fixed_cast_unit: ROUNDING .* 4$"),
    ({"OVERFLOW": -1}, "fixed_cast_unit: OVERFLOW .* -1$"),
    ({"DATA_IN_0_TENSOR_SIZE_DIM_1": 0}, "MODULE: DATA_IN_0_TENSOR_SIZE_DIM.* at least 1"),
    ({"DATA_IN_0_PARALLELISM_DIM_2": 0}, "MODULE: DATA_IN_0_PARALLELISM_DIM.* at least 1"),
    ({"DATA_OUT_0_TENSOR_SIZE_DIM_0": 3}, "MODULE: DATA_OUT_0_TENSOR_SIZE .*differs"),
    ({"DATA_OUT_0_PARALLELISM_DIM_0": 2}, "MODULE: DATA_OUT_0_PARALLELISM .*differs"),
]
BAD: dict[str, Bad] = {
    "fixed_cast": ELEMENTWISE,
    "fixed_relu": ELEMENTWISE,
    "fixed_linear": [
        ({"DATA_IN_0_TENSOR_SIZE_DIM_2": 0}, "MODULE: tensor sizes .*at least 1"),
        ({"DATA_OUT_0_TENSOR_SIZE_DIM_0": 0}, "MODULE: tensor sizes .*at least 1"),
        ({"DATA_IN_0_PARALLELISM_DIM_0": 0}, "MODULE: parallelism .*at least 1"),
        ({"DATA_OUT_0_PARALLELISM_DIM_0": -1}, "MODULE: parallelism .*at least 1"),
        ({"DATA_IN_0_PARALLELISM_DIM_1": 2}, "MODULE: DATA_IN_0_PARALLELISM_DIM_1 "),
        ({"DATA_OUT_0_PARALLELISM_DIM_2": 3}, "MODULE: DATA_OUT_0_PARALLELISM_DIM_1 "),
        ({"DATA_OUT_0_TENSOR_SIZE_DIM_1": 4}, "MODULE: .*TENSOR_SIZE_DIM_1"),
        ({"WEIGHT_TENSOR_SIZE_DIM_0": 3}, "MODULE: .*WEIGHT_TENSOR_SIZE_DIM_0"),
        ({"WEIGHT_TENSOR_SIZE_DIM_1": 3}, "MODULE: .*WEIGHT_TENSOR_SIZE_DIM_1"),
        ({"WEIGHT_PARALLELISM_DIM_0": 2}, "MODULE: .*WEIGHT_PARALLELISM_DIM_0"),
        ({"WEIGHT_PARALLELISM_DIM_1": 2}, "MODULE: .*WEIGHT_PARALLELISM_DIM_0"),
        ({"HAS_BIAS": 2}, "MODULE: HAS_BIAS .* 2$"),
        ({"BIAS_PRECISION_0": 0}, "MODULE: .*BIAS_PRECISION_0"),
        ({"BIAS_SIGNED": 2}, "MODULE: BIAS_SIGNED .* 2$"),
        ({"BIAS_TENSOR_SIZE_DIM_0": 2}, "MODULE: .*BIAS_TENSOR_SIZE_DIM_0"),
        ({"BIAS_PARALLELISM_DIM_0": 2}, "MODULE: .*BIAS_PARALLELISM_DIM_0"),
        ({"WEIGHT_PRECISION_0": 0}, "fixed_dot_product: .*B_WIDTH 0 "),
        ({"WEIGHT_SIGNED": 3}, "fixed_dot_product: .*B_SIGNED 3 "),
        ({"ROUNDING": 5}, "fixed_cast_unit: ROUNDING .* 5$"),
    ],
    "fixed_accumulator": [({"IN_WIDTH": 0}, "MODULE: .*IN_WIDTH"), ({"IN_WIDTH": 20}, "MODULE: .*ACC_WIDTH")],
    "fixed_adder_tree": [({"N": 0}, "MODULE: N .* 0$"), ({"WIDTH": 0}, "MODULE: WIDTH .* 0$")],
    "fixed_cast_unit": [({"IN_WIDTH": 0}, "MODULE: IN_WIDTH 0 "), ({"OUT_SIGNED": 2}, "MODULE: .*OUT_SIGNED 2")],
    "fixed_dot_product": [({"N": 0}, "MODULE: N .* 0$"), ({"A_SIGNED": 2}, "MODULE: A_SIGNED 2")],
    "register_slice": [({"WIDTH": 0}, "MODULE: WIDTH .* 0$")],
    "replay_buffer": [({name: 0}, f"MODULE: {name} .* 0$") for name in ("WIDTH", "LEN", "REPEATS")],
    "rom_source": [({"DEPTH": 0}, "MODULE: DEPTH .* 0$"), ({"WIDTH": 0}, "MODULE: WIDTH .* 0$")],
    "skid_buffer": [({"WIDTH": -1}, "MODULE: WIDTH .* -1$")],
    "stream_check": [({"WIDTH": 0}, "MODULE.*: WIDTH .* 0$")],
    "stream_fifo": [({"DEPTH": 0}, "MODULE: DEPTH .* 0$"), ({"WIDTH": 0}, "MODULE: WIDTH .* 0$")],
    "stream_fork": [({"N": 0}, "MODULE: N .* 0$"), ({"WIDTH": 0}, "MODULE: WIDTH .* 0$")],
    "stream_join": [({"N": 0}, "MODULE: N .* 0$")],
    "stream_repack": [
        ({"WIDTH": 0}, "MODULE: WIDTH .* 0$"),
        ({"IN_LANES": 0}, "MODULE: IN_LANES 0 "),
        ({"OUT_LANES": 0}, "MODULE: .*OUT_LANES 0 "),
        ({"OUT_SIZE": -2}, "MODULE: .*OUT_SIZE -2 "),
    ],
}


def needed_files(module: str) -> list[str]:
    """A file by its module, after everything it may need."""
    declared = [files_of(op) for op in HARDWARE_OPS if hardware_of(op).module == module]
    trees = ["lib/fixed_adder_tree.sv"] if module == "fixed_dot_product" else []
    return declared[0] if declared else [*trees, f"lib/{module}.sv"]


@pytest.mark.parametrize("module", BAD)
def test_bad_parameters_stop_elaboration(module: str, tools: BuildTools, yosys: Yosys) -> None:
    """With the message of the module itself; where Verilator stops at a consequence before it, with slang's."""
    files = needed_files(module)
    paths = " ".join(f"{rtl_root().name}/{file}" for file in files)
    for overrides, message in BAD[module]:
        wanted = re.compile(message.replace("MODULE", module), re.MULTILINE)
        code, output = verilate(tools, rtl_root(), module, files, overrides)
        assert code != 0, overrides
        if not re.search(r"USERFATAL.*" + wanted.pattern, output, re.MULTILINE):
            assert "%Error" in output, f"{overrides}: {output}"
            values = " ".join(f"-G{name}={value}" for name, value in overrides.items())
            code, output = yosys(f"read_slang -j 1 --ignore-assertions --top {module} {values} {paths}")
            assert code != 0 and re.search(r"ERROR: \$fatal encountered: .*" + wanted.pattern, output, re.MULTILINE), (
                f"{overrides}: {output}"
            )


def test_every_module_checks_its_parameters() -> None:
    assert set(BAD) == {path.stem for path in rtl_root().glob("*/*.sv")}
