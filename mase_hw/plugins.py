"""What other installed packages add, found by their entry points; ``docs/plugins.md`` has a complete package."""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from mase_hw.errors import ConfigError, ToolError, suggest

GROUPS = {
    "ops": "custom_ops as a MaseGraph takes them, for every graph",
    "passes": "a pass or a function (graph, args) that a configuration may name",
    "importers": "a function from the path of a file to a MaseGraph with its example; the name is the suffix",
    "targets": "a mase_hw.cost.devices.Device by its name",
    "engines": "an engine of simulation: mase_hw.simulate.engines.registry.Engine",
}
"""The groups, ``mase_hw.ops`` and so on, and what an entry point of each is."""


@functools.cache
def plugins(group: str) -> dict[str, Any]:
    """The objects of a group of :data:`GROUPS` by name, loaded once in a process.

    Raises:
        ToolError: An entry point cannot be loaded, or two have one name; names the packages.
    """
    found: dict[str, EntryPoint] = {}
    for entry in sorted(entry_points(group=f"mase_hw.{group}"), key=lambda e: (e.name, e.value)):
        other = found.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise ToolError(
                "two plug-ins have the same name",
                node=f"mase_hw.{group}: {entry.name}",
                got=f"{_package(other)} and {_package(entry)}",
                remedy="uninstall one of the packages",
            )
    return {name: _loaded(group, entry) for name, entry in found.items()}


def plugin(group: str, name: str) -> Any:
    """One of a group.

    Raises:
        ConfigError: None is called so.
    """
    known = plugins(group)
    if name not in known:
        raise ConfigError(
            "no installed package has a plug-in of this name",
            field=f"mase_hw.{group}",
            got=name,
            expected=", ".join(known) or "a package with entry points of this group",
            remedy=suggest(name, known),
        )
    return known[name]


def _loaded(group: str, entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:  # whatever the module of another package raises when it is imported
        raise ToolError(
            "a plug-in cannot be loaded",
            node=f"mase_hw.{group}: {entry.name} = {entry.value}",
            got=f"{type(error).__name__}: {error}",
            remedy=f"mend or uninstall {_package(entry)}",
        ) from error


def _package(entry: EntryPoint) -> str:
    return "a package without a name" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
