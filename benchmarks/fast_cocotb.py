"""The fast cocotb engine and the per-cycle driver on the digits MLP and CNN, side by side in one run.

    python benchmarks/fast_cocotb.py [--model cnn] [--frames 360] [--rounds 3] [--repeat 4]

Both compare every beat with PyTorch and must find the same cycles. Rounds alternate between the engines; figures are
medians. "Loop" is the time from reset to outcome inside the simulator: with the fast engine it includes turning its
records into the files of the outcome, with the per-cycle driver it does not include writing them. "Wall" is a whole
simulation, in which both start Python and cocotb, about half a second; give more repeats to see it vanish.
"""

import argparse
import json
import runpy
import statistics
import tempfile
import time
from pathlib import Path

import torch

import mase_hw
from mase_hw.emit.reference import Reference
from mase_hw.simulate.engines.registry import ENGINES
from mase_hw.simulate.plan import Limits

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=("mlp", "cnn"), default="mlp")
    parser.add_argument("--frames", type=int, default=360)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=4, help="times the frames are played")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    example = runpy.run_path(str(EXAMPLES / f"digits_{arguments.model}.py"))
    digits = runpy.run_path(str(EXAMPLES / "digits_mlp.py"))["load"]()
    images = digits.test_images[: arguments.frames]
    with tempfile.TemporaryDirectory() as folder:
        design = mase_hw.compile(
            example["model"]()[0],
            images[:1],
            EXAMPLES / f"digits_{arguments.model}.toml",
            out=Path(folder) / "bundle",
            calibration=digits.train_images.split(256),
        )
        measure(design, images, Path(folder), arguments)


def measure(design: mase_hw.Design, images: torch.Tensor, work: Path, arguments: argparse.Namespace) -> None:
    beats = [
        {name: design.streams[name].pack(values.repeat(arguments.repeat, 0)) for name, values in side.items()}
        for side in Reference(design.graph).run(images)
    ]
    engines = {name: ENGINES[name] for name in ("cocotb", "fast")}
    built = {n: e.build(design.dut(), work / n, cache_dir=work / "cache") for n, e in engines.items()}
    wall: dict[str, list[float]] = {name: [] for name in engines}
    loop: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(arguments.rounds):
        counts = set()
        for name, engine in engines.items():
            begin = time.perf_counter()
            result = engine.simulate(built[name], work / "run", *beats, Limits(20_000, 10**9))
            wall[name].append((time.perf_counter() - begin) / result.raise_on_failure().cycles)
            loop[name].append(json.loads((work / "run" / "outcome.json").read_text())["seconds"] / result.cycles)
            counts.add(result.cycles)
        if len(counts) != 1:
            raise SystemExit(f"the engines disagree about the cycles: {sorted(counts)}")
    print(f"{'':12}{'cycles/s, loop':>16}{'cycles/s, wall':>16}")
    for name in wall:
        print(f"{name:12}{1 / statistics.median(loop[name]):16,.0f}{1 / statistics.median(wall[name]):16,.0f}")
    for what, times in (("loop", loop), ("wall", wall)):
        ratio = statistics.median(a / b for a, b in zip(times["cocotb"], times["fast"], strict=True))
        print(f"fast / per-cycle, {what}: {ratio:.1f} (target 8)")
    print(f"{len(images) * arguments.repeat} frames, {result.cycles} cycles")


if __name__ == "__main__":
    main()
