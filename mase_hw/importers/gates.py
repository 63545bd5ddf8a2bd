"""Networks of logic gates that torchlogix has trained, as layers of truth tables."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.nn.tables import MOST_INPUT_BITS, GroupSum, TableLayer

_BIT = FixedFormat(1, 0, signed=False)
_PROBES = 64
"""Random inputs on which the tables are compared with the layer."""


def from_gates(model: nn.Module) -> nn.Sequential:
    """The truth tables of a network of torchlogix (0.2), in the order of its modules.

    ``LogicDense`` becomes a :class:`~mase_hw.nn.tables.TableLayer`: its own code, in evaluation, says which inputs a
    gate reads and what it gives for them. ``GroupSum`` adds the same; its ``tau`` and ``beta``, which are the same for
    all classes, are left out. Layers of PyTorch that only reshape stay. Inputs are bits
    (:func:`~mase_hw.nn.tables.thresholds` makes them).

    Args:
        model: A ``Sequential`` of such layers, or one of them; it is left in evaluation mode.

    Raises:
        UnsupportedError: For any other module.
        ConfigError: If a layer does not give what its tables say, as with inputs that are still mixed.
    """
    model.eval()
    found: list[nn.Module] = []
    for name, layer in model.named_children() if isinstance(model, nn.Sequential) else [("", model)]:
        kind = type(layer).__name__
        if kind == "LogicDense":
            found.append(_tables(name, layer))
        elif kind == "GroupSum":
            found.append(GroupSum(int(_of(layer, "k"))))
        elif isinstance(layer, nn.Flatten | nn.Unflatten | nn.Identity):
            found.append(layer)
        else:
            raise UnsupportedError(
                "this is no layer of gates",
                node=name,
                got=f"{type(layer).__module__}.{kind}",
                expected="LogicDense, GroupSum, Flatten, Unflatten or Identity",
                remedy="import the layers of gates, and write the others as layers of PyTorch",
            )
    return nn.Sequential(*found)


def _of(layer: Any, name: str) -> Any:
    return getattr(layer, name)


@torch.no_grad()
def _tables(name: str, layer: Any) -> TableLayer:
    inputs, fan_in, weight = int(layer.in_dim), int(layer.lut_rank), layer.weight
    if fan_in > MOST_INPUT_BITS:
        raise UnsupportedError(
            "a gate reads too many inputs", node=name, got=fan_in, expected=f"at most {MOST_INPUT_BITS}"
        )
    places = torch.arange(inputs, device=weight.device)[None]
    sources = torch.round(layer.connections(places.double())[0].T).to(torch.int64).cpu()
    address = torch.arange(1 << fan_in, device=weight.device)
    bits = torch.stack([address >> place & 1 for place in range(fan_in)], 1)
    given = bits[..., None].expand(-1, -1, len(sources)).to(weight.dtype)
    said: Tensor = layer.parametrization.forward(given, weight, False, contraction="n,bn->bn")
    made = TableLayer(sources.clamp(0, inputs - 1), (said.T > 0.5).cpu(), _BIT, _BIT)
    probe = torch.randint(0, 2, (_PROBES, inputs), generator=torch.Generator().manual_seed(0)).to(weight.dtype)
    if not torch.equal(made(probe), (layer(probe.to(weight.device)) > 0.5).to(weight.dtype).cpu()):
        raise ConfigError(
            "a layer of gates does not give what its tables say",
            node=name,
            remedy="train it until every gate reads single inputs, with torchlogix 0.2",
        )
    return made
