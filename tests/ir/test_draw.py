"""The picture of a graph: well-formed, complete, the same every time; and nothing in it lies on anything else."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from torch import Tensor, nn

from mase_hw.errors import ConfigError, EmitError
from mase_hw.ir import MaseGraph
from mase_hw.ir.draw import render
from mase_hw.ir.draw.cards import KINDS, make_card
from mase_hw.ir.draw.layout import GAP_X, Box, lay_out
from mase_hw.ir.draw.order import Key, count_crossings, fewest_crossings
from mase_hw.passes.mapping.add_hardware_metadata import add_hardware_metadata_analysis_pass
from tests.ir.checkpoints import Small, graph, quantised
from tests.ir.networks import ResNet18

SVG = "{http://www.w3.org/2000/svg}"


def parts_of(text: str) -> dict[str, list[str]]:
    """Texts of every node by its name."""
    root = ElementTree.fromstring(text)
    groups = [g for g in root.iter(f"{SVG}g") if g.get("id", "").startswith("node-")]
    return {g.get("id", "").removeprefix("node-"): [t.text or "" for t in g.iter(f"{SVG}text")] for g in groups}


def test_every_node_with_all_it_has(tmp_path: Path) -> None:
    made, _ = add_hardware_metadata_analysis_pass(quantised(), {"max_parallelism": 4})
    made.draw(tmp_path / "new" / "net.svg")
    text = (tmp_path / "new" / "net.svg").read_text(encoding="utf-8")
    parts = parts_of(text)
    assert list(parts) == [n.name for n in made.nodes]
    first = parts["inner_0"]
    formats = {name: str(fmt) for name, fmt in made.modules["inner.0"].arithmetic.formats.items()}  # type: ignore[union-attr]
    assert first[:2] == ["inner_0", "linear"]
    rows = dict(itertools.pairwise(first))
    assert rows["out"] == "3 \u00d7 8" and rows["weight"] == "8 \u00d7 12" and rows["lanes"] == "4 \u2192 4"
    assert {formats["weight"], formats["bias"], formats["data_out_0"]} <= set(first)
    timing = made.node("inner_0").meta["mase"]["hardware"]["latency"]
    assert rows["cycles"] == f"{timing['interval']} a frame, first after {timing['fill']}"
    labels = re.findall(r'class="label"[^>]*>([^<]*)<', text)
    assert formats["data_out_0"] in labels and "float32" in labels
    assert not list(tmp_path.glob("new/.*"))


def test_before_any_pass() -> None:
    parts = parts_of(render(MaseGraph(Small())))
    assert parts["inner_0"] == ["inner_0", "linear"] and parts["x"] == ["x", "input"]


def test_the_same_every_time(tmp_path: Path) -> None:
    made = graph()
    made.draw(tmp_path / "a.svg")
    made.draw(tmp_path / "b.SVG")
    graph().draw(str(tmp_path / "c.svg"))
    assert len({(tmp_path / name).read_bytes() for name in ("a.svg", "b.SVG", "c.svg")}) == 1


def test_kinds_and_legend() -> None:
    made = quantised()
    kinds = {n.name: make_card(made, n).kind for n in made.nodes}
    assert (kinds["x"], kinds["x_quantize"], kinds["flatten"], kinds["inner_0"]) == (
        "boundary",
        "convert",
        "implicit",
        "fixed",
    )
    text = render(made)
    assert KINDS["fixed"].legend in text and KINDS["unknown"].legend not in text

    class Strange(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x: Tensor) -> Tensor:
            return torch.linalg.inv(x) * self.weight

    strange = MaseGraph(Strange())
    assert {make_card(strange, n).kind for n in strange.nodes} == {"boundary", "unknown", "parameter", "float"}


def test_numbers_show_their_value() -> None:
    class Sized(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.view(x.size(0), -1)

    made = MaseGraph(Sized(), add_metadata_args={"dummy_in": {"x": torch.ones(3, 2, 2)}})
    assert make_card(made, made.node("size")).kind == "number"
    assert parts_of(render(made))["size"][2:] == ["is", "3"]


def test_text_that_is_markup() -> None:
    made = graph()
    made.node("inner_0").meta["mase"]["common"]["args"]["note"] = '<script>"&\x00]]>'
    text = render(made)
    ElementTree.fromstring(text)
    assert "<script" not in text and "\x00" not in text


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.svg"):
        graph().draw(tmp_path / "net.png")
    (tmp_path / "file").write_text("")
    with pytest.raises(EmitError, match="cannot be written"):
        graph().draw(tmp_path / "file" / "net.svg")
    (tmp_path / "net.svg").mkdir()
    with pytest.raises(EmitError, match="cannot be written"):
        graph().draw(tmp_path / "net.svg")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "net.svg"]


def test_a_straight_line_is_straight() -> None:
    names = [str(i) for i in range(6)]
    layout = lay_out({n: Box(50 + 10 * i, 20) for i, n in enumerate(names)}, itertools.pairwise(names))
    assert len({x for x, _ in layout.boxes.values()}) == 1
    assert all(link.start[0] == link.end[0] for link in layout.links)


def test_the_main_line_of_a_residual_network_is_straight() -> None:
    made = MaseGraph(ResNet18(), add_metadata_args={"dummy_in": {"x": torch.ones(1, 3, 32, 32)}})
    boxes = {n.name: Box(150, 60) for n in made.nodes}
    layout = lay_out(boxes, [(s.name, n.name) for n in made.nodes for s in n.all_input_nodes])
    places = [
        layout.boxes[n.name][0] for n in made.nodes if n.name.startswith(("blocks_0", "blocks_1_", "conv1", "bn1"))
    ]
    assert max(places) - min(places) < 1


@pytest.mark.parametrize("seed", range(25))
def test_nothing_overlaps(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(rng.randint(1, 60))]
    boxes = {n: Box(rng.uniform(20, 200), rng.uniform(10, 80), first=rng.random() < 0.05) for n in names}
    first = {n for n in names if boxes[n].first}
    edges = [(a, b) for a, b in itertools.combinations(names, 2) if rng.random() < 0.06 and b not in first]
    layout = lay_out(boxes, edges)
    rectangles = {n: (x - boxes[n].width / 2, y, boxes[n].width, boxes[n].height) for n, (x, y) in layout.boxes.items()}
    assert set(rectangles) == set(names)
    for a, b in itertools.combinations(rectangles.values(), 2):
        apart = a[0] + a[2] + GAP_X <= b[0] + 1e-6 or b[0] + b[2] + GAP_X <= a[0] + 1e-6
        assert apart or a[1] + a[3] < b[1] or b[1] + b[3] < a[1]
    for x, y, w, h in rectangles.values():
        assert x >= -1e-6 and y >= 0 and x + w <= layout.width + 1e-6 and y + h <= layout.height + 1e-6
    for a, b in edges:
        assert layout.boxes[a][1] < layout.boxes[b][1]
    assert {(link.source, link.target) for link in layout.links if link.target} == set(edges)
    for link in layout.links:
        # Where an edge passes a row, it passes beside the boxes.
        for x, y, w, _ in rectangles.values():
            if link.through and y == link.end[1]:
                assert link.end[0] <= x + 1e-6 or link.end[0] >= x + w - 1e-6
        if link.target is not None:
            x, y, w, _ = rectangles[link.target]
            assert link.end[1] == y and x <= link.end[0] <= x + w


def test_crossings_are_counted_and_undone() -> None:
    def key(name: str) -> Key:
        return (name, -1)

    rows = [[key(n) for n in "abc"], [key(n) for n in "xyz"]]
    down = {key("a"): [key("z")], key("b"): [key("y")], key("c"): [key("x")]}
    up = {key("z"): [key("a")], key("y"): [key("b")], key("x"): [key("c")]}
    assert count_crossings(rows, down) == 3
    assert count_crossings(fewest_crossings(rows, up, down, 4), down) == 0
    rng = random.Random(1)
    pairs = sorted({(rng.randrange(9), rng.randrange(9)) for _ in range(30)})
    many = [[(str(i), -1) for i in range(9)], [(str(i), 1) for i in range(9)]]
    links: dict[Key, list[Key]] = {}
    for a, b in pairs:
        links.setdefault((str(a), -1), []).append((str(b), 1))
    naive = sum((a - c) * (b - d) < 0 for (a, b), (c, d) in itertools.combinations(pairs, 2))
    assert count_crossings(many, links) == naive
