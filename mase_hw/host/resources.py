"""Where the files that are not Python lie: RTL, templates and simulation benches.

In a wheel they are inside the package; in a checkout (or an editable installation) they are at the root of the
repository, beside the package.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mase_hw.errors import MaseHwError

PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Generated:
    """A module that is made for its constants.

    Args:
        module: Its name, of which no other module is.
        template: Below ``rtl_templates``.
        context: What the template prints, besides ``module``.
        files: Files of a user that it needs, dependencies first, by their place below ``rtl``.
        texts: Other files that it needs, likewise.
        beside: Makes more files of the bundle, by their paths in it.
    """

    module: str
    template: str
    context: Mapping[str, object]
    files: Mapping[str, Path] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    beside: Callable[[], Mapping[str, str]] | None = None


@functools.cache
def rtl_root() -> Path:
    """The folder of the RTL and its templates: ``lib``, ``ops``, ``top`` and ``synth``.

    Raises:
        MaseHwError: If the installation lacks it.
    """
    return find_folder("rtl_templates", PACKAGE)


def sim_root() -> Path:
    """The folder of the simulation benches.

    Raises:
        MaseHwError: If the installation lacks it.
    """
    return find_folder("sim", PACKAGE)


def find_folder(name: str, package: Path) -> Path:
    """Find a data folder of a package directory: inside it (wheel), else beside it (checkout).

    Args:
        name: Name of the folder.
        package: The directory of the package.

    Raises:
        MaseHwError: If neither place has it.
    """
    inside = package / name
    if inside.is_dir():
        return inside
    beside = package.parent / name
    # Beside an installed package lies site-packages, where a folder of that name belongs to another package.
    if beside.is_dir() and (package.parent / "pyproject.toml").is_file():
        return beside
    raise MaseHwError(
        f"the installation of mase_hw has no folder {name!r}, so it is incomplete",
        node=str(package),
        got="neither of the expected folders exists",
        expected=f"{inside} (installed) or {beside} (checkout)",
        remedy="reinstall mase-hw from a wheel, or run from a complete checkout of the repository",
    )
