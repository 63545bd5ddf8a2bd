"""The SystemVerilog files of a custom op: which are the user's, which the package's, and whether they are there."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from mase_hw.catalogue import EXTERNAL
from mase_hw.errors import CatalogueError, ConfigError, suggest
from mase_hw.hardware.library import exists, library_modules, modules_below, source
from mase_hw.host.resources import rtl_root


def locate_files(
    where: str, module: str, toolchain: str, root: Path | None, file: str, dependence_files: list[str]
) -> tuple[str, tuple[str, ...]]:
    """Find every file, and give those of the user their place below ``external/``.

    Args:
        where: What the op is called in errors.
        module: The SystemVerilog module that ``file`` must define.
        toolchain: ``EXTERNAL`` if the module is the user's.
        root: The user's folder.
        file: File of the module.
        dependence_files: What it needs.

    Returns:
        File of the module, and the others in their order.

    Raises:
        ConfigError: If a file is missing, lies outside ``root``, or could be either the user's or the package's; if it
            does not define the module.
        CatalogueError: If the package has a module of that name.
    """
    if toolchain == "EXTERNAL":
        if root is None:
            raise ConfigError(
                "an EXTERNAL op needs the folder of its files",
                field=f"{where}.root",
                remedy='give it, for example "root": Path(__file__).parent',
            )
        if not root.is_dir():
            raise ConfigError("there is no such folder", field=f"{where}.root", got=str(root))
        if module in library_modules():
            raise CatalogueError(
                f"the package has a SystemVerilog module {module!r} of its own", node=where, remedy="rename yours"
            )
    elif root is not None:
        raise ConfigError(
            "an INTERNAL op has no folder of its own", field=f"{where}.root", remedy="leave it out, or say EXTERNAL"
        )
    found = tuple(locate_file(where, name, root) for name in dependence_files)
    own = locate_file(where, file, root)
    names = [*found, own]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError("a file is named twice", field=f"{where}.dependence_files", got=name)
    if own.startswith(EXTERNAL) and root is not None:
        text = source(root / file)
        if not re.search(rf"^\s*module\s+{module}\b", text, re.MULTILINE):
            raise ConfigError(
                f"the file does not define module {module!r}", field=f"{where}.file", got=str(root / file)
            )
    elif toolchain == "EXTERNAL":
        raise ConfigError(
            "the module of an EXTERNAL op is a file of the package",
            field=f"{where}.file",
            got=file,
            remedy="say INTERNAL",
        )
    return own, found


def locate_file(where: str, name: str, root: Path | None) -> str:
    """Find a file, which is the user's or the package's; give the user's its place below ``external/``.

    Raises:
        ConfigError: If it is missing, lies outside ``root``, or could be either.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) != name:
        raise ConfigError(
            "a file of a custom op is not named relative to its folder",
            field=f"{where}.dependence_files",
            got=name,
            expected="a path below root, or below the package's rtl_templates",
        )
    if path.suffix == ".j2":
        raise ConfigError(
            "a module is named as the file that its template becomes",
            field=f"{where}.file",
            got=name,
            remedy=f"say {name.removesuffix('.j2')!r}",
        )
    theirs, ours = root is not None and exists(root / name), exists(rtl_root() / name)
    if theirs and ours:
        raise ConfigError(
            "a file could be yours or the package's", field=f"{where}.dependence_files", got=name, remedy="rename yours"
        )
    if not theirs and not ours:
        known = [*(modules_below(root) if root is not None else ()), *library_modules().values()]
        raise ConfigError(
            "a file of a custom op is missing",
            field=f"{where}.dependence_files",
            got=str(root / name) if root is not None else name,
            remedy=suggest(name, known),
        )
    return EXTERNAL + name if theirs else name
