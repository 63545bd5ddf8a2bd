"""Weights of 8-bit floats in checkpoints, with or without scales, as exact weights of minifloats.

A layer ``NAME`` has ``NAME.weight`` of the type ``torch.float8_e4m3fn`` or ``torch.float8_e5m2`` and, where numbers are
multiplied by a scale, one of :data:`SCALES` beside it, for the tensor or for every output.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from mase_hw.errors import ConfigError
from mase_hw.host.documents import Json

TYPES = {torch.float8_e4m3fn: (4, 7), torch.float8_e5m2: (5, 15)}
"""Bits of the exponent, and its bias."""
SCALES = ("weight_scale", "weight_scale_inv", "scale_weight")
"""What files call the scale by which numbers are multiplied: compressed-tensors, DeepSeek, ComfyUI."""


def load_float8_weights(model: nn.Module, tensors: Mapping[str, Tensor] | None = None) -> Json:
    """Put weights of 8-bit floats into linear layers and convolutions, and say how they are to be quantised.

    The weights of the hardware are exactly those numbers. A scale that is a power of two, the same for the tensor, is
    part of their exponents. Any other one multiplies what the layer gives, in a :class:`Scaled` in its place, and is a
    stored operand like others there.

    Args:
        model: With an ``nn.Linear``, ``nn.Conv1d`` or ``nn.Conv2d`` of every name; weights, and biases that the file
            has, are replaced.
        tensors: By the names of the file, as ``safetensors`` gives them. Others than those of such layers do not
            matter here. Left out, the layers have the weights themselves, and a scale as an attribute.

    Returns:
        Rules of the configuration's table ``quantize``: ``{"overrides": {node: {"config": {...}}}}``, with ``name =
        "minifloat_ieee"``.

    Raises:
        ConfigError: A layer that is missing, shapes that do not fit it, numbers that are not finite, scales that are
            not positive or of blocks, another type of 8 bits, or no such weights.
    """
    found: Json = {}
    layers = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear | nn.Conv1d | nn.Conv2d)}
    given = _own(layers) if tensors is None else tensors
    for key in [key for key, value in given.items() if key.endswith("weight") and "float8" in str(value.dtype)]:
        name = key.removesuffix("weight").removesuffix(".")
        if name not in layers:
            raise misfit(name, "the model has no linear layer or convolution of that name", "a layer for every weight")
        layer = layers[name]
        scale = _scale(name, layer, given)
        shift = _power_of_two(scale)
        exponent_width, bias = _put(name, layer, given, 0 if shift is None else shift)
        if shift is None:
            model.set_submodule(name, Scaled(layer, scale))
            name = f"{name}.layer"
        node = re.sub(r"\W", "_", name)
        keys = {"name": "minifloat_ieee", "weight_width": 8, "weight_exponent_width": exponent_width}
        keys |= {"weight_exponent_bias": bias - (shift or 0)}
        found[f"_{node}" if node[0].isdigit() else node] = {"config": keys}
    if not found:
        raise ConfigError(
            "there are no weights of 8-bit floats",
            expected="tensors NAME.weight of torch.float8_e4m3fn or torch.float8_e5m2",
            remedy="give the tensors of the checkpoint",
        )
    return {"overrides": found}


class Scaled(nn.Module):
    """A layer whose results are multiplied by a scale before the bias is added.

    Args:
        layer: A linear layer or a convolution; its bias is taken from it.
        scale: One number, or one for every output.
    """

    scale: Tensor

    def __init__(self, layer: nn.Linear | nn.Conv1d | nn.Conv2d, scale: Tensor) -> None:
        super().__init__()
        bias, behind = layer.bias, [1] * (layer.weight.dim() - 2)
        layer.bias = None
        self.layer = layer
        self.register_buffer("scale", scale.reshape(-1, *behind) if scale.numel() > 1 else scale.reshape(()))
        self.bias = None if bias is None else nn.Parameter(bias.detach().reshape(-1, *behind), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """As the layer."""
        found: Tensor = self.layer(x) * self.scale
        return found if self.bias is None else found + self.bias


def _own(layers: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """The weights and scales that layers have themselves."""
    held = {f"{n}.{part}": getattr(m, part, None) for n, m in layers.items() for part in ("weight", *SCALES)}
    return {key: value.detach() for key, value in held.items() if isinstance(value, Tensor)}


def _put(name: str, layer: nn.Module, given: Mapping[str, Tensor], shift: int) -> tuple[int, int]:
    """Give a layer its weights times a power of two, and its bias.

    Returns:
        Bits of the exponent, and its bias.
    """
    weight, held = given[f"{name}.weight" if name else "weight"], layer.get_parameter("weight")
    if weight.dtype not in TYPES:
        raise misfit(name, str(weight.dtype), "torch.float8_e4m3fn or torch.float8_e5m2")
    if weight.shape != held.shape:
        raise misfit(name, f"a weight of {list(weight.shape)}", f"one of {list(held.shape)}")
    values = weight.cpu().float()
    if not bool(torch.isfinite(values).all()):
        raise misfit(name, "a weight that is not finite", "numbers")
    layer.register_parameter("weight", nn.Parameter(torch.ldexp(values, torch.tensor(shift)), requires_grad=False))
    bias = given.get(f"{name}.bias" if name else "bias")
    if bias is not None and bias is not getattr(layer, "bias", None):
        layer.register_parameter("bias", nn.Parameter(bias.detach().cpu().float(), requires_grad=False))
    return TYPES[weight.dtype]


def _scale(name: str, layer: nn.Module, given: Mapping[str, Tensor]) -> Tensor:
    """One number, or one for every output; 1 if there is none."""
    there = [part for part in SCALES if (f"{name}.{part}" if name else part) in given]
    if not there:
        return torch.ones(())
    scale = given[f"{name}.{there[0]}" if name else there[0]].cpu().float()
    outputs = layer.get_parameter("weight").shape[0]
    if scale.numel() not in (1, outputs) or (scale.numel() > 1 and scale.shape[0] != outputs):
        raise misfit(name, f"{there[0]} of {list(scale.shape)}", f"one scale, or one for each of {outputs} outputs")
    if not bool((torch.isfinite(scale) & (scale > 0)).all()):
        raise misfit(name, f"{there[0]} of {scale.flatten().tolist()[:4]}", "positive numbers")
    return scale.flatten()


def _power_of_two(scale: Tensor) -> int | None:
    """The exponent of a scale that is the same everywhere; None of another."""
    first = float(scale.flatten()[0])
    mantissa, exponent = math.frexp(first)
    return exponent - 1 if mantissa == 0.5 and bool((scale == first).all()) else None


def misfit(name: str, got: str, expected: str) -> ConfigError:
    """The error of stored weights that a layer cannot take."""
    return ConfigError(
        "the weights do not fit the model",
        node=name,
        got=got,
        expected=expected,
        remedy="give the model, the tensors and their layout of one checkpoint",
    )
