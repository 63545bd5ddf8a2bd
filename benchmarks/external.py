"""Networks larger than a chip's memory, with weights from outside: words per frame, interval, block RAM, every bit.

    python -m benchmarks.external resnet [--width 64] [--frames 3]
    python -m benchmarks.external deit [--bits 8] [--frames 3] [--images 2] [--pixels 224]

The memory has 8 bytes per cycle and a latency of 40 cycles. ResNet-18 at 64x64 reads layers of at least 32,768 weights
behind its first stage; convolutions among them take the whole frame for one tile of their output channels after the
other, and what stays on the chip is in look-up tables, of which an XC7A100T has 63,400. timm's
deit_tiny_patch16_224, with random weights, has one block of hardware for its twelve; its frames are of several images.
Exit code 0 only if no bit and no cycle differs, and if the interval is within 1 % of the larger of the words and the
slowest stage. LUTs and block RAM are an estimate; an XC7A100T has 270 block RAMs of 18 Kbit.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import mase_hw
from benchmarks.large_networks import resnet
from mase_hw.emit.estimate import estimate

LARGE, PIXELS, LANES = 32_768, 64, 4
Made = tuple[nn.Module, torch.Tensor, dict[str, Any]]
"""A model, one frame, and its configuration."""


def residual(width: int) -> Made:
    """ResNet-18, of so many channels in its first stage."""
    model = resnet((2, 2, 2, 2), bottleneck=False, width=width)
    with torch.no_grad():  # norms have the statistics of pictures
        model.train()(torch.randn(8, 3, PIXELS, PIXELS))
    layers = {n: m for n, m in model.eval().named_modules() if isinstance(m, nn.Conv2d | nn.Linear)}
    large = LARGE * width**2 // 64**2
    outside = sorted(n for n, m in layers.items() if m.weight.numel() >= large and m.weight.shape[0] > width)
    again = [n for n in outside if isinstance(layers[n], nn.Conv2d)]
    # A frame moves on while its last tile is used. The first of them reads a layer that gives results all the time.
    frames = [f"{n}.{tensor}" for n in again for tensor in ("data_in_0", "data_out_0")][1:]
    hardware = {
        "max_parallelism": LANES,
        "parallelism": {n: {"data_in_0": 8, "data_out_0": 1} for n, m in layers.items() if isinstance(m, nn.Conv2d)}
        | {next(iter(layers)): {"data_in_0": 3, "data_out_0": LANES}},
        "parameters_at": {f"{name}.weight": "external" for name in outside},
        "order": dict.fromkeys(again, "weights_first"),
        "ahead": dict.fromkeys(frames, 0),
        "memory": {f"{name}.bias": "lut" for name in layers},
        "block_cost": 300,
        "external_burst": 8,
    }
    return model, torch.randn(1, 3, PIXELS, PIXELS), {"hardware": hardware}


def transformer(images: int, bits: int, pixels: int) -> Made:
    """deit_tiny_patch16_224 of timm, with so many images per frame, of that size."""
    timm = importlib.import_module("timm")
    model = timm.create_model("deit_tiny_patch16_224", img_size=pixels).eval()
    blocks, tokens, width = len(model.blocks), model.pos_embed.shape[1], model.embed_dim
    lanes = {"patch_embed.proj": (3, 4), "head": (1, 1)}
    for block in range(blocks):
        attention = f"scaled_dot_product_attention{f'_{block}' if block else ''}"
        lanes |= {f"{attention}_matmul": (8, 4), f"{attention}_matmul_1": (4, 8)}
        lanes |= {f"blocks.{block}.{n}": ab for n, ab in (("attn.qkv", (12, 9)), ("attn.proj", (6, 6)))}
        lanes |= {f"blocks.{block}.mlp.{n}": (12, 12) for n in ("fc1", "fc2")}
    weights = ["patch_embed.proj", *(n for n in lanes if n.startswith("blocks."))]
    hardware = {
        "max_parallelism": 1,
        "parallelism": {n: {"data_in_0": a, "data_out_0": b} for n, (a, b) in lanes.items()},
        "shared": ["blocks"],
        "parameters": "external",
        # The head's weights are read again for every image.
        "external_buffer": images * width * 1000 * bits - 1,
        # Where words decide they come all the time; where multipliers do, there is time to wait for a set.
        "ahead": {f"{n}.weight": 0 for n in weights} if pixels == 224 else {},
        # Patches of the next frame wait while this one passes through the blocks.
        "fifo_depth": {"add.data_in_0": images * tokens * width // 4 * (blocks - 1) // blocks},
    }
    widths = {"name": "fixed", "data_in_width": bits, "weight_width": bits, "data_out_width": bits}
    config = {"hardware": hardware, "quantize": {"default": {"config": widths}}}
    return model, torch.randn(images, 3, pixels, pixels), config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=("resnet", "deit"))
    parser.add_argument("--width", type=int, default=64, help="of resnet: channels of the first stage")
    parser.add_argument("--bits", type=int, default=8, help="of deit: of weights and activations")
    parser.add_argument("--images", type=int, default=2, help="of deit: in a frame")
    parser.add_argument("--pixels", type=int, default=224, help="of deit: a side of an image")
    parser.add_argument("--frames", type=int, default=3, help="to simulate; 0 for none")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    deit = arguments.network == "deit"
    made = transformer(arguments.images, arguments.bits, arguments.pixels) if deit else residual(arguments.width)
    model, example, config = made
    config["hardware"] |= {"family": "xc7", "rate_fifos": False}
    config["vectors"] = {"frames": 1, "faults": 1}
    pictures = torch.randn(arguments.frames * len(example), *example.shape[1:])
    with tempfile.TemporaryDirectory() as folder:
        begin = time.process_time()
        design = mase_hw.compile(model, example, config, out=Path(folder) / "bundle", calibration=[example])
        entry = design.manifest["external"]
        slowest = max(i["timing"]["interval"] for i in design.manifest["instances"] if i.get("multipliers"))
        use = estimate(design.record, "xc7")
        print(f"compiled in {time.process_time() - begin:.0f} s; {entry['words_per_frame']:,} words per frame")
        print(
            f"interval {design.timing['interval']:,}, slowest stage {slowest:,}; "
            f"{use['bram']:.0f} RAMB18, {use['lut']:,} LUTs, {use['dsp']} DSPs",
            flush=True,
        )
        found = design.simulate(pictures, engine="batch", waves=False, check=False)
    print(found)
    bound = max(entry["words_per_frame"], slowest)
    sys.exit(not found.passed or found.interval != design.timing["interval"] or found.interval > 1.01 * bound)


if __name__ == "__main__":
    main()
