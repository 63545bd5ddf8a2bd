"""The picture of the rooms is the one of the imports."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from scripts import architecture
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def rooms() -> dict[str, set[str]]:
    """The imports of the package."""
    return architecture.imports()


def test_the_picture_is_that_of_the_imports() -> None:
    assert architecture.PICTURE.read_text(encoding="utf-8") == architecture.picture(), "run `make docs`"


def test_every_room_is_in_it(rooms: dict[str, set[str]]) -> None:
    folders = {p.parent.name for p in (ROOT / "mase_hw").glob("*/__init__.py")}
    assert folders <= set(rooms)
    text = architecture.PICTURE.read_text(encoding="utf-8")
    assert all(f">mase_hw.{room}<" in text for room in set(rooms) - {architecture.BASE})
    # Modules beside the folders are in the box at the bottom, or need a folder and have a box.
    files = {p.stem for p in (ROOT / "mase_hw").glob("*.py")} - architecture.HIDDEN
    assert files == set(architecture.purpose(architecture.BASE).split(", ")) | (set(rooms) - folders - {"base"})


def test_every_import_can_be_followed(rooms: dict[str, set[str]]) -> None:
    """What is left out of the picture follows from what is in it."""
    drawn = architecture.reduced(rooms)

    def reach(room: str) -> set[str]:
        return drawn[room].union(*(reach(other) for other in drawn[room]))

    for room, below in rooms.items():
        assert below <= reach(room), room
        assert drawn[room] <= below


def test_arrows_lead_downward_and_boxes_do_not_overlap(rooms: dict[str, set[str]]) -> None:
    at = architecture.layout(rooms)
    assert set(at) == set(rooms)
    for room, below in rooms.items():
        assert all(at[room][1] < at[other][1] for other in below), room
    boxes = list(at.values())
    for i, (left, top, width, height) in enumerate(boxes):
        for other_left, other_top, other_width, other_height in boxes[i + 1 :]:
            apart = left + width <= other_left or other_left + other_width <= left
            assert apart or top + height <= other_top or other_top + other_height <= top


def test_texts_fit_their_boxes(rooms: dict[str, set[str]]) -> None:
    """A line that is cut off is missing from the picture."""
    shown = " ".join(" ".join(ElementTree.parse(architecture.PICTURE).getroot().itertext()).split())
    for room in rooms:
        text = architecture.purpose(room)
        assert text and text in shown, room


def test_a_new_import_changes_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "mase_hw"
    for room, text in {"low": "", "high": "from mase_hw.low import x\n", "other": "import mase_hw.alone\n"}.items():
        (package / room).mkdir(parents=True)
        (package / room / "__init__.py").write_text(f'"""The room {room}."""\n{text}', encoding="utf-8")
    (package / "above.py").write_text('"""Above a room."""\nfrom mase_hw import low\n', encoding="utf-8")
    (package / "alone.py").write_text('"""A module."""\n', encoding="utf-8")
    monkeypatch.setattr(architecture, "ROOT", tmp_path)
    monkeypatch.setattr(architecture, "imports", architecture.imports.__wrapped__)
    assert architecture.imports() == {
        "above": {"low"}, "base": set(), "high": {"low"}, "low": set(), "other": {"base"}
    }  # fmt: skip
    before = architecture.picture()
    (package / "high" / "new.py").write_text("def f():\n    from mase_hw import other\n", encoding="utf-8")
    assert architecture.imports()["high"] == {"low", "other"}
    assert architecture.picture() != before
    (package / "low" / "new.py").write_text("import mase_hw.high\n", encoding="utf-8")
    with pytest.raises(ValueError, match="in a circle: "):
        architecture.picture()
