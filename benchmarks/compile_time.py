"""Processor time and memory of ``compile`` for large networks: by step, and how they grow with picture and lanes.

    python -m benchmarks.compile_time
    python -m benchmarks.compile_time resnet50 --picture 224 --lanes 16

Every design is compiled in a process of its own. Seconds are of the processor, so that another load does not count.
The first line says how fast the machine is now (``machine.py``).
"""

from __future__ import annotations

import argparse
import atexit
import functools
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import mase_hw
from benchmarks import machine
from benchmarks.large_networks import NETWORKS, made
from mase_hw.host.process import keep_freed

SHOWN = 8
"""Steps that are shown, the longest ones."""


def one(name: str, picture: int, lanes: int) -> dict[str, Any]:
    """Compile a network here, in a process like those of the command line."""
    keep_freed()
    model, x = made(name, picture)
    marks: list[tuple[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        design = mase_hw.compile(
            model,
            x,
            {"hardware": {"max_parallelism": lanes}},
            out=Path(folder) / "design",
            progress=lambda step: marks.append((str(step), time.process_time())),
        )
        end = time.process_time()
        netlist = sum(path.stat().st_size for path in (design.path / "rtl").glob("*.sv"))
    steps = {a[0]: b[1] - a[1] for a, b in pairwise([*marks, ("end", end)])}
    return {
        "seconds": end - start,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "top_kib": netlist / 1024,
        "exact": design.timing["exact"],
        "steps": steps,
    }


def apart(name: str, picture: int, lanes: int) -> dict[str, Any]:
    """The same in a process of its own, which reads compiled Python as that of an installed package does."""
    command = [sys.executable, "-m", "benchmarks.compile_time", name, f"--picture={picture}", f"--lanes={lanes}"]
    found = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True, env=_environment())
    result: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return result


@functools.cache
def _environment() -> dict[str, str]:
    """The environment, with Python compiled before whatever is measured, in a folder that goes with this process."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    found = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found["PYTHONPYCACHEPREFIX"] = folder
    # Threads of torch that wait for each other sleep: spinning counts as processor time, and on a machine with other
    # work it is most of it.
    found.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    imports = "import benchmarks.compile_time, mase_hw; mase_hw.compile, mase_hw.load_design"
    subprocess.run([sys.executable, "-c", imports], check=True, env=found)
    return found


def show(title: str, result: dict[str, Any]) -> None:
    print(
        f"{title:34} {result['seconds']:6.1f} s {result['mib']:6.0f} MiB, RTL at the top {result['top_kib']:.0f} KiB, "
        f"timing {'exact' if result['exact'] else 'not exact'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="?", choices=sorted(NETWORKS), help="one network only")
    parser.add_argument("--picture", type=int, default=224, help="rows and columns of a picture")
    parser.add_argument("--lanes", type=int, default=16, help="lanes at most")
    parser.add_argument("--alone", action="store_true", help="without its growth with picture and lanes")
    parser.add_argument("--json", action="store_true", help="print the measurement as JSON")
    args = parser.parse_args()
    if args.json:
        print(json.dumps(one(args.network, args.picture, args.lanes)))
        return
    print(machine.line())
    for name in [args.network] if args.network else NETWORKS:
        picture = args.picture if args.network or name != "conv_chain" else 32
        result = apart(name, picture, args.lanes)
        show(f"{name}, {picture}, {args.lanes} lanes", result)
        longest = sorted(result["steps"].items(), key=lambda item: -item[1])[:SHOWN]
        print("    " + ", ".join(f"{step} {seconds:.1f}" for step, seconds in longest))
    if args.network and NETWORKS[args.network][1] and not args.alone:
        for picture, lanes in ((args.picture // 2, args.lanes), (args.picture, max(args.lanes // 4, 1))):
            other = apart(args.network, picture, lanes)
            show(f"{args.network}, {picture}, {lanes} lanes", other)
            print(f"    times {other['seconds'] / result['seconds']:.2f}")


if __name__ == "__main__":
    main()
