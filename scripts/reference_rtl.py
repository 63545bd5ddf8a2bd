"""Lists of RTL modules, from their headers."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from mase_hw.catalogue import default_catalogue
from tests.catalogue.headers import read_header
from tests.rtl import LIBRARY

WIDTH = 120
_TENSOR = re.compile(r"(?P<tensor>\w+?)_(?:PRECISION_\d|SIGNED|TENSOR_SIZE_DIM_\d|PARALLELISM_DIM_\d)")
_FIELDS = ("Latency", "Throughput")


def module_files() -> dict[str, list[Path]]:
    """The files of the library and of the ops, by folder."""
    return {folder: sorted((LIBRARY / folder).glob("*.sv")) for folder in ("lib", "ops")}


def comment_of(path: Path) -> dict[str, str]:
    """What the header comment says: ``what`` (the first sentence), ``Latency``, ``Throughput`` and ``Golden``."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines()[2:]:
        if not line.startswith("//"):
            break
        lines.append(line[2:].removeprefix(" "))
    text = "\n".join(lines)
    what = re.match(rf"{path.stem}: (?P<what>.+?)\.?\n\n", text + "\n\n", re.DOTALL)
    if what is None:
        raise ValueError(f"the header of {path.name} does not begin with '{path.stem}: ' and what it is")
    found = {"what": what["what"]}
    for field in re.finditer(r"^(?P<name>[A-Z]\w+): +(?P<text>.*(?:\n .*)*)", text, re.MULTILINE):
        found[field["name"]] = field["text"]
    if missing := [field for field in _FIELDS if field not in found]:
        raise ValueError(f"the header of {path.name} has no line for {', '.join(missing)}")
    # Two dollar signs in a line would be a formula in Markdown.
    return {name: " ".join(value.replace("$clog2", "clog2").split()) for name, value in found.items()}


def modules(folder: str) -> str:
    """Every module of a folder: parameters with defaults, what it does, latency and throughput."""
    entries = []
    for path in module_files()[folder]:
        said = comment_of(path)
        line = f"- **`{path.stem}`**{_parameters(path, folder == 'ops')}: {said['what']}. " + " ".join(
            f"*{field}*: {said[field].rstrip('.')}." for field in _FIELDS
        )
        entries.append(textwrap.fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(entries)


def ops() -> str:
    """The ops of every module."""
    found: dict[str, list[str]] = {}
    for op in default_catalogue():
        if op.hardware is not None and op.mase_type:
            found.setdefault(op.hardware.module, []).append(f"`{op.name}`")
    rows = (f"| `{module}` | {', '.join(names)} |" for module, names in sorted(found.items()))
    return "\n".join(["| module | ops |", "|---|---|", *rows])


def _parameters(path: Path, op: bool) -> str:
    """Parameters with defaults; of an op's tensors the name and the number of dimensions."""
    shown, tensors = [], {}
    for parameter in read_header(path).parameters:
        tensor = _TENSOR.fullmatch(parameter.name) if op else None
        if parameter.kind != "parameter" or (parameter.name in ("ROUNDING", "OVERFLOW") and op):
            continue
        if tensor:
            dims = tensors.setdefault(tensor["tensor"], [])
            dims += [parameter.name] if "_TENSOR_SIZE_DIM_" in parameter.name else []
        else:
            shown.append(f"`{parameter.name}` {parameter.default}")
    named = [f"`{tensor}` of {len(dims)}" for tensor, dims in tensors.items()]
    return f" ({', '.join([*named, *shown])})" if named or shown else ""
