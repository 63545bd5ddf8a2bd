"""All benchmarks of this folder, and one table of their figures, bars and commands.

    python -m benchmarks.all            # an hour and more
    python -m benchmarks.all --quick    # minutes: small pictures, few frames, one round
    python -m benchmarks.all --only compile emission

What each one prints is shown as it comes, and the table at the end (``--table`` for nothing else). Figures of quick
runs are no measurements: their bars are shown, not judged. Exit code 1 if a benchmark fails or misses a bar.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Figure:
    """One number that a benchmark prints.

    Args:
        name: What it is, with its unit.
        pattern: Finds it in what is printed, as the only group.
        most: It may be no larger; None if there is no such bar.
        least: It may be no smaller.
    """

    name: str
    pattern: str
    most: float | None = None
    least: float | None = None

    @property
    def bar(self) -> str:
        """The bar in words."""
        most = "" if self.most is None else f"at most {self.most:g}"
        return most if self.least is None else f"at least {self.least:g}"

    def met(self, value: float) -> bool:
        """Whether a value is within the bar."""
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)


@dataclass(frozen=True)
class Benchmark:
    """A script and its figures.

    Args:
        name: For ``--only``.
        command: Its arguments, those of Python.
        quick: What is added, or put in the place of options of the same name, for a quick run.
        figures: What is read from what it prints.
    """

    name: str
    command: str
    quick: str
    figures: tuple[Figure, ...]

    def arguments(self, quick: bool) -> list[str]:
        """The command without the interpreter; of an option that is given twice, the last counts."""
        return shlex.split(f"{self.command} {self.quick}" if quick else self.command)


def _compiled(
    network: str, lanes: int, seconds: float, picture: int = 224, quick: int = 64, mib: float | None = 1024
) -> Benchmark:
    return Benchmark(
        "compile",
        f"-m benchmarks.compile_time {network} --picture {picture} --lanes {lanes} --alone",
        f"--picture {quick}",
        (
            Figure(f"{network}, {picture}, {lanes} lanes: processor s", r"([\d.]+) s +\d+ MiB", most=seconds),
            Figure(f"{network}, {picture}, {lanes} lanes: peak MiB", r"(\d+) MiB", most=mib),
        ),
    )


BENCHMARKS = (
    Benchmark(
        "machine",
        "-m benchmarks.machine",
        "",
        (Figure("this machine: times the reference, for a fixed loop", r"machine: ([\d.]+)"),),
    ),
    *(_compiled("resnet18", lanes, 10) for lanes in (16, 4, 1)),
    *(_compiled("mobilenet_v2", lanes, 10) for lanes in (16, 1)),
    *(_compiled("resnet50", lanes, 20, mib=None) for lanes in (16, 1)),
    _compiled("linear_chain", 4, 10),
    _compiled("conv_chain", 16, 10, picture=32, quick=16),
    *(
        Benchmark(
            "transformers",
            f"-m benchmarks.vision_transformers {name}",
            "",
            (
                Figure(f"{name}: processor s", r"predicted in ([\d.]+) s", most=60),
                Figure(f"{name}: multipliers", r"([\d]+) multipliers", most=most),
                Figure(f"{name}: share of the ideal interval", r"ideal interval ([\d.]+)", least=0.97),
            ),
        )
        for name, most in (("vit_64x192", 660), ("deit_tiny", None))
    ),
    Benchmark(
        "orders",
        "-m benchmarks.layer_orders",
        "",
        tuple(
            Figure(f"{name}, {order}: cycles to the last result", rf"{name}.*{order}.* last (\d+)")
            for name in ("784-784-784-10", "autoencoder 640")
            for order in ("outputs first", "alternating")
        ),
    ),
    # Ends with 1 where a network is slower than its slowest stage, or a bit is wrong.
    Benchmark("rates", "-m benchmarks.rates", "vit_block --lanes 4 --simulate 2", ()),
    # Likewise with several positions a beat.
    Benchmark("positions", "-m benchmarks.positions", "radio --positions 1 2 --simulate 2", ()),
    Benchmark(
        "system",
        "-m benchmarks.system_cost driver luts",
        "",
        (
            Figure("driver on RV32: bytes", r"driver: (\d+) bytes", most=8192),
            Figure("start of a job: instructions", r"\nstart: (\d+)"),
            Figure("register block: LUT", r"the register block: (\d+) LUT", most=700),
            Figure("reader of the bus: LUT", r"a reader of the bus: (\d+) LUT", most=600),
            Figure("writer of the bus: LUT", r"a writer of the bus: (\d+) LUT", most=600),
        ),
    ),
    Benchmark(
        "emission",
        "-m benchmarks.emission",
        "--layers 10",
        (
            Figure("netlist of 60 layers: lint, processor s", r"lint ([\d.]+) s"),
            Figure("memories: us a weight", r"([\d.]+) us a weight", most=0.1),
        ),
    ),
    Benchmark(
        "inference",
        "-m benchmarks.quantised_inference --batch 256",
        "--batch 16 --seconds 0.2 --limit 100",
        (
            Figure("encoder layer: quantised / float", r"\nencoder layer.* ([\d.]+) +[\d.]+\n", most=2.5),
            Figure("GRU: quantised / float", r"\nGRU.* ([\d.]+) +[\d.]+\n", most=2.5),
            Figure("LayerNorm: quantised / float", r"\nLayerNorm.* ([\d.]+) +[\d.]+\n", most=10),
            Figure("softmax over 16: quantised / float", r"\nsoftmax, 16 .* ([\d.]+) +[\d.]+\n", most=10),
            Figure("softmax over 1,000: quantised / float", r"\nsoftmax, 1,000.* ([\d.]+) +[\d.]+\n", most=10),
            Figure("digits MLP: quantised / float", r"\n[^\n]*64-64-32-10.* ([\d.]+)\n", most=1.6),
            Figure("MLP 784-512-512-10: quantised / float", r"\n[^\n]*784-512.* ([\d.]+)\n"),
            Figure("MLP 3 x 784, batch 1: quantised / float", r"\n[^\n]*3 x 784.* ([\d.]+)\n", most=1.5),
            Figure("ResNet-18: quantised / float", r"\n[^\n]*ResNet-18.* ([\d.]+)\n", most=1.3),
            Figure("MobileNetV2: quantised / float", r"\n[^\n]*MobileNetV2.* ([\d.]+)\n", most=1.3),
        ),
    ),
    Benchmark(
        "engines",
        "benchmarks/engines.py",
        "--frames 40 --rounds 1",
        (
            Figure("batch / per-cycle driver, processor", r"batch / per-cycle driver, processor: ([\d.]+)", least=20),
            Figure("fast / per-cycle driver, loop", r"fast / per-cycle driver, loop: ([\d.]+)"),
            Figure("batch / bare loop", r"batch / bare loop, loop: ([\d.]+)"),
        ),
    ),
    *(
        Benchmark(
            "verdict" if name == "mlp" else "verdicts",
            f"benchmarks/time_to_verdict.py --networks {name}",
            "",
            (
                Figure(f"{name}: cold to verdict, processor s", r"\n[\w-]+ +\d+ +([\d.]+)"),
                Figure(f"{name}: after an edit of weights, s", r"\n[\w-]+ +\d+ +[\d.]+ +([\d.]+)", most=3),
            ),
        )
        for name in ("mlp", "cnn", "resnet8-4", "resnet8-16", "mobilenet-4", "mobilenet-16")
    ),
    Benchmark(
        "cache",
        "benchmarks/build_cache.py",
        "",
        (Figure("cache hit, to the simulator's start, s", r"to the simulator's: ([\d.]+) s"),),
    ),
    Benchmark(
        "metadata",
        "benchmarks/common_metadata.py",
        "",
        (Figure("BERT-base, symbolically: s", r"BERT-base, symbolic.*metadata +([\d.]+) s"),),
    ),
    Benchmark("accuracy", "benchmarks/quantisation_accuracy.py", "--quick", ()),
)
SLOW = {"cache", "verdicts", "metadata", "accuracy"}
"""Left out of quick runs unless asked for: they have no quick form of minutes, or need an extra."""


def measure(benchmark: Benchmark, quick: bool, show: bool) -> tuple[str, bool, list[float | None]]:
    """Run a benchmark: its command, whether it ended well, and its figures; None for what it did not print."""
    arguments = benchmark.arguments(quick)
    command = shlex.join(["python", *arguments])
    print(f"==> {command}", flush=True)
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if show or done.returncode:
        print(done.stdout + (done.stderr if done.returncode else ""), flush=True)
    found = [re.search(figure.pattern, done.stdout) for figure in benchmark.figures]
    return command, done.returncode == 0, [float(match[1]) if match else None for match in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="sizes that take minutes")
    parser.add_argument("--only", nargs="+", choices=sorted({b.name for b in BENCHMARKS}), help="these only")
    parser.add_argument("--table", action="store_true", help="show the table only")
    options = parser.parse_args()
    wanted = set(options.only or {b.name for b in BENCHMARKS} - (SLOW if options.quick else set()))
    rows, missed = [], False
    for benchmark in (b for b in BENCHMARKS if b.name in wanted):
        command, ended, values = measure(benchmark, options.quick, not options.table)
        missed |= not ended
        for figure, value in zip(benchmark.figures, values, strict=True):
            good = value is not None and (options.quick or figure.met(value))
            missed |= not good
            shown = "none" if value is None else f"{value:g}"
            rows.append((figure.name, shown, figure.bar, "" if good else "MISSED", command))
    widths = [max(len(row[i]) for row in [("figure", "measured", "bar", "", ""), *rows]) for i in range(4)]
    for row in [("figure", "measured", "bar", "", "command"), *rows]:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
