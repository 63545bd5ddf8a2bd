"""Tables of the options of ``mase-hw``, from its parsers."""

from __future__ import annotations

import argparse
from typing import Any

from mase_hw.cli.main import COMMANDS, command_module, configure
from scripts.reference_options import table


def commands() -> str:
    """Every subcommand with what it does."""
    return table(("command", "what it does"), [[f"[`{n}`](#{n})", command_module(n).HELP] for n in COMMANDS])


def command(name: str) -> str:
    """How a subcommand is called, and its arguments."""
    module = command_module(name)
    parser = argparse.ArgumentParser(prog=f"mase-hw {name}", add_help=False)
    configure(parser, name)
    actions = parser._actions
    words = [_shown(action) for action in actions if not action.option_strings]
    call = " ".join([f"`mase-hw {name}", *words, *(["[OPTIONS]"] if len(words) < len(actions) else [])]) + "`"
    does = module.HELP[:1].upper() + module.HELP[1:]
    rows = [[f"`{_name(action)}`", str(action.help), _default(action)] for action in actions]
    return f"{call}\n\n{does}.\n" + (f"\n{table(('argument', 'meaning', 'default'), rows)}" if rows else "")


def _shown(action: argparse.Action) -> str:
    return f"[{action.metavar} ...]" if action.nargs == "*" else str(action.metavar)


def _name(action: argparse.Action) -> str:
    if not action.option_strings:
        return _shown(action)
    return " ".join([action.option_strings[-1], *([str(action.metavar)] if action.nargs != 0 else [])])


def _default(action: argparse.Action) -> str:
    """What holds if the argument is left out, unless the help says so in words."""
    default: Any = action.default
    if action.required and action.nargs != "*":
        return "required"
    if default is False:
        return "off"
    return "none" if default in (None, []) else f"`{default}`"
