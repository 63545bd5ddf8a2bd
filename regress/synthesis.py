"""Counts after mapping of designs in several foldings, compared with the committed ones.

    python regress/synthesis.py --out build/synthesis             # exit code 1 if anything is not as recorded
    python regress/synthesis.py --out build/synthesis --update    # these are the new figures
    python regress/synthesis.py --predict                         # what the cost model says of the networks beside them
    python regress/synthesis.py --measured build/counts           # the sums of their modules, each mapped once

Yosys is deterministic and its version is pinned, so there is no tolerance, in neither direction: a gain that is not
recorded can be lost again without anybody noticing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.compiler.config import load_config
from mase_hw.compiler.quantised_graph import run_on_model, traced
from mase_hw.compiler.stages import compile_pipeline
from mase_hw.cost import Resources, cost_of
from mase_hw.ir import MaseGraph
from mase_hw.model_spec import load_model
from mase_hw.passes.pipeline import Pipeline
from mase_hw.synth.measure import measured as measured_modules
from mase_hw.synth.report import Report
from mase_hw.synth.synthesise import synthesise

Made = tuple[nn.Module, Tensor, dict[str, Any]]
"""A model, frames of data and a configuration."""
BASELINE = Path(__file__).with_suffix(".json")
DIGITS = Path(__file__).parents[1] / "examples" / "digits_mlp.toml"
BLOCKS = Path(__file__).with_name("attention.py")
IMAGES = ("strided", "separable", "residual")
_WIDTHS = {"data_in_width": 8, "weight_width": 8, "bias_width": 8, "data_out_width": 8}
INT8 = {"by": "type", "default": {"config": {"name": "fixed", **_WIDTHS}}, "output_width": 8}
"""Of a quantisation to 8 bits everywhere."""
KINDS = ("vit", "causal", "llama")
"""Of blocks: each token sees all, those before it, and with rotary positions and shared keys."""


def frames(*shape: int) -> Tensor:
    """Eight frames of numbers between -1 and 1."""
    return torch.rand(8, *shape) * 2 - 1


def linear(inputs: int, outputs: int, lanes_in: int, lanes_out: int) -> Made:
    """One linear layer with ``lanes_in * lanes_out`` multipliers."""
    lanes = {"data_in_0": lanes_in, "data_out_0": lanes_out}
    net = nn.Sequential(nn.Linear(inputs, outputs))
    return net, frames(inputs), {"hardware": {"parallelism": {"_0": lanes}}}


def conv(channels: int, filters: int, lanes_in: int, lanes_out: int) -> Made:
    """One 3x3 convolution."""
    lanes = {"data_in_0": lanes_in, "data_out_0": lanes_out}
    net = nn.Sequential(nn.Conv2d(channels, filters, 3, padding=1))
    return net, frames(channels, 6, 6), {"hardware": {"parallelism": {"_0": lanes}}}


def digits(family: str = "", fast: bool = False) -> Made:
    """The digits MLP at its default folding, with random parameters: how long it was trained is not the question."""
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    folding = tomllib.loads(DIGITS.read_text(encoding="utf-8"))["hardware"]["parallelism"]
    lanes = {f"_{2 * i}": folding[f"fc{i + 1}"] for i in range(3)}
    return net, frames(64), {"hardware": {"parallelism": lanes, "family": family, "fast_clock": fast}}


FAMILIES = ("xcup", "nexus", "ice40")
"""Others than Xilinx 7 and ECP5 for which the digits MLP is mapped; a device of iCE40 has eight multipliers."""


def of_family(family: str) -> Made:
    """The digits MLP for a family."""
    net, data, config = digits(family)
    if family == "ice40":
        config["hardware"]["parallelism"] = {
            f"_{at}": {"data_in_0": inputs, "data_out_0": outputs}
            for at, inputs, outputs in ((0, 2, 2), (2, 2, 1), (4, 1, 1))
        }
    return net, data, config


class Residual(nn.Module):
    """A convolution, and what two more make of its result added to it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (nn.Conv2d(i, 8, 3, padding=1) for i in (4, 8, 8))
        self.last = nn.Linear(8 * 8 * 8, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of ten classes."""
        x = torch.relu(self.first(x))
        return self.last(torch.flatten(torch.relu(x + self.third(torch.relu(self.second(x)))), 1))


PLACES = ("ram", "external")
"""Of parameters, besides ROM."""


def elsewhere(place: str, family: str) -> Made:
    """The digits MLP with its parameters in another place."""
    net, data, config = digits(family)
    return net, data, {**config, "hardware": {**config.get("hardware", {}), "family": family, "parameters": place}}


def images(kind: str, family: str) -> Made:
    """A small network on images: strided convolutions, separable ones, or a residual block."""
    hardware = {"max_parallelism": 4, "family": family}
    if kind == "residual":
        return Residual(), frames(4, 8, 8), {"hardware": hardware}
    if kind == "strided":
        layers = [nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(16 * 7 * 7, 10)), frames(1, 28, 28), {"hardware": hardware}
    layers = [nn.Conv2d(4, 8, 3, 2, 1), nn.ReLU()]
    for stride in (1, 2):
        layers += [nn.Conv2d(8, 8, 3, stride, 1, groups=8), nn.ReLU(), nn.Conv2d(8, 8, 1), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * 6 * 6, 10))
    return net, frames(4, 24, 24), {"hardware": hardware}


def softmax(size: int) -> Made:
    """One lane, 8 bits in and out, four of them the fraction of what comes in."""
    taken = {"data_in_width": 8, "data_in_frac_width": 4}
    given = {"data_out_width": 8, "data_out_frac_width": 8, "data_out_signed": False}
    config = {"quantize": {"softmax": {"config": taken | given}}, "hardware": {"max_parallelism": 1}}
    return nn.Sequential(nn.Softmax(-1)), 8 * frames(size), config


def block(name: str) -> Made:
    """A block of a transformer, one multiplier a product: four tokens of width 16, two heads."""
    spec = load_model(f"{BLOCKS}:{name}_block")
    shape = spec.example_inputs.shape[1:]
    return spec.model, 2 * frames(*shape), {"hardware": {"max_parallelism": 1}}


def max_pool(channels: int, size: int, *window: int) -> Made:
    """One maximum over windows, 8 lanes of 8 bits."""
    net = nn.Sequential(nn.MaxPool2d(*window))
    return net, frames(channels, size, size), {"quantize": INT8, "hardware": {"max_parallelism": 8, "family": "xc7"}}


def sharing(made: Made) -> Made:
    """Output lanes that share multipliers, on a family that has such; no weight has the most negative code."""
    net, data, config = made
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(0.99)
    return net, data, {"quantize": INT8, "hardware": {**config["hardware"], "family": "xc7"}}


def packed() -> Made:
    """A layer whose output lanes share multipliers."""
    return sharing(linear(64, 64, 8, 8))


def packed_conv() -> Made:
    """A convolution of that kind."""
    return sharing(conv(16, 16, 8, 8))


def in_tables() -> Made:
    """The layer of that kind with its weights in look-up tables, which the cost would not choose."""
    net, data, config = packed()
    return net, data, {**config, "hardware": {**config["hardware"], "memory": {"_0.weight": "lut"}}}


def every_code() -> Made:
    """The same with the worst weights and data: the most negative code, the highest, both in turns, and random ones."""
    net, _, config = packed()
    lowest, highest = torch.tensor(-1.0), torch.tensor(127 / 128)
    turns = torch.where((torch.arange(64)[:, None] + torch.arange(64)) % 2 == 0, lowest, highest)
    chance = torch.rand(64, 64)
    with torch.no_grad():
        next(net.parameters()).copy_(turns.where(chance > 0.2, lowest).where(chance < 0.8, highest))
    rows = [lowest.expand(64), highest.expand(64), turns[0], turns[1]]
    return net, torch.cat([torch.stack(rows), frames(64)[:4]]), config


def chained() -> Made:
    """The same with a multiplier for each product; sums in chains."""
    net, data, config = packed()
    return net, data, {**config, "hardware": {**config["hardware"], "implementation": {"_0": "chain"}}}


def signs(kind: str) -> Made:
    """The same with binary or ternary weights, which need no multiplier."""
    net, data, config = packed()
    named = {"linear": {"config": {"name": kind}}}
    return net, data, {**config, "quantize": {**config["quantize"], **named}}


def unrolled(*sizes: int, bits: int) -> Made:
    """Layers of random weights as shifts and additions, 8 bits in and out, ReLU between them."""
    draw = np.random.default_rng(0)
    most = (1 << (bits - 1)) - 1
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layer = nn.Linear(inputs, outputs)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(draw.integers(-most, most + 1, (outputs, inputs)) / 128))
            layer.bias.copy_(torch.from_numpy(draw.integers(-127, 128, outputs) / 128))
        layers += [layer, nn.ReLU()]
    widths = {"data_in_width": 8, "weight_width": bits, "bias_width": 8, "data_out_width": 8}
    quantize = {"by": "type", "default": {"config": {"name": "fixed", **widths}}, "output_width": 8}
    chosen = {f"_{2 * i}": "unrolled" for i in range(len(sizes) - 1)}
    net = nn.Sequential(*layers[:-1])
    return net, frames(sizes[0]), {"quantize": quantize, "hardware": {"implementation": chosen}}


UNROLLED = {
    "unrolled_16x16": ((16, 16), 8),
    "unrolled_32x32": ((32, 32), 8),
    "unrolled_64_32_32_10": ((64, 32, 32, 10), 6),
}
"""By name: sizes of tensors and bits of weights."""
DESIGNS: Mapping[str, Callable[[], Made]] = {
    "linear_16x8_1x1": lambda: linear(16, 8, 1, 1),
    "linear_16x8_4x2": lambda: linear(16, 8, 4, 2),
    "linear_16x8_8x8": lambda: linear(16, 8, 8, 8),
    "linear_256x64_4x4": lambda: linear(256, 64, 4, 4),
    "conv_4x4_1x1": lambda: conv(4, 4, 1, 1),
    "conv_4x4_2x2": lambda: conv(4, 4, 2, 2),
    "conv_4x8_4x4": lambda: conv(4, 8, 4, 4),
    "conv_16x16_8x8_packed": packed_conv,
    "digits_mlp": digits,
    "digits_mlp_ecp5": lambda: digits("ecp5"),
    "digits_mlp_fast_ecp5": lambda: digits("ecp5", fast=True),
    **{f"digits_mlp_{family}": partial(of_family, family) for family in FAMILIES},
    **{f"digits_mlp_{place}": partial(elsewhere, place, "xc7") for place in PLACES},
    **{f"digits_mlp_{place}_ecp5": partial(elsewhere, place, "ecp5") for place in PLACES},
    **{kind: partial(images, kind, "xc7") for kind in IMAGES},
    **{f"{kind}_ecp5": partial(images, kind, "ecp5") for kind in IMAGES},
    "max_pool_8x8x8": lambda: max_pool(8, 8, 2),
    "max_pool_64x32x32": lambda: max_pool(64, 32, 2),
    "max_pool_64x32x32_overlapping": lambda: max_pool(64, 32, 3, 2, 1),
    "softmax_64": lambda: softmax(64),
    **{f"{name}_block{target}": partial(block, name) for name in KINDS for target in ("", "_ecp5")},
    "linear_64x64_8x8_packed": packed,
    "linear_64x64_8x8_packed_in_tables": in_tables,
    "linear_64x64_8x8_packed_every_code": every_code,
    "linear_64x64_8x8_chain": chained,
    **{f"linear_64x64_8x8_{kind}": partial(signs, kind) for kind in ("binary", "ternary")},
    **{name: partial(unrolled, *sizes, bits=bits) for name, (sizes, bits) in UNROLLED.items()},
}
"""By name: what, inputs by outputs, lanes in by lanes out; for Xilinx 7 if the name does not end with a target."""


DIGITS_MLPS = ("digits_mlp", "digits_mlp_ecp5", "digits_mlp_fast_ecp5")
NETWORKS = (*DIGITS_MLPS, "digits_mlp_ram", *IMAGES, *(f"{kind}_ecp5" for kind in IMAGES), *UNROLLED)
"""Whole networks whose area is predicted."""
OFF = {"lut": 5.0, "ff": 1.0, "dsp": 0.0, "bram": 0.0}
"""How far off a prediction may be, in percent, in either direction."""


def target_of(name: str) -> str:
    """What a design is mapped to."""
    return next((family for family in ("ecp5", *FAMILIES) if name.endswith(f"_{family}")), "xc7")


def emit(name: str, out: Path) -> mase_hw.Design:
    """Compile one design."""
    torch.manual_seed(0)
    net, data, config = DESIGNS[name]()
    return mase_hw.compile(net.eval(), data[:1], config, out=out / name, calibration=[data], vectors=data[:4])


def measure(name: str, out: Path, replay: bool = False) -> tuple[mase_hw.Design, Report]:
    """Compile and map one design, and perhaps simulate its netlist."""
    design = emit(name, out)
    return design, synthesise(design, target_of(name), replay_netlist=replay)


def figures(design: mase_hw.Design, report: Report) -> dict[str, int]:
    """What is kept of a report; less is better of all but the multipliers, which are what was asked for."""
    asked = sum(int(entry.get("multipliers") or 0) for entry in design.manifest["instances"])
    return {"multipliers": asked, **{column: report.total[column] for column in ("lut", "ff", "dsp", "bram")}}


def predicted(name: str) -> dict[str, int]:
    """What the cost model says of a design before synthesis, its ROMs with their contents."""
    sys.path.insert(0, str(Path(__file__).with_name("cost")))
    from draws import netlist_items

    torch.manual_seed(0)
    net, data, config = DESIGNS[name]()
    family = target_of(name)
    found = Resources()
    for item in netlist_items(net.eval(), data[:1], config):
        found += cost_of(item.instance.module, {**item.parameters, **item.contents(family)}, family)
    return found.as_dict()


def predictions(names: Iterable[str] = NETWORKS) -> int:
    """Print what is predicted and what was mapped; whether anything is further off than :data:`OFF` in percent."""
    known = json.loads(BASELINE.read_text(encoding="utf-8"))
    far = 0
    for name in names:
        guess, cells = predicted(name), []
        for column, most in OFF.items():
            percent = 100 * (guess[column] - known[name][column]) / max(known[name][column], 1)
            far += abs(percent) > most
            cells.append(f"{column} {guess[column]} of {known[name][column]} ({percent:+.1f} %)")
        print(f"{name}: {', '.join(cells)}", flush=True)
    return int(far > 0)


def measured(names: Iterable[str], place: Path) -> int:
    """Print the sum of the modules, each mapped by itself, beside the design mapped whole; whether any is another.

    Args:
        names: Designs.
        place: Where counts of modules are kept: what is there already is not mapped again.
    """
    known = json.loads(BASELINE.read_text(encoding="utf-8"))
    other = 0
    for name in names:
        graph, family, begin = mapped(name), target_of(name), spent()
        first = measured_modules(graph, family, lambda _: None, place, batch=1)
        between = spent()
        counts, cells = measured_modules(graph, family, lambda _: None, place).total.as_dict(), []
        times = f"{between - begin:.0f} s of a processor, then {spent() - between:.2f} s"
        for column, count in counts.items():
            whole = known.get(name, {}).get(column)
            other += count != whole
            far = "not recorded" if whole is None else f"{100 * (count - whole) / max(whole, 1):+.2f} %"
            cells.append(f"{column} {count} of {whole} ({far})")
        print(f"{name}: {', '.join(cells)}; {first.mapped} modules mapped, {times}", flush=True)
    return int(other > 0)


def spent() -> float:
    """Seconds of a processor that this process and those that it waited for have taken."""
    return sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def mapped(name: str) -> MaseGraph:
    """A design in memory, up to its netlist."""
    torch.manual_seed(0)
    net, data, config = DESIGNS[name]()
    net.eval()
    graph, example = traced(net, data[:1], None, lambda _: None)
    whole = compile_pipeline(example, load_config(config), out=Path("nowhere"), calibration=[data])
    steps = Pipeline(whole.steps[: whole.names.index("top") + 1], "measure")
    return run_on_model(steps, graph, net, example, lambda _: None)


def verdict_on(found: Mapping[str, int], before: Mapping[str, int]) -> str:
    """What figures are beside the recorded ones: nothing if they are the same."""
    if any(value > before.get(column, value) for column, value in found.items()):
        return "WORSE than recorded"
    if found != before:
        return "BETTER than recorded (--update)" if before else "NOT RECORDED (--update)"
    return ""


def main() -> int:
    """Measure, compare, perhaps update."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/synthesis"))
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--measured", type=Path, metavar="FOLDER")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("names", nargs="*", help="designs (all)")
    arguments = parser.parse_args()
    if arguments.predict:
        return predictions()
    if arguments.measured is not None:
        return measured(arguments.names or DESIGNS, arguments.measured)
    known = json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.is_file() else {}
    other = 0
    for name in arguments.names or DESIGNS:
        found = figures(*measure(name, arguments.out))
        before = known.get(name, {})
        verdict = verdict_on(found, before)
        other += bool(verdict)
        print(f"{name}: {found}" + (f"  {verdict}: {before}" if verdict else ""), flush=True)
        known[name] = found
    if arguments.update:
        BASELINE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    return 1 if other else 0


if __name__ == "__main__":
    sys.exit(main())
