# SPDX-License-Identifier: Apache-2.0
"""A LiteX SoC with systems of mase_hw and their self-tests as its software; run by a Python that has LiteX.

``python mase_soc.py sim OUT SYSTEM...`` writes the SoC for Verilator, ``python mase_soc.py ulx3s OUT SYSTEM...`` that
for a ULX3S 85F, from the plain Verilog ``OUT/TOP.v`` of every system. Several systems need different prefixes.
"""

import argparse
import contextlib
import json
import re
import subprocess
import sys
from pathlib import Path

from litedram import modules
from litedram.phy.model import SDRAMPHYModel
from litex.build.generic_platform import GenericPlatform, Pins, Subsignal
from litex.build.io import CRG
from litex.gen import ClockDomain
from litex.soc.integration.builder import Builder
from litex.soc.integration.builder import soc_directory as LITEX
from litex.soc.integration.common import get_mem_data
from litex.soc.integration.soc_core import SoCCore
from mase_litex import MaseAccelerator

HERE = Path(__file__).resolve().parent
TRIPLE = "riscv64-unknown-elf"
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-pedantic")
IO = [
    ("sys_clk", 0, Pins(1)),
    ("core_clk", 0, Pins(1)),
    (
        "serial",
        0,
        *(
            Subsignal(f"{side}_{name}", Pins(bits))
            for side in ("source", "sink")
            for name, bits in (("valid", 1), ("ready", 1), ("data", 8))
        ),
    ),
]


class System:
    """The folder of a system.

    Args:
        folder: As ``mase-hw system`` writes it.
    """

    def __init__(self, folder):
        self.folder = folder.resolve()
        manifest = json.loads((self.folder / "manifest.json").read_text())
        self.top = manifest["top"]
        self.name = manifest["options"]["prefix"] + "mase"
        """In the SoC; files and symbols begin with it."""
        self.clocked = manifest["options"]["core_clock"]
        """Whether its core has a clock of its own."""

    def software(self, name):
        """A file of the software."""
        return self.folder / "software" / f"{self.name}_{name}"

    def connect(self, soc, verilog=None, core_domain="sys"):
        """Add it to a SoC."""
        MaseAccelerator(soc.platform, self.folder, verilog, core_domain).connect(soc, self.name)


def processor(systems):
    """What every SoC has: a processor with caches, the self-tests in its ROM, a timer that counts cycles."""
    designs = [system.software("design.h").read_text() for system in systems]
    elements = sum(int(re.search(r"_OUTPUT_SIZE (\d+)", design)[1]) for design in designs)
    # Of vectors the ROM takes less than twice as much.
    vectors = sum(system.software("vectors.c").stat().st_size for system in systems)
    return {
        "cpu_type": "vexriscv",
        "integrated_rom_size": power_of_two(2 * vectors + 0x8000 * len(systems)),
        "integrated_sram_size": power_of_two(0x1000 + 16 * elements),
        "timer_uptime": True,
    }


def power_of_two(size):
    """The least that is not below."""
    return 1 << (size - 1).bit_length()


class VerilogPlatform(GenericPlatform):
    """Writes the Verilog and the list of all files: LiteX's own platform for Verilator comes with its own simulator."""

    options = ()
    """For Verilator, behind the files."""

    def build(self, fragment, build_dir, **_):
        """Called by LiteX."""
        fragment = fragment.get_fragment()
        self.finalize(fragment)
        written = self.get_verilog(fragment, name="sim")
        with contextlib.chdir(build_dir):  # contents of memories are written where it is
            written.write("sim.v")
        files = [str(file) for file, *_ in self.sources] + [str(Path(build_dir, "sim.v")), *self.options]
        Path(build_dir, "files.f").write_text("".join(f"{file}\n" for file in files))
        return written.ns


class SimulatedSoC(SoCCore):
    """For Verilator: SDRAM as a model, an L2 cache, and a console that takes a byte a cycle."""

    def __init__(self, systems):
        platform = VerilogPlatform("SIM", IO, name="sim")
        frequency = int(100e6)
        self.crg = CRG(platform.request("sys_clk"))
        if any(system.clocked for system in systems):
            self.cd_core = ClockDomain(reset_less=True)
            self.comb += self.cd_core.clk.eq(platform.request("core_clk"))
            platform.options = ("-CFLAGS -DCORE_CLOCK",)
        super().__init__(platform, frequency, uart_name="sim", **processor(systems))
        module = modules.MT48LC16M16(frequency, "1:1")
        self.sdrphy = SDRAMPHYModel(module, data_width=32, clk_freq=frequency)
        self.add_sdram("sdram", phy=self.sdrphy, module=module, l2_cache_size=8192)
        for system in systems:
            system.connect(self, core_domain="core" if system.clocked else "sys")


def board_soc(systems, out):
    """The SoC of LiteX's own board file."""
    from litex_boards.targets.radiona_ulx3s import BaseSoC

    # So small, the L2 cache lies in LUTs: out of block RAM its tags come too late for 50 MHz.
    soc = BaseSoC(device="LFE5U-85F", sys_clk_freq=int(50e6), l2_size=512, **processor(systems))
    for system in systems:
        system.connect(soc, out / f"{system.top}.v")
    return soc


def compile_selftests(soc, builder, systems, program):
    """The self-tests for a SoC whose headers are written, as an ELF file and as a binary."""
    software = Path(LITEX) / "software"
    cpu = Path(sys.modules[type(soc.cpu).__module__].__file__).parent
    include = [Path(builder.include_dir), software / "include", software / "libbase", cpu]
    common = [f"{TRIPLE}-gcc", *soc.cpu.gcc_flags.split(), "-Os", "-ffreestanding", "-ffunction-sections", "-g"]
    system_headers = [word for folder in include for word in ("-isystem", str(folder))]
    strict = [*common, *WARNINGS]
    tests = " ".join(f"USE({system.name}_soc_selftest)" for system in systems)
    main = [*strict, "-std=gnu99", f"-DSELFTESTS(USE)={tests}", *system_headers]
    program.mkdir(parents=True, exist_ok=True)
    sources = [
        *(
            (system.software(f"{name}.c"), [*strict, "-std=c99"])
            for system in systems
            for name in ("driver", "metal", "selftest", "vectors")
        ),
        *(
            (path, [*strict, f"-I{system.folder / 'software'}", "-std=gnu99", *system_headers])
            for system in systems
            for path in (system.software("litex.c"), system.folder / "soc" / f"{system.name}_soc.c")
        ),
        (HERE / "main.c", main),
        *((path, [*common, *system_headers]) for path in (software / "libbase" / "system.c", cpu / "crt0.S")),
    ]
    objects = []
    for source, command in sources:
        objects.append(str(program / f"{source.stem}.o"))
        subprocess.run([*command, "-c", "-o", objects[-1], str(source)], check=True)
    elf = program / "selftest.elf"
    # By the plain name of the architecture the compiler finds its library.
    machine = [flag.replace("2p0_", "").replace("2p0", "") for flag in soc.cpu.gcc_flags.split()]
    link = [
        *machine,
        "-nostdlib",
        "-nostartfiles",
        "-Wl,--gc-sections",
        f"-Wl,-L{builder.include_dir}",
        f"-T{HERE / 'linker.ld'}",
    ]
    subprocess.run([f"{TRIPLE}-gcc", *link, "-o", str(elf), *objects, "-lgcc"], check=True)
    binary = elf.with_suffix(".bin")
    subprocess.run([f"{TRIPLE}-objcopy", "-O", "binary", str(elf), str(binary)], check=True)
    return binary


def build(soc, systems, out, **options):
    """Write a SoC into ``out``, with the self-tests in its ROM."""
    builder = Builder(soc, output_dir=str(out), compile_software=False, compile_gateware=False)

    def fill(**_):
        binary = compile_selftests(soc, builder, systems, out / "program")
        soc.init_rom("rom", get_mem_data(str(binary), data_width=soc.bus.data_width, endianness="little"))

    soc.init_mems = fill  # called when the headers are there, and the gateware is not yet
    builder.build(**options)


def main():
    """Read the arguments and write what they ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=("sim", "ulx3s"))
    parser.add_argument("out", type=Path)
    parser.add_argument("systems", type=Path, nargs="+")
    arguments = parser.parse_args()
    systems, out = [System(folder) for folder in arguments.systems], arguments.out.resolve()
    if arguments.target == "sim":
        build(SimulatedSoC(systems), systems, out)
        return
    soc = board_soc(systems, out)
    soc.finalize()
    # Tools in a sandbox see the folder alone.
    soc.platform.sources = [(*source[:3], True) for source in soc.platform.sources]
    build(soc, systems, out, build_name="ulx3s")


if __name__ == "__main__":
    main()
