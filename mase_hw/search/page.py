"""The front of a search as one HTML page: no network, no server, nothing beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

import mase_hw.report
from mase_hw.host.disk import write_whole, writing
from mase_hw.host.documents import Json
from mase_hw.host.shown import Page, rendered
from mase_hw.search.front import Found

TEMPLATES = Path(mase_hw.report.__file__).parent / "templates"


def page(found: Found, exact: Sequence[Json], name: str) -> str:
    """The page as text; the same search gives the same text.

    Args:
        found: The search.
        exact: What points of the front are as hardware, of :meth:`mase_hw.search.exact.Exact.to_json`.
        name: What was searched.
    """
    front = {point.digest for point in found.front}
    made = {each["digest"]: each for each in exact}
    points = [
        {**point.to_json(), "front": point.digest in front, "exact": made.get(point.digest)} for point in found.points
    ]
    document = {"criterion": found.criterion, "against": found.against, "points": points}
    return rendered(
        TEMPLATES / "search.html.j2",
        name=name,
        found=found,
        exact=exact,
        css=Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),
        js=Markup((TEMPLATES / "search.js").read_text(encoding="utf-8")),
        data=Markup(json.dumps(document).replace("<", "\\u003c").replace("&", "\\u0026")),
    )


def write_page(found: Found, out: Path, exact: Sequence[Json] = (), name: str = "") -> Page:
    """Write the page.

    Raises:
        EmitError: If the file cannot be written.
    """
    with writing("the report", out):
        write_whole(out, page(found, exact, name))
    return Page(out)
