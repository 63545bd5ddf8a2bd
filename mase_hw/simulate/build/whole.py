"""What Verilator says of the RTL of a whole bundle, before anything is built of it."""

from __future__ import annotations

from pathlib import Path

from mase_hw.simulate.build.tools import BuildTools, run_tool


def lint_bundle(folder: Path, top: str, tools: BuildTools, *flags: str) -> str:
    """Elaborate a bundle's RTL in Verilator with every warning: exactly the files of its list, in their order.

    Args:
        folder: The bundle.
        top: Its top-level module.
        tools: The build tools.
        flags: More flags, such as ``-DSYNTHESIS``, with which the checks for simulation are left out.

    Returns:
        Errors and warnings; empty if there are none.
    """
    command = [*tools.verilate, "--lint-only", "--quiet", "--assert", "-Wall", *flags]
    done = run_tool([*command, "--top-module", top, "-f", "rtl/files.f"], tools.env, folder)
    return done.stdout or (f"Verilator ends with {done.returncode}" if done.returncode else "")
