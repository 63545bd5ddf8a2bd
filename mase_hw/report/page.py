"""One bundle as one HTML page: no network, no server, nothing beside it.

Two bundles side by side: what changed in formats, lanes, cycles, area and noise.

Writes a report: whole, or not at all.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from mase_hw.cost.devices import missing
from mase_hw.emit.bundle import PICTURE
from mase_hw.emit.estimate import counted
from mase_hw.emit.read_bundle import read_file, read_manifest
from mase_hw.errors import ConfigError
from mase_hw.hardware.manifest import typed
from mase_hw.host.disk import write_whole, writing
from mase_hw.host.documents import Json
from mase_hw.host.shown import Page, rendered
from mase_hw.ir import MaseGraph
from mase_hw.ir.draw.cards import KINDS
from mase_hw.report.charts import MOST_HISTOGRAMS, histograms, need_matplotlib, noise, timeline
from mase_hw.report.facts import Facts, facts
from mase_hw.report.proof import evaluations
from mase_hw.vectors.casts import fault_coverage

Row = Json


def compare(ours: Facts, theirs: Facts) -> Json:
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
    found: dict[tuple[str, str], Json] = {}
    for side, of_side in (("ours", ours), ("theirs", theirs)):
        for each in of_side["evaluations"]:
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


def _shown(entry: Json) -> Json:
    """What is compared of an instance."""
    parameters = entry["parameters"]
    found: Json = {"module": entry["module"]}
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


TEMPLATES = Path(__file__).parent / "templates"
RESOURCES = ("lut", "ff", "dsp", "bram")
ENERGY_KINDS = ("nets", "clock", "products", "memory")
SLOWEST = 4


def page(facts: Facts, against: Facts | None = None) -> str:
    """The page as text; the same facts give the same text.

    Args:
        facts: Of the bundle.
        against: Of another one to compare with.

    Raises:
        ConfigError: If matplotlib is not installed.
    """
    picture, picture_css = _picture(facts["picture"])
    stages, values = facts["stages"] or [], facts["quantisation"]
    summary = values["summary"] if values else None
    kinds = ("weights", "activations")
    return rendered(
        TEMPLATES / "report.html.j2",
        facts=facts,
        verdict=_verdict(facts),
        failures=[{**each, "how": how(each)} for each in facts["simulations"] if not each["passed"]],
        figures=_figures(facts),
        against=None if against is None else compare(facts, against),
        css=Markup(_read("report.css")),
        picture_css=Markup(picture_css),
        js=Markup(_read("report.js")),
        picture=None if picture is None else Markup(picture),
        nodes=_data(facts["nodes"]),
        advice=advice(facts["limits"]),
        slowest=_slowest(stages, facts["timing"]["interval"]),
        steady=_markup(timeline(stages, "steady", "steady")),
        first=_markup(timeline(stages, "first", "first")),
        noise=_markup(noise(summary["nodes"], "noise")) if summary else None,
        histograms=[(k.capitalize(), values[k], _markup(histograms(values[k], k))) for k in kinds] if values else [],
        most=MOST_HISTOGRAMS,
        resources=RESOURCES,
        energy_kinds=ENERGY_KINDS,
        mapped=_mapped,
        shown=shown,
        counted=counted,
        missing=missing,
        measured=measured,
        percent=percent,
        decibels=decibels,
        how=how,
        code=code,
        coverage=coverage,
        change=_change,
        fault_coverage=fault_coverage,
    )


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _data(value: Any) -> Markup:
    """JSON for a script element, which it cannot end."""
    return Markup(json.dumps(value).replace("<", "\\u003c").replace("&", "\\u0026"))


def _markup(text: str | None) -> Markup | None:
    return None if text is None else Markup(text)


def _picture(svg: str | None) -> tuple[str | None, str]:
    """The drawing of the network with the colours of the page, and its style, for itself alone."""
    if svg is None:
        return None, ""
    found = re.search(r"<style>(.*?)</style>", svg, re.DOTALL)
    assert found is not None  # as it is drawn
    rules = re.sub(r"^(?=[.\w])", ".net ", found[1], flags=re.MULTILINE)
    text = svg.replace(found[0], "")
    named = {"#1e293b": "ink", "#64748b": "muted", "#94a3b8": "edge", "#475569": "muted"}
    # Bodies are the page's boxes; heads keep their colours, which go with white text.
    for look in KINDS.values():
        text = text.replace(f'rx="8" fill="{look.body}"', 'rx="8" fill="var(--box)"')
        # The formats in a body: the colour of the kind, and readable on dark.
        mixed = f"color-mix(in srgb, {look.line} 62%, var(--ink))"
        text = text.replace(f'fill="{look.line}" font-weight', f'style="fill: {mixed}" font-weight')
    text = re.sub(r'(<rect [^>]*rx="4" )fill="#ffffff"', r'\1fill="var(--card)"', text)
    text = re.sub(r'<rect width="[^"]*" height="[^"]*" fill="#ffffff"/>', "", text, count=1)
    for colour, name in named.items():
        rules = rules.replace(colour, f"var(--{name})")
    return text, rules


def _verdict(facts: Facts) -> dict[str, str]:
    played = facts["simulations"]
    if any(not each["passed"] for each in played):
        return {"kind": "bad", "text": "a simulation FAILED"}
    if not played:
        return {"kind": "bad", "text": "never simulated"}
    beats = sum(each["beats_compared"] for each in played)
    return {"kind": "good", "text": f"{beats:,} beats compared, all equal"}


def _figures(facts: Facts) -> list[tuple[str, str]]:
    """What stands at the top."""
    area = facts["area"]["estimate"]
    found = [
        ("cycles per frame", shown(facts["timing"]["interval"])),
        ("cycles to the first result", shown(facts["timing"]["fill"])),
        ("multipliers", shown(facts["multipliers"])),
        ("LUTs, estimated", counted(area, "lut")),
        ("DSP blocks, estimated", counted(area, "dsp")),
        ("block RAMs, estimated", counted(area, "bram")),
    ]
    if facts["multipliers"]:
        used = facts["work"] / (facts["products"] * facts["timing"]["interval"])
        found.append(("of the multipliers work", percent(used)))
    for each in facts["evaluations"]:
        if each["rtl"] is not None:
            found.append((f"{each['criterion']} of the hardware", measured(each["rtl"])))
    if facts["quantisation"] and facts["quantisation"]["summary"]:
        found.append(("signal-to-noise at the output", decibels(facts["quantisation"]["summary"]["outputs"])))
    return found


def _slowest(stages: Sequence[Json], interval: int) -> list[Json]:
    order = sorted(stages, key=lambda stage: -stage["interval"])
    return [{**stage, "of_interval": stage["interval"] / interval} for stage in order[:SLOWEST]]


def _mapped(report: Json, instance: str, resource: str) -> int | None:
    counts = [row["counts"][resource] for row in report["rows"] if row["instance"] == instance]
    return counts[0] if counts else None


def _change(ours: Any, theirs: Any) -> str:
    if not isinstance(ours, int | float) or not isinstance(theirs, int | float) or not math.isfinite(ours - theirs):
        return ""
    if ours == theirs:
        return "the same"
    return f"{ours - theirs:+,.4g}" + (f" ({(ours - theirs) / theirs:+.1%})" if theirs else "")


def shown(value: Any) -> str:
    """A figure for people; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def percent(share: float | None) -> str:
    """A share; small ones are not shown as none. Nothing for None."""
    if share is None:
        return ""
    if share in (0, 1) or 0.0995 <= share <= 0.995:
        return f"{share:.0%}"
    return "< 0.01%" if share < 0.0001 else f"{share:.2%}"


def measured(value: Any) -> str:
    """A statistic of an evaluation, as exactly as people compare them."""
    if value is None:
        return "not measured"
    return f"{value:.4f}" if isinstance(value, int | float) else str(value)


def decibels(ratios: Sequence[float]) -> str:
    """Signal-to-noise ratios."""
    return ", ".join("no noise" if math.isinf(ratio) else f"{ratio:.1f} dB" for ratio in ratios)


def code(text: str) -> Markup:
    """Text with what stands between backticks as code; escaped."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else escape(part) for i, part in enumerate(parts)
    )


def how(simulation: Json) -> str:
    """What was done to a design in a simulation."""
    said = []
    stalls = simulation["stalls"]
    if stalls:
        said.append(f"stalls at its ports ({', '.join(f'{k} {v}' for k, v in stalls.items())})")
    if simulation["inner_stalls"]:
        said.append(f"stalls inside ({simulation['inner_stalls']})")
    if simulation["resets"]:
        said.append(f"{simulation['resets']} resets in the middle")
    if simulation["intervenes"]:
        said.append("a test that intervenes")
    if not simulation["own_vectors"]:
        said.append("other inputs than the bundle's vectors")
    return f"{', '.join(said) or 'full rate'}, seed {simulation['seed']}"


def coverage(simulation: Json) -> str:
    """Shares of lines, branches and toggles that were reached."""
    found = simulation["coverage"] or {}
    return ", ".join(f"{kind} {reached} of {all_}" for kind, (reached, all_) in found.items())


def advice(limits: Json | None) -> list[str]:
    """What limits the rate, and what would pay."""
    if limits is None:
        return []
    if limits["by_waiting"]:
        said = ["The design is slower than its slowest stage: stages wait for each other through their buffers."]
        if more := limits.get("shortfall"):
            said.append(f"{more[0].upper()}{more[1:]}, not {limits['interval']:,}.")
        return said
    slowest = limits["slowest"]
    if not slowest:
        said = [
            f"No layer limits the rate, but what stands between them or at the ports: {', '.join(limits['between'])}."
        ]
    elif len(slowest) == 1:
        said = [f"The limit is {slowest[0]}: no other layer's lanes make the design faster."]
    else:
        said = [f"{len(slowest)} layers limit the rate together: {', '.join(slowest)}. It takes more lanes of all."]
    change = limits["change"]
    if not limits["tried"]:
        return [*said, "Larger numbers of lanes were not tried."]
    if change is None:
        return [*said, "No larger number of lanes that was tried, of it or beside it, makes the design faster."]
    lanes = "; ".join(f"{n}: {', '.join(f'{k} = {v}' for k, v in each.items())}" for n, each in change["lanes"].items())
    said.append(
        f"With hardware.parallelism {lanes}, the design would take {change['interval']:,} cycles per frame instead of "
        f"{limits['interval']:,}, with {change['multipliers']:,} multipliers instead of {limits['multipliers']:,}; "
        f"{change['bottleneck']} would need most cycles then."
    )
    return said


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
    manifest = typed(read_manifest(bundle), str(bundle))
    work = work or bundle.with_name(f"{bundle.name}.work")
    drawn = read_file(bundle, manifest.files, PICTURE).decode("utf-8") if PICTURE in manifest.files else None
    return facts(bundle.name, manifest, graph, work, evaluations(bundle, manifest.digest), drawn)


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
    with writing("the report", target):
        write_whole(target, text)
    return Page(target)
