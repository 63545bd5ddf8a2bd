"""The RTL library as files, for tools that read files; and benches, which may be templates as its modules are."""

from pathlib import Path

from mase_hw.hardware.library import render, write_module
from mase_hw.host.resources import PACKAGE

LIBRARY = render(PACKAGE.parent / "build" / "rtl_templates")


def bench(path: Path) -> Path:
    """A bench as a file, which it is, or is rendered to from ``NAME.sv.j2`` beside it."""
    return path if path.is_file() else write_module(path, LIBRARY.parent / "benches" / path.name)
