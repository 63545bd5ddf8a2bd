"""Simulation engines on the digits MLP or CNN, side by side in one run.

    python benchmarks/engines.py [--model cnn] [--frames 360] [--rounds 3] [--repeat 1] [--jobs 2]

Compares the batch engine with the per-cycle cocotb driver (both compare every beat with PyTorch) and with a bare loop
around the same compiled model that only toggles the clock: what Verilator itself can do. Rounds alternate between the
engines; figures are medians. "Wall" is a whole simulation as a user waits for it, with the simulator already built;
"loop" is the time the simulator itself took. The batch engine runs with one process and, as a case of its own, with
``--jobs``, one for every core by default; the per-cycle driver cannot share its frames and has one process.
"""

import argparse
import json
import runpy
import shlex
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import torch

import mase_hw
from mase_hw.emit.reference import Reference
from mase_hw.host.process import cores
from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.build.tools import find_build_tools
from mase_hw.simulate.engines.registry import ENGINES
from mase_hw.simulate.plan import Limits, SimulationOptions

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
BARE = r"""
#include "Vtop.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
int main(int argc, char **argv) {
  VerilatedContext context;
  context.commandArgs(argc, argv);
  Vtop top{&context, ""};
  const long cycles = std::atol(argv[1]);
  top.rst = 1;
  for (int i = 0; i < 8; ++i) { top.clk = i & 1; top.eval(); }
  top.rst = 0;
  top.data_in_0_valid = top.data_out_0_ready = 1;
  const auto begin = std::chrono::steady_clock::now();
  for (long i = 0; i < cycles; ++i) {
    top.clk = 1; top.eval();
    top.clk = 0; top.eval();
  }
  std::printf("%.9f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}
"""


def bare_loop(built: Built) -> Path:
    """Link the model's objects, as the batch engine compiled them, with a loop that only toggles the clock."""
    model = built.folder / "model"
    source, program = model / "bare.cpp", model / "bare"
    source.write_text(BARE)
    commands = [line[2:] for line in (built.folder / "build.log").read_text().splitlines() if line.startswith("$ ")]
    compile_words = shlex.split(next(c for c in commands if "unit_0.cpp" in c))
    link_words = shlex.split(commands[-1])
    unit = {"unit_0.cpp": source, "unit_0.o": model / "bare.o"}
    driver = {Path(w).name: model / "bare.o" for w in link_words if Path(w).name.startswith("driver-")}
    for words, swap in ((compile_words, unit), (link_words, driver | {"simulator": program})):
        replaced = [str(swap.get(Path(word).name, word)) for word in words]
        subprocess.run(replaced, check=True, env=dict(find_build_tools().env), cwd=built.folder)
    return program


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=("mlp", "cnn"), default="mlp")
    parser.add_argument("--frames", type=int, default=360)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=cores(), help="processes of the case with several")
    parser.add_argument("--repeat", type=int, default=1, help="times the frames are played")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    example = runpy.run_path(str(EXAMPLES / f"digits_{arguments.model}.py"))
    digits = runpy.run_path(str(EXAMPLES / "digits_mlp.py"))["load"]()
    images = digits.test_images[: arguments.frames]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        design = mase_hw.compile(
            example["model"]()[0],
            images[:1],
            EXAMPLES / f"digits_{arguments.model}.toml",
            out=work / "bundle",
            calibration=digits.train_images.split(256),
        )
        measure(design, images, work, arguments)


def measure(design: mase_hw.Design, images: torch.Tensor, work: Path, arguments: argparse.Namespace) -> None:
    begin = time.perf_counter()
    stimulus, expected = Reference(design.graph).run(images)
    print(f"PyTorch reference of {len(images)} frames: {time.perf_counter() - begin:.2f} s")
    built = {}
    for name in ("cocotb", "batch"):
        built[name] = ENGINES[name].build(design.dut(), work / name, cache_dir=work / "cache")
        print(f"build {name}: {built[name].seconds:.1f} s (empty cache)")
    bare = bare_loop(built["batch"])
    wall: dict[str, list[float]] = {}
    loop: dict[str, list[float]] = {}
    frames = len(images) * arguments.repeat
    limits = Limits(4096, 10**9)
    beats = [
        {name: design.streams[name].pack(values.repeat(arguments.repeat, 0)) for name, values in side.items()}
        for side in (stimulus, expected)
    ]
    many = f"batch x{arguments.jobs}"
    cases = [("cocotb", "cocotb", 1), ("batch", "batch", 1), (many, "batch", arguments.jobs)]
    for _ in range(arguments.rounds):
        for name, engine, jobs in cases:
            begin = time.perf_counter()
            options = SimulationOptions(engine, jobs=jobs)
            result = ENGINES[engine].simulate(built[engine], work / "run", *beats, limits, options).raise_on_failure()
            wall.setdefault(name, []).append((time.perf_counter() - begin) / frames)
            if jobs == 1:  # several processes have no one loop
                seconds = json.loads((work / "run" / "outcome.json").read_text())["seconds"]
                loop.setdefault(name, []).append(seconds / result.cycles)
        done = subprocess.run([bare, str(result.cycles)], cwd=work / "run", check=True, capture_output=True, text=True)
        loop.setdefault("bare loop", []).append(float(done.stdout) / result.cycles)
    cycles = design.timing["interval"]
    print(f"\n{'':12}{'frames/s, wall':>16}{'frames/s, loop':>16}{'cycles/s, loop':>16}")
    for name in ("cocotb", "batch", many, "bare loop"):
        whole = f"{1 / statistics.median(wall[name]):16,.0f}" if name in wall else " " * 16
        inner = 1 / statistics.median(loop[name]) if name in loop else 0.0
        print(f"{name:12}{whole}" + (f"{inner / cycles:16,.0f}{inner:16,.0f}" if inner else ""))
    print(f"\n{many} / per-cycle cocotb, wall: {ratio(wall, 'cocotb', many):.1f} (target 30)")
    print(f"batch, one process / per-cycle cocotb, wall: {ratio(wall, 'cocotb', 'batch'):.1f}")
    print(f"batch, one process / per-cycle cocotb, loop: {ratio(loop, 'cocotb', 'batch'):.1f}")
    print(f"batch / bare loop, loop: {ratio(loop, 'bare loop', 'batch'):.0%} (target 80%)")
    print(f"{frames} frames, batch, wall: {statistics.median(wall['batch']) * frames:.2f} s (target: 360 in 10 s)")


def ratio(times: dict[str, list[float]], slow: str, fast: str) -> float:
    """The median over the rounds of the ratio within a round: both sides saw the same load of the machine."""
    return statistics.median(a / b for a, b in zip(times[slow], times[fast], strict=True))


if __name__ == "__main__":
    main()
