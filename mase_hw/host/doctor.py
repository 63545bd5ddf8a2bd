"""The report of ``mase-hw doctor``: every tool, its version, and what is wrong."""

from __future__ import annotations

import json

from rich import box
from rich.console import Console
from rich.table import Table

from mase_hw.host.tool_checks import Env, Tool
from mase_hw.host.toolchain import TOOLS, find_all


def doctor(console: Console, *, as_json: bool = False, env: Env | None = None) -> bool:
    """Look for every tool and print what was found.

    Args:
        console: Where to print.
        as_json: Print one JSON object instead of a table.
        env: Environment to search; the process's own by default.

    Returns:
        Whether every required tool is usable; optional ones only warn.
    """
    tools = find_all(env)
    healthy = not any(tool.problem and TOOLS[tool.name].required for tool in tools)
    if as_json:
        console.print_json(json.dumps({"ok": healthy, "tools": [_record(tool) for tool in tools]}))
        return healthy
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
    console.print("everything that is required is there" if healthy else "a required tool is missing or broken")
    return healthy


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
