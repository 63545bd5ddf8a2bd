"""Style checks of SystemVerilog sources: the rules and the format of Verible, and one rule that it has not."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from mase_hw.errors import ConfigError
from mase_hw.host.resources import rtl_root
from mase_hw.host.toolchain import require

RULES = ".rules.verible_lint"
"""Name of the rules file in ``rtl_templates``; it says why a rule is not the default. One for all sources."""

_INDEX = r"(?:\s*\[(?:[^\[\]]|\[[^\[\]]*\])*\])*\s*"
_INTO_BLOCK = re.compile(rf"(?<![\w.$])(?!dut\s*\.)(?:\w+{_INDEX}\.\s*)*?g(?:en)?_\w+{_INDEX}\.\s*[A-Za-z_]")
"""A reference into a generate block: Verible sees to it that the names of all begin like this.

A bench may look into the module under test, ``dut``, of which there is only one.
"""
_NOT_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)


def sources(paths: Iterable[Path]) -> list[Path]:
    """The SystemVerilog files among files and folders, sorted.

    Raises:
        ConfigError: If a path does not exist or is no text, or there is not one file.
    """
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise ConfigError("there is no such file or folder", got=path, remedy="check the path")
        found += [path] if path.is_file() else path.rglob("*.sv")
    if not found:
        raise ConfigError("there is nothing to lint", expected="at least one .sv file")
    files = sorted(set(found))
    for file in files:
        _check_text(file)
    return files


def _check_text(file: Path) -> None:
    """Refuse what is no text, before a tool is asked about it."""
    try:
        content = file.read_bytes()
        content.decode("utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(
            "this file is no source", node=str(file), got=str(error), expected="SystemVerilog, as text in UTF-8"
        ) from error
    if b"\0" in content:
        raise ConfigError("this file is no source", node=str(file), got="a NUL", expected="SystemVerilog, as text")


def lint(files: Iterable[Path]) -> list[str]:
    """Check files one by one.

    Args:
        files: SystemVerilog sources.

    Returns:
        The complaints; empty if there are none.

    Raises:
        ToolError: If Verible is missing.
    """
    tools = require("verible-verilog-lint", "verible-verilog-format")
    linter, formatter = (str(tool.path) for tool in tools.values())
    rules = rtl_root() / RULES
    complaints = []
    for file in files:
        complaints += references_into_blocks(file)
        complaints += _complaints([linter, f"--rules_config={rules}", str(file)])
        # The formatter says only yes or no; naming the file is up to us.
        if _complaints([formatter, "--verify", str(file)]):
            complaints.append(f"{file}: not formatted; run: verible-verilog-format --inplace {file}")
    return complaints


def references_into_blocks(file: Path) -> list[str]:
    """Complaints about references into generate blocks, which Verilator loses in deep designs.

    Verilator 5.48 says "Can't find definition" of ``g_level[k-1].g_pair[0].sum_q`` once a design has the module with
    many sets of parameters, although other tools find it.

    Args:
        file: A SystemVerilog source.
    """
    text = file.read_text(encoding="utf-8")
    # Strings and comments become blanks, and lines stay where they are.
    code = _NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return [
        f"{file}:{code.count(chr(10), 0, found.start()) + 1}: {' '.join(found[0].split())}...: a reference into a "
        "generate block; declare an array in the scope around the blocks, which one writes and the other reads"
        for found in _INTO_BLOCK.finditer(code)
    ]


def _complaints(command: list[str]) -> list[str]:
    done = subprocess.run(
        command,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return (done.stdout.splitlines() or [f"{command[0]} failed"]) if done.returncode else []
