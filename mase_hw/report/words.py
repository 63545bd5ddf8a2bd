"""Numbers and findings of a report, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from mase_hw.emit.netlist import Shortfall


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
