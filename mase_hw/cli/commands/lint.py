"""The subcommand ``lint``."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mase_hw.cli._common import FAILED, OK, path
from mase_hw.cli.answers import answer

HELP = "check the style of SystemVerilog files, and of templates of modules as they are rendered"


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``lint``."""
    parser.add_argument(
        "paths", nargs="*", type=path, metavar="PATH", help=".sv files, .sv.j2 templates or folders (default: our RTL)"
    )
    parser.add_argument(
        "--out", type=path, metavar="FOLDER", help="keep what the templates are rendered to, and complain about that"
    )


def run(arguments: argparse.Namespace) -> int:
    """Check files; ours if none are named."""
    from mase_hw.host.lint import lint, sources
    from mase_hw.host.resources import rtl_root

    with tempfile.TemporaryDirectory() as scratch:
        paths = arguments.paths or [rtl_root()]
        made = _rendered(paths, arguments.out or Path(scratch))
        files = sources([*(p for p in paths if p.suffix != ".j2"), *made])
        complaints = lint(files)
    if arguments.out is None:
        complaints = [_about_template(complaint, made) for complaint in complaints]
    text = "\n".join([*complaints, f"{len(files)} files, {len(complaints)} complaints"])
    found = {"files": len(files), "complaints": complaints}
    return answer(arguments, FAILED if complaints else OK, found, text)


def _rendered(paths: Sequence[Path], folder: Path) -> dict[Path, Path]:
    """The templates among files and in folders, by what they are written to."""
    from mase_hw.hardware.library import modules_below, template_of, write_module

    wanted = [(p, name) for p in paths if p.is_dir() for name in modules_below(p) if not (p / name).is_file()]
    wanted += [(p.parent, p.stem) for p in paths if p.suffix == ".j2"]
    return {write_module(root / name, folder / name): template_of(root / name) for root, name in wanted}


def _about_template(complaint: str, made: dict[Path, Path]) -> str:
    for target, template in made.items():
        if str(target) in complaint:
            said = complaint.partition("; run: ")[0].replace(str(target), str(template))
            return f"{said} (as rendered: see --out)"
    return complaint
