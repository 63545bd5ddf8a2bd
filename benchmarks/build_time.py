"""Build time of the digits MLP's simulator: cocotb's runner against ours, measured in one run.

    python benchmarks/build_time.py

Both build the same bundle with the same Verilator and C++ compiler.
"""

import os
import runpy
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from cocotb_tools.runner import get_runner

import mase_hw
from mase_hw.flow.bench import build
from mase_hw.flow.toolchain import verilator_env

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
RUNS = 3


def timed(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def main() -> None:
    example = runpy.run_path(str(EXAMPLES / "digits_mlp.py"))
    digits = example["load"]()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        design = mase_hw.compile(
            example["train"](digits),
            digits.test_images[:1],
            EXAMPLES / "digits_mlp.toml",
            out=work / "bundle",
            calibration=digits.train_images.split(256),
        )
        os.environ.update(verilator_env())
        times: dict[str, list[float]] = {}
        for run in range(RUNS):

            def plain(run: int = run) -> None:
                get_runner("verilator").build(
                    sources=list(design.dut().sources), hdl_toplevel=design.dut().top, build_dir=work / f"plain{run}"
                )

            def ours(name: str, run: int = run) -> None:
                build(design.dut(), work / f"{name}{run}" / "build", cache_dir=work / f"cache{run}")

            times.setdefault("cocotb runner", []).append(timed(plain))
            times.setdefault("ours, empty cache", []).append(timed(lambda: ours("first")))
            times.setdefault("ours, runtime cached", []).append(timed(lambda: ours("second")))
            times.setdefault("ours, unchanged", []).append(timed(lambda: ours("second")))
        simulation = design.simulate(digits.test_images, work_dir=work / "sim", waves=False)
    base = statistics.median(times["cocotb runner"])
    print(f"{'build':24}{'median s':>10}{'of cocotb runner':>18}")
    for name, values in times.items():
        middle = statistics.median(values)
        print(f"{name:24}{middle:10.2f}{middle / base:18.2f}")
    result = simulation.result
    print(f"\nper-cycle cocotb driver: {result.cycles} cycles, {simulation.frames} frames in {result.seconds:.2f} s")


if __name__ == "__main__":
    main()
