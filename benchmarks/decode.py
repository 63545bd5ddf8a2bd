"""Cycles per token of the character model of ``examples/text_gpt.py`` in any size, every bit of what it writes.

    python -m benchmarks.decode --layers 4 --width 64 --context 224 --prompts 20 --tokens 200

Exit code 0 only if no bit and no cycle differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import mase_hw
from examples import text_gpt
from mase_hw.catalogue import default_catalogue
from mase_hw.report.tokens import token_costs


def main() -> int:
    """Train, compile, generate, report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("layers", 2), ("width", 32), ("context", 24), ("prompts", 8), ("tokens", 12)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--out", type=Path, default=Path("build") / "decode")
    asked = parser.parse_args()
    frames, held = text_gpt.load(asked.context)
    net = text_gpt.train(frames, tokens=asked.context, width=asked.width, layers=asked.layers)
    data = list(frames[:128, :-1].split(32))
    config = {"decode": {"context": asked.context}, "vectors": {"frames": 1, "faults": 4}}
    design = mase_hw.compile(net, data[0][:1], config, out=asked.out / "design", calibration=data, progress=print)
    held = held[:32]
    with torch.no_grad():
        for name, model in (("float", net), ("quantised", design.model)):
            print(f"{name}: perplexity {2 ** text_gpt.bits_per_character(model(held[:, :-1]), held):.3f} per character")
    length = asked.context - asked.tokens + 1
    prompts = [row[: 1 + i * (length - 1) // max(1, asked.prompts - 1)].tolist() for i, row in enumerate(held)]
    found = design.generate(prompts[: asked.prompts], asked.tokens, choose=text_gpt.drawn(), progress=print)
    assert found.result is not None
    costs = token_costs(design.record, default_catalogue())
    assert costs is not None
    multipliers = sum(entry.get("multipliers") or 0 for entry in design.manifest["instances"])
    print(f"{multipliers} multipliers; {costs.weight_bytes} bytes of weights per token; {design.timing['interval']} "
          "cycles per sequence at full rate")  # fmt: skip
    measured: dict[int, set[int]] = {}
    for each, counted in zip(found.sequences, found.measured, strict=True):
        for turn, took in enumerate(counted[1:]):
            measured.setdefault(each.prompt + turn, set()).add(took)
    table = Table(
        "position", "cycles", "measured", "all stages", "slowest stage", "products", "bytes of keys and values"
    )
    for row in costs.rows():
        position, predicted, products, *others = row.values()
        seen = sorted(measured.get(position, ()))
        table.add_row(*map(str, (position, predicted, seen or "-", *others[:2], products, *others[2:])))
    Console(width=120).print(table)
    for row in found.tokens[:3]:
        print("".join(text_gpt.LETTERS[i] for i in row))
    both = zip(found.measured, found.predicted, strict=True)
    wrong = sum(a != b for measured, predicted in both for a, b in zip(measured, predicted, strict=True))
    print(f"{sum(map(len, found.tokens))} tokens of {len(found.tokens)} prompts: {found.result.beats_compared} beats "
          f"compared, {found.result.mismatches} mismatches, {wrong} turns in other cycles than predicted")  # fmt: skip
    return int(wrong > 0 or found.result.mismatches > 0)


if __name__ == "__main__":
    sys.exit(main())
