"""What of ``torch.nn`` and ``torch.nn.functional`` is in hardware: the list of ``mase-hw ops --coverage``."""

from __future__ import annotations

import json
from typing import Any

import torch.nn.functional as F
from torch import nn

from mase_hw.catalogue import Catalogue, default_catalogue
from mase_hw.cli.coverage import ANALYSIS, HARDWARE, LOWERED, MISSING, NO_SENSE, Row, sentence
from mase_hw.errors import CatalogueError
from mase_hw.opdef import OpDef
from mase_hw.ops._no_hardware import reasons

TRACED = dict.fromkeys(("upsample", "upsample_bilinear", "upsample_nearest"), "interpolate")
"""Functions of Python that call another one, which is what a graph has."""


def layers() -> dict[str, Any]:
    """Every public layer, by name."""
    found = {name: getattr(nn, name) for name in dir(nn)}
    return {n: c for n, c in found.items() if isinstance(c, type) and issubclass(c, nn.Module)}


def functionals() -> dict[str, Any]:
    """Every public function of ``torch.nn.functional``, by name."""
    found = {name: getattr(F, name) for name in dir(F) if not name.startswith("_")}
    return {n: f for n, f in found.items() if callable(f) and not isinstance(f, type)}


def op_of(catalogue: Catalogue, name: str, target: Any) -> OpDef | None:
    """The op of a layer or function; a subclass with the forward of a layer is that layer."""
    exact = catalogue.of_target(target)
    if exact is not None or name in reasons():
        return exact
    if name in TRACED:
        return catalogue[TRACED[name]]
    same = [c for c in getattr(target, "__mro__", ()) if getattr(c, "forward", None) is target.forward]
    return next((found for c in same if (found := catalogue.of_target(c)) is not None), None)


def _in_hardware(catalogue: Catalogue, name: str) -> bool:
    """Whether an op needs nothing more."""
    op = catalogue.get(name)
    if op is None:
        raise CatalogueError("an op is written as one that there is not", node=name)
    return op.hardware is not None or op.implicit or _all_in_hardware(catalogue, op)


def _all_in_hardware(catalogue: Catalogue, op: OpDef) -> bool:
    """Whether an op is written as others, all of which need nothing more."""
    return bool(op.lowered) and all(_in_hardware(catalogue, part) for part in op.lowered)


def status(catalogue: Catalogue, name: str, target: Any) -> Row:
    """What a layer or function becomes."""
    op, why = op_of(catalogue, name, target), reasons().get(name)
    if op is not None and op.hardware is not None:
        return Row(name, HARDWARE, op.hardware.module)
    if op is not None and op.implicit:
        return Row(name, HARDWARE, "none needed")
    if op is not None and _all_in_hardware(catalogue, op):
        return Row(name, LOWERED, ", ".join(op.lowered))
    if why is not None:
        return Row(name, NO_SENSE, why)
    return Row(name, MISSING, "no op of the catalogue") if op is None else Row(name, ANALYSIS, op.name)


def coverage() -> str:
    """The list as JSON."""
    catalogue = default_catalogue()
    found = {"layers": layers(), "functionals": functionals()}
    rows = {kind: [list(status(catalogue, n, t)) for n, t in targets.items()] for kind, targets in found.items()}
    return json.dumps(rows, indent=1) + "\n"


def table_of(kind: str) -> str:
    """What is in hardware of a kind, as text: one line a status."""
    listed = [Row(*row) for row in json.loads(coverage())[kind]]
    lines = [f"{sentence(kind, listed)}.", ""]
    for state in (HARDWARE, LOWERED, ANALYSIS, MISSING):
        names = [f"`{row.name}`" for row in listed if row.status == state]
        lines += [f"- {state}: {', '.join(names)}"] if names else []
    reasons_of: dict[str, list[str]] = {}
    for row in listed:
        if row.status == NO_SENSE:
            reasons_of.setdefault(row.detail, []).append(f"`{row.name}`")
    return "\n".join([*lines, *(f"- not counted, {why}: {', '.join(names)}" for why, names in reasons_of.items())])
