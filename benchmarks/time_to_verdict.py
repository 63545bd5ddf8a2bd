"""From the call of ``simulate`` to the verdict with nothing built, and after an edit that changes weights only.

    python benchmarks/time_to_verdict.py [--before CHECKOUT] [--engine batch] [--networks mlp cnn] [--rounds 1]
    python benchmarks/time_to_verdict.py --frames 10000

Every network is compiled in a process of its own, simulated with its own vectors in an empty work folder, then compiled
with other weights into the same bundle and simulated again. The edit gives the channels between the layers another
order: memories of weights change, and no format, since every tensor has the same values in another place. That the
sources stay is asserted. Verilator's runtime is there already, as after ``make venv``. ``--before`` names a checkout
of another version, which does the same in turn: the last column is its processor time divided by that of this version.
Processor time is that of the process and of all that it starts. With ``--frames``, an MLP, a CNN and an encoder layer
are simulated twice with so many random frames: what is shown is the second call, wall time from the call to the verdict
beside the simulator's own. Exit code 1 if that is more than 1.5 times the simulator's and half a second.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = ("mlp", "cnn", "resnet8-4", "resnet8-16", "mobilenet-4", "mobilenet-16")
"""The digits networks of the examples; ResNet-8 and MobileNet with so many lanes."""
EDITED_BAR = 3.0
"""Processor seconds from the call to the verdict after an edit of weights."""


def network(name: str) -> tuple[Any, Any, Any]:
    """The model, its example and its configuration."""
    import torch

    torch.manual_seed(0)
    if name in ("mlp", "cnn"):
        example = runpy.run_path(str(ROOT / f"examples/digits_{name}.py"))
        model, inputs = example["model"]()[:2]
        return model, inputs, ROOT / f"examples/digits_{name}.toml"
    kind, lanes = name.split("-")
    config = {"hardware": {"max_parallelism": int(lanes)}}
    return {"resnet8": resnet8, "mobilenet": mobilenet}[kind]().eval(), torch.rand(1, 3, 32, 32), config


def resnet8() -> Any:
    """ResNet-8 as MLPerf Tiny has it: three stages of 16, 32 and 64 channels with one block each."""
    from torch import nn

    def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
        layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        return nn.Sequential(layer, nn.BatchNorm2d(outputs))

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            stride = 1 if inputs == outputs else 2
            self.body = nn.Sequential(conv(inputs, outputs, 3, stride), nn.ReLU(), conv(outputs, outputs))
            self.skip = nn.Identity() if inputs == outputs else conv(inputs, outputs, 1, stride)
            self.relu = nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.relu(self.body(x) + self.skip(x))

    blocks = [Block(16, 16), Block(16, 32), Block(32, 64)]
    tail = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(conv(3, 16), nn.ReLU(), *blocks, *tail)


def mobilenet() -> Any:
    """MobileNet with a quarter of its channels: thirteen depthwise separable convolutions."""
    from torch import nn

    def conv(inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1) -> list[nn.Module]:
        layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [layer, nn.BatchNorm2d(outputs), nn.ReLU()]

    layers, channels = conv(3, 8, 3, 2), 8
    stages = ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *(((128, 1),) * 5), (256, 2), (256, 1))
    for outputs, stride in stages:
        layers += conv(channels, channels, 3, stride, channels) + conv(channels, outputs, 1, 1)
        channels = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def edit(model: Any) -> None:
    """Give the channels between the layers another order, in place: other weights, the same function and ranges.

    Layers follow each other as in the networks above; of a block with a skip, those of its ``body`` do.
    """
    import torch

    bodies = [module.body for module in model.modules() if hasattr(module, "body")]
    with torch.no_grad():
        for chain in bodies or [model]:
            _reorder(chain)


def _reorder(chain: Any) -> None:
    import torch
    from torch import nn

    layers = [m for m in chain.modules() if isinstance(m, nn.Linear | nn.Conv2d | nn.BatchNorm2d)]
    last = [m for m in layers if not isinstance(m, nn.BatchNorm2d)][-1]
    order = None
    for layer in layers:
        rows = order
        if not isinstance(layer, nn.BatchNorm2d) and getattr(layer, "groups", 1) == 1:
            if order is not None:
                each = layer.weight.shape[1] // len(order)  # elements of a channel, once pictures are flattened
                columns = (order[:, None] * each + torch.arange(each)).flatten()
                layer.weight.copy_(layer.weight[:, columns])
            size = len(layer.weight)
            rows = order = torch.arange(size) if layer is last else torch.arange(size).roll(1)
        for values in (*layer.parameters(), *layer.buffers()):
            if values.ndim:
                values.copy_(values[rows])


def sources(bundle: Path) -> dict[str, bytes]:
    """What a simulator is built from."""
    return {str(p.relative_to(bundle)): p.read_bytes() for p in bundle.glob("rtl/**/*") if p.is_file()}


def measured(action: Callable[[], Any]) -> dict[str, float]:
    """Wall and processor seconds of an action, of what it starts as well."""

    def processor() -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(each.ru_utime + each.ru_stime for each in used)

    before, begin = processor(), time.perf_counter()
    action()
    return {"wall": time.perf_counter() - begin, "processor": processor() - before}


def work(name: str, engine: str) -> None:
    """Measure one network in this process; prints what was found as JSON."""
    import torch

    import mase_hw

    torch.set_num_threads(1)
    model, inputs, config = network(name)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "bundle"

        def judge() -> None:
            assert design.simulate(engine=engine, work_dir=Path(folder) / "work", waves=False).passed

        design = mase_hw.compile(model, inputs, config, out=out, calibration=[inputs])
        cold = measured(judge)
        before, answer = sources(out), model(inputs)
        edit(model)
        assert torch.allclose(model(inputs), answer, atol=1e-4), "the edit is not an order of channels"
        design = mase_hw.compile(model, inputs, config, out=out, calibration=[inputs])
        assert sources(out) == before, "the edit changed the hardware"
        edited = measured(judge)
        interval, instances = design.timing["interval"], len(design.manifest["instances"])
    print(json.dumps({"cold": cold, "edited": edited, "interval": interval, "instances": instances}))


def many(name: str, frames: int) -> bool:
    """Simulate a small network with so many frames, and print the time to the verdict; whether it is within its bar."""
    import torch
    from torch import nn

    import mase_hw

    torch.set_num_threads(1)
    torch.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    first = [nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, padding=1), nn.ReLU()]
    layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
    networks: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
        "mlp": (layers, (16,)),
        "cnn": (nn.Sequential(*first, nn.Flatten(), nn.Linear(128, 10)), (1, 8, 8)),
        "encoder": (encoder, (6, 16)),
    }
    model, shape = networks[name]
    inputs = torch.randn(frames, *shape)
    with tempfile.TemporaryDirectory() as folder:
        options = {"hardware": {"max_parallelism": 8}}
        out = Path(folder) / "bundle"
        design = mase_hw.compile(model.eval(), inputs[:1], options, out=out, calibration=[inputs[:64]])
        seen: list[float] = []

        def judge() -> None:
            result = design.simulate(inputs, engine="batch", work_dir=Path(folder) / "work", waves=False)
            assert result.passed
            (outcome,) = (Path(folder) / "work").rglob("outcome.json")
            seen.append(json.loads(outcome.read_text())["seconds"])

        measured(judge)  # builds
        wall = measured(judge)["wall"]
    fits = wall <= 1.5 * seen[-1] + 0.5
    print(
        f"{name:14}{wall:8.2f} s to the verdict, {seen[-1]:.2f} s in the simulator{'' if fits else ': above the bar'}"
    )
    return fits


def ask(checkout: Path, name: str, engine: str) -> dict[str, Any]:
    """The measurement of one network by one version."""
    env = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, __file__, "--work", name, "--engine", engine]
    done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="checkout of the version to compare with")
    parser.add_argument("--engine", default="batch")
    parser.add_argument("--networks", nargs="+", default=NETWORKS, choices=NETWORKS)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--frames", type=int, help="random frames of small networks, simulated twice")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work, arguments.engine)
        return
    if arguments.frames:
        sys.exit(not all([many(name, arguments.frames) for name in ("mlp", "cnn", "encoder")]))
    versions = [ROOT] + ([arguments.before.resolve()] if arguments.before else [])
    print(f"{'network':14}{'instances':>10}{'cold':>8}{'edited':>8}   processor s, {arguments.engine} engine")
    for name in arguments.networks:
        rounds = [[ask(version, name, arguments.engine) for version in versions] for _ in range(arguments.rounds)]
        cold, edited = ([[v[k]["processor"] for v in each] for each in rounds] for k in ("cold", "edited"))
        now = [statistics.median(each[0] for each in times) for times in (cold, edited)]
        line = f"{name:14}{rounds[0][0]['instances']:>10}{now[0]:8.1f}{now[1]:8.1f}"
        if arguments.before:
            ratios = [statistics.median(each[1] / each[0] for each in times) for times in (cold, edited)]
            line += f"   before: {ratios[0]:.1f} times (bar 2), edited {ratios[1]:.1f} times"
        print(line + ("" if now[1] <= EDITED_BAR else f"   edited: above {EDITED_BAR} s"), flush=True)


if __name__ == "__main__":
    main()
