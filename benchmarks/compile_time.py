"""Processor time and memory of ``compile`` for large networks: by step, and how they grow with picture and lanes.

    python -m benchmarks.compile_time
    python -m benchmarks.compile_time resnet50 --picture 224 --lanes 16
    python -m benchmarks.compile_time --check

``--check`` prints what ``check`` takes of small models of transformers, from their configurations, with four lanes.
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
import statistics
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

CHECKED = 5.0
"""Processor seconds of ``check`` of an architecture, the bar of the median."""
_SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, "head_dim": 16}
_TEXT = _SIZES | {"num_key_value_heads": 2, "vocab_size": 50, "max_position_embeddings": 32, "use_cache": False}
_IMAGE = _SIZES | {"image_size": 32, "patch_size": 8}
_TEXTS = ("bert", "roberta", "electra", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "olmo", "granite")
ARCHITECTURES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(_TEXTS, _TEXT),
    **dict.fromkeys(("vit", "deit", "beit", "dinov2"), _IMAGE),
    "mobilenet_v2": {"depth_multiplier": 0.35, "image_size": 32},
    "resnet": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "image_size": 32},
}
"""Types of models of transformers, and their configurations."""
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


def checked(name: str) -> dict[str, Any]:
    """Check an architecture here."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **ARCHITECTURES[name])
    build: Any = transformers.AutoModel.from_config
    model = build(config, attn_implementation="eager").eval()
    size = ARCHITECTURES[name].get("image_size")
    x = torch.randint(0, 50, (1, 8)) if size is None else torch.randn(1, 3, size, size)
    start = time.process_time()
    passed = mase_hw.check(model, x, {"hardware": {"max_parallelism": 4}}).passed
    seconds = time.process_time() - start
    return {"seconds": seconds, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "passed": passed}


def apart(*arguments: str) -> dict[str, Any]:
    """A measurement in a process of its own, which reads compiled Python as that of an installed package does."""
    command = [sys.executable, "-m", "benchmarks.compile_time", *arguments]
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


def _compiled(name: str, picture: int, lanes: int) -> dict[str, Any]:
    return apart(name, f"--picture={picture}", f"--lanes={lanes}")


def _check_all(names: list[str]) -> None:
    seconds = []
    for name in names:
        found = apart("--check", name)
        seconds.append(found["seconds"])
        print(f"{name:16} {found['seconds']:6.1f} s {found['mib']:6.0f} MiB{'' if found['passed'] else ', refused'}")
    print(f"{'median':16} {statistics.median(seconds):6.1f} s (bar {CHECKED})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="?", help="one network only")
    parser.add_argument("--check", action="store_true", help="what check takes of small models of transformers")
    parser.add_argument("--picture", type=int, default=224, help="rows and columns of a picture")
    parser.add_argument("--lanes", type=int, default=16, help="lanes at most")
    parser.add_argument("--alone", action="store_true", help="without its growth with picture and lanes")
    parser.add_argument("--json", action="store_true", help="print the measurement as JSON")
    args = parser.parse_args()
    known = [*ARCHITECTURES] if args.check else [*NETWORKS]
    if args.network not in (None, *known):
        parser.error(f"unknown network {args.network}: it is one of {', '.join(sorted(known))}")
    if args.json:
        print(json.dumps(checked(args.network) if args.check else one(args.network, args.picture, args.lanes)))
        return
    print(machine.line())
    if args.check:
        _check_all([args.network] if args.network else known)
        return
    for name in [args.network] if args.network else NETWORKS:
        picture = args.picture if args.network or name != "conv_chain" else 32
        result = _compiled(name, picture, args.lanes)
        show(f"{name}, {picture}, {args.lanes} lanes", result)
        longest = sorted(result["steps"].items(), key=lambda item: -item[1])[:SHOWN]
        print("    " + ", ".join(f"{step} {seconds:.1f}" for step, seconds in longest))
    if args.network and NETWORKS[args.network][1] and not args.alone:
        for picture, lanes in ((args.picture // 2, args.lanes), (args.picture, max(args.lanes // 4, 1))):
            other = _compiled(args.network, picture, lanes)
            show(f"{args.network}, {picture}, {lanes} lanes", other)
            print(f"    times {other['seconds'] / result['seconds']:.2f}")


if __name__ == "__main__":
    main()
