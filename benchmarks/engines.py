"""Simulation engines on the digits MLP, the digits CNN or an encoder layer, side by side in one run.

    python benchmarks/engines.py [--model cnn] [--stalls random] [--frames 1000] [--rounds 3] [--jobs 2]

Compares the batch engine and the fast one with the per-cycle cocotb driver (all compare every beat with PyTorch, and
must find the same cycles), and with a bare loop around the same compiled model that only toggles the clock: what
Verilator itself can do. Rounds alternate between the engines; figures are medians. "Processor" is the processor time of
the simulator, which was built before; "wall" is a whole simulation as a user waits for it, "loop" the time from reset
to outcome inside the simulator. The batch engine runs with one process and, as a case of its own, with ``--jobs``, one
for every core by default; the others cannot share their frames.
"""

import argparse
import json
import resource
import runpy
import shlex
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import mase_hw
from mase_hw.emit.reference import Reference
from mase_hw.host.process import cores
from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.build.tools import find_build_tools
from mase_hw.simulate.engines.registry import ENGINES
from mase_hw.simulate.plan import PATTERNS, Limits, SimulationOptions, Stalls

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


def compiled(name: str, out: Path) -> tuple[mase_hw.Design, torch.Tensor]:
    """The design, and what is played."""
    if name == "encoder":
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).eval()
        frames = torch.randn(360, 16, 16)
        options = {"hardware": {"max_parallelism": 4}}
        return mase_hw.compile(layer, frames[:1], options, out=out, calibration=[torch.randn(64, 16, 16)]), frames
    digits = runpy.run_path(str(EXAMPLES / "digits_mlp.py"))["load"]()
    model = runpy.run_path(str(EXAMPLES / f"digits_{name}.py"))["model"]()[0]
    data = digits.train_images.split(256)
    options = EXAMPLES / f"digits_{name}.toml"
    return mase_hw.compile(model, data[0][:1], options, out=out, calibration=data), digits.test_images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("mlp", "cnn", "encoder"), default="mlp")
    parser.add_argument("--stalls", choices=PATTERNS, default="none")
    parser.add_argument("--frames", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=cores(), help="processes of the case with several")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        design, frames = compiled(arguments.model, Path(folder) / "bundle")
        measure(design, frames, Path(folder), arguments)


def measure(design: mase_hw.Design, data: torch.Tensor, work: Path, arguments: argparse.Namespace) -> None:
    frames = arguments.frames
    beats = [
        {name: design.streams[name].pack(np.resize(v, (frames, *v.shape[1:]))) for name, v in side.items()}
        for side in Reference(design.graph).run(data[:frames])
    ]
    built = {n: e.build(design.dut(), work / n, cache_dir=work / "cache") for n, e in ENGINES.items()}
    bare = bare_loop(built["batch"])
    many = f"batch x{arguments.jobs}"
    cases = {name: (name, 1) for name in ("cocotb", "fast", "batch")} | {many: ("batch", arguments.jobs)}
    times: dict[str, dict[str, list[float]]] = {kind: {} for kind in ("processor", "wall", "loop")}
    counts = set()
    for _ in range(arguments.rounds):
        for name, (engine, jobs) in cases.items():
            options = SimulationOptions(engine, jobs=jobs, stalls=Stalls.named(arguments.stalls))
            begin, before = time.perf_counter(), used()
            result = ENGINES[engine].simulate(built[engine], work / "run", *beats, Limits(10**6, 10**9), options)
            seconds = {"processor": used() - before, "wall": time.perf_counter() - begin}
            result.raise_on_failure()
            if jobs == 1:  # several processes have no one loop, and cycles of their own
                counts.add(result.cycles)
                seconds["loop"] = json.loads((work / "run" / "outcome.json").read_text())["seconds"]
            for kind, value in seconds.items():
                times[kind].setdefault(name, []).append(value)
        if len(counts) != 1:
            raise SystemExit(f"the engines disagree about the cycles: {sorted(counts)}")
        (cycles,) = counts
        done = subprocess.run([bare, str(cycles)], cwd=work / "run", check=True, capture_output=True, text=True)
        times["loop"].setdefault("bare loop", []).append(float(done.stdout))
    print(f"{arguments.model}, {frames} frames, stalls {arguments.stalls}: {cycles} cycles")
    print(f"{'seconds':12}" + "".join(f"{kind:>12}" for kind in times))
    for name in (*cases, "bare loop"):
        found = (times[kind].get(name) for kind in times)
        print(f"{name:12}" + "".join(f"{statistics.median(each):12.3f}" if each else " " * 12 for each in found))
    for name, slower in (("batch", "cocotb"), (many, "cocotb"), ("fast", "cocotb"), ("batch", "bare loop")):
        for kind, seen in times.items():
            if name in seen and slower in seen:
                # The median of the ratio within a round: both sides saw the same load of the machine.
                ratio = statistics.median(a / b for a, b in zip(seen[slower], seen[name], strict=True))
                print(f"{name} / {'per-cycle driver' if slower == 'cocotb' else slower}, {kind}: {ratio:.2f}")


def used() -> float:
    """Processor seconds of the processes that were started and have ended."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


if __name__ == "__main__":
    main()
