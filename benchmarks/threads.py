"""Cycles per second of the batch batch in one process: with one thread and with several, and of another version.

    python -m benchmarks.threads [--networks mlp cnn] [--threads 1 2] [--before CHECKOUT] [--rounds 3]

Every version has a process that compiles the network, builds its simulators with ``-O2`` and plays the same frames to
them, one run at a time, in turn with the others. A run must pass, and all must take the same cycles. Seconds are those
of the simulator: of its loop, which is what a user waits for, and of the processor, of all of its threads. Threads that
wait spin, so the figures of a busy machine say little of several threads.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = ("mlp", "cnn", "resnet8-4", "resnet8-16")
"""Those of ``time_to_verdict.py``."""
FRAMES = 256
"""Different frames at most; they are repeated."""
SECONDS_LEFT = 600.0
KINDS = ("loop", "processor")


def serve(name: str, cycles: int) -> None:
    """Answer each line of standard input, a number of threads, with a run; in the version that is imported."""
    import numpy as np
    import torch

    import mase_hw
    from benchmarks.time_to_verdict import network
    from mase_hw.emit.reference import Reference
    from mase_hw.simulate.engines import batch
    from mase_hw.simulate.plan import Limits, SimulationOptions

    torch.set_num_threads(1)
    model, inputs, config = network(name)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        design = mase_hw.compile(model, inputs, config, out=work / "bundle", calibration=[inputs])
        torch.manual_seed(1)
        frames = -(-cycles // design.timing["interval"])
        sides = Reference(design.graph).run(torch.rand(min(frames, FRAMES), *inputs.shape[1:]))
        beats = [{n: design.streams[n].pack(np.resize(v, (frames, *v.shape[1:]))) for n, v in s.items()} for s in sides]
        built: dict[int, Any] = {}
        for line in sys.stdin:
            threads = int(line)
            if threads not in built:
                place = work / f"build{threads}"
                options = SimulationOptions("batch", threads=threads, timeout=SECONDS_LEFT)
                built[threads] = batch.build(design.dut(), place, options, cache_dir=work / "cache")
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            options = SimulationOptions("batch", timeout=SECONDS_LEFT)
            result = batch.simulate(built[threads], work / "run", *beats, Limits(10**6, 10**9), options)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            result.raise_on_failure()
            outcome = json.loads((work / "run" / "outcome.json").read_text())
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            found = {"cycles": result.cycles, "loop": outcome["seconds"], "processor": used}
            print(json.dumps(found), flush=True)


class Version:
    """A checkout that runs simulations of one network."""

    def __init__(self, checkout: Path, name: str, cycles: int) -> None:
        path = os.pathsep.join([str(checkout), str(ROOT)])  # its package, these benchmarks
        command = [sys.executable, __file__, "--serve", name, "--cycles", str(cycles)]
        self._process = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, threads: int) -> dict[str, Any]:
        """One run."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(threads, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a run failed; see above")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """End its process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _each(run: dict[str, Any], kind: str) -> float:
    """Seconds of a cycle."""
    return float(run[kind]) / int(run["cycles"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, choices=NETWORKS)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--before", type=Path, help="checkout of the version to compare with, in one thread")
    parser.add_argument("--cycles", type=int, default=1_000_000, help="cycles of a run, at least")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.cycles)
        return
    print(f"{'':12}{'threads':>12}{'cycles/s, loop':>17}{'s':>8}{'processor s':>13}{'loop':>18}{'processor':>20}")
    print(f"{'':62}{'of the first case / of this one':>38}")
    for name in arguments.networks:
        now = Version(ROOT, name, arguments.cycles)
        cases = [(f"{threads}", now, threads) for threads in arguments.threads]
        versions = [now]
        if arguments.before:
            versions.append(Version(arguments.before.resolve(), name, arguments.cycles))
            cases.insert(0, ("before, 1", versions[-1], 1))
        for _, version, threads in cases:
            version.run(threads)  # builds, and is not counted
        rounds = [[version.run(threads) for _, version, threads in cases] for _ in range(arguments.rounds)]
        for index, (title, _, _) in enumerate(cases):
            best = min((each[index] for each in rounds), key=lambda run: run["loop"])
            loop, used = ([_each(run[0], kind) / _each(run[index], kind) for run in rounds] for kind in KINDS)
            print(
                f"{name:12}{title:>12}{1 / _each(best, 'loop'):17,.0f}{best['loop']:8.2f}{best['processor']:13.2f}"
                f"{min(loop):10.2f} to {max(loop):.2f}{min(used):12.2f} to {max(used):.2f}",
                flush=True,
            )
        for version in versions:
            version.close()


if __name__ == "__main__":
    main()
