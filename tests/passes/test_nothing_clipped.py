"""A method that promises to clip nothing of what was observed clips nothing of it, whatever the op."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.catalogue import default_catalogue
from mase_hw.compiler.stages import quantise_pipeline
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.nn.recurrence import linear_recurrence
from mase_hw.numerics.observing import observing
from mase_hw.ops._functions import NAMES
from mase_hw.passes.quantize.calibrate import CALIBRATED
from tests.ir.nets import Of
from tests.passes.test_coverage import COVERED as LAYERS
from tests.passes.test_coverage import GROUPS, Net
from tests.passes.test_coverage_functions import CALLS, IDS, Calls
from tests.passes.test_coverage_functions import COVERED as FUNCTIONS
from tests.unit.pipeline import RANGES

ROUNDED = 16
"""LSB by which roundings of the inputs may carry a result beyond the range that was observed in float."""
FRAMES = 3
CONFIG = {
    "quantize": {"default": {"config": {f"{name}_width": 12 for name in ("data_in", "weight", "data_out")}}},
    "calibrate": RANGES,
}
ROW, TOKENS, IMAGE = (1, 8), (1, 4, 8), (1, 4, 4, 6)
Line = Callable[..., Any]
COMPARE = (torch.lt, torch.le, torch.gt, torch.ge, torch.eq, torch.ne)
OTHERS = (torch.erf, torch.exp, torch.exp2, torch.log, torch.log2, torch.reciprocal, torch.rsqrt, torch.sin)
LINES: dict[str, tuple[tuple[int, ...], Line]] = {
    # what leaves the range of its input
    "steep prelu": (ROW, lambda x: F.prelu(x, torch.tensor([3.0]))),
    "prelu that mirrors": (IMAGE, lambda x: F.prelu(x, torch.tensor([-4.0, 0.5, 2.0, -1.0]))),
    "clamp above": (ROW, lambda x: x.clamp(min=100.0)),
    "clamp below": (ROW, lambda x: x.clamp(max=-100.0)),
    "clamp to a point": (ROW, lambda x: x.clamp(3.0, 3.0)),
    "negative of the most negative": (ROW, lambda x: -((x * 0).cos() * -1.0) + -x.clamp(-4.0, 3.9)),
    "absolute value of the most negative": (ROW, lambda x: x.clamp(-2.0, 1.0).abs()),
    "rounded up": (ROW, lambda x: torch.ceil(x) + torch.round(x) + torch.floor(x) + torch.trunc(x)),
    "steep leaky relu": (ROW, lambda x: F.leaky_relu(x, 5.0) + F.leaky_relu(x, -5.0)),
    "hardtanh above": (ROW, lambda x: F.hardtanh(x, 50.0, 60.0)),
    "threshold with a value far away": (ROW, lambda x: F.threshold(x, 0.1, -70.0) + F.relu6(x)),
    "border far away": (IMAGE, lambda x: F.pad(x, (1, 1, 1, 1), value=40.0)),
    "masked far away": (ROW, lambda x: x.masked_fill(x > 0.1, -300.0)),
    "either far away": (ROW, lambda x: torch.where(x > 0, x * 100, x)),
    "maximum with a number": (ROW, lambda x: torch.maximum(x, torch.tensor(90.0)) + torch.minimum(x, x * 3)),
    "concatenation": (ROW, lambda x: torch.cat([x, x * 100, x.sigmoid()], 1)),
    "overshoot": (IMAGE, lambda x: F.interpolate(x.sign(), scale_factor=2, mode="bicubic")),
    "running sum": (ROW, lambda x: x.abs().cumsum(1)),
    "states": (TOKENS, lambda x: linear_recurrence(x, torch.sigmoid(x))),
    "average with a divisor": (IMAGE, lambda x: F.avg_pool2d(x + 3, 2, divisor_override=1)),
    "sums": (TOKENS, lambda x: (x + 3).sum(1)),
    # ops that the other lists do not have
    "differences": (ROW, lambda x: (x - 2) * (x - x * 3) / (x.abs() + 0.01)),
    "extremes": (TOKENS, lambda x: x.amax(1) + x.amin(1) + x.argmax(1) - x.argmin(1)),
    "sorted": (TOKENS, lambda x: x.topk(3, -1).values.sum(-1) + x.sort(-1).indices.sum(-1)),
    "moments": (TOKENS, lambda x: x.var(-1) + x.std(-1) + x.norm(dim=-1)),
    "comparisons": (ROW, lambda x: [compare(x, x * 2).float() * x for compare in COMPARE]),
    "comparisons with a number": (ROW, lambda x: [compare(x, 0.3).float() * x for compare in COMPARE]),
    "functions": (ROW, lambda x: [function(x.abs() + 0.2) for function in OTHERS]),
    "named functions": (ROW, lambda x: named(x.abs() * 0.15 + 0.1)),
    "powers": (ROW, lambda x: x**3),
    "masked attention": (
        TOKENS,
        lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(4, 4, dtype=torch.bool).tril()),
    ),
    "means": (IMAGE, lambda x: x.mean((2, 3))),
    "products": (TOKENS, lambda x: x @ x.transpose(1, 2)),
    "whole quotients": (ROW, lambda x: (x * 5) // 2 + torch.div(x * 5, 2, rounding_mode="trunc")),
}


def named(x: Tensor) -> list[Tensor]:
    """Every function that torch has under one name, inside its domain, for values between 0 and 1."""
    names = [each.split("/")[0] for each in NAMES.split()]
    functions = {name: getattr(torch, name, None) or getattr(torch.special, name) for name in names}
    found = [function(x + 1 if name == "acosh" else x) for name, function in functions.items()]
    return [*found, torch.logit(x), torch.polygamma(1, x), 2.0**x]


class Beyond:
    """How far what casts get lies beyond the range of their formats, in LSB."""

    def __init__(self) -> None:
        self.most = 0

    def saw(
        self, mantissa: Tensor, shift: int, fmt: FixedFormat, rounding: Rounding, overflow: Overflow, result: Tensor
    ) -> bool:
        """All is looked at step by step."""
        return False

    def rounded(self, value: Tensor, floor: Tensor, tie: Tensor, rounding: Rounding) -> Tensor:
        """Roundings are of no interest."""
        return value

    def fitted(
        self, result: Tensor, value: Tensor, low: Tensor, high: Tensor, fmt: FixedFormat, overflow: Overflow
    ) -> Tensor:
        """Keep the largest distance."""
        if bool((low | high).any()):
            self.most = max(self.most, int((value - result)[low | high].abs().max()))
        return result


def clipped(model: nn.Module, frames: list[dict[str, Tensor]]) -> tuple[dict[str, str], set[str]]:
    """What each node clips of the data with which it was calibrated, and the ops that there are."""
    graph = MaseGraph(model.eval(), example=frames[0])
    graph = quantise_pipeline(frames[0], CONFIG, calibration=frames).run(graph).graph
    modules = {n.name: m for n in graph.nodes if isinstance(m := graph.meta_of(n).module, Quantized)}
    found: dict[str, str] = {}
    beyond = {name: Beyond() for name in modules}
    for name, module in modules.items():
        fmt = module.arithmetic.formats["data_out_0"]
        seen = graph.meta_of(graph.node(name)).software.results.get("data_out_0", {}).get(CALIBRATED)
        ends = [] if seen is None else [round(math.ldexp(float(seen[end]), fmt.frac_width)) for end in ("min", "max")]
        if not all(fmt.min_mantissa <= end <= fmt.max_mantissa for end in ends):
            found[name] = f"of {ends} in {fmt}"

        def forward(*inputs: Tensor, name: str = name, run: Callable[..., Any] = module.forward) -> Any:
            with observing(beyond[name]):
                return run(*inputs)

        module.forward = forward  # type: ignore[method-assign]
    with torch.no_grad():
        for frame in frames:
            graph.model(**frame)
    for name, module in modules.items():
        clamps = module.op.scaled is not None and module.op.scaled.ends is not None  # its ends are those of its cast
        if beyond[name].most > ROUNDED and not clamps:
            found[name] = f"{beyond[name].most} LSB"
    return found, {module.op.name for module in modules.values()}


def drawn(shapes: tuple[tuple[int, ...], ...], *, whole: bool = False) -> list[dict[str, Tensor]]:
    """Frames of normal numbers, or of places in a table."""
    generator = torch.Generator().manual_seed(1)
    return [
        {
            name: torch.randint(0, 5, shape, generator=generator) if whole else torch.randn(shape, generator=generator)
            for name, shape in zip("xyz", shapes, strict=False)
        }
        for _ in range(FRAMES)
    ]


def cases() -> Mapping[str, Callable[[], tuple[nn.Module, list[dict[str, Tensor]]]]]:
    """Models and their data by name."""
    made: dict[str, Callable[[], tuple[nn.Module, list[dict[str, Tensor]]]]] = {}
    for group, (arguments, shapes) in GROUPS.items():
        layers = {name: given for name, given in arguments.items() if name in LAYERS}
        made[group] = lambda layers=layers, shapes=shapes, group=group: (
            Net({name: getattr(nn, name)(*given) for name, given in layers.items()}, len(shapes)),
            drawn(shapes, whole=group == "ids"),
        )
    for shape in sorted({shape for shape, _ in CALLS.values()}):
        calls = {name: call for name, (taken, call) in CALLS.items() if taken == shape and name in FUNCTIONS}
        made[f"functions {shape}"] = lambda calls=calls, shape=shape: (
            Calls(calls, shape == IDS),
            drawn((shape,), whole=shape == IDS),
        )
    # An op of one value by its function, so that one that is added needs no line here.
    alone = [
        op for op in default_catalogue() if op.oracle is not None and op.functions and "data_in_1" not in op.formats
    ]
    lines = LINES | {f"{op.name} by itself": (ROW, op.functions[0]) for op in alone}
    for name, (shape, line) in lines.items():
        made[name] = lambda shape=shape, line=line: (Of(line), drawn((shape,)))
    return made


CASES = cases()
UNSEEN = {"cat_part", "draw", "requantize", "softmax_where", "stored_result", "sum_of_products", "table", "taps"}
UNSEEN |= {"frame", "frame_channels_last", "frame_of_several", "frame_result", "forest", "tables"}
UNSEEN |= {"unrolled_conv", "unrolled_linear"}
UNSEEN |= {"tabled_conv", "tabled_linear", "table_windows", "pointwise"}
UNSEEN |= {"block_round", "block_round_channels", "integer_lstm", "positioned"}
"""Ops that passes and importers make of others, with formats that hold every result, or those of the op that was."""
SEEN: dict[str, set[str]] = {}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:.*is deprecated.*", "ignore:Using padding")
def test_nothing_is_clipped(name: str) -> None:
    torch.manual_seed(0)
    model, frames = CASES[name]()
    found, SEEN[name] = clipped(model, frames)
    assert not found


def test_every_op_that_a_model_can_have_is_among_them() -> None:
    if set(SEEN) == set(CASES):  # all of them ran in this process
        known = {op.name for op in default_catalogue() if op.mase_type and op.hardware is not None and not op.implicit}
        assert known - set().union(*SEEN.values()) <= UNSEEN
