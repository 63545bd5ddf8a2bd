"""What the coverage says of a function is so: each one that counts gets hardware."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.cli.coverage import HARDWARE, LOWERED, rows
from mase_hw.compiler.stages import quantise_pipeline
from mase_hw.ir import MaseGraph
from mase_hw.passes import add_hardware_metadata_analysis_pass

Call = Callable[..., Any]
ROW, IDS, SEQUENCE, IMAGE, VOLUME = (1, 8), (1, 5), (1, 4, 6), (1, 4, 4, 6), (1, 2, 3, 4, 4)


def named(name: str, *arguments: Any, **settings: Any) -> Call:
    """A call of a function by its name."""
    return lambda x: getattr(F, name)(x, *arguments, **settings)


PLAIN = (
    "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6 rrelu selu sigmoid "
    "silu softplus softshrink softsign tanh tanhshrink celu_ elu_ hardtanh_ leaky_relu_ relu_ rrelu_ selu_"
)
CALLS: dict[str, tuple[tuple[int, ...], Call]] = {
    **{name: (ROW, getattr(F, name)) for name in PLAIN.split()},
    **{
        f"{name}{dims}": (shape, named(f"{name}{dims}", 0.5, training=False))
        for name in ("dropout",)
        for dims, shape in (("", ROW), ("1d", SEQUENCE), ("2d", IMAGE), ("3d", VOLUME))
    },
    "alpha_dropout": (ROW, lambda x: F.alpha_dropout(x, 0.5, training=False)),
    "feature_alpha_dropout": (IMAGE, lambda x: F.feature_alpha_dropout(x, 0.5, training=False)),
    "threshold": (ROW, lambda x: F.threshold(x, 0.5, 0.25)),
    "threshold_": (ROW, lambda x: F.threshold_(x, 0.5, 0.25)),
    "prelu": (ROW, lambda x: F.prelu(x, torch.tensor([0.25]))),
    "glu": (ROW, F.glu),
    "embedding": (IDS, lambda x: F.embedding(x, torch.ones(5, 4))),
    "embedding_bag": (IDS, lambda x: F.embedding_bag(x, torch.ones(5, 4))),
    "one_hot": (IDS, lambda x: F.one_hot(x, 5)),
    "linear": (ROW, lambda x: F.linear(x, torch.ones(3, 8))),
    "bilinear": (ROW, lambda x: F.bilinear(x, x * 2, torch.ones(3, 8, 8))),
    "cosine_similarity": (ROW, lambda x: F.cosine_similarity(x, x * 2 + 1)),
    "pairwise_distance": (ROW, lambda x: F.pairwise_distance(x, x * 2 + 1)),
    "layer_norm": (ROW, lambda x: F.layer_norm(x, (8,))),
    "rms_norm": (ROW, lambda x: F.rms_norm(x, (8,))),
    "normalize": (ROW, F.normalize),
    "softmax": (ROW, lambda x: F.softmax(x, 1)),
    "softmin": (ROW, lambda x: F.softmin(x, 1)),
    "log_softmax": (ROW, lambda x: F.log_softmax(x, 1)),
    "scaled_dot_product_attention": (SEQUENCE, lambda x: F.scaled_dot_product_attention(x, x * 2, x + 1)),
    "batch_norm": (IMAGE, lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4))),
    "group_norm": (IMAGE, lambda x: F.group_norm(x, 2)),
    "instance_norm": (IMAGE, F.instance_norm),
    "local_response_norm": (IMAGE, lambda x: F.local_response_norm(x, 3)),
    "conv_tbc": ((6, 1, 4), lambda x: F.conv_tbc(x, torch.ones(2, 4, 3), torch.zeros(3))),
    "fold": ((1, 8, 6), lambda x: F.fold(x, (3, 4), 2)),
    "unfold": (IMAGE, lambda x: F.unfold(x, 2)),
    "pad": (IMAGE, lambda x: F.pad(x, (1, 2), value=0.5)),
    "pixel_shuffle": (IMAGE, lambda x: F.pixel_shuffle(x, 2)),
    "pixel_unshuffle": (IMAGE, lambda x: F.pixel_unshuffle(x, 2)),
    "channel_shuffle": (IMAGE, lambda x: F.channel_shuffle(x, 2)),
    "interpolate": (IMAGE, lambda x: F.interpolate(x, scale_factor=2)),
    "upsample": (IMAGE, lambda x: F.upsample(x, scale_factor=2)),
    "upsample_bilinear": (IMAGE, lambda x: F.upsample_bilinear(x, scale_factor=2)),
    "upsample_nearest": (IMAGE, lambda x: F.upsample_nearest(x, scale_factor=2)),
}
for _dims, _shape in ((1, SEQUENCE), (2, IMAGE), (3, VOLUME)):
    _weight = torch.ones(3, _shape[1], *[2] * _dims)
    _other = torch.ones(_shape[1], 3, *[2] * _dims)
    CALLS |= {
        f"conv{_dims}d": (_shape, named(f"conv{_dims}d", _weight)),
        f"conv_transpose{_dims}d": (_shape, named(f"conv_transpose{_dims}d", _other)),
        f"lp_pool{_dims}d": (_shape, named(f"lp_pool{_dims}d", 2.0, 2)),
        **{
            f"{kind}{_dims}d": (_shape, named(f"{kind}{_dims}d", n))
            for kind, n in (("max_pool", 2), ("avg_pool", 2), ("adaptive_max_pool", 1), ("adaptive_avg_pool", 1))
        },
    }
COVERED = sorted(row.name for row in rows()["functionals"] if row.status in (HARDWARE, LOWERED))


class Calls(nn.Module):
    """Each function reads a sum of its own, so that one that writes in place writes that."""

    def __init__(self, calls: dict[str, Call], ids: bool) -> None:
        super().__init__()
        self.calls, self.ids = calls, ids

    def forward(self, x: Tensor) -> dict[str, Any]:
        return {name: call(x if self.ids else x + index) for index, (name, call) in enumerate(self.calls.items())}


def test_a_call_of_every_function_that_counts() -> None:
    assert set(COVERED) <= set(CALLS), "what is counted is shown"


@pytest.mark.parametrize("shape", sorted({shape for shape, _ in CALLS.values()}))
@pytest.mark.filterwarnings("ignore:.*is deprecated.*", "ignore:Using padding")
def test_a_function_that_counts_gets_hardware(shape: tuple[int, ...]) -> None:
    """The passes of ``compile`` up to modules, parameters and streams."""
    calls = {name: call for name, (taken, call) in CALLS.items() if taken == shape and name in COVERED}
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    example = {"x": numbers.argsort() if shape == IDS else numbers}
    assert calls
    graph = quantise_pipeline(example).run(MaseGraph(Calls(calls, shape == IDS).eval(), example=example)).graph
    add_hardware_metadata_analysis_pass(graph)
    for node in graph.nodes:
        meta = graph.meta_of(node)
        if node.op == "call_module" and not meta.hardware.is_implicit:
            assert meta.hardware.module, node.name
