"""Large networks over several devices: the cuts that are chosen, with their proof or bound, and how long that takes.

    python -m benchmarks.devices deit_tiny --bits 8 --devices 3 --interval 4000000 --bytes 64 --gap 0.02
    python -m benchmarks.devices resnet50 --bits 4 --devices 4 --interval 2000000

The devices are of the size of XC7A200T, each with a memory outside that brings a word of so many bytes a cycle. With
``--build`` what is chosen is compiled for all devices, with ``--simulate`` frames go through all of them and the models
of their links and memories: every bit, fill and interval. With ``--fit`` it is chosen again until what is compiled
fits. As that takes long, the networks can be smaller in all that changes no kind of layer, and the devices with them:

    python -m benchmarks.devices deit_tiny --image 64 --depth 3 --narrower 4 --smaller 12 --devices 3 \\
        --interval 60000 --gap 0.05 --lint --simulate 2

Exit code 0 only if no bit and no cycle differs.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.large_networks import resnet
from benchmarks.vision_transformers import SHAPES, VisionTransformer
from mase_hw.cost.devices import device_of
from mase_hw.devices import DevicesDesign, beyond, compile_devices, fit_built, fit_devices, taken
from mase_hw.errors import ConfigError
from mase_hw.host.toolchain import require, verilator_env

DEVICE = "xc7a200t"
Tell = Callable[[str], None]


def network(name: str, image: int = 224, narrower: int = 1, depth: int = 12) -> tuple[nn.Module, Tensor, list[str]]:
    """A network, a frame for it, and the modules before which may be cut: every block, or every second one.

    Args:
        name: Of it.
        image: Rows and columns of a frame.
        narrower: By what all numbers of channels are divided.
        depth: Blocks of a transformer.
    """
    torch.manual_seed(0)
    if name == "resnet50":
        net = resnet((3, 4, 6, 3), bottleneck=True, width=64 // narrower).eval()
        return net, torch.rand(1, 3, image, image), [str(block) for block in range(3, 18, 2)]
    (_, patch, channels), (width, heads, _, hidden), has_class, _ = SHAPES[name]
    sizes = width // narrower, heads, depth, hidden // narrower
    model = VisionTransformer((image // patch, patch, channels), sizes, has_class).eval()
    return model, torch.randn(1, 3, image, image), [f"encoder.layers.{layer}" for layer in range(depth)]


def configuration(args: argparse.Namespace) -> dict[str, Any]:
    """Numbers, links and memories."""
    numbers = {"name": "fixed", "data_in_width": 8, "weight_width": args.bits, "data_out_width": 8}
    stored = [f"encoder_layers_{n}_self_attn_{name}.weight" for n in range(args.depth) for name in args.luts]
    hardware = {"external_bytes": args.bytes, "external_burst": args.burst, "fifo_slack": args.slack}
    return {
        "quantize": {"by": "type", "default": {"config": numbers}},
        "hardware": {**hardware, "memory": dict.fromkeys(stored, "lut")},
        "links": {"bits": 64, "latency": 20},
        "vectors": {"frames": 1},
    }


def device(smaller: int, kept: int) -> dict[str, Any]:
    """A device with a memory outside, that has a part of what an XC7A200T has, less some block RAMs."""
    has = {name: number // smaller for name, number in device_of(DEVICE).capacity().items()}
    return {"device": DEVICE, **has, "bram": has["bram"] - kept, "external": True, "unrolled": 0}


def linted(design: DevicesDesign, tell: Tell) -> bool:
    """Whether Verilator has nothing to say of the modules of all devices, and of the whole."""
    clean, verilator = True, str(require("verilator")["verilator"].path)
    for top in (*(each.module for each in design.record.devices), design.whole.record.top):
        begin = time.monotonic()
        command = [verilator, "--lint-only", "-Wall", "--assert", "--top-module", top, "-f", "rtl/files.f"]
        done = subprocess.run(
            command, cwd=design.whole.path, env=verilator_env(), check=False, capture_output=True, text=True
        )
        clean = clean and not done.returncode
        tell(f"lint of {top} in {time.monotonic() - begin:.0f} s: {done.stderr.strip() or 'nothing to say'}")
    return clean


def simulated(design: DevicesDesign, frame: Tensor, frames: int, tell: Tell) -> bool:
    """Whether every bit and cycle of some frames is as it was predicted."""
    torch.manual_seed(1)
    images = torch.rand(frames, *frame.shape[1:])
    results = design(images)
    differ = torch.unique(results.reshape(frames, -1), dim=0).shape[0]
    tell(f"{differ} of {frames} frames have results of their own, with {torch.unique(results).numel()} values")
    timing, begin = design.timing, time.monotonic()
    found = design.simulate(images, engine="batch", check=False)
    exact = (found.fill, found.interval) == (timing["fill"], timing["interval"] if frames > 1 else None)
    tell(
        f"simulated in {time.monotonic() - begin:.0f} s: {'every bit' if found.passed else 'FAILED'}, fill "
        f"{found.fill:,} and interval {found.interval} {'as' if exact else 'NOT as'} predicted"
    )
    return found.passed and exact


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=("deit_tiny", "resnet50"))
    parser.add_argument("--bits", type=int, default=8, help="of a weight; data have eight")
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--interval", type=int, default=4_000_000, help="most cycles per frame")
    parser.add_argument("--bytes", type=int, default=8, help="of a word of each memory outside")
    parser.add_argument("--spread", type=float, default=2.0, help="how many times faster a layer may be")
    parser.add_argument("--gap", type=float, default=0.0, help="between value and bound that ends the search")
    parser.add_argument("--image", type=int, default=224, help="rows and columns of a frame")
    parser.add_argument("--narrower", type=int, default=1, help="by what numbers of channels are divided")
    parser.add_argument("--depth", type=int, default=12, help="blocks of a transformer")
    parser.add_argument("--smaller", type=int, default=1, help="by what the numbers of a device are divided")
    parser.add_argument("--burst", type=int, default=16, help="words of a request to a memory outside at most")
    parser.add_argument("--slack", type=float, default=0.0, help="share by which fewer FIFOs may delay the first frame")
    parser.add_argument("--luts", nargs="*", default=[], help="projections of attention with weights in LUTs: k_proj")
    parser.add_argument("--keep", type=int, default=0, help="block RAMs of each device that are kept for its FIFOs")
    parser.add_argument("--build", type=Path, metavar="DIR", help="compile what is chosen for all devices")
    parser.add_argument("--fit", action="store_true", help="build it, and choose again until what is built fits")
    parser.add_argument("--lint", action="store_true", help="of the modules of the devices and of the whole")
    parser.add_argument("--simulate", type=int, default=0, metavar="FRAMES", help="build it and simulate so many")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    model, frame, cuts = network(args.network, args.image, args.narrower, args.depth)
    devices, begin = [device(args.smaller, args.keep)] * args.devices, time.process_time()

    def tell(what: str) -> None:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"{time.process_time() - begin:8.1f} s, {most:,} MiB: {what:.240}", flush=True)

    wanted: dict[str, Any] = {"interval": args.interval, "spread": args.spread, "cuts": cuts, "gap": args.gap}
    wanted |= {"config": configuration(args), "progress": tell}
    with tempfile.TemporaryDirectory() as folder:
        out = args.build or Path(folder) / "made"
        try:
            if args.fit:
                found, design = fit_built(model, frame, devices, out=out, **wanted)
            else:
                found = fit_devices(model, frame, devices, **wanted)
        except ConfigError as error:
            print(error)
            return 1
        print(found.text())
        tell("processor time of the choice")
        if not args.fit:
            if args.build is None and not args.lint and not args.simulate:
                return 0
            design = compile_devices(model, frame, found.config, out=out, progress=tell)
        tell(f"compiled: {design.timing}")
        for number, use in taken(design, "xc7").items():
            tell(f"device {number} takes, FIFOs and ends of links included: {use.as_dict()}")
        over = beyond(found, design) or "nothing"
        tell(f"beyond what the choice had, which is {args.keep} block RAMs less than each device has: {over}")
        clean = not args.lint or linted(design, tell)
        return 0 if (not args.simulate or simulated(design, frame, args.simulate, tell)) and clean else 1


if __name__ == "__main__":
    sys.exit(main())
