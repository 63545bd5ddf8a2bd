"""Reports in a real browser, headless Chromium: no errors, both themes, the width of a phone, clicks, size."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.design.design import Design
from mase_hw.passes.explanation import explain

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium (apt-get install chromium)")

PROBE = """
<script>
window.addEventListener("load", () => setTimeout(() => {
  const found = {
    theme: document.documentElement.dataset.theme,
    page: getComputedStyle(document.body).backgroundColor,
    ink: getComputedStyle(document.body).color,
    bar: getComputedStyle(document.querySelector(".chart path[style*='--works']") || document.body).fill,
    width: innerWidth, scroll: document.scrollingElement.scrollWidth,
    elements: document.querySelectorAll("*").length,
    resources: performance.getEntriesByType("resource").map((each) => each.name),
  };
  const node = document.querySelector(".net [id='node-NODE']");
  if (node) node.dispatchEvent(new MouseEvent("click", {bubbles: true}));
  found.panel = (document.getElementById("panel") || document.body).innerText;
  document.getElementById("theme").click();
  found.turned = document.documentElement.dataset.theme;
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = JSON.stringify(found);
  document.body.append(out);
  if (parent !== window) parent.postMessage(out.textContent, "*");
}, 0));
</script>
"""
PHONE = """<!DOCTYPE html><iframe src="probed.html?theme=light" style="width: 390px; height: 844px"></iframe><script>
addEventListener("message", (event) => {
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = event.data;
  document.body.append(out);
});
</script>"""
"""A window cannot be as narrow as a phone; a frame in it can."""
Look = Callable[..., dict[str, Any]]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Opens a page, and says what a script in it saw, and what the console said."""

    def opened(page: Path, theme: str = "light", phone: bool = False, node: str = "", more: str = "") -> dict[str, Any]:
        probed = tmp_path / "probed.html"
        source = page.read_text(encoding="utf-8")
        probed.write_text(source.replace("</body>", PROBE.replace("NODE", node) + more + "</body>"), encoding="utf-8")
        (tmp_path / "phone.html").write_text(PHONE)
        assert BROWSER is not None
        command = [
            BROWSER,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'profile'}",
        ]
        command += ["--enable-logging=stderr", "--virtual-time-budget=4000", "--dump-dom"]
        address = tmp_path / "phone.html" if phone else probed
        command.append(f"file://{address}?theme={theme}")
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
        assert found is not None, done.stderr[-2000:]
        said: dict[str, Any] = json.loads(html.unescape(found[1]))
        return {**said, "console": re.findall(r"CONSOLE.*", done.stderr)}

    return opened


@pytest.fixture(scope="module")
def page(design: Design, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return design.report(tmp_path_factory.mktemp("browser") / "report.html")


def test_both_themes(page: Path, look: Look) -> None:
    light, dark = look(page, "light"), look(page, "dark")
    for found in (light, dark):
        assert found["console"] == [] and found["resources"] == []
    assert (light["theme"], dark["theme"]) == ("light", "dark") == (dark["turned"], light["turned"])
    assert light["page"] == dark["ink"] or _bright(light["page"]) > 200 > 80 > _bright(dark["page"])
    assert _bright(light["ink"]) < 80 and _bright(dark["ink"]) > 180
    assert light["bar"] != dark["bar"], "the pictures take the colours of the page"


def _bright(colour: str) -> float:
    values = [float(each) for each in re.findall(r"[\d.]+", colour)[:3]]
    return sum(values) / 3


def test_an_error_would_be_seen(page: Path, look: Look) -> None:
    assert look(page, more="<script>throw new Error('on purpose');</script>")["console"]


def test_a_click_shows_why(design: Design, page: Path, look: Look) -> None:
    found = look(page, node="first")
    assert design.graph is not None
    shown, wanted = ("".join(text.split()) for text in (found["panel"], str(explain(design.graph, "first"))))
    assert wanted in shown and "multipliers" in shown
    assert look(page)["panel"] == "No node is chosen."


def test_a_phone_scrolls_in_one_direction(page: Path, look: Look) -> None:
    found = look(page, phone=True)
    assert found["width"] == 390 and found["scroll"] <= found["width"] and found["console"] == []


def test_without_the_model(design: Design, look: Look, tmp_path: Path) -> None:
    found = look(mase_hw.load_design(design.path).report(tmp_path / "alone.html"))
    assert found["console"] == []


def test_sixty_layers_open(look: Look, tmp_path: Path) -> None:
    """A deep network opens without errors, and its page grows no faster than the network."""
    torch.manual_seed(0)
    elements, data = [], torch.randn(8, 16)
    for depth in (15, 30):
        layers = [layer for _ in range(depth) for layer in (nn.Linear(16, 16), nn.ReLU())]
        model = nn.Sequential(*layers).eval()
        made = mase_hw.compile(model, data[:1], out=tmp_path / f"deep{depth}", calibration=[data], vectors=data)
        found = look(made.report(tmp_path / f"deep{depth}.html"))
        assert found["console"] == []
        elements.append(found["elements"])
    assert elements[0] < elements[1] <= 2.1 * elements[0]
