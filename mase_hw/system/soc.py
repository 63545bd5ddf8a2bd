"""A LiteX SoC around systems: a VexRiscv runs the drivers' self-tests, all of it in Verilator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mase_hw.errors import ConfigError, ToolError
from mase_hw.host.toolchain import require
from mase_hw.simulate.build.tools import find_build_tools, first_errors, run_tool
from mase_hw.system.selftest import SelfTest, check_memory

SPEED = "OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O1"
"""A self-test takes seconds, compiling a SoC a minute."""
MOST_CYCLES = 1_000_000_000
"""Of the SoC; the driver's timeouts end a self-test long before."""


def write_soc(system: Path, target: str = "sim", beside: Sequence[Path] = ()) -> Path:
    """Write a SoC with the self-tests in its ROM; what it needs of the foreign tools is checked first.

    Args:
        system: Folder of the system, in which the SoC is written.
        target: A target of ``soc/mase_soc.py``.
        beside: Folders of other systems in the same SoC.

    Returns:
        The folder with the Verilog, in which it is simulated: contents of memories are found from there.

    Raises:
        ToolError: If LiteX or a RISC-V compiler is missing, or one of them fails.
        ConfigError: If a folder holds no system whose frames lie in memory, or two systems have the same prefix.
    """
    systems = (system, *beside)
    prefixes = [check_memory(each)["options"]["prefix"] for each in systems]
    if len(set(prefixes)) < len(prefixes):
        raise ConfigError(
            "systems in one SoC need different prefixes",
            node=", ".join(map(str, systems)),
            got=prefixes,
            remedy="make them with `mase-hw system BUNDLE --out DIR --prefix TEXT`",
        )
    python = require("litex", "riscv-gcc")["litex"].path
    out = system / "build" / target
    script = system / "soc" / f"{prefixes[0]}mase_soc.py"
    _run(
        [str(python), str(script), target, str(out), *map(str, systems)],
        find_build_tools().env,
        "the SoC cannot be written",
    )
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
    """Run the self-tests that are in a SoC's ROM.

    Args:
        simulator: What :func:`build_soc` returned.
        gateware: Folder of the SoC whose software is run, of the same hardware.
    """
    done = run_tool([str(simulator.resolve()), str(MOST_CYCLES)], find_build_tools().env, gateware)
    said = done.stdout.splitlines()[:-1]  # the last one are the cycles
    passed = done.returncode == 0 and bool(said) and all(line.startswith("PASS") for line in said)
    return SelfTest(passed, done.stdout.strip())


def _run(command: list[str], env: Mapping[str, str], what: str) -> None:
    done = run_tool(command, env)
    if done.returncode:
        raise ToolError(what, node=command[0], got=first_errors(done.stdout), remedy="run `mase-hw doctor`")
