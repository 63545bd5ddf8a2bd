"""Layers become others that compute the same, with as many products as there are, and names that a user knows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mase_hw.passes import lower_layers_transform_pass, lower_slices_transform_pass, verify_analysis_pass
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
