"""Whole networks, compiled and linted by Verilator at several lanes: what `compile` takes, a simulator takes.

    python regress/whole.py --out build/whole.tsv                          # everything, at 4, 8 and 32 lanes
    python regress/whole.py --out build/whole.tsv --lanes 4 mobilevit_xxs  # one network

The networks of the regression matrix `full.toml`, stacks of thirty layers of each kind (`stacks.py`), and those of
`published.py` as far as transformers and timm are there. Each has a process of its own and a limit of time. A row is
written as it ends: name, lanes, verdict, seconds, the first message. Rows that are there are not made again, so a run
goes on where it stopped; delete the file, or lines of it, to try again. The exit code is 1 if Verilator refuses a
network that `compile` took, or anything ends in an error that is no refusal.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

HERE = Path(__file__).parent
LANES = "4,8,32"
SECONDS = 1800
CLEAN, REFUSED, LINT, ERROR, LATE, SKIPPED = "clean", "refused", "lint", "error", "too long", "skipped"


def names() -> Iterator[str]:
    """Of every network, smaller ones first."""
    from published import HUGGING_FACE, TIMM
    from stacks import LAYERS

    from mase_hw.regress.matrix import load_matrix

    yield from (f"full/{network.name}" for network in load_matrix(HERE / "full.toml").network)
    yield from (f"stack/{name}" for name in LAYERS)
    yield from HUGGING_FACE
    yield from TIMM


def network(name: str, lanes: int) -> tuple[nn.Module, Any, Any, dict[str, Any]]:
    """The model, an example, what it is calibrated with, and the configuration."""
    from published import HUGGING_FACE, hugging_face, of_timm
    from stacks import stack

    from mase_hw.compiler.config import load_config
    from mase_hw.model_spec import load_model
    from mase_hw.regress.matrix import load_matrix

    config: dict[str, Any] = {"hardware": {"max_parallelism": lanes}}
    kind, _, rest = name.rpartition("/")
    torch.manual_seed(0)
    if kind == "full":
        entry = next(e for e in load_matrix(HERE / "full.toml").network if e.name == rest)
        settings = next(iter(entry.configs.values()))
        given = load_config(HERE / settings if isinstance(settings, str) else settings).model_dump(exclude_unset=True)
        place, _, function = entry.model.rpartition(":")
        spec = load_model(f"{HERE / place}:{function}")
        return spec.model, spec.example_inputs, spec.calibration, {**given, **config}
    if kind == "stack":
        model, example = stack(rest)
    else:
        model, example = hugging_face(name) if name in HUGGING_FACE else of_timm(name)
    return model, example, [example], config


def attempt(name: str, lanes: int) -> tuple[str, str]:
    """The verdict about a network, and the first message."""
    import mase_hw
    from mase_hw.simulate.build.tools import find_build_tools, lint_bundle

    model, example, calibration, config = network(name, lanes)
    with tempfile.TemporaryDirectory() as folder:
        try:
            design = mase_hw.compile(
                model.eval(),
                example,
                config,
                out=Path(folder) / "bundle",
                calibration=calibration,
                vectors=example if calibration else None,
            )
        except mase_hw.MaseHwError as error:
            return REFUSED, str(error)
        for flags in ((), ("-DSYNTHESIS",)):
            if said := lint_bundle(design.path, design.manifest["top"], find_build_tools(), *flags):
                return LINT, said
    return CLEAN, ""


def row(name: str, lanes: int, seconds: int) -> tuple[str, str]:
    """The same in a process of its own."""
    needs = ("timm", "torchvision") if "/" not in name else ()
    from published import HUGGING_FACE

    needs = ("transformers",) if name in HUGGING_FACE else needs
    if absent := [module for module in needs if importlib.util.find_spec(module) is None]:
        return SKIPPED, f"{' and '.join(absent)} is not installed"
    command = [sys.executable, __file__, "--one", "--lanes", str(lanes), name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return LATE, f"more than {seconds} s"
    verdict, tab, message = done.stdout.rpartition("verdict: ")[2].partition("\t")
    return (verdict, message) if tab and done.returncode == 0 else (ERROR, done.stderr.strip()[-300:])


def main() -> int:
    """Write the rows that are not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the table")
    parser.add_argument("--lanes", default=LANES, help=f"numbers with commas between them ({LANES})")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="limit for a network")
    parser.add_argument("--one", action="store_true", help="in this process, without a table")
    parser.add_argument("names", nargs="*", help="networks (all)")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    if arguments.one:
        verdict, message = attempt(arguments.names[0], int(arguments.lanes))
        print(f"verdict: {verdict}\t{message}")
        return 0
    every = list(names())
    if unknown := sorted(set(arguments.names) - set(every)):
        parser.error(f"no such networks: {', '.join(unknown)}; there are {', '.join(every)}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    lines = arguments.out.read_text(encoding="utf-8").splitlines() if arguments.out.exists() else []
    rows = {(name, int(lanes)): verdict for name, lanes, verdict, *_ in (line.split("\t") for line in lines)}
    for lanes in map(int, arguments.lanes.split(",")):
        for name in arguments.names or every:
            if (name, lanes) in rows:
                continue
            start = time.monotonic()
            verdict, message = row(name, lanes, arguments.seconds)
            rows[name, lanes] = verdict
            line = f"{name}\t{lanes}\t{verdict}\t{time.monotonic() - start:.0f}\t{' '.join(message.split())[:300]}"
            print(line, flush=True)
            with arguments.out.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(Counter(rows.values()).items())))
    return 1 if {LINT, ERROR} & set(rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
