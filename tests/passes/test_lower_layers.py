"""Layers become others that compute the same, with as many products as there are, and names that a user knows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.passes import lower_layers_transform_pass, lower_slices_transform_pass, verify_analysis_pass
from tests.ir.nets import Of
from tests.unit.pipeline import annotated


def lowered(model: nn.Module, x: Tensor) -> tuple[nn.Module, list[str]]:
    """A model after the pass, in float64, and its ops; the metadata is checked."""
    graph, info = lower_layers_transform_pass(annotated(model, x))
    assert info["modified"]
    graph, _ = lower_slices_transform_pass(graph)
    verify_analysis_pass(graph)
    return graph.model, [graph.meta_of(n).common.mase_op for n in graph.nodes]


TRANSPOSED: dict[str, tuple[tuple[int, ...], nn.Module, bool]] = {
    "U-Net": ((3, 4, 5), nn.ConvTranspose2d(3, 4, 2, 2), True),
    "twice, cut": ((3, 4, 5), nn.ConvTranspose2d(3, 4, 4, 2, 1), True),
    "phases of their own": ((2, 4, 3), nn.ConvTranspose2d(2, 3, 3, 2, 1, output_padding=1), True),
    "thirds": ((2, 3, 4), nn.ConvTranspose2d(2, 3, (4, 2), (3, 1), (2, 0), bias=False), True),
    "inputs cut away": ((2, 4, 4), nn.ConvTranspose2d(2, 2, 3, 2, 2), True),
    "groups": ((4, 3, 3), nn.ConvTranspose2d(4, 6, 2, 2, groups=2), True),
    "depthwise, groups of phases": ((4, 3, 3), nn.ConvTranspose2d(4, 4, 3, 2, 1, groups=4), True),
    "dilated": ((2, 4, 5), nn.ConvTranspose2d(2, 3, 3, 2, 1, dilation=(3, 2)), False),
    "one phase is the bias": ((2, 3, 3), nn.ConvTranspose2d(2, 3, 1, 2), False),
    "stride of one": ((2, 4, 5), nn.ConvTranspose2d(2, 3, 3, padding=1), True),
    "sequence": ((2, 7), nn.ConvTranspose1d(2, 4, 4, 2, 1), True),
    "depthwise sequence": ((4, 7), nn.ConvTranspose1d(4, 8, 5, 3, 1, 2, groups=4), True),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions(name: str) -> None:
    """PyTorch's own result in float64; and, where every phase has an element, no product but those with the weight."""
    shape, layer, every = TRANSPOSED[name]
    generator = torch.Generator().manual_seed(7)
    model = nn.Sequential(layer).double()
    for parameter in model.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    x = torch.randn(3, *shape, generator=generator, dtype=torch.float64)
    made, ops = lowered(model, x[:1])
    assert not any(op.startswith("conv_transpose") for op in ops)
    torch.testing.assert_close(made(x), model(x), rtol=0, atol=1e-11)
    weights = [m.weight for m in made.modules() if isinstance(m, nn.Conv1d | nn.Conv2d)]
    count = sum(w.numel() for w in weights)
    assert count == layer.weight.numel() if every else count > layer.weight.numel()  # type: ignore[union-attr, operator]


def test_a_function_with_stored_weights() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernel = nn.Parameter(torch.randn(2, 3, 2, 2))

        def forward(self, x: Tensor) -> Tensor:
            return torch.nn.functional.conv_transpose2d(x, self.kernel, stride=2)

    model, x = Net(), torch.randn(2, 2, 3, 4)
    made, ops = lowered(model, x[:1])
    assert "conv2d" in ops
    torch.testing.assert_close(made(x), model(x))
    assert all(p.requires_grad for p in made.parameters()), "trained like the stored one"


def test_names_that_a_user_knows() -> None:
    """A single convolution keeps the name of the layer; several are below the path of the layer."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.ConvTranspose2d(2, 3, 2, 2)
            self.last = nn.ConvTranspose2d(3, 2, 3, 2, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.up(x))

    graph, info = lower_layers_transform_pass(annotated(Net(), torch.randn(1, 2, 3, 3)))
    assert info["lowered"] == {"up": "conv_transpose2d", "last": "conv_transpose2d"}
    convs = {n.name: str(n.target) for n in graph.nodes if n.op == "call_module"}
    assert convs["up"] == "up.conv" and graph.meta_of(graph.node("last")).common.mase_op == "cat"
    assert sum(path.startswith("last.phase") for path in convs.values()) == 4


def moments(norm: nn.Module) -> nn.Module:
    """Statistics that are not those of a new layer."""
    for name, value in (("running_mean", 0.3), ("running_var", 1.7), ("weight", -0.6)):
        getattr(norm, name).data.mul_(0).add_(value)
    return norm.eval()


def cut(mode: str, *amounts: int) -> nn.Module:
    return Of(lambda x: F.pad(x, amounts, mode=mode))


OTHERS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "glu": (nn.GLU(1), (4, 5)),
    "glu of the last dimension": (nn.GLU(), (4, 6)),
    "rrelu": (nn.RReLU(), (4, 5)),
    "pixel_unshuffle": (nn.PixelUnshuffle(2), (3, 4, 6)),
    "lp_pool2d": (nn.LPPool2d(2, 2), (3, 4, 6)),
    "lp_pool1d": (nn.LPPool1d(1, 3, 2), (3, 9)),
    "lp_pool3d": (nn.LPPool3d(2, (2, 1, 2)), (2, 4, 3, 4)),
    "local_response_norm": (nn.LocalResponseNorm(3, 0.5, 0.6, 1.5), (5, 3, 4)),
    "even local_response_norm": (nn.LocalResponseNorm(4, 0.5, 0.6, 1.5), (6, 7)),
    "fold": (nn.Fold((4, 5), (2, 3), 1, (1, 0), (2, 1)), (12, 9)),
    "reflection_pad1d": (nn.ReflectionPad1d((3, 1)), (2, 5)),
    "reflection_pad2d": (nn.ReflectionPad2d((1, 2, 2, 0)), (2, 4, 5)),
    "reflection_pad3d": (nn.ReflectionPad3d(1), (2, 3, 4, 5)),
    "replication_pad2d": (nn.ReplicationPad2d((1, 2, 2, 0)), (2, 4, 5)),
    "replication_pad3d": (nn.ReplicationPad3d((1, 2, 2, 0, 1, 1)), (2, 3, 4, 5)),
    "circular_pad2d": (nn.CircularPad2d((1, 2, 2, 0)), (2, 4, 5)),
    "zero_pad3d": (nn.ZeroPad3d((1, 2, 2, 0, 1, 1)), (2, 3, 4, 5)),
    "less than nothing": (cut("constant", -1, 2, 1, -1), (2, 3, 4)),
    "only less": (cut("constant", -1, -2), (2, 6)),
    "pad of the function": (cut("reflect", 1, 2), (2, 6)),
    "conv2d, reflect": (nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (2, 4, 5)),
    "conv1d, circular": (nn.Conv1d(2, 3, 4, padding="same", padding_mode="circular"), (2, 7)),
    "conv3d, replicate": (nn.Conv3d(2, 2, 3, padding=1, padding_mode="replicate"), (2, 4, 3, 4)),
    "conv3d": (nn.Conv3d(2, 3, (3, 2, 3), (2, 1, 1), (1, 1, 0)), (2, 5, 4, 5)),
    "conv3d in groups": (nn.Conv3d(4, 6, 3, 1, 1, 1, 2), (4, 4, 3, 4)),
    "conv3d, same": (nn.Conv3d(2, 2, 2, padding="same", dilation=(2, 1, 1)), (2, 4, 3, 4)),
    "conv_transpose3d": (nn.ConvTranspose3d(2, 3, (3, 4, 2), 2, 1, (1, 0, 0)), (2, 3, 3, 3)),
    "max_pool3d": (nn.MaxPool3d((3, 2, 2), (1, 2, 1), (1, 0, 1), ceil_mode=True), (2, 4, 4, 5)),
    "avg_pool3d": (nn.AvgPool3d(2, 1, 1, count_include_pad=False), (2, 4, 4, 5)),
    "adaptive_avg_pool3d of all": (nn.AdaptiveAvgPool3d(1), (2, 4, 4, 5)),
    "adaptive_avg_pool3d": (nn.AdaptiveAvgPool3d((2, 3, 2)), (2, 4, 4, 5)),
    "adaptive_max_pool3d": (nn.AdaptiveMaxPool3d((2, None, 3)), (2, 4, 4, 5)),
    "batch_norm3d": (moments(nn.BatchNorm3d(2)), (2, 3, 4, 5)),
    "sync_batch_norm": (moments(nn.SyncBatchNorm(2)), (2, 4, 5)),
    "bilinear by 2": (nn.Upsample(scale_factor=2, mode="bilinear"), (3, 4, 5)),
    "bilinear by 3 and 2": (nn.Upsample(scale_factor=(3, 2), mode="bilinear"), (3, 4, 5)),
    "bilinear along rows": (nn.Upsample(scale_factor=(1, 4), mode="bilinear"), (3, 4, 5)),
    "linear by 4": (nn.Upsample(scale_factor=4, mode="linear"), (3, 5)),
    "bilinear, corners aligned": (nn.UpsamplingBilinear2d(scale_factor=2), (3, 4, 5)),
    "bicubic": (nn.Upsample(scale_factor=2, mode="bicubic"), (3, 4, 5)),
    "bilinear to a size": (nn.Upsample(size=(7, 3), mode="bilinear"), (3, 4, 5)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    """PyTorch's own result in float64, whatever the example's batch."""
    layer, shape = OTHERS[name]
    model = nn.Sequential(layer).double().eval()
    x = torch.randn(3, *shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    made, _ = lowered(model, x[:1])
    # Kernels of an enlargement are made in float32: its fractions are no powers of two.
    torch.testing.assert_close(made(x), model(x), rtol=0, atol=1e-6)


def test_two_operands() -> None:
    class Net(nn.Module):
        def __init__(self, layer: nn.Module) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor, y: Tensor) -> Any:
            return self.layer(x, y)

    generator = torch.Generator().manual_seed(2)
    for layer, second in ((nn.Bilinear(5, 4, 2), 4), (nn.CosineSimilarity(1), 5), (nn.PairwiseDistance(), 5)):
        x, y = torch.randn(3, 5, generator=generator), torch.randn(3, second, generator=generator)
        graph, info = lower_layers_transform_pass(annotated(Net(layer), x[:1], y[:1]))
        assert list(info["lowered"]) == ["layer"]
        torch.testing.assert_close(graph.model(x, y), layer(x, y))


def test_what_no_rule_covers_stays() -> None:
    """And indices that are read are left alone."""
    for layer in (
        nn.MaxPool2d(2, return_indices=True),
        cut("circular", 1, -1, 0, 0),
        nn.LPPool2d(3, 2),
        nn.Conv2d(2, 2, 3),
    ):
        _, info = lower_layers_transform_pass(annotated(nn.Sequential(layer), torch.randn(1, 2, 4, 4)))
        assert info == {"modified": False, "lowered": {}}, layer
