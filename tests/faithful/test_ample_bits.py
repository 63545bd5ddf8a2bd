"""A quantised norm with ample bits computes what its float layer does, so that two percent of difference are seen."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mase_hw.compiler.ample_bits import compare
from mase_hw.errors import GraphError
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized

from .test_honest import bits, quantised

NORMS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "layer": (nn.LayerNorm(16), (1, 4, 16)),
    "layer without affine": (nn.LayerNorm(24, elementwise_affine=False), (1, 2, 24)),
    "root mean square": (nn.RMSNorm(16), (1, 4, 16)),
    "group": (nn.GroupNorm(2, 8), (1, 8, 3, 3)),
}


def norm_of(graph: MaseGraph) -> Quantized:
    (found,) = (m for m in graph.model.modules() if isinstance(m, Quantized) and m.op.name.endswith("norm"))
    return found


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("name", NORMS)
def test_a_difference_of_two_percent_is_seen(name: str, width: int) -> None:
    layer, shape = NORMS[name]
    generator = torch.Generator().manual_seed(width)
    data = torch.randn(8, *shape[1:], generator=generator)
    for parameter in layer.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    module = norm_of(quantised(nn.Sequential(layer).eval(), data[:1], [data], bits(width)))
    fmt = module.arithmetic.formats["data_in_0"]
    x = (torch.randint(fmt.min_mantissa, fmt.max_mantissa + 1, shape, generator=generator) * fmt.scale).float()
    wanted = layer(x).detach()
    compare(name, module, wanted, [x])
    with pytest.raises(GraphError, match="something else"):
        compare(name, module, wanted * 1.02, [x])
