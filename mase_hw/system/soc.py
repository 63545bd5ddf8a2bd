"""A LiteX SoC around a system: a VexRiscv runs the driver's self-test, all of it in Verilator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mase_hw.errors import ToolError
from mase_hw.host.toolchain import require
from mase_hw.simulate.build.tools import find_build_tools, first_errors, run_tool
from mase_hw.system.selftest import SelfTest, check_memory

SPEED = "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O1"
"""A self-test takes seconds, compiling a SoC a minute."""
MOST_CYCLES = 1_000_000_000
"""Of the SoC; the driver's timeouts end a self-test long before."""


def write_soc(system: Path, target: str = "sim") -> Path:
    """Write a SoC with the self-test in its ROM; what it needs of the foreign tools is checked first.

    Args:
        system: Folder of the system.
        target: A target of ``soc/mase_soc.py``.

    Returns:
        The folder with the Verilog, in which it is simulated: contents of memories are found from there.

    Raises:
        ToolError: If LiteX or a RISC-V compiler is missing, or one of them fails.
        ConfigError: If the folder holds no system whose frames lie in memory.
    """
    check_memory(system)
    python = require("litex", "riscv-gcc")["litex"].path
    out = system / "build" / target
    script = system / "soc" / "mase_soc.py"
    _run([str(python), str(script), target, str(system), str(out)], find_build_tools().env, "the SoC cannot be written")
    return out / "gateware"


def build_soc(gateware: Path) -> Path:
    """Compile the simulator of a SoC.

    Args:
        gateware: Folder that :func:`write_soc` returned.

    Raises:
        ToolError: With the first errors of the compilers.
    """
    tools = find_build_tools()
    model = gateware.parent / "model"
    own = gateware.parents[2].resolve() / "soc"
    command = [
        *(str(tools.verilator), "--cc", "--exe", "--build", "-j", "2", "--assert", "--x-initial", "unique"),
        *("--no-timing", "--timescale", "1ns/1ps", "-MAKEFLAGS", SPEED),
        *("--prefix", "Vsim", "--top-module", "sim", "--Mdir", str(model), "-o", "soc"),
        *(str(own / "foreign.vlt"), "-f", str(gateware / "files.f"), str(own / "sim_main.cpp")),
    ]
    _run(command, tools.env, "the SoC does not compile")
    return model / "soc"


def run_soc(simulator: Path, gateware: Path) -> SelfTest:
    """Run the self-test that is in a SoC's ROM.

    Args:
        simulator: What :func:`build_soc` returned.
        gateware: Folder of the SoC whose software is run, of the same hardware.
    """
    done = run_tool([str(simulator.resolve()), str(MOST_CYCLES)], find_build_tools().env, gateware)
    return SelfTest(done.returncode == 0 and done.stdout.startswith("PASS"), done.stdout.strip())


def _run(command: list[str], env: Mapping[str, str], what: str) -> None:
    done = run_tool(command, env)
    if done.returncode:
        raise ToolError(what, node=command[0], got=first_errors(done.stdout), remedy="run `mase-hw doctor`")
