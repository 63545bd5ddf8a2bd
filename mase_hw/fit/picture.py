"""The rates and areas among which one chooses, as an SVG: two axes, a line, and the chosen design."""

from __future__ import annotations

import math

from mase_hw.fit.result import Fit, Point

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _EDGE = 640, 360, 70, 50, 20


def picture(fit: Fit) -> str:
    """Largest share of a resource by frames per second, the rate on a logarithmic axis.

    Args:
        fit: With a front.

    Returns:
        The text of an SVG file.
    """
    chosen = Point(fit.interval, fit.choice.use)
    points = sorted([*fit.front, chosen], key=lambda point: -point.interval)
    rates = [math.log10(fit.goal.fps(point.interval)) for point in points]
    low, high = math.floor(min(rates)), math.ceil(max(rates))
    high += high == low
    shares = [max(fit.goal.share(name, number) for name, number in point.use.items()) for point in points]
    top = max(*shares, 1e-3) * 1.1

    def at(rate: float, share: float) -> tuple[float, float]:
        x = _LEFT + (rate - low) / (high - low) * (_WIDTH - _LEFT - _EDGE)
        return round(x, 1), round(_HEIGHT - _BOTTOM - share / top * (_HEIGHT - _BOTTOM - _EDGE), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="12" fill="#333333">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
    ]
    for power in range(low, high + 1):
        x, y = at(power, 0)
        label = f"{10.0**power:g}"
        parts.append(f'<path d="M{x} {y}V{_EDGE}" stroke="#dddddd"/>')
        parts.append(f'<text x="{x}" y="{y + 18}" text-anchor="middle">{label}</text>')
    for fifth in range(6):
        share = top * fifth / 5
        x, y = at(low, share)
        parts.append(f'<path d="M{x} {y}H{_WIDTH - _EDGE}" stroke="#dddddd"/>')
        parts.append(f'<text x="{x - 8}" y="{y + 4}" text-anchor="end">{share:.3g}</text>')
    line = " ".join(f"{x},{y}" for x, y in (at(*each) for each in zip(rates, shares, strict=True)))
    parts.append(f'<polyline points="{line}" fill="none" stroke="#2a6fbb" stroke-width="2"/>')
    for point, rate, share in zip(points, rates, shares, strict=True):
        x, y = at(rate, share)
        colour, radius = ("#c23b22", 6) if point is chosen else ("#2a6fbb", 3)
        title = f"{point.interval} cycles, " + ", ".join(f"{number} {name}" for name, number in point.use.items())
        parts.append(f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}"><title>{title}</title></circle>')
    middle = (_LEFT + _WIDTH - _EDGE) // 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 12}" text-anchor="middle">frames per second</text>')
    parts.append(
        f'<text x="16" y="{_HEIGHT // 2}" text-anchor="middle" transform="rotate(-90 16 {_HEIGHT // 2})">'
        "largest share of a resource</text>"
    )
    return "\n".join([*parts, "</svg>", ""])
