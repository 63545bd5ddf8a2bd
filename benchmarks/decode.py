"""Cycles per token of the character model of ``examples/text_gpt.py`` in any size, every bit of what it writes.

    python -m benchmarks.decode --layers 4 --width 64 --context 224 --prompts 20 --tokens 200
    python -m benchmarks.decode --slots 16

A token of one sequence may take 1.15 times the latencies of its stages one after the other. With ``--slots`` a token of
so many sequences in turn may take 1.05 times what its slowest stage multiplies.

Exit code 0 only if no bit and no cycle differs, and no token takes longer than that.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

import mase_hw
from examples import text_gpt
from mase_hw.catalogue import default_catalogue
from mase_hw.design.decode import Generated
from mase_hw.report.tokens import TokenCosts, token_costs

TURNS = 4
"""Tokens of every sequence that follow its prompt, where sequences are in turn: the last of them is measured."""


def main() -> int:
    """Train, compile, generate, report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, default in (("layers", 2), ("width", 32), ("context", 24), ("prompts", 8), ("tokens", 12), ("slots", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--steps", type=int, default=text_gpt.STEPS, help="of training; cycles do not depend on them")
    parser.add_argument("--out", type=Path, default=Path("build") / "decode")
    asked = parser.parse_args()
    frames, held = text_gpt.load(asked.context)
    net = text_gpt.train(frames, asked.steps, tokens=asked.context, width=asked.width, layers=asked.layers)
    data = list(frames[:128, :-1].split(32))
    config = {
        "decode": {"context": asked.context, "slots": asked.slots},
        "vectors": {"frames": 1, "faults": 4},
    }
    design = mase_hw.compile(net, data[0][:1], config, out=asked.out / "design", calibration=data, progress=print)
    held = held[:32]
    with torch.no_grad():
        for name, model in (("float", net), ("quantised", design.model)):
            print(f"{name}: perplexity {2 ** text_gpt.bits_per_character(model(held[:, :-1]), held):.3f} per character")
    costs = token_costs(design.record, default_catalogue())
    assert costs is not None
    multipliers = sum(entry.get("multipliers") or 0 for entry in design.manifest["instances"])
    print(f"{multipliers} multipliers; {costs.weight_bytes} bytes of weights per token; {design.timing['interval']} "
          "cycles per sequence at full rate")  # fmt: skip
    if asked.slots > 1:
        return in_turn(design, held, costs, asked.slots)
    length = asked.context - asked.tokens + 1
    prompts = [row[: 1 + i * (length - 1) // max(1, asked.prompts - 1)].tolist() for i, row in enumerate(held)]
    found = design.generate(prompts[: asked.prompts], asked.tokens, choose=text_gpt.drawn(), progress=print)
    measured: dict[int, set[int]] = {}
    for each, counted in zip(found.sequences, found.measured, strict=True):
        for turn, took in enumerate(counted[1:]):
            measured.setdefault(each.prompt + turn, set()).add(took)
    table = Table("position", "cycles", "measured", "all stages", "ratio", "products", "bytes of keys and values")
    for row in costs.rows():
        seen = sorted(measured.get(row["position"], ()))
        ratio = f"{row['cycles'] / row['stages']:.3f}"
        cells = (row["position"], row["cycles"], seen or "-", row["stages"], ratio, row["products"], row["state_bytes"])
        table.add_row(*map(str, cells))
    Console(width=120).print(table)
    for tokens in found.tokens[:3]:
        print("".join(text_gpt.LETTERS[i] for i in tokens))
    return int(differs(found) or bool((costs.cycles > 1.15 * costs.stages).any()))


def in_turn(design: mase_hw.Design, held: Tensor, costs: TokenCosts, slots: int) -> int:
    """Sequences in turn, all about the same position, at some positions: the exit code."""
    slow = False
    table = Table("position", f"cycles per token of {slots} sequences", "slowest stage", "ratio")
    for at in dict.fromkeys(max(row["position"], TURNS) for row in costs.rows()):
        begin = at - TURNS + 1
        found = design.generate(held[:slots, :begin].repeat(slots, 1)[:slots].tolist(), TURNS + 1)
        slow |= differs(found)
        # Each token of a sequence waits for one of every other sequence.
        last = [counted[-1] for counted in found.measured]
        cycles, least = sum(last) / len(last) / slots, int(costs.slowest[at])
        slow |= cycles > 1.05 * least
        table.add_row(*map(str, (at, f"{cycles:.1f}", least, f"{cycles / least:.3f}")))
    Console(width=120).print(table)
    return int(slow)


def differs(found: Generated) -> bool:
    """Whether any bit or cycle does, which is said."""
    assert found.result is not None
    both = zip(found.measured, found.predicted, strict=True)
    wrong = sum(a != b for measured, predicted in both for a, b in zip(measured, predicted, strict=True))
    print(f"{sum(map(len, found.tokens))} tokens of {len(found.tokens)} prompts: {found.result.beats_compared} beats "
          f"compared, {found.result.mismatches} mismatches, {wrong} turns in other cycles than predicted")  # fmt: skip
    return wrong > 0 or found.result.mismatches > 0


if __name__ == "__main__":
    sys.exit(main())
