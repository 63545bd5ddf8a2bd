"""Large networks over several devices: the cuts that are chosen, with their proof or bound, and how long that takes.

    python -m benchmarks.devices deit_tiny --bits 8 --devices 3 --interval 4000000 --bytes 64 --gap 0.02
    python -m benchmarks.devices resnet50 --bits 4 --devices 4 --interval 2000000

The devices are of the size of XC7A200T, each with a memory outside that brings a word of so many bytes a cycle.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn

from benchmarks.large_networks import made
from benchmarks.vision_transformers import SHAPES, VisionTransformer
from mase_hw.devices import fit_devices
from mase_hw.errors import ConfigError


def network(name: str) -> tuple[nn.Module, Tensor, list[str]]:
    """A network, a frame for it, and the modules before which may be cut: every block, or every second one."""
    if name == "resnet50":
        return *made(name, 224), [str(block) for block in range(3, 18, 2)]
    patches, sizes, has_class, _ = SHAPES[name]
    torch.manual_seed(0)
    model = VisionTransformer(patches, sizes, has_class).eval()
    return model, torch.randn(1, 3, 224, 224), [f"encoder_layers_{layer}_norm1" for layer in range(sizes[2])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=("deit_tiny", "resnet50"))
    parser.add_argument("--bits", type=int, default=8, help="of a weight; data have eight")
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--interval", type=int, default=4_000_000, help="most cycles per frame")
    parser.add_argument("--bytes", type=int, default=8, help="of a word of each memory outside")
    parser.add_argument("--spread", type=float, default=2.0, help="how many times faster a layer may be")
    parser.add_argument("--gap", type=float, default=0.0, help="between value and bound that ends the search")
    args = parser.parse_args()
    model, frame, cuts = network(args.network)
    numbers = {"name": "fixed", "data_in_width": 8, "weight_width": args.bits, "data_out_width": 8}
    config = {
        "quantize": {"by": "type", "default": {"config": numbers}},
        "hardware": {"external_bytes": args.bytes},
        "links": {"bits": 64, "latency": 20},
    }
    device = {"device": "xc7a200t", "external": True, "unrolled": 0}
    begin = time.process_time()

    def tell(what: str) -> None:
        print(f"{time.process_time() - begin:8.1f} s: {what}", flush=True)

    try:
        found = fit_devices(
            model,
            frame,
            [device] * args.devices,
            config,
            interval=args.interval,
            spread=args.spread,
            cuts=cuts,
            gap=args.gap,
            progress=tell,
        )
        print(found.text())
    except ConfigError as error:
        print(error)
    tell("processor time of all")


if __name__ == "__main__":
    main()
