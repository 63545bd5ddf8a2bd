"""The build cache on the digits MLP, against cocotb's runner, and the growth of a build with the size of a design.

    python benchmarks/build_cache.py

Everything is built with the same Verilator and C++ compiler, in one run. Processor seconds are shown beside wall time:
they say the same on a busy machine.

"Nothing compiled" builds Verilator's runtime as well, as cocotb's runner does every time: the same C++ files, which no
cache can make cheaper the first time; what each of them takes is listed. "Runtime compiled" is every design after
`make venv`, or after the first design of a folder. "Cache hit" has the finished simulator.
"""

import dataclasses
import os
import resource
import runpy
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cocotb_tools.runner import get_runner

import mase_hw
from mase_hw.design.design import Design
from mase_hw.formats import FixedFormat
from mase_hw.host.toolchain import verilator_env
from mase_hw.simulate.build import runtime_cache
from mase_hw.simulate.build import simulator as building
from mase_hw.simulate.build.simulator import build
from mase_hw.simulate.build.tools import find_build_tools
from mase_hw.simulate.dut import Dut
from mase_hw.streams import Stream

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
RUNS = 3
SIZES = (1000, 2000, 4000, 8000)
"""Stages of the design that grows."""

START = """
import json, sys, time
from pathlib import Path
from mase_hw import load_design
told = []
def tell(line):
    if "simulating" in line:
        told.append((time.time(), line.startswith("reused in")))
simulation = load_design(sys.argv[1]).simulate(work_dir=sys.argv[2], waves=False, progress=tell)
assert simulation.passed
outcome = Path(sys.argv[2]) / "run" / "outcome.json"
start, hit = told[0]
print(start, outcome.stat().st_mtime - json.loads(outcome.read_text())["seconds"], int(hit))
"""


def timed(action: Callable[[], object]) -> tuple[float, float]:
    """Wall seconds, and processor seconds of the processes it started."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    action()
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def digits(work: Path) -> Design:
    example = runpy.run_path(str(EXAMPLES / "digits_mlp.py"))
    data = example["load"]()
    return mase_hw.compile(
        example["train"](data),
        data.test_images[:1],
        EXAMPLES / "digits_mlp.toml",
        out=work / "bundle",
        calibration=data.train_images.split(256),
        vectors=data.test_images[:4],
    )


def start_of_a_hit(bundle: Path, work: Path) -> tuple[float, float]:
    """Seconds from starting Python to starting the simulator, and to its first cycle, in a folder that has none yet."""
    for name in ("before", "hit"):  # the first builds what the second takes out of the cache beside both folders
        begin = time.time()
        command = [sys.executable, "-c", START, str(bundle), str(work / name)]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        simulator, cycle, hit = (float(word) for word in printed.split())
    if not hit:
        raise SystemExit("the simulator was built anew: this is no cache hit")
    return simulator - begin, cycle - begin


def pieces(dut: Dut, work: Path) -> list[tuple[str, float]]:
    """Processor seconds of every tool of a build with nothing compiled, one after the other."""
    found: list[tuple[str, float]] = []
    plain = building.run_tool

    def watched(command: Sequence[str], *rest: Any) -> Any:
        done: list[Any] = []
        _, cpu = timed(lambda: done.append(plain(command, *rest)))
        names = [Path(word).name for word in command if word.endswith((".cpp", "runtime.h"))]
        found.append((f"{Path(command[0]).name} {names[-1] if names else ''}".strip(), cpu))
        return done[0]

    building.run_tool = runtime_cache.run_tool = watched  # type: ignore[assignment]
    try:
        build(
            dut, work / "pieces", cache_dir=work / "pieces-cache", tools=dataclasses.replace(find_build_tools(), jobs=1)
        )
    finally:
        building.run_tool = runtime_cache.run_tool = plain
    return found


def growing(folder: Path, stages: int) -> Dut:
    """A pipeline of that many stages, no two of them alike."""
    body = "".join(
        f"  logic [31:0] s{i};\n"
        f"  always_ff @(posedge clk) s{i} <= rst ? 32'd{i} : "
        f"(s{i - 1} * 32'd{2 * i + 1}) ^ {{s{i - 1}[{i % 31}:0], s{i - 1}[31:{i % 31 + 1}]}};\n"
        for i in range(1, stages + 1)
    )
    source = folder / "growing.sv"
    source.write_text(
        textwrap.dedent(
            """\
            module growing (
                input logic clk, input logic rst,
                input logic [7:0] data_in_0, input logic data_in_0_valid, output logic data_in_0_ready,
                output logic [7:0] data_out_0, output logic data_out_0_valid, input logic data_out_0_ready
            );
              assign data_in_0_ready = data_out_0_ready;
              assign data_out_0_valid = data_in_0_valid;
              logic [31:0] s0;
              assign s0 = {4{data_in_0}};
            """
        )
        + body
        + f"  assign data_out_0 = s{stages}[31:24] ^ s{stages}[23:16] ^ s{stages}[15:8] ^ s{stages}[7:0];\nendmodule\n"
    )
    fmt = FixedFormat(8, 4)
    streams = (Stream("data_in_0", "in", (1, 1), fmt, (1,)), Stream("data_out_0", "out", (1, 1), fmt, (1,)))
    return Dut("growing", (source,), {}, streams)


def main() -> None:
    os.environ[runtime_cache.VARIABLE] = ""  # what the environment has compiled would hide what is measured
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        design = digits(work)
        dut = design.dut()
        os.environ.update(verilator_env())
        times: dict[str, list[tuple[float, float]]] = {}
        starts = []
        for run in range(RUNS):
            place = work / f"run{run}"
            cache = place / "runtime-cache"

            def plain(place: Path = place) -> None:
                runner = get_runner("verilator")
                runner.build(sources=list(dut.sources), hdl_toplevel=dut.top, build_dir=place / "plain")

            def ours(name: str, place: Path = place, cache: Path = cache) -> None:
                build(dut, place / name, cache_dir=cache)

            times.setdefault("cocotb's runner", []).append(timed(plain))
            times.setdefault("nothing compiled", []).append(timed(lambda: ours("first")))
            shutil.rmtree(cache / "simulators")
            times.setdefault("runtime compiled", []).append(timed(lambda: ours("second")))
            times.setdefault("cache hit", []).append(timed(lambda: ours("third")))
            starts.append(start_of_a_hit(design.path, place / "fourth"))
        base_wall, base_cpu = (statistics.median(column) for column in zip(*times["cocotb's runner"], strict=True))
        print(f"{'digits MLP':30}{'wall s':>8}{'ratio':>8}{'cpu s':>8}{'ratio':>8}")
        for name, values in times.items():
            wall, cpu = (statistics.median(column) for column in zip(*values, strict=True))
            print(f"{name:30}{wall:8.2f}{wall / base_wall:8.2f}{cpu:8.2f}{cpu / base_cpu:8.2f}")
        simulator, cycle = (statistics.median(column) for column in zip(*starts, strict=True))
        print(f"\ncache hit, Python's start to the simulator's: {simulator:.2f} s (must be under 2)")
        print(f"cache hit, Python's start to the first simulated cycle: {cycle:.2f} s")
        print("\nnothing compiled, processor seconds of each tool:")
        for name, seconds in pieces(dut, work):
            print(f"  {name:28}{seconds:6.2f}")
        print(f"\n{'stages':>8}{'wall s':>8}{'cpu s':>8}{'cpu ms a stage':>16}")
        for stages in SIZES:
            wall, cpu = timed(lambda n=stages: build(growing(work, n), work / f"size{n}", cache_dir=cache))  # type: ignore[misc]
            print(f"{stages:8}{wall:8.2f}{cpu:8.2f}{1000 * cpu / stages:16.2f}")


if __name__ == "__main__":
    main()
