"""Two bundles side by side: what changed in formats, lanes, cycles, area and noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mase_hw.report.facts import Facts

Row = dict[str, Any]


def compare(ours: Facts, theirs: Facts) -> dict[str, Any]:
    """What differs between a bundle and another one.

    Args:
        ours: Of the bundle that the report is about.
        theirs: Of the other one.

    Returns:
        ``totals``: name, our figure, their figure; ``instances``: what changed, by instance; ``same``: how many did
        not change at all.
    """
    totals = [(name, _figure(ours, path), _figure(theirs, path)) for name, path in _TOTALS]
    totals = [row for row in totals if row[1] is not None or row[2] is not None]
    totals += _evaluations(ours, theirs)
    mine, others = ({entry["name"]: entry for entry in each["instances"]} for each in (ours, theirs))
    rows: list[Row] = []
    same = 0
    for name in dict.fromkeys([*mine, *others]):
        if name not in mine or name not in others:
            a, b = (there[name]["module"] if name in there else None for there in (mine, others))
            rows.append({"instance": name, "what": "is in one of them only", "ours": a, "theirs": b})
            continue
        a, b = _shown(mine[name]), _shown(others[name])
        changed = [key for key in dict.fromkeys([*a, *b]) if a.get(key) != b.get(key)]
        if not changed:
            same += 1
            continue
        for key in changed:
            rows.append({"instance": name, "what": key, "ours": a.get(key), "theirs": b.get(key)})
    return {"name": theirs["name"], "totals": totals, "instances": rows, "same": same}


_TOTALS = (
    ("cycles per frame", ("timing", "interval")),
    ("first result after (cycles)", ("timing", "fill")),
    ("multipliers", ("multipliers",)),
    ("LUTs, estimated", ("area", "estimate", "lut")),
    ("flip-flops, estimated", ("area", "estimate", "ff")),
    ("DSP blocks, estimated", ("area", "estimate", "dsp")),
    ("block RAMs, estimated", ("area", "estimate", "bram")),
    ("instances not estimated", ("area", "estimate", "not_estimated")),
    ("signal-to-noise ratio at the output (dB)", ("quantisation", "summary", "outputs", 0)),
    ("results clipped (share)", ("quantisation", "summary", "clipped")),
    ("simulations that passed", ("passed",)),
)


def _evaluations(ours: Facts, theirs: Facts) -> list[tuple[str, Any, Any]]:
    """Every criterion on the same data, of the quantised models and of the hardware."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for side, facts in (("ours", ours), ("theirs", theirs)):
        for each in facts["evaluations"]:
            found.setdefault((each["criterion"], each["data"]), {})[side] = each
    rows = []
    for (criterion, data), sides in found.items():
        for key, what in (("quantised", "quantised"), ("rtl", "hardware")):
            a, b = (sides[side][key] if side in sides else None for side in ("ours", "theirs"))
            rows.append((f"{criterion}, {what}, data {data[:6]}", a, b))
    return rows


def _figure(facts: Facts, path: tuple[Any, ...]) -> Any:
    if path == ("passed",):
        return sum(each["passed"] for each in facts["simulations"])
    value: Any = facts
    for key in path:
        if value is None or (isinstance(value, Mapping) and key not in value):
            return None
        value = value[key]
    return sum(value.values()) if isinstance(value, Mapping) else value


def _shown(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What is compared of an instance."""
    parameters = entry["parameters"]
    found: dict[str, Any] = {"module": entry["module"]}
    for port in sorted({key.removesuffix("_PRECISION_0") for key in parameters if key.endswith("_PRECISION_0")}):
        sign = "s" if parameters.get(f"{port}_SIGNED", 1) else "u"
        found[f"format of {port.lower()}"] = (
            f"{sign}{parameters[f'{port}_PRECISION_0']}.{parameters.get(f'{port}_PRECISION_1')}"
        )
        lanes = [v for k, v in sorted(parameters.items()) if k.startswith(f"{port}_PARALLELISM_DIM_")]
        if lanes:
            found[f"lanes of {port.lower()}"] = " x ".join(map(str, reversed(lanes)))
    for key, what in (("cycles", "cycles"), ("multipliers", "multipliers"), ("memory_bits", "bits of memory")):
        found[what] = entry[key]
    return found
