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
from mase_hw.simulate.build.tools import run_tool
from mase_hw.simulate.engines.cocotb.engine import BuildTools

from .conftest import Yosys
from .harness import HARDWARE_OPS, ITEMS, Item, files_of, hardware_of
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
IMAGE: Bad = [
    ({"DATA_IN_0_TENSOR_SIZE_DIM_3": 0}, "MODULE: DATA_IN_0_TENSOR_SIZE_DIM_0 .*at least 1"),
    ({"DATA_IN_0_PARALLELISM_DIM_0": 0}, "MODULE: DATA_IN_0_PARALLELISM_DIM_0 0 "),
    ({"DATA_OUT_0_PARALLELISM_DIM_0": 2}, "MODULE: DATA_OUT_0_PARALLELISM differs"),
    ({"DATA_OUT_0_TENSOR_SIZE_DIM_0": 2}, "MODULE: DATA_OUT_0_TENSOR_SIZE_DIM_0 .*differs"),
    ({"DATA_OUT_0_TENSOR_SIZE_DIM_1": 2}, "(MODULE|window_pool): .*"),
]
BAD: dict[str, Bad] = {
    "fixed_cast": ELEMENTWISE,
    "fixed_relu": ELEMENTWISE,
    "fixed_linear": [
        ({"DATA_IN_0_TENSOR_SIZE_DIM_2": 0}, "MODULE: tensor sizes .*at least 1"),
        ({"DATA_OUT_0_TENSOR_SIZE_DIM_0": 0}, "MODULE: tensor sizes .*at least 1"),
        ({"DATA_IN_0_PARALLELISM_DIM_0": 0}, "MODULE: .*parallelism .*at least 1"),
        ({"DATA_OUT_0_PARALLELISM_DIM_0": -1}, "MODULE: .*parallelism .*at least 1"),
        ({"DATA_IN_0_PARALLELISM_DIM_1": 2}, "MODULE: PARALLELISM_DIM_1 "),
        ({"DATA_OUT_0_PARALLELISM_DIM_2": 3}, "MODULE: PARALLELISM_DIM_1 "),
        ({"DATA_OUT_0_TENSOR_SIZE_DIM_1": 4}, "MODULE: .*TENSOR_SIZE_DIM_1"),
        ({"WEIGHT_TENSOR_SIZE_DIM_0": 3}, "MODULE: .*WEIGHT_TENSOR_SIZE_DIM_0"),
        ({"WEIGHT_TENSOR_SIZE_DIM_1": 3}, "MODULE: .*WEIGHT_TENSOR_SIZE_DIM_0, _1"),
        ({"WEIGHT_PARALLELISM_DIM_0": 2}, "MODULE: .*WEIGHT_PARALLELISM_DIM_0"),
        ({"WEIGHT_PARALLELISM_DIM_1": 2}, "MODULE: .*WEIGHT_PARALLELISM_DIM_0"),
        ({"HAS_BIAS": 2}, "MODULE: .*HAS_BIAS 2"),
        ({"BIAS_PRECISION_0": 0}, "MODULE: .*BIAS_PRECISION_0"),
        ({"BIAS_SIGNED": 2}, "MODULE: .*BIAS_SIGNED 2"),
        ({"BIAS_TENSOR_SIZE_DIM_0": 2}, "MODULE: .*BIAS_TENSOR_SIZE_DIM_0"),
        ({"BIAS_PARALLELISM_DIM_0": 2}, "MODULE: .*BIAS_PARALLELISM_DIM_0"),
        ({"WEIGHT_SHIFT_PRECISION_0": 7}, "MODULE: WEIGHT_SHIFT"),
        ({"HAS_WEIGHT_SHIFT": 1, "WEIGHT_SHIFT_TENSOR_SIZE_DIM_0": 2}, "MODULE: WEIGHT_SHIFT_TENSOR_SIZE_DIM_0"),
        ({"WEIGHT_PRECISION_0": 0}, "fixed_dot_product: .*B_WIDTH 0 "),
        ({"WEIGHT_SIGNED": 3}, "fixed_dot_product: .*B_SIGNED 3 "),
        ({"ROUNDING": 5}, "fixed_cast_unit: ROUNDING .* 5$"),
    ],
    "fixed_function": [
        *(bad for bad in ELEMENTWISE if bad[1].startswith("MODULE")),
        ({"DATA_IN_0_PRECISION_0": 0}, "fixed_lookup: IN_WIDTH 0 "),
        ({"DATA_OUT_0_PRECISION_0": 0}, "fixed_lookup: .*OUT_WIDTH 0 "),
        ({"DATA_IN_0_PRECISION_1": 513}, "MODULE: DATA_IN_0_PRECISION_1 513 "),
        ({"DATA_IN_0_SIGNED": 2}, "MODULE: DATA_IN_0_SIGNED 2 "),
        ({"SEGMENTS": -1}, "MODULE: SEGMENTS .* -1$"),
    ],
    "fixed_pieces": [
        *(bad for bad in ELEMENTWISE if not bad[1].startswith("fixed_cast_unit: .*IN_")),
        ({"DATA_IN_0_PRECISION_0": 0}, "MODULE: DATA_IN_0_PRECISION_0 .* 0$"),
        ({"DATA_IN_0_SIGNED": 2}, "MODULE: DATA_IN_0_SIGNED .* 2$"),
        ({"SLOPE_FRAC": -1}, "MODULE: SLOPE_FRAC -1 "),
        ({"OFFSET_FRAC": -1}, "MODULE: .*OFFSET_FRAC -1 "),
    ],
    "fixed_prelu": [
        *(bad for bad in ELEMENTWISE if not bad[1].startswith("fixed_cast_unit: .*IN_")),
        ({"DATA_IN_0_PRECISION_0": 0}, "MODULE: DATA_IN_0_PRECISION_0 .* 0$"),
        ({"DATA_IN_0_SIGNED": 2}, "MODULE: DATA_IN_0_SIGNED .* 2$"),
        ({"WEIGHT_SIGNED": 2}, "MODULE: .*WEIGHT_SIGNED 2"),
        ({"WEIGHT_PARALLELISM_DIM_0": 2}, "MODULE: WEIGHT_PARALLELISM_DIM_0 .* 2$"),
        ({"WEIGHT_TENSOR_SIZE_DIM_0": 3}, "MODULE: WEIGHT_TENSOR_SIZE_DIM_0 3"),
    ],
    "row_end": [({"SIZE": 0}, "MODULE: SIZE 0 "), ({"LANES": 0}, "MODULE: .*LANES 0 ")],
    "fixed_lookup": [({"IN_WIDTH": 25}, "MODULE: IN_WIDTH 25 ")],
    "fixed_piecewise": [
        ({"IN_SIGNED": 2}, "MODULE: IN_SIGNED .* 2$"),
        ({"IN_WIDTH": 1}, "MODULE: IN_WIDTH .* 1$"),
        ({"STEP_WIDTH": 0}, "MODULE: .*STEP_WIDTH 0"),
    ],
    "fixed_max_pool2d": IMAGE,
    "fixed_avg_pool2d": IMAGE,
    "fixed_upsample_nearest": IMAGE,
    "fixed_zero_pad2d": IMAGE,
    "window_reduce": [
        ({"OUT_WIDTH": 7}, "MODULE: .*OUT_WIDTH"),
        ({"SUM": 2}, "MODULE: .*SUM 2"),
        ({"INNER": 0}, "MODULE: .*INNER 0 "),
        ({"STRIDE": 0}, "MODULE: .*STRIDE 0"),
        ({"ADAPTIVE": 1, "OUT_LEN": 2}, "MODULE: OUT_LEN 2 is more than LEN 1$"),
        ({"OUT_LEN": 2}, "MODULE: OUT_LEN 2 windows "),
    ],
    "fixed_divide_unit": [
        ({"IN_WIDTH": 0}, "MODULE: IN_WIDTH .* 0$"),
        ({"ROWS": 0}, "MODULE: .*ROWS 0"),
        ({"COL_MIN": 0}, "MODULE: .*COL_MIN 0"),
        ({"ROUNDING": 4}, "MODULE: ROUNDING .* 4$"),
    ],
    "fixed_conv2d": [
        ({"DATA_IN_0_TENSOR_SIZE_DIM_1": 0}, "MODULE: tensor sizes .*at least 1"),
        ({"DATA_OUT_0_TENSOR_SIZE_DIM_0": 0}, "MODULE: tensor sizes .*at least 1"),
        ({"DATA_OUT_0_TENSOR_SIZE_DIM_3": 2}, "MODULE: TENSOR_SIZE_DIM_3 "),
        ({"DATA_IN_0_PARALLELISM_DIM_0": 0}, "MODULE: parallelism .*at least 1"),
        ({"DATA_IN_0_PARALLELISM_DIM_1": 2}, "MODULE: DATA_IN_0_PARALLELISM_DIM_1 "),
        ({"DATA_OUT_0_PARALLELISM_DIM_3": 2}, "MODULE: DATA_OUT_0_PARALLELISM_DIM_1 "),
        ({"GROUPS": 2}, "MODULE: GROUPS 2 "),
        ({"GROUPS": 0}, "MODULE: GROUPS 0 "),
        ({"WEIGHT_TENSOR_SIZE_DIM_1": 3}, "MODULE: WEIGHT_TENSOR_SIZE "),
        ({"WEIGHT_PARALLELISM_DIM_3": 2}, "MODULE: WEIGHT_PARALLELISM_DIM_0"),
        ({"WEIGHT_PARALLELISM_DIM_2": 3}, "MODULE: WEIGHT_PARALLELISM_DIM_1"),
        ({"HAS_BIAS": 1, "BIAS_TENSOR_SIZE_DIM_0": 2}, "MODULE: BIAS_TENSOR_SIZE_DIM_0"),
        ({"HAS_BIAS": 2}, "fixed_mac_array: HAS_BIAS 2"),
        ({"WEIGHT_SHIFT_SIGNED": 1}, "MODULE: WEIGHT_SHIFT_PRECISION_1 and WEIGHT_SHIFT_SIGNED"),
        ({"HAS_WEIGHT_SHIFT": 1, "WEIGHT_SHIFT_PARALLELISM_DIM_0": 2}, "MODULE: WEIGHT_SHIFT_TENSOR_SIZE_DIM_0"),
        ({"LINE_BUFFER_DEPTH": 0}, "window_control: DEPTH .* 0$"),
        ({"STRIDE_DIM_0": 0}, "window_control: .*STRIDE_W 0"),
        ({"PADDING_DIM_1": -1}, "window_control: PAD_H -1"),
        ({"DILATION_DIM_0": 0}, "sliding_window: dilation"),
        ({"ROUNDING": 5}, "fixed_cast_unit: ROUNDING .* 5$"),
    ],
    "fixed_mac_array": [
        ({"LANES": 0}, "MODULE: LANES 0"),
        ({"RUN": 0}, "MODULE: .*RUN 0"),
        ({"BIAS_WIDTH": 0}, "MODULE: .*BIAS_WIDTH 0"),
        ({"SHIFT_WIDTH": 7}, "MODULE: .*SHIFT_WIDTH 7"),
    ],
    "loop_counter": [({"COUNT": 0}, "MODULE: COUNT .* 0$")],
    "parallel_window": [
        ({"WIDTH": 0}, "MODULE: WIDTH .* 0$"),
        ({"KERNEL_H": 0}, "MODULE: kernel 0 "),
        ({"ROWS": 0}, "MODULE: .*ROWS 0"),
    ],
    "elementwise_check": [
        ({"IN_SIZE_1": 0}, "MODULE of .*: DATA_IN_0_TENSOR_SIZE_DIM 1, 0, 1 "),
        ({"IN_LANES_2": 0}, "MODULE of .*: DATA_IN_0_PARALLELISM_DIM 1, 1, 0 "),
        ({"OUT_SIZE_0": 2}, "MODULE of .*: DATA_OUT_0_TENSOR_SIZE 2, 1, 1 differs"),
        ({"OUT_LANES_1": 2}, "MODULE of .*: DATA_OUT_0_PARALLELISM 1, 2, 1 differs"),
    ],
    "fixed_cast_slice": [({"LANES": 0}, "MODULE: LANES .* 0$")],
    "window_pool": [
        ({"KERNEL_H": 0}, "MODULE: a kernel"),
        ({"OUT_H": 2}, "MODULE: OUT_W, OUT_H are 1, 2, windows make 1, 1"),
    ],
    "window_steps": [({"COLUMNS": 0}, "MODULE: .*COLUMNS 0,")],
    "ring_add": [({"SIZE": 0}, "MODULE: SIZE .* 0$")],
    "sliding_window": [
        ({"WIDTH": 0}, "MODULE: WIDTH .* 0$"),
        ({"KERNEL_W": 0}, "MODULE: kernel .* 0$"),
        ({"DILATION_H": 0}, "MODULE: dilation .*0, 1"),
        ({"REPEATS": 0}, "MODULE: .*REPEATS 0"),
    ],
    "window_control": [
        ({"IN_H": 0}, "MODULE: sizes .*0 x 1"),
        ({"SPAN_W": -1}, "MODULE: .*SPAN_W -1"),
        ({"PAD_W": -1}, "MODULE: .*PAD_W -1"),
        ({"DEPTH": 0}, "MODULE: DEPTH .* 0$"),
    ],
    "fixed_affine": [
        ({"DATA_IN_0_TENSOR_SIZE_DIM_0": 0}, "MODULE: DATA_IN_0_TENSOR_SIZE_DIM.* at least 1"),
        ({"DATA_IN_0_PARALLELISM_DIM_1": 2}, "MODULE: DATA_IN_0_PARALLELISM "),
        ({"WEIGHT_TENSOR_SIZE_DIM_1": 3}, "MODULE: WEIGHT_TENSOR_SIZE "),
        ({"BIAS_TENSOR_SIZE_DIM_0": 3}, "MODULE: BIAS_TENSOR_SIZE "),
        ({"DATA_OUT_0_TENSOR_SIZE_DIM_2": 3}, "MODULE: DATA_OUT_0_TENSOR_SIZE "),
        ({"BIAS_PARALLELISM_DIM_0": 2}, "MODULE: BIAS_PARALLELISM 2 "),
        ({"WEIGHT_PRECISION_0": 0}, "MODULE: widths .*at least 1"),
        ({"ROUNDING": 4}, "fixed_cast_unit: ROUNDING .* 4$"),
    ],
    "fixed_binary": [
        ({"DATA_IN_0_TENSOR_SIZE_DIM_1": 0}, "MODULE: DATA_IN_0_TENSOR_SIZE_DIM.* at least 1"),
        ({"DATA_IN_0_PARALLELISM_DIM_2": 2}, "MODULE: DATA_IN_0_PARALLELISM_DIM"),
        ({"DATA_OUT_0_TENSOR_SIZE_DIM_0": 3}, "MODULE: DATA_OUT_0_TENSOR_SIZE .*differs"),
        ({"DATA_IN_1_TENSOR_SIZE_DIM_1": 3}, "MODULE: DATA_IN_1_TENSOR_SIZE .*does not go"),
        ({"HAS_CONSTANT": 1, "DATA_IN_1_TENSOR_SIZE_DIM_0": 3}, "MODULE: DATA_IN_1_TENSOR_SIZE .*does not go"),
        ({"DATA_OUT_0_PARALLELISM_DIM_0": 2}, "MODULE: lanes of "),
        ({"HAS_CONSTANT": 2}, "MODULE: HAS_CONSTANT .* 2$"),
        ({"OPERATION": 6}, "MODULE: OPERATION .* 6$"),
        ({"DATA_IN_1_PRECISION_0": 0}, "MODULE: .*DATA_IN_1_PRECISION_0 0 "),
        ({"DATA_IN_1_SIGNED": 2}, "MODULE: .*DATA_IN_1_SIGNED 2 "),
        ({"OVERFLOW": 2}, "fixed_cast_unit: OVERFLOW .* 2$"),
    ],
    "fixed_concat": [
        ({"INPUTS": 5}, "MODULE: INPUTS .* 5$"),
        ({"DATA_OUT_0_PARALLELISM_DIM_1": 2}, "MODULE: DATA_OUT_0_PARALLELISM "),
        ({"DATA_IN_1_TENSOR_SIZE_DIM_2": 2}, "MODULE: TENSOR_SIZE of DATA_IN_1 "),
        ({"DATA_IN_1_PARALLELISM_DIM_0": 2}, "MODULE: PARALLELISM of DATA_IN_1 "),
        ({"DATA_OUT_0_TENSOR_SIZE_DIM_1": 3}, "MODULE: the inputs have 2 beats a round, DATA_OUT_0 has 3"),
        ({"ROUNDING": 4}, "fixed_cast_unit: ROUNDING .* 4$"),
    ],
    "fixed_slice": [
        ({"DATA_OUT_0_TENSOR_SIZE_DIM_3": 0}, "MODULE: DATA_OUT_0_TENSOR_SIZE_DIM_0 .*at least 1"),
        ({"DATA_IN_0_PARALLELISM_DIM_0": 0}, "MODULE: DATA_IN_0_PARALLELISM .* 0$"),
        ({"DATA_IN_0_PARALLELISM_DIM_1": 2}, "MODULE: DATA_IN_0_PARALLELISM"),
        ({"DATA_OUT_0_PARALLELISM_DIM_0": 2}, "MODULE: DATA_OUT_0_PARALLELISM differs"),
        ({"DATA_OUT_0_TENSOR_SIZE_DIM_1": 2}, "MODULE: DATA_OUT_0_TENSOR_SIZE differs"),
        ({"DIM": 1}, "MODULE: DIM .* 1$"),
        ({"BEGIN": 2}, "MODULE: BEGIN 2, STEP 1 and 1 elements"),
        ({"STEP": 0}, "MODULE: BEGIN 0, STEP 0 "),
        (
            {
                "DIM": 0,
                "DATA_OUT_0_TENSOR_SIZE_DIM_2": 2,
                "DATA_IN_0_TENSOR_SIZE_DIM_0": 6,
                "DATA_OUT_0_TENSOR_SIZE_DIM_0": 3,
                "DATA_IN_0_PARALLELISM_DIM_0": 2,
                "DATA_OUT_0_PARALLELISM_DIM_0": 2,
            },
            "MODULE: .*no whole beats of 2 lanes",
        ),
        ({"DATA_IN_0_PRECISION_0": 0}, "fixed_cast_unit: .*IN_WIDTH 0 "),
        ({"ROUNDING": 4}, "fixed_cast_unit: ROUNDING .* 4$"),
    ],
    "fixed_unary": [
        *(bad for bad in ELEMENTWISE if not bad[1].startswith("fixed_cast_unit: .*IN_")),
        ({"DATA_IN_0_PRECISION_0": 0}, "MODULE: DATA_IN_0_PRECISION_0 .* 0$"),
        ({"DATA_IN_0_SIGNED": 2}, "MODULE: DATA_IN_0_SIGNED .* 2$"),
        ({"OPERATION": 3}, "MODULE: OPERATION .* 3$"),
        ({"HAS_LOWEST": 2}, "MODULE: HAS_LOWEST 2 "),
        ({"DATA_IN_0_PARALLELISM_DIM_1": 2, "DATA_OUT_0_PARALLELISM_DIM_1": 2}, "MODULE: DATA_IN_0_PARALLELISM_DIM_1"),
    ],
    "fixed_accumulator": [({"IN_WIDTH": 0}, "MODULE: .*IN_WIDTH"), ({"IN_WIDTH": 20}, "MODULE: .*ACC_WIDTH")],
    "fixed_adder_tree": [({"N": 0}, "MODULE: N .* 0$"), ({"WIDTH": 0}, "MODULE: WIDTH .* 0$")],
    "fixed_cast_unit": [({"IN_WIDTH": 0}, "MODULE: IN_WIDTH 0 "), ({"OUT_SIGNED": 2}, "MODULE: .*OUT_SIGNED 2")],
    "fixed_dot_product": [({"N": 0}, "MODULE: N .* 0$"), ({"A_SIGNED": 2}, "MODULE: A_SIGNED 2")],
    "register_slice": [({"WIDTH": 0}, "MODULE: WIDTH .* 0$")],
    "replay_buffer": [({name: 0}, f"MODULE: {name} .* 0$") for name in ("WIDTH", "LEN", "REPEATS")],
    "rom_source": [({"DEPTH": 0}, "MODULE: DEPTH .* 0$"), ({"WIDTH": 0}, "MODULE: WIDTH .* 0$")],
    "skid_buffer": [({"WIDTH": -1}, "MODULE: WIDTH .* -1$")],
    "stream_check": [({"WIDTH": 0}, "MODULE.*: WIDTH .* 0$"), ({"FRAME": -1}, "MODULE.*: FRAME .* -1$")],
    "stream_fifo": [
        ({"DEPTH": 0}, "MODULE: DEPTH .* 0$"),
        ({"WIDTH": 0}, "MODULE: WIDTH .* 0$"),
        ({"LUT_DEPTH": -1}, "MODULE: LUT_DEPTH .* -1$"),
    ],
    "stream_fork": [({"N": 0}, "MODULE: N .* 0$"), ({"WIDTH": 0}, "MODULE: WIDTH .* 0$")],
    "stream_join": [({"N": 0}, "MODULE: N .* 0$")],
    "stream_reorder": [
        ({"WIDTH": 0}, "MODULE: WIDTH .* 0$"),
        ({"SIZE_3": 0}, "MODULE: every SIZE "),
        ({"STEP_1": 5, "SIZE_1": 2}, "MODULE: the counters do not end at the last of 8 "),
    ],
    "stream_repack": [
        ({"WIDTH": 0}, "MODULE: WIDTH .* 0$"),
        ({"IN_LANES": 0}, "MODULE: IN_LANES 0 "),
        ({"OUT_LANES": 0}, "MODULE: .*OUT_LANES 0 "),
        ({"OUT_SIZE": -2}, "MODULE: .*OUT_SIZE -2 "),
    ],
}


# What a library module is made of.
MAC_PARTS = [
    *("lib/fixed_adder_tree.sv", "lib/fixed_dot_product.sv", "lib/fixed_accumulator.sv"),
    *("lib/fixed_cast_unit.sv", "lib/loop_counter.sv", "lib/stream_fifo.sv"),
]
PARTS = {
    "fixed_mac_array": MAC_PARTS,
    "fixed_cast_slice": ["lib/fixed_cast_unit.sv", "lib/register_slice.sv"],
    "parallel_window": ["lib/loop_counter.sv", "lib/window_control.sv", "lib/window_steps.sv", "lib/ring_add.sv"],
    "window_pool": ["lib/window_reduce.sv"],
    "window_steps": ["lib/loop_counter.sv", "lib/window_control.sv"],
    "fixed_divide_unit": ["lib/fixed_cast_unit.sv"],
    "fixed_dot_product": ["lib/fixed_adder_tree.sv"],
    "fixed_piecewise": ["lib/fixed_cast_unit.sv"],
}


def needed_files(module: str) -> list[str]:
    """A file by its module, after everything it may need."""
    declared = [files_of(op) for op in HARDWARE_OPS if hardware_of(op).module == module]
    return declared[0] if declared else [*PARTS.get(module, []), f"lib/{module}.sv"]


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


@pytest.mark.parametrize("path", sorted(rtl_root().glob("*/*.sv")), ids=lambda path: path.stem)
def test_every_module_checks_its_parameters(path: Path) -> None:
    """Those of an elementwise op are checked by elementwise_check, which is tried above like any other module."""
    assert path.stem in BAD or re.search(r"^  elementwise_check #\(", path.read_text(encoding="utf-8"), re.MULTILINE)
