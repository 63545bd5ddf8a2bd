"""Run the examples and write what they showed into ``docs/gallery.md``: ``python -m scripts.gallery``.

Every figure of the page is what an example printed or what its bundle holds; the tests compare them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "gallery.md"
OUT = ROOT / "build" / "gallery"
EXAMPLES = ("digits_mlp", "digits_cnn", "digits_vit", "text_gpt")
HEADER = "| example | score | float | quantised | RTL | multipliers | memory, bits | interval | fill | beats compared |"
_TABLE = re.compile(rf"^{re.escape(HEADER)}\n(?:\|.*\n)+", re.MULTILINE)
MODELS = ("float PyTorch", "quantised PyTorch", "RTL in Verilator")
_SCORE = {"Accuracy on": "accuracy", "bits per character": "bits per character"}


def row(name: str, printed: str, manifest: dict[str, Any]) -> str:
    """One row of the table.

    Args:
        name: Of the example.
        printed: What it wrote, at full width.
        manifest: Of its bundle.

    Raises:
        ValueError: If the example did not pass, or its prediction was not met.
    """
    passed = re.search(r"^PASSED: (\d+) beats compared with PyTorch, 0 mismatches$", printed, re.MULTILINE)
    if passed is None:
        raise ValueError(f"{name} did not pass:\n{printed}")
    scores = [re.search(rf"│ {model} +│ +([\d.]+%?) │", printed) for model in MODELS]
    kind = next(said for sign, said in _SCORE.items() if sign in printed)
    timing = manifest["timing"]
    measured = re.search(r"initiation interval, cycles │ +\d+ │ +(\d+) │|(\d+) measured", printed)
    if measured is None or int(measured[1] or measured[2]) != timing["interval"]:
        raise ValueError(f"{name} was predicted to take {timing['interval']} cycles per frame; it printed\n{printed}")
    multipliers = sum(instance.get("multipliers") or 0 for instance in manifest["instances"])
    memory = sum(int(memory["words"]) * int(memory["bits"]) for memory in manifest["memories"])
    cells = [f"`{name}`", kind, *(score[1] if score is not None else "-" for score in scores)]
    cells += [f"{number:,}" for number in (multipliers, memory, timing["interval"], timing["fill"], int(passed[1]))]
    return f"| {' | '.join(cells)} |"


def run(name: str, out: Path) -> str:
    """Run an example, and give its row."""
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{name} failed:\n{done.stdout}{done.stderr}")
    return row(name, done.stdout, json.loads((out / "manifest.json").read_text(encoding="utf-8")))


def shown() -> dict[str, str]:
    """The rows of the page, by example."""
    table = _TABLE.search(PAGE.read_text(encoding="utf-8"))
    rows = table[0].splitlines()[2:] if table is not None else []
    return {re.split(r"`", line)[1]: line for line in rows}


def main() -> None:
    """Run all examples and write the table."""
    rows = {name: run(name, OUT / name) for name in EXAMPLES}
    table = "\n".join([HEADER, "|---|---|" + "--:|" * 8, *rows.values()])
    PAGE.write_text(_TABLE.sub(lambda _: f"{table}\n", PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(table)


if __name__ == "__main__":
    main()
