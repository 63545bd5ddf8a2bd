"""What the schedule of attention costs: block RAMs of a transformer block, and the interval of causal products.

    python -m benchmarks.attention_schedule
    python -m benchmarks.attention_schedule --synthesise
    python -m benchmarks.attention_schedule --layers 2

The block has 64 tokens of width 192 in 3 heads at 8 bits and is given 100,000 cycles for a frame. Block RAMs of 18 Kbit
are counted by shape, and with ``--synthesise`` by Yosys as well, memory by memory. A causal product is compared with
the bidirectional one on the same multipliers; what its steps allow is beside it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

import mase_hw
from benchmarks.vision_transformers import fewest
from mase_hw.catalogue import default_catalogue
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.hardware.library import source
from mase_hw.hardware.memories import block_rams
from mase_hw.host.resources import rtl_root
from mase_hw.opdef import Arithmetic, Request
from mase_hw.streams import ceil_div
from mase_hw.synth.tools import run_yosys

TOKENS, WIDTH, HEADS, HIDDEN, INTERVAL = 64, 192, 3, 768, 100_000
MEMORY_FILES = ("invariant", "loop_counter", "unread", "stream_fifo", "matrix_buffer")


def block(norm_first: bool = True, layers: int = 1) -> nn.Module:
    """Transformer blocks, with the norms before or behind what they belong to."""
    made = [
        nn.TransformerEncoderLayer(
            WIDTH, HEADS, HIDDEN, dropout=0.0, activation="gelu", batch_first=True, norm_first=norm_first
        )
        for _ in range(layers)
    ]
    return nn.Sequential(*made).eval()


def lanes(layers: int = 1) -> dict[str, dict[str, int]]:
    """Lanes of everything that multiplies, and one for the norms, which are fast enough with it."""
    size, found = WIDTH // HEADS, {}
    for layer in range(layers):
        for part in ("q", "k", "v", "out"):
            found[f"_{layer}_self_attn_{part}_proj"] = fewest(TOKENS, WIDTH, WIDTH, INTERVAL)
        found[f"_{layer}_self_attn_matmul"] = fewest(TOKENS * HEADS, size, TOKENS, INTERVAL)
        found[f"_{layer}_self_attn_matmul_1"] = fewest(TOKENS * HEADS, TOKENS, size, INTERVAL)
        found[f"_{layer}_linear1"] = fewest(TOKENS, WIDTH, HIDDEN, INTERVAL)
        found[f"_{layer}_linear2"] = fewest(TOKENS, HIDDEN, WIDTH, INTERVAL)
        found |= {f"_{layer}_norm{norm}": {"data_in_0": 1, "data_out_0": 1} for norm in (1, 2)}
    return found


def memories(manifest: dict[str, Any]) -> list[tuple[str, str, dict[str, int], int, int, int]]:
    """FIFOs and matrices of a design: name, module, its parameters, memories of how many words and bits."""
    found = []
    for fifo in manifest["fifos"]:
        parameters = {"WIDTH": fifo["bits"], "DEPTH": fifo["depth"]}
        found.append((fifo["instance"], "stream_fifo", parameters, 1, fifo["depth"], fifo["bits"]))
    op = default_catalogue()["grouped_matmul"].hardware
    assert op is not None
    for instance in manifest["instances"]:
        if instance["module"] != "fixed_matmul":
            continue
        params = op.record(instance["parameters"])
        s = params.schedule
        held = ceil_div(s.capacity, s.rows)
        tiles = held * s.tiles - (held * s.rows - s.capacity) // s.banks
        bits = params.data_in_1.lanes[0] * params.data_in_1.fmt.width
        words = s.groups * s.words
        parameters = {"WIDTH": bits, "ROWS": s.rows, "WORDS": words, "BANKS": s.banks, "CAPACITY": s.capacity}
        found.append((instance["name"], "matrix_buffer", parameters, s.banks, tiles * words, bits))
    return found


def blocks(manifest: dict[str, Any]) -> dict[str, int]:
    """Block RAMs of 18 Kbit by FIFO and matrix, by their shapes."""
    return {name: count * block_rams(words, bits) for name, _, _, count, words, bits in memories(manifest)}


def synthesised(module: str, parameters: dict[str, int], folder: Path) -> int:
    """Block RAMs of 18 Kbit that Yosys makes of a memory, for Xilinx 7."""
    work = folder / "_".join([module, *map(str, parameters.values())])
    work.mkdir()
    for file in MEMORY_FILES:
        (work / f"{file}.sv").write_text(source(rtl_root() / "lib" / f"{file}.sv"))
    given = " ".join(f"-G {name}={value}" for name, value in parameters.items())
    files = " ".join(f"{file}.sv" for file in MEMORY_FILES)
    script = [
        f"read_slang -j 1 --top {module} --ignore-assertions {given} {files}",
        f"synth_xilinx -family xc7 -top {module} -flatten -run :map_cells",
        "tee -q -o stat.json stat -json",
    ]
    run_yosys(script, work, "yosys.log", lambda _: None)
    cells = json.loads((work / "stat.json").read_text())["modules"][f"\\{module}"]["num_cells_by_type"]
    return int(cells.get("RAMB18E1", 0)) + 2 * int(cells.get("RAMB36E1", 0))


def compiled(folder: Path, norm_first: bool = True, layers: int = 1) -> mase_hw.Design:
    """The blocks as a design."""
    torch.manual_seed(5)
    frames = torch.randn(2, TOKENS, WIDTH)
    hardware = {"max_parallelism": 1, "parallelism": lanes(layers)}
    settings = {"hardware": hardware, "vectors": {"frames": 1, "faults": 8}}
    return mase_hw.compile(block(norm_first, layers), frames[:1], settings, out=folder, calibration=[frames])


def interval(transposed: bool, causal: bool, folding: tuple[int, int], heads: int = HEADS, size: int = 64) -> int:
    """Cycles of a product of 64 tokens: scores if transposed, else sums of values.

    Args:
        transposed: Whether it is the product of queries and keys.
        causal: Whether a token sees none of those behind it.
        folding: Lanes of the input and of the output.
        heads: Heads of a token.
        size: Size of a head.
    """
    op = default_catalogue()["grouped_matmul"].hardware
    assert op is not None
    s8 = FixedFormat(8, 4)
    formats = {name: s8 for name in ("data_in_0", "data_in_1", "data_out_0")}
    modes = {"transposed": transposed, "causal": causal}
    shapes = {
        "data_in_0": (1, TOKENS, heads, size if transposed else TOKENS),
        "data_in_1": (1, TOKENS, heads, size),
        "data_out_0": (1, TOKENS, heads, TOKENS if transposed else size),
    }
    arithmetic = Arithmetic(formats, Rounding.HALF_EVEN, Overflow.SATURATE, modes)
    request = Request("product", arithmetic, shapes, {"data_in_0": folding[:1], "data_out_0": folding[1:]})
    return op.latency(op.build(request)).interval


FOLDINGS = ((1, 1), (2, 2), (4, 2), (4, 4), (8, 2), (8, 4), (8, 6), (16, 2), (16, 4), (8, 8), (32, 2), (32, 4))
"""Lanes over the size of a head, and over tokens."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--synthesise", action="store_true", help="count with Yosys as well (some minutes)")
    parser.add_argument("--layers", type=int, default=1, help="blocks of the design")
    args = parser.parse_args()
    for norm_first in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            design = compiled(Path(folder) / "design", norm_first, args.layers)
            counted = blocks(design.manifest)
            print(f"norms {'before' if norm_first else 'behind'}: interval {design.timing['interval']:,}")
            for name, module, parameters, count, words, bits in memories(design.manifest):
                found = f", Yosys {synthesised(module, parameters, Path(folder))}" if args.synthesise else ""
                print(f"  {name}: {count} of {words} x {bits} bits, {counted[name]} RAMB18{found}")
            print(f"  RAMB18 a block: {sum(counted.values()) / args.layers:g} (bar 33)")
    print(f"causal interval over bidirectional, {TOKENS} tokens, {HEADS} heads of 64 (bar 0.55)")
    print("lanes over size x tokens: scores, sums; share of the tiles that are computed")
    for size, tokens in FOLDINGS:
        scores = interval(True, True, (size, tokens)) / interval(True, False, (size, tokens))
        sums = interval(False, True, (tokens, size)) / interval(False, False, (tokens, size))
        tiles = ceil_div(TOKENS, tokens)
        seen = sum(ceil_div(row + 1, tokens) for row in range(TOKENS)) / (TOKENS * tiles)
        print(f"  {size:2} x {tokens}: {scores:.4f}, {sums:.4f}; {seen:.4f}")


if __name__ == "__main__":
    main()
