"""Runs Tcl scripts of other tools without the tools: stub commands that know their options record every call."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Command:
    """What a command of a tool takes, by its reference manual.

    Args:
        flags: Options and the number of their values.
        least: Least number of other arguments.
        most: Largest number of them.
        result: What a call returns.
    """

    flags: dict[str, int] = field(default_factory=dict)
    least: int = 0
    most: int = 0
    result: str = ""


DRIVER = """
set calls [open {calls} w]
fconfigure $calls -encoding utf-8
proc record {{result args}} {{
    puts $::calls [join $args \\x1f]
    flush $::calls
    return $result
}}
{stubs}
set argv [list {argv}]
set argc [llength $argv]
{prelude}
source {script}
"""
TK = "import sys, tkinter; tkinter.Tcl().eval('source {' + sys.argv[1] + '}')"


class TclError(Exception):
    """A script that fails."""


def interpreter() -> list[str]:
    """The command that runs a Tcl file: Python's own interpreter of Tcl, or ``tclsh``.

    Raises:
        RuntimeError: If there is neither.
    """
    try:
        import tkinter

        tkinter.Tcl()
        return [sys.executable, "-c", TK]
    except ImportError:
        if found := shutil.which("tclsh"):
            return [found]
        raise RuntimeError("no Tcl: install python3-tk or tcl") from None


def run(
    script: Path,
    commands: dict[str, Command],
    work: Path,
    argv: tuple[str, ...] = (),
    prelude: str = "",
) -> list[list[str]]:
    """Run a script in a folder and return the calls of stub commands, word by word.

    Raises:
        TclError: If the script fails, or a call is not what its command takes.
    """
    work.mkdir(parents=True, exist_ok=True)
    calls, driver = work / "calls.txt", work / "driver.tcl"
    stubs = "\n".join(
        f"namespace eval :: {{ {'namespace eval ' + n.rpartition('::')[0] + ' {}; ' if '::' in n else ''}"
        f"proc {n} {{args}} {{ record [subst {{{c.result}}}] {n} {{*}}$args }} }}"
        for n, c in commands.items()
    )
    text = DRIVER.format(
        calls=f"{{{calls}}}",
        stubs=stubs,
        argv=" ".join(f"{{{a}}}" for a in argv),
        prelude=prelude,
        script=f"{{{script}}}",
    )
    driver.write_text(text)
    done = subprocess.run([*interpreter(), str(driver)], cwd=work, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        # tclsh adds where it was to the message, Python's interpreter puts a traceback before it.
        said = re.split(r"\n +(?:while executing|invoked from within|\()", (done.stderr or done.stdout).strip())[0]
        raise TclError(said.splitlines()[-1])
    found = [line.split("\x1f") for line in calls.read_text().splitlines()]
    for call in found:
        check(call, commands[call[0]])
    return found


def check(call: list[str], command: Command) -> None:
    """Compare a call with what its command takes.

    Raises:
        TclError: If an option is unknown or lacks its value, or the number of arguments is wrong.
    """
    words, plain = call[1:], 0
    while words:
        word = words.pop(0)
        if word.startswith("-") and word[1:2].isalpha():
            if word not in command.flags:
                raise TclError(f"{call[0]}: unknown option {word}")
            if len(words) < command.flags[word]:
                raise TclError(f"{call[0]}: {word} has no value")
            del words[: command.flags[word]]
        else:
            plain += 1
    if not command.least <= plain <= command.most:
        raise TclError(f"{call[0]}: {plain} arguments, not {command.least} to {command.most}")
