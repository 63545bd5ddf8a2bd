"""Random layers: what the cost model is fitted to, and, of other seeds, what it is measured on.

A draw is a small model with a configuration, from its kind, its seed and a family alone. Its sizes, widths, lanes and
ways of computing are random; its modules are those that the compiler makes of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from measure import Item
from sources import files_of
from torch import Tensor, nn

from mase_hw.compiler.config import load_config
from mase_hw.compiler.quantised_graph import run_on_model, traced
from mase_hw.compiler.stages import compile_pipeline
from mase_hw.emit.estimate import beside
from mase_hw.emit.netlist import Instance
from mase_hw.emit.passes import bundle_of, memory_files
from mase_hw.errors import MaseHwError
from mase_hw.passes.pipeline import Pipeline

Layers = tuple[nn.Module, Tensor, dict[str, Any]]
"""A model, one frame and the table ``hardware`` of a configuration."""
PRODUCTS = 32
"""Most multipliers of a layer: what is larger has more of the same, and takes long to map."""


class Both(nn.Module):
    """What two layers make of one input, joined."""

    def __init__(self, join: str, left: nn.Module, right: nn.Module) -> None:
        super().__init__()
        self.join, self.left, self.right = join, left, right

    def forward(self, x: Tensor) -> Tensor:
        """Join them."""
        a, b = self.left(x), self.right(x)
        return a + b if self.join == "add" else a * b if self.join == "mul" else torch.cat([a, b], 1)


class Last(nn.Module):
    """A function of two arguments and the numbers behind them."""

    def __init__(self, function: Callable[..., Tensor], *rest: Any) -> None:
        super().__init__()
        self.function, self.rest = function, rest

    def forward(self, x: Tensor) -> Tensor:
        """Call it."""
        return self.function(x, *self.rest)


class Product(nn.Module):
    """Two linear layers and the product of their results."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(width, inner), nn.Linear(width, inner)

    def forward(self, x: Tensor) -> Tensor:
        """All tokens with all."""
        return torch.matmul(self.left(x), self.right(x).transpose(-1, -2))


class Attention(nn.Module):
    """Heads whose keys a mask allows: those up to the query, or some at random."""

    def __init__(self, width: int, heads: int, allowed: Tensor | None) -> None:
        super().__init__()
        self.heads, self.allowed, self.parts = heads, allowed, nn.Linear(width, 3 * width)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens with those that are allowed."""
        parts = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in self.parts(x).chunk(3, -1))
        result = nn.functional.scaled_dot_product_attention(*parts, self.allowed, is_causal=self.allowed is None)
        return result.transpose(1, 2).flatten(2)


def _lanes(draw: random.Random, size: int, most: int) -> int:
    """Mostly divisors, as people choose them."""
    most = min(size, most)
    divisors = [n for n in range(1, most + 1) if size % n == 0]
    return draw.choice(divisors) if draw.random() < 0.75 else draw.randint(1, most)


def _size(draw: random.Random, most: int) -> int:
    """A power of two, three of them, or any."""
    way = draw.random()
    number = 1 << draw.randint(0, most.bit_length() - 1) if way < 0.5 else draw.randint(1, most)
    return min(3 * number, most) if way > 0.85 else number


def _pair(draw: random.Random, size_in: int, size_out: int) -> tuple[int, int]:
    most = draw.choice((4, 8, 16, PRODUCTS))
    first = _lanes(draw, size_in, most)
    return first, _lanes(draw, size_out, most // first)


def linear(draw: random.Random) -> Layers:
    """A linear layer, and a function behind it."""
    size_in, size_out = _size(draw, 256), _size(draw, 96)
    lanes_in, lanes_out = _pair(draw, size_in, size_out)
    layers: list[nn.Module] = [nn.Linear(size_in, size_out, bias=draw.random() < 0.8)]
    hardware: dict[str, Any] = {"parallelism": {"_0": {"data_in_0": lanes_in, "data_out_0": lanes_out}}}
    if draw.random() < 0.5:
        layers.append(nn.ReLU())
    if draw.random() < 0.15:
        hardware["order"] = {"_0": "inputs_first"}
    if draw.random() < 0.3:
        more = _size(draw, 32)
        name = f"_{len(layers)}"
        lanes_in, lanes_out = _pair(draw, size_out, more)
        layers.append(nn.Linear(size_out, more))
        hardware["parallelism"][name] = {"data_in_0": lanes_in, "data_out_0": lanes_out}
    return nn.Sequential(*layers), torch.rand(1, size_in) * 2 - 1, hardware


def conv(draw: random.Random) -> Layers:
    """A convolution of images."""
    channels, filters = _size(draw, 32), _size(draw, 32)
    kernel = draw.choice((1, 1, 2, 3, 3, 3, 3, 5))
    wide = kernel if draw.random() < 0.85 else draw.choice((1, 3))
    side, across = draw.randint(max(kernel, 4), 32), draw.randint(max(wide, 4), 40)
    stride, padding = draw.choice((1, 1, 1, 2)), draw.choice((0, kernel // 2))
    if wide != kernel:
        padding = 0
    lanes_in, lanes_out = _pair(draw, channels, filters)
    lanes: dict[str, Any] = {"data_in_0": lanes_in, "data_out_0": lanes_out}
    if lanes_in * lanes_out * kernel * wide <= PRODUCTS and draw.random() < 0.3:
        lanes["kernel"] = [kernel, wide]
    elif lanes_in * lanes_out * wide <= PRODUCTS and draw.random() < 0.15:
        lanes["kernel"] = [1, wide]
    layer = nn.Conv2d(channels, filters, (kernel, wide), stride, padding, bias=draw.random() < 0.8)
    layers: list[nn.Module] = [layer, nn.ReLU()][: draw.choice((1, 2))]
    hardware = {"parallelism": {"_0": lanes}}
    return nn.Sequential(*layers), torch.rand(1, channels, side, across) * 2 - 1, hardware


def depthwise(draw: random.Random) -> Layers:
    """A convolution with a filter for each channel."""
    channels, kernel = _size(draw, 64), draw.choice((2, 3, 3, 3, 5))
    side, across = draw.randint(kernel, 32), draw.randint(kernel, 40)
    stride, padding = draw.choice((1, 1, 2)), draw.choice((0, kernel // 2))
    one = _lanes(draw, channels, draw.choice((1, 4, 8, 16)))
    lanes: dict[str, Any] = {"data_in_0": one, "data_out_0": one}
    if one * kernel * kernel <= PRODUCTS and draw.random() < 0.4:
        lanes["kernel"] = [kernel, kernel]
    layer = nn.Conv2d(channels, channels, kernel, stride, padding, groups=channels, bias=draw.random() < 0.8)
    return nn.Sequential(layer), torch.rand(1, channels, side, across) * 2 - 1, {"parallelism": {"_0": lanes}}


def pool(draw: random.Random) -> Layers:
    """A pooling of images, the largest or the mean."""
    channels, kernel = _size(draw, 64), draw.choice((2, 2, 2, 3, 3, 4))
    side, across = draw.randint(kernel, 32), draw.randint(kernel, 40)
    stride = draw.choice((kernel, kernel, 1, 2))
    padding = draw.choice((0, 0, kernel // 2))
    kind = draw.choice((nn.MaxPool2d, nn.MaxPool2d, nn.AvgPool2d))
    layer: nn.Module = kind(kernel, stride, padding)
    if draw.random() < 0.2:
        layer = nn.AdaptiveAvgPool2d(1)
    hardware = {"parallelism": {"_0": {"data_in_0": _lanes(draw, channels, 16)}}}
    return nn.Sequential(layer), torch.rand(1, channels, side, across) * 2 - 1, hardware


def chain(draw: random.Random) -> Layers:
    """Cheap layers one after the other, each with lanes of its own: what connects them has to repack."""
    size = _size(draw, 96)
    kinds = (nn.ReLU, nn.ReLU, nn.Sigmoid, nn.Tanh, nn.GELU, nn.Hardsigmoid, nn.SiLU, nn.LeakyReLU, nn.Identity)
    layers: list[nn.Module] = [draw.choice(kinds)() for _ in range(draw.randint(2, 4))]
    lanes = {f"_{i}": {"data_in_0": _lanes(draw, size, 16)} for i in range(len(layers))}
    lanes = {k: v for k, v in lanes.items() if not isinstance(layers[int(k[1:])], nn.Identity)}
    return nn.Sequential(*layers), torch.rand(1, size) * 4 - 2, {"parallelism": lanes}


def branches(draw: random.Random) -> Layers:
    """Reconvergent paths: fork, FIFO, join."""
    size = _size(draw, 64)
    left, right = nn.Linear(size, size), draw.choice((nn.Identity(), nn.ReLU(), nn.Linear(size, size)))
    join = draw.choice(("add", "add", "add", "mul", "cat"))
    return Both(join, left, right), torch.rand(1, size) * 2 - 1, {"max_parallelism": draw.choice((1, 2, 4, 8))}


def residual(draw: random.Random) -> Layers:
    """The same of images."""
    size, side = _size(draw, 16), draw.randint(4, 16)
    left, right = nn.Conv2d(size, size, 3, padding=1), draw.choice((nn.Identity(), nn.Conv2d(size, size, 1)))
    data = torch.rand(1, size, side, side) * 2 - 1
    return (
        Both(draw.choice(("add", "add", "mul", "cat")), left, right),
        data,
        {"max_parallelism": draw.choice((1, 2, 4))},
    )


def rows(draw: random.Random) -> Layers:
    """Softmax and normalisation of rows."""
    size, tokens = max(2, _size(draw, 64)), draw.randint(1, 8)
    layer = draw.choice((nn.Softmax(-1), nn.Softmax(-1), nn.LayerNorm(size), nn.LayerNorm(size), nn.RMSNorm(size)))
    hardware = {"parallelism": {"_0": {"data_in_0": _lanes(draw, size, 8)}}}
    return nn.Sequential(layer), torch.rand(1, tokens, size) * 4 - 2, hardware


def others(draw: random.Random) -> Layers:
    """One of the less usual layers."""
    size, tokens = max(2, _size(draw, 32)), draw.randint(2, 8)
    image = torch.rand(1, size, draw.randint(4, 12), draw.randint(4, 12)) * 2 - 1
    row = torch.rand(1, tokens, size) * 2 - 1
    layers: list[tuple[nn.Module, Tensor]] = [
        (nn.PReLU(size), image),
        (nn.BatchNorm2d(size).eval(), image),
        (nn.Upsample(scale_factor=2), image),
        (nn.ZeroPad2d(draw.randint(1, 2)), image),
        (Last(torch.mean, draw.choice((1, 2))), row),
        (Last(torch.sum, draw.choice((1, 2))), row),
        (Last(torch.amax, draw.choice((1, 2))), row),
        (Last(torch.transpose, 1, 2), row),
        (Product(size, max(1, size // 2)), row),
        (nn.GRU(size, draw.randint(2, 12), batch_first=True), row),
    ]
    layer, data = draw.choice(layers)
    return layer, data, {"max_parallelism": draw.choice((1, 2, 4, 8))}


def narrow(draw: random.Random) -> Layers:
    """A linear layer with weights of one or two bits, most of them signs."""
    layer, data, hardware = linear(draw)
    kind = draw.choice(("binary", "ternary", "fixed"))
    config = {"name": kind} if kind != "fixed" else {}
    hardware.pop("order", None)
    return layer, data, {**hardware, "quantize": {"linear": {"config": config}} if config else {"weight_width": 2}}


def integers(draw: random.Random) -> Layers:
    """Layers of scaled integers, and what brings their results to other scales."""
    width = draw.choice((8, 8, 8, draw.randint(4, 12)))
    config = {
        "name": "integer",
        **dict.fromkeys(("data_in_width", "weight_width", "data_out_width"), width),
        "weight_granularity": draw.choice(("tensor", "channel")),
        "data_affine": draw.random() < 0.5,
    }
    layer, data, hardware = draw.choice((branches, residual, linear))(draw)
    return layer, data, {**hardware, "quantize": {"by": "type", "default": {"config": config}}}


def logic(draw: random.Random) -> Layers:
    """A layer whose multipliers are made of look-up tables."""
    layer, data, hardware = draw.choice((linear, linear, conv, depthwise))(draw)
    layers = [f"_{number}" for number, each in enumerate(layer.children()) if isinstance(each, (nn.Linear, nn.Conv2d))]
    return layer, data, {**hardware, "implementation": dict.fromkeys(layers, "logic")}


def few(draw: random.Random) -> Layers:
    """A layer whose operands have so few bits that its products are no multiplier blocks on some families."""
    layer, data, hardware = draw.choice((linear, linear, conv, depthwise, products))(draw)
    config = {name: draw.randint(2, 6) for name in ("data_in_width", "weight_width")}
    return layer, data, {**hardware, "quantize": config}


def fast(draw: random.Random) -> Layers:
    """A linear layer with registers for a fast clock."""
    model, data, hardware = linear(draw)
    return model, data, hardware | {"fast_clock": True}


def products(draw: random.Random) -> Layers:
    """Rows times rows, and the softmax of what comes of it."""
    size, tokens = max(2, _size(draw, 32)), draw.randint(2, 12)
    layer: nn.Module = Product(size, max(1, _size(draw, size)))
    if draw.random() < 0.4:
        layer = nn.Sequential(layer, nn.Softmax(-1))
    return layer, torch.rand(1, tokens, size) * 2 - 1, {"max_parallelism": draw.choice((1, 1, 2, 4, 8))}


def masked(draw: random.Random) -> Layers:
    """Attention with a mask, of sequences in turn as well."""
    heads, tokens = draw.choice((1, 2, 4)), draw.randint(2, 20)
    allowed = None if draw.random() < 0.7 else torch.rand(tokens, tokens) < 0.7
    hardware: dict[str, Any] = {"max_parallelism": draw.choice((1, 1, 2, 4)), "fast_clock": draw.random() < 0.3}
    if allowed is None and draw.random() < 0.6:
        hardware["decode"] = {"context": tokens, "slots": draw.choice((1, 2, 4, 8))}
    width = heads * draw.randint(1, 4)
    return Attention(width, heads, allowed), torch.rand(1, tokens, width) * 2 - 1, hardware


def reductions(draw: random.Random) -> Layers:
    """Sums, means and extremes along a dimension."""
    size, tokens = max(2, _size(draw, 48)), draw.randint(2, 12)
    layer = Last(draw.choice((torch.mean, torch.sum, torch.amax)), draw.choice((1, 2)))
    return layer, torch.rand(1, tokens, size) * 2 - 1, {"max_parallelism": draw.choice((1, 2, 4, 8))}


def recurrent(draw: random.Random) -> Layers:
    """A recurrent layer."""
    size, inner = max(2, _size(draw, 16)), draw.randint(2, 12)
    layer = draw.choice((nn.GRU, nn.LSTM, nn.RNN))(size, inner, batch_first=True)
    return layer, torch.rand(1, draw.randint(2, 8), size) * 2 - 1, {"max_parallelism": draw.choice((1, 2, 4))}


def loaded(draw: random.Random) -> Layers:
    """A layer whose parameters are loaded, into one bank or two."""
    layer, data, hardware = draw.choice((linear, linear, conv, depthwise))(draw)
    return layer, data, {**hardware, "parameters": "ram", "parameter_banks": draw.choice((1, 1, 2))}


def outside(draw: random.Random) -> Layers:
    """A layer whose parameters come from external memory."""
    layer, data, hardware = draw.choice((linear, linear, conv))(draw)
    given = {"external_bytes": draw.choice((4, 8, 8, 16)), "external_latency": draw.randint(10, 80)}
    given |= {"external_burst": draw.choice((1, 4, 8, 16)), "external_buffer": draw.choice((None, None, 0))}
    return layer, data, {**hardware, "parameters": "external", **given}


def blocks(draw: random.Random) -> Layers:
    """A layer whose inputs share exponents, or are minifloats."""
    layer, data, hardware = draw.choice((linear, linear, conv))(draw)
    element = draw.choice((None, None, "e2m1", "e3m2", "e4m3"))
    keys: dict[str, Any] = {"data_in_element": element, "data_in_block_width": draw.randint(2, 8)}
    lanes = hardware.get("max_parallelism", 1)
    if not element or draw.random() < 0.7:
        keys["data_in_block_size"] = (lanes if isinstance(lanes, int) else 1) * draw.choice((1, 2, 3, 4, 8))
        keys["data_in_width"] = draw.randint(8, 16) if not element else draw.randint(9, 14) + 6 * (element == "e4m3")
    return layer, data, {**hardware, "quantize": {op: {"config": keys} for op in ("linear", "conv2d", "conv1d")}}


def tables(draw: random.Random) -> Layers:
    """A row of a table for every id, of several ids at once in some."""
    tokens, size = draw.choice((4, 8, 12)), max(2, _size(draw, 32))
    numbers = draw.randint(2, 40) if draw.random() < 0.5 else draw.choice((64, 100, 256, 500))
    lanes = {"parallelism": {"_0": {"data_out_0": _lanes(draw, size, 16)}}}
    ids = torch.randint(0, numbers, (1, tokens))
    return nn.Sequential(nn.Embedding(numbers, size)), ids, {**lanes, "positions": draw.choice((1, 1, 2, 4))}


USUAL = (linear, conv, depthwise, pool, chain, branches, residual, rows, others)
"""What the first draws were made of, in the order that they were."""
SPECIAL = (narrow, integers, products, reductions, recurrent, logic, few, fast, masked, loaded, outside, blocks, tables)
KINDS: Mapping[str, Callable[[random.Random], Layers]] = {kind.__name__: kind for kind in (*USUAL, *SPECIAL)}
"""Every kind of draw."""


def _width(draw: random.Random) -> int:
    return 8 if draw.random() < 0.4 else draw.randint(2, 16)


def items_of(kind: str, seed: int, family: str) -> list[Item]:
    """The modules of a draw.

    Args:
        kind: A key of :data:`KINDS`.
        seed: Any number.
        family: A family of FPGAs.

    Returns:
        What to measure; nothing if the compiler refuses what was drawn.
    """
    draw = random.Random(f"{kind} {seed} {family}")
    torch.manual_seed(seed)
    model, data, hardware = KINDS[kind](draw)
    hardware["family"] = family if draw.random() < 0.75 else ""
    widths = {name: _width(draw) for name in ("data_in_width", "weight_width", "bias_width", "data_out_width")}
    if draw.random() < 0.3:
        widths = dict.fromkeys(widths, 8) | {"bias_width": 16}
    ways = {"rounding": draw.choice(("half_even", "half_even", "half_even", "floor", "half_up"))}
    if draw.random() < 0.15:
        ways["overflow"] = "wrap"
    quantize = {"by": "type", "default": {"config": {"name": "fixed", **widths, **ways}}}
    quantize["output_width"] = widths["data_out_width"]
    _choose(quantize, hardware.pop("quantize", {}))
    decode = hardware.pop("decode", {})
    return netlist_items(model.eval(), data, {"quantize": quantize, "hardware": hardware, "decode": decode})


def _choose(quantize: dict[str, Any], chosen: dict[str, Any]) -> None:
    """What a kind of draw has to say of the numbers: a width of all layers, or parts of the table."""
    if "weight_width" in chosen:
        quantize["default"]["config"] |= chosen
    elif "by" in chosen:
        quantize.clear()
        quantize |= chosen
    else:
        quantize |= chosen


def netlist_items(model: nn.Module, data: Tensor, config: Mapping[str, Any]) -> list[Item]:
    """The modules of a model as the compiler makes them; nothing if it refuses the model."""

    def quiet(_: str) -> None:
        """Nobody is told."""

    graph, example = traced(model, data, None, quiet)
    whole = compile_pipeline(example, load_config(config), out=Path("nowhere"), calibration=[torch.cat([data] * 2)])
    steps = Pipeline(whole.steps[: whole.names.index("top") + 1], "draw")
    try:
        run_on_model(steps, graph, model, example, quiet)
    except MaseHwError:
        return []
    netlist = graph.meta["netlist"]
    record = bundle_of(graph).record
    contents = memory_files(graph, netlist, "" if record.external is None else record.external.design)
    items = []
    for instance in netlist.instances:
        memories = {name: contents[f"mem/{file}"] for name, (file, _) in instance.memories.items()}
        if "MEM_FILE" in instance.parameters:
            memories["MEM_FILE"] = contents[f"mem/{netlist.memories[instance.name]}"]
        made = netlist.generated.get(f"ops/{instance.module}.sv")
        items.append(Item(instance, files_of(instance.module), memories, made))
    for module, parameters in beside(record):
        items.append(Item(Instance(module, module, dict(parameters), (), "", module), files_of(module), {}))
    return items
