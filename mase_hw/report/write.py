"""Writes a report: whole, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mase_hw.emit.bundle import PICTURE
from mase_hw.emit.read_bundle import read_file, read_manifest
from mase_hw.errors import ConfigError
from mase_hw.host.disk import not_written, write_whole
from mase_hw.host.shown import Page
from mase_hw.ir import MaseGraph
from mase_hw.report.charts import need_matplotlib
from mase_hw.report.compare import compare
from mase_hw.report.facts import Facts, facts
from mase_hw.report.page import page
from mase_hw.report.proof import evaluations

__all__ = ["bundle_facts", "default_target", "printed", "write_report"]


def default_target(bundle: Path) -> Path:
    """Where the report of a bundle is written: beside it."""
    return bundle.with_name(f"{bundle.name}.report.html")


def bundle_facts(bundle: Path, graph: MaseGraph | None = None, work: Path | None = None) -> Facts:
    """What is known of a bundle.

    Args:
        bundle: Its folder.
        graph: The graph behind it.
        work: Where it was simulated and synthesised; ``<bundle>.work`` by default.

    Raises:
        EmitError: If the folder is not a whole, unchanged bundle of this version.
    """
    bundle = Path(bundle).absolute()
    manifest: Mapping[str, Any] = read_manifest(bundle)
    work = work or bundle.with_name(f"{bundle.name}.work")
    drawn = read_file(bundle, manifest, PICTURE).decode("utf-8") if PICTURE in manifest["files"] else None
    return facts(bundle.name, manifest, graph, work, evaluations(bundle, manifest["digest"]), drawn)


def printed(found: Facts, against: Facts | None = None) -> Facts:
    """Facts for programs, without the picture; with the differences from another bundle."""
    shown = {key: value for key, value in found.items() if key != "picture"}
    return shown if against is None else {**shown, "against": compare(found, against)}


def write_report(
    bundle: Path | str,
    out: Path | str | None = None,
    *,
    graph: MaseGraph | None = None,
    against: Path | str | None = None,
    work: Path | str | None = None,
) -> Path:
    """Write what is known of a bundle as one HTML page.

    Args:
        bundle: Its folder.
        out: The file; ``<bundle>.report.html`` beside it by default.
        graph: The graph behind it; without it, the page says what is missing.
        against: Another bundle to compare with.
        work: Where it was simulated and synthesised; ``<bundle>.work`` by default.

    Returns:
        The file.

    Raises:
        ConfigError: If matplotlib is not installed, or the file would lie in the bundle.
        EmitError: If a folder is not a whole, unchanged bundle of this version, or the file cannot be written.
    """
    need_matplotlib()
    folder = Path(bundle).absolute()
    target = default_target(folder) if out is None else Path(out).absolute()
    if target.is_relative_to(folder):
        raise ConfigError(
            "the report would lie in the bundle, whose files have hashes",
            field="out",
            got=str(target),
            expected="a file outside the bundle",
        )
    if target.is_dir():
        raise ConfigError("the report is a file, and there is a folder", field="out", got=str(target))
    other = None if against is None else bundle_facts(Path(against))
    found = bundle_facts(folder, graph, None if work is None else Path(work))
    text = page(found, other)
    try:
        write_whole(target, text)
    except OSError as problem:
        raise not_written("the report", target, problem) from problem
    return Page(target)
