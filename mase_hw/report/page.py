"""One bundle as one HTML page: no network, no server, nothing beside it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from mase_hw.cost.resources import missing
from mase_hw.emit.estimate import counted
from mase_hw.emit.netlist import Shortfall
from mase_hw.ir.draw.cards import KINDS
from mase_hw.report.charts import MOST_HISTOGRAMS, histograms, noise, timeline
from mase_hw.report.compare import compare
from mase_hw.report.facts import Facts
from mase_hw.vectors.casts import fault_coverage

TEMPLATES = Path(__file__).parent / "templates"
RESOURCES = ("lut", "ff", "dsp", "bram")
SLOWEST = 4


def page(facts: Facts, against: Facts | None = None) -> str:
    """The page as text; the same facts give the same text.

    Args:
        facts: Of the bundle.
        against: Of another one to compare with.

    Raises:
        ConfigError: If matplotlib is not installed.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    picture, picture_css = _picture(facts["picture"])
    stages, values = facts["stages"] or [], facts["quantisation"]
    summary = values["summary"] if values else None
    kinds = ("weights", "activations")
    return environment.get_template("report.html.j2").render(
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


def _slowest(stages: Sequence[Mapping[str, Any]], interval: int) -> list[dict[str, Any]]:
    order = sorted(stages, key=lambda stage: -stage["interval"])
    return [{**stage, "of_interval": stage["interval"] / interval} for stage in order[:SLOWEST]]


def _mapped(report: Mapping[str, Any], instance: str, resource: str) -> int | None:
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


def how(simulation: Mapping[str, Any]) -> str:
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


def coverage(simulation: Mapping[str, Any]) -> str:
    """Shares of lines, branches and toggles that were reached."""
    found = simulation["coverage"] or {}
    return ", ".join(f"{kind} {reached} of {all_}" for kind, (reached, all_) in found.items())


def advice(limits: Mapping[str, Any] | None) -> list[str]:
    """What limits the rate, and what would pay."""
    if limits is None:
        return []
    if limits["by_waiting"]:
        said = ["The design is slower than its slowest stage: stages wait for each other through their buffers."]
        if limits.get("shortfall"):
            more = str(Shortfall(**limits["shortfall"]))
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
