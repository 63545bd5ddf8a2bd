"""The report of ``mase-hw doctor``: every tool, its version, and what is wrong."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table

from mase_hw.host.documents import Json
from mase_hw.host.tool_checks import Env, Tool
from mase_hw.host.toolchain import TOOLS, find_all


def doctor(console: Console, *, env: Env | None = None) -> bool:
    """Look for every tool and print what was found.

    Args:
        console: Where to print.
        env: Environment to search; the process's own by default.

    Returns:
        Whether every required tool is usable; optional ones only warn.
    """
    tools = found_tools(env)
    show(tools, console)
    return healthy(tools)


def found_tools(env: Env | None = None) -> list[Tool]:
    """Every tool of an environment; of the process's own by default."""
    return find_all(env)


def healthy(tools: list[Tool]) -> bool:
    """Whether every required tool is usable; optional ones only warn."""
    return not any(tool.problem and TOOLS[tool.name].required for tool in tools)


def recorded(tools: list[Tool]) -> Json:
    """What was found, as JSON types."""
    return {"ok": healthy(tools), "tools": [_record(tool) for tool in tools]}


def show(tools: list[Tool], console: Console) -> None:
    """Print what was found as a table, and what to do about what is wrong."""
    console.print(_table(tools))
    for tool in tools:
        if tool.problem:
            # Outside the table, where nothing is folded: this is what a user copies.
            need = TOOLS[tool.name]
            lines = (
                f"{_state(tool)} {tool.name}: {tool.problem}\n"
                f"  needed for: {need.purpose}{'' if need.required else ' (optional)'}\n"
                f"  what to do: {tool.remedy}"
            )
            console.print(lines, soft_wrap=True, highlight=False, markup=False)
    good = healthy(tools)
    console.print("everything that is required is there" if good else "a required tool is missing or broken")


def _state(tool: Tool) -> str:
    if not tool.problem:
        return "ok"
    if not TOOLS[tool.name].required:
        return "warning"
    return "broken" if tool.path else "missing"


def _table(tools: list[Tool]) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for title in ("state", "tool", "version"):
        table.add_column(title, no_wrap=True)
    table.add_column("path", overflow="fold")
    colours = {"ok": "green", "missing": "red", "broken": "red", "warning": "yellow"}
    for tool in tools:
        state = _state(tool)
        mark = f"[{colours[state]}]{state}[/]"
        table.add_row(mark, tool.name, tool.version or "-", str(tool.path or "-"))
    return table


def _record(tool: Tool) -> dict[str, str | bool | None]:
    return {
        "name": tool.name,
        "required": TOOLS[tool.name].required,
        "purpose": TOOLS[tool.name].purpose,
        "ok": tool.problem is None,
        "version": tool.version,
        "path": str(tool.path) if tool.path else None,
        "problem": tool.problem,
        "remedy": tool.remedy,
    }
