"""A graph as an SVG picture, drawn without any other program."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from mase_hw.errors import ConfigError
from mase_hw.host.disk import write_whole, writing
from mase_hw.ir.annotated import AnnotatedGraph
from mase_hw.ir.draw.cards import KINDS, Card, make_card
from mase_hw.ir.draw.layout import Box, Layout, Link, lay_out

MARGIN = 28.0
HEAD = 26.0
ROW = 18.0
PAD = 11.0
TOP = 74.0
_STYLE = """
svg { font-family: "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; font-size: 12px; fill: #1e293b; }
.title { font-size: 19px; font-weight: bold; }
.quiet { fill: #64748b; }
.name { font-weight: bold; font-size: 12.5px; }
.op { fill-opacity: 0.85; font-size: 11.5px; }
.number { font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 11px; }
.edge { fill: none; stroke: #94a3b8; stroke-width: 1.6px; }
.label { font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 10.5px; fill: #475569; }
"""


def draw(graph: AnnotatedGraph, file: str | os.PathLike[str]) -> Path:
    """Write the picture; see :meth:`mase_hw.ir.MaseGraph.draw`."""
    return write_picture(file, lambda: render(graph))


def write_picture(file: str | os.PathLike[str], made: Callable[[], str]) -> Path:
    """Write an SVG whole or not at all.

    Args:
        file: Its name, which ends in ``.svg``.
        made: Makes the text, once the name is known to be good.

    Raises:
        ConfigError: If the name ends otherwise.
        EmitError: If the file cannot be written.
    """
    path = Path(file)
    if path.suffix.lower() != ".svg":
        raise ConfigError(
            "the picture is an SVG",
            field="file",
            got=str(path),
            expected="a name that ends in .svg",
            remedy="rename it",
        )
    text = made()
    with writing("the picture", path):
        write_whole(path, text)
    return path


def render(graph: AnnotatedGraph) -> str:
    """The picture as SVG text; the same graph gives the same text."""
    nodes = graph.nodes
    cards = {node.name: make_card(graph, node) for node in nodes}
    boxes = {n.name: _box(cards[n.name], n.op == "placeholder") for n in nodes}
    layout = lay_out(boxes, [(source.name, n.name) for n in nodes for source in n.all_input_nodes])
    title = type(graph.model).__name__
    parameters = sum(p.numel() for p in graph.model.parameters())
    subtitle = f"{len(nodes)} nodes, {parameters:,} parameters"
    kinds = [kind for kind in KINDS if any(card.kind == kind for card in cards.values())]
    legend, legend_width = _legend(kinds)
    width = max(layout.width, legend_width, _width(title, 19) + 20) + 2 * MARGIN
    left = (width - layout.width) / 2
    height = layout.height + TOP + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" '
        f'width="{_n(width)}" height="{_n(height)}" role="img">',
        f"<title>{_t(title)}</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0.5 L8,4 L0,7.5 z" fill="#64748b"/></marker></defs>',
        f'<rect width="{_n(width)}" height="{_n(height)}" fill="#ffffff"/>',
        f'<text class="title" x="{_n(MARGIN)}" y="{_n(MARGIN + 14)}">{_t(title)}</text>',
        f'<text class="quiet" x="{_n(MARGIN)}" y="{_n(MARGIN + 33)}">{_t(subtitle)}</text>',
        *legend,
        f'<g transform="translate({_n(left)} {_n(MARGIN + TOP)})">',
        *[_link(link) for link in layout.links],
        *_cards(cards, boxes, layout),
        *_labels(cards, layout),
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _box(card: Card, in_front: bool) -> Box:
    head = _width(card.name, 12.5, bold=True) + _width(card.op, 11.5) + 2 * PAD + 16
    first = max((_width(row[0]) for row in card.rows), default=0.0)
    body = (
        2 * PAD
        + first
        + 14
        + max((_mono(row[1]) + (_mono(row[2]) + 14) * bool(row[2]) for row in card.rows), default=0)
    )
    height = HEAD + (len(card.rows) * ROW + 10 if card.rows else 0)
    return Box(max(head, body, 96.0), height, in_front)


def _cards(cards: dict[str, Card], boxes: dict[str, Box], layout: Layout) -> list[str]:
    parts = []
    for name, card in cards.items():
        (x, y), box = layout.boxes[name], boxes[name]
        look = KINDS[card.kind]
        w, h, left = box.width, box.height, x - box.width / 2
        head = (
            f"M0,{_n(HEAD)} V8 Q0,0 8,0 H{_n(w - 8)} Q{_n(w)},0 {_n(w)},8 V{_n(HEAD)} z"
            if card.rows
            else f"M8,0 H{_n(w - 8)} Q{_n(w)},0 {_n(w)},8 V{_n(h - 8)} Q{_n(w)},{_n(h)} {_n(w - 8)},{_n(h)} "
            f"H8 Q0,{_n(h)} 0,{_n(h - 8)} V8 Q0,0 8,0 z"
        )
        tip = "\n".join((f"{card.name}: {card.op}", *card.details))
        parts += [
            f'<g id="node-{_t(name)}" transform="translate({_n(left)} {_n(y)})"><title>{_t(tip)}</title>',
            f'<rect width="{_n(w)}" height="{_n(h)}" rx="8" fill="{look.body}"/>',
            f'<path d="{head}" fill="{look.head}"/>',
            f'<rect width="{_n(w)}" height="{_n(h)}" rx="8" fill="none" stroke="{look.line}"/>',
            f'<text class="name" x="{_n(PAD)}" y="17.5" fill="{look.text}">{_t(card.name)}</text>',
            f'<text class="op" x="{_n(w - PAD)}" y="17.5" text-anchor="end" fill="{look.text}">{_t(card.op)}</text>',
        ]
        column = PAD + max((_width(row[0]) for row in card.rows), default=0.0) + 14
        for index, (label, text, fmt) in enumerate(card.rows):
            base = _n(HEAD + 17 + index * ROW)
            parts.append(f'<text class="quiet" x="{_n(PAD)}" y="{base}">{_t(label)}</text>')
            parts.append(f'<text class="number" x="{_n(column)}" y="{base}">{_t(text)}</text>')
            if fmt:
                parts.append(
                    f'<text class="number" x="{_n(w - PAD)}" y="{base}" text-anchor="end" fill="{look.line}" '
                    f'font-weight="bold">{_t(fmt)}</text>'
                )
        parts.append("</g>")
    return parts


def _link(link: Link) -> str:
    (x0, y0), (x1, y1) = link.start, link.end
    middle = (y1 - y0) * 0.55
    path = f"M{_n(x0)},{_n(y0)} C{_n(x0)},{_n(y0 + middle)} {_n(x1)},{_n(y1 - middle)} {_n(x1)},{_n(y1)}"
    if link.through:
        path += f" V{_n(y1 + link.through)}"
    arrow = ' marker-end="url(#arrow)"' if link.target is not None else ""
    return f'<path class="edge" d="{path}"{arrow}/>'


def _labels(cards: dict[str, Card], layout: Layout) -> list[str]:
    """The format of what flows, once a source, where its edges begin."""
    parts = []
    begun: dict[str, list[Link]] = {}
    for link in layout.links:
        x, y = layout.boxes[link.source]
        if link.start[0] == x and link.start[1] > y and link.start[1] - y < _reach(cards[link.source]):
            begun.setdefault(link.source, []).append(link)
    for source, links in begun.items():
        if cards[source].result:
            (x, y), text = links[0].start, cards[source].result
            w = _mono(text) + 8
            parts.append(
                f'<rect x="{_n(x - w / 2)}" y="{_n(y + 7)}" width="{_n(w)}" height="15" rx="4" fill="#ffffff"/>'
            )
            parts.append(f'<text class="label" x="{_n(x)}" y="{_n(y + 18)}" text-anchor="middle">{_t(text)}</text>')
    return parts


def _reach(card: Card) -> float:
    return HEAD + len(card.rows) * ROW + 11


def _legend(kinds: Sequence[str]) -> tuple[list[str], float]:
    parts, x = [], MARGIN
    for kind in kinds:
        look = KINDS[kind]
        colours = f'fill="{look.head}" stroke="{look.line}"'
        parts.append(f'<rect x="{_n(x)}" y="{_n(MARGIN + 45)}" width="12" height="12" rx="3" {colours}/>')
        parts.append(f'<text class="quiet" x="{_n(x + 18)}" y="{_n(MARGIN + 55)}">{_t(look.legend)}</text>')
        x += 18 + _width(look.legend) + 20
    return parts, x - MARGIN


_NARROW, _BROAD = set("fijlrt.,:;'|!()[] I"), set("mwMW@%\u2014\u2192\u00d7")


def _width(text: str, size: float = 12.0, bold: bool = False) -> float:
    """Width of a text in pixels, estimated for the broadest of the fonts."""
    units = sum(0.4 if c in _NARROW else 0.98 if c in _BROAD else 0.7 if c.isupper() else 0.63 for c in text)
    return units * size * (1.08 if bold else 1.0)


def _mono(text: str) -> float:
    return len(text) * 11 * 0.605


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _t(text: str) -> str:
    """Text for XML: escaped, without the control characters XML has no way to write."""
    return escape(re.sub(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", " ", text), {'"': "&quot;"})
