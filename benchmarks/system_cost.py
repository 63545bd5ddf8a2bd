"""What a system costs: code and instructions of the C driver on RV32, and LUTs of its RTL on xc7.

    python -m benchmarks.system_cost driver luts
    python -m pytest tests/system/test_shells.py -m slow -k use_the_bus

Counts, no times: they are the same on every machine. The driver is that of a design with two inputs and two outputs,
compiled with ``-Os`` for RV32IM; an interpreter (``rv32.py``) counts what it executes.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import mase_hw
from benchmarks import rv32
from mase_hw.hardware.library import content, with_dependences
from mase_hw.host.resources import rtl_root
from mase_hw.host.toolchain import require
from mase_hw.synth.tools import run_yosys
from mase_hw.system import make_system

COMPILER = ("-march=rv32im", "-mabi=ilp32", "-Os", "-std=c99", "-ffreestanding", "-ffunction-sections", "-nostdlib")
STEPS = {2: "open", 3: "load a frame", 4: "start", 5: "wait, when the job has ended", 6: "read a frame"}
PROGRAM = """
#include "mase_metal.h"
#define MARK (*(volatile uint32_t *)0xF0001000u)
static uint32_t now(void) { return 0; }
void run(void);
__attribute__((naked, section(".first"))) void _start(void) { __asm__("j run"); }
static mase_value values[MASE_INPUT_SIZE > MASE_OUTPUT_SIZE ? MASE_INPUT_SIZE : MASE_OUTPUT_SIZE];
static uint8_t input[MASE_INPUT_BYTES] __attribute__((aligned(16)));
static uint8_t output[MASE_OUTPUT_BYTES] __attribute__((aligned(16)));
void run(void)
{
    struct mase_metal metal = {0xF0000000u, now};
    struct mase_hal hal;
    struct mase_device device;
    int code;
    mase_metal(&hal, &metal);
    MARK = 2;
    code = mase_open(&device, &hal);
    MARK = 3;
    mase_load(input, values);
    MARK = 4;
    code |= mase_start(&device, input, sizeof input, output, sizeof output, 1);
    MARK = 5;
    code |= mase_wait(&device, 1000);
    MARK = 6;
    mase_read(output, values);
    MARK = code == MASE_OK ? 0 : 7;
    for (;;) {
        MARK = 0;
    }
}
"""
SECTIONS = "*(.first) *(.text*) *(.rodata*) *(.srodata*) *(.data*) *(.sdata*) *(.bss*) *(.sbss*)"


def driver(system: Path) -> tuple[int, dict[str, int]]:
    """Bytes of code and constants of the driver with the hardware layer of bare metal, and instructions by step."""
    gcc = str(require("riscv-gcc")["riscv-gcc"].path)
    folder = Path(tempfile.mkdtemp(dir=system))
    (folder / "main.c").write_text(PROGRAM)
    (folder / "all.ld").write_text(f"SECTIONS {{ . = 0; .text : {{ {SECTIONS} }} }}")
    objects = []
    for source in (system / "software/mase_driver.c", system / "software/mase_metal.c", folder / "main.c"):
        objects.append(str(folder / f"{source.stem}.o"))
        call(gcc, *COMPILER, f"-I{system / 'software'}", "-c", str(source), "-o", objects[-1])
    sizes = call(gcc.removesuffix("gcc") + "size", *objects[:2]).splitlines()[1:]
    elf, image = str(folder / "all.elf"), folder / "all.bin"
    call(gcc, *COMPILER, "-T", str(folder / "all.ld"), *objects, "-lgcc", "-o", elf)
    call(gcc.removesuffix("gcc") + "objcopy", "-O", "binary", elf, str(image))
    header = (system / "software/mase_registers.h").read_text() + (system / "software/mase_design.h").read_text()
    digest = [int(re.findall(rf"MASE_DESIGN_{half} (0x\w+)u", header)[0], 16) for half in ("LOW", "HIGH")]
    magic, major = (
        int(re.findall(rf"MASE_{name}_IS (\w+?)u", header)[0], 0) for name in ("MAGIC_VALUE", "VERSION_MAJOR")
    )
    stored = 0x70  # PARAMETERS: a whole set is stored
    device = {0x00: magic, 0x04: major << 16, 0x08: digest[0], 0x0C: digest[1], 0x1C: 1, stored: 1}
    counts = rv32.run(image.read_bytes(), lambda offset: device.get(offset, 0))
    if 7 in counts:
        raise RuntimeError("the driver did not come to its end")
    return sum(int(line.split()[0]) for line in sizes), {STEPS[mark]: counts[mark] for mark in STEPS}


def call(*words: str) -> str:
    """What a command prints."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


PARTS = {
    "the register block": ("system_registers", {}),
    "the register block with control and window": ("system_control", {"IN_BEATS": 8, "OUT_BEATS": 3}),
    "counters": ("system_counters", {"IN_BEATS": 32, "OUT_BEATS": 10}),
    "a reader of the bus": ("system_dma_read", {"FRAME_BEATS": 8}),
    "a writer of the bus": ("system_dma_write", {"FRAME_BEATS": 3}),
    "two readers at one bus, besides": ("system_share_read", {}),
    "two writers at one bus, besides": ("system_share_write", {}),
    "records of two inputs": ("system_records", {"INPUTS": 2}),
    "clocks: a FIFO of a port": ("system_async_fifo", {"WIDTH": 66}),
    "clocks: the counters": ("system_sample", {"WIDTH": 256}),
    "clocks: the reset": ("system_reset", {}),
}
"""Module and parameters; others as they stand: a bus of 64 bits, 32 address bits, bursts of 64 beats."""


def luts(name: str) -> dict[str, int]:
    """Cells of a part on xc7 by type."""
    top, parameters = PARTS[name]
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        files = []
        for file in with_dependences([f"system/{top}.sv"]):
            files.append(Path(file).name)
            (folder / files[-1]).write_bytes(content(rtl_root() / file))
        values = " ".join(f"-G {key}={value}" for key, value in parameters.items())
        script = [
            f"read_slang -j 1 --top {top} --ignore-assertions {values} {' '.join(files)}",
            f"synth_xilinx -family xc7 -top {top} -flatten -widemux 5",
            "tee -q -o stat.json stat -json",
        ]
        run_yosys(script, folder, "log", lambda _: None)
        cells: dict[str, int] = json.loads((folder / "stat.json").read_text())["design"]["num_cells_by_type"]
    return {
        "LUT": sum(count for cell, count in cells.items() if re.fullmatch(r"LUT\d", cell)),
        "LUT as memory": sum(count * 4 for cell, count in cells.items() if re.fullmatch(r"RAM(32M|64M)", cell))
        + sum(count for cell, count in cells.items() if cell.startswith("SRL")),
        "FF": sum(count for cell, count in cells.items() if cell.startswith("FD")),
        "BRAM": sum(count for cell, count in cells.items() if cell.startswith("RAMB")),
        "DSP": sum(count for cell, count in cells.items() if cell.startswith("DSP")),
    }


class Pair(nn.Module):
    """Two inputs and two outputs that have nothing to do with each other."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.relu = nn.Linear(16, 4), nn.ReLU()

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.fc(x), self.relu(y)


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="+", choices=("driver", "luts"))
    for part in parser.parse_args().parts:
        if part == "luts":
            for name in PARTS:
                cells = ", ".join(f"{count} {kind}" for kind, count in luts(name).items())
                print(f"{name}: {cells}", flush=True)
        else:
            with tempfile.TemporaryDirectory() as work:
                inputs = (torch.linspace(-1, 1, 16).reshape(1, 16), torch.linspace(-1, 1, 8).reshape(1, 8))
                bundle = mase_hw.compile(Pair().eval(), inputs, {}, out=Path(work) / "bundle").path
                make_system(bundle, Path(work) / "system")
                size, counts = driver(Path(work) / "system")
            print(f"driver: {size} bytes of code and constants")
            for name, count in counts.items():
                print(f"{name}: {count} instructions")


if __name__ == "__main__":
    main()
