"""Weights in block floating point, of integers and of minifloats, beside fixed point: accuracy, and whole designs.

    python -m benchmarks.block_formats                 # accuracy on 360 images held out
    python -m benchmarks.block_formats --simulate 2    # and so many images through the RTL of every design

The networks are those of the examples, with activations of 8 bits and calibration on 1,437 images; every layer that
multiplies by weights has them in the format of the row. A weight takes the bits of its element and its share of an
exponent of 8 bits.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import digits_cnn
import digits_mlp
import digits_vit

import mase_hw
from mase_hw.formats import MINIFLOATS

NETWORKS: dict[str, tuple[type[nn.Module], int]] = {
    "mlp": (digits_mlp.DigitsMLP, 40),
    "cnn": (digits_cnn.DigitsCNN, 15),
    "vit": (digits_vit.DigitsViT, digits_vit.EPOCHS),
}
BLOCK = 16
ROWS: dict[str, dict[str, Any]] = {
    "fixed 8": {"name": "fixed", "weight_width": 8},
    "MXINT8": {"name": "mxint", "weight_width": 8},
    "MXFP8 e4m3": {"name": "mxfp", "weight_element": "e4m3"},
    "MXFP8 e5m2": {"name": "mxfp", "weight_element": "e5m2"},
    "MXFP6 e2m3": {"name": "mxfp", "weight_element": "e2m3"},
    "MXFP6 e3m2": {"name": "mxfp", "weight_element": "e3m2"},
    "fixed 4": {"name": "fixed", "weight_width": 4},
    "fixed 4, by channel": {"name": "fixed", "weight_width": 4, "weight_granularity": "channel"},
    "MXINT4": {"name": "mxint", "weight_width": 4},
    "MXFP4": {"name": "mxfp", "weight_element": "e2m1"},
}


def configuration(row: str, block: int, exponent: str = "largest", inputs: bool = False) -> dict[str, Any]:
    """Activations of 8 bits, and the weights of a row; the inputs of these layers in the same blocks, if asked for.

    These are then made from 16 bits, or from as many as the elements need.
    """
    wide = MINIFLOATS[ROWS[row].get("weight_element", "e2m1")].top + 6
    bits = max(16, wide) if inputs else 8
    every = {"name": "fixed", "data_in_width": bits, "weight_width": 8, "data_out_width": bits}
    own = {k: v for k, v in every.items() if k != "weight_width"} | ROWS[row]
    if own["name"] != "fixed":
        own |= {"weight_block_size": block, "weight_block_exponent": exponent}
        if inputs:
            own["data_in_block_size"] = block
            own |= {"data_in_element": own["weight_element"]} if own["name"] == "mxfp" else {}
            own["data_in_block_width"] = own.get("weight_width", 8)
    rules = {op: {"config": own} for op in ("linear", "conv2d")}
    return {"quantize": {"by": "type", "default": {"config": every}, **rules}}


def main() -> int:
    """A table; 1 if a bit differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulate", type=int, default=0, help="images through the RTL of every design")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--rows", default=",".join(ROWS), help="separated by semicolons, if not all")
    parser.add_argument("--block", type=int, default=BLOCK, help="weights that share an exponent")
    parser.add_argument("--exponent", default="largest", help="of a block of weights: largest or least_error")
    parser.add_argument("--inputs", action="store_true", help="inputs of these layers in blocks as well")
    arguments = parser.parse_args()
    rows = list(ROWS) if arguments.rows == ",".join(ROWS) else arguments.rows.split(";")
    torch.set_num_threads(1)
    data, wrong = digits_mlp.load(), 0
    for name in arguments.networks.split(","):
        kind, epochs = NETWORKS[name]
        net = digits_mlp.train(data, kind, epochs)
        with torch.no_grad():
            print(f"{name}: float {digits_mlp.accuracy(net(data.test_images), data.test_labels):.2%}", flush=True)
        for row in rows:
            with tempfile.TemporaryDirectory() as folder:
                design = mase_hw.compile(
                    net,
                    data.test_images[:1],
                    configuration(row, arguments.block, arguments.exponent, arguments.inputs),
                    out=Path(folder) / "design",
                    calibration=list(data.train_images.split(256)),
                    vectors=data.test_images[: max(1, arguments.simulate)],
                )
                with torch.no_grad():
                    scores = torch.cat([design.model(image[None]) for image in data.test_images])
                text = f"{digits_mlp.accuracy(scores, data.test_labels):.2%}"
                if arguments.simulate:
                    found = design.simulate(data.test_images[: arguments.simulate], engine="batch", waves=False)
                    wrong += not found.passed
                    text += f", {found.result.mismatches} mismatches, interval {found.interval}"
                print(f"  {row:20} {text}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
