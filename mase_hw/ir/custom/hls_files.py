"""The files of an HLS op: its C++, and the SystemVerilog that may stand for what the tool makes of it."""

from __future__ import annotations

import re
from pathlib import Path

from mase_hw.errors import ConfigError
from mase_hw.hardware.library import library_modules, source
from mase_hw.ir.custom.files import locate_file
from mase_hw.ir.custom.hls import HlsOp
from mase_hw.ir.custom.spec import CustomOp
from mase_hw.opdef import EXTERNAL


def hls_op(spec: CustomOp, where: str) -> HlsOp:
    """What an entry says of an HLS op, its files found.

    Args:
        spec: The entry.
        where: What it is called in errors.

    Raises:
        ConfigError: If a file or the folder is missing, or does not define what it must.
    """
    if spec.root is None or not spec.root.is_dir():
        raise ConfigError(
            "an HLS op needs the folder of its C++",
            field=f"{where}.root",
            got=str(spec.root),
            expected="a folder",
            remedy='give it, for example "root": Path(__file__).parent',
        )
    if spec.static:
        raise ConfigError(
            "an HLS op takes no parameters from a memory",
            field=f"{where}.static",
            got=", ".join(spec.static),
            remedy="leave it out: constants of the node are in C++ as `config` arguments",
        )
    stand_in = spec.stand_in or ""
    needed = (*spec.dependence_files, *([stand_in] if stand_in else []))
    theirs = tuple(name for name in needed if locate_file(where, name, spec.root).startswith(EXTERNAL))
    if stand_in:
        _check_stand_in(where, spec.root / stand_in)
    function = _checked_source(where, spec.root, spec.file or f"{spec.module}.h", spec.module)
    others = tuple(name for name in theirs if name != stand_in)
    return HlsOp(spec.module, spec.root.resolve(), function, spec.rtl, stand_in, others, spec.golden)


def _checked_source(where: str, root: Path, name: str, function: str) -> str:
    path = root / name
    if not path.is_file():
        raise ConfigError(
            "the C++ of an HLS op is missing",
            field=f"{where}.file",
            got=str(path),
            expected=f"a header with the function template {function!r}, below root",
        )
    if not re.search(rf"\bvoid\s+{function}\s*\(", path.read_text(encoding="utf-8", errors="replace")):
        raise ConfigError(
            f"the file does not define a function {function!r}",
            field=f"{where}.file",
            got=str(path),
            expected=f"template <class Node> void {function}(...); see docs/hls.md",
        )
    return name


def _check_stand_in(where: str, path: Path) -> None:
    module = path.stem
    if module in library_modules():
        raise ConfigError(
            f"the package has a SystemVerilog module {module!r} of its own",
            field=f"{where}.stand_in",
            got=str(path),
            remedy="rename yours",
        )
    if not re.search(rf"^\s*module\s+{module}\b", source(path), re.MULTILINE):
        raise ConfigError(f"the file does not define module {module!r}", field=f"{where}.stand_in", got=str(path))
