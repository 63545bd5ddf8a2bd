"""Weight-only integers of GPTQ, AWQ and torchao: what their files pack, as exact weights of linear layers.

All three have for every output and every group of inputs a scale and a zero point; a weight is ``(q - zero_point) *
scale``. How the integers of ``b`` bits lie in words of 32 bits, the lowest bits first:

- GPTQ: ``qweight (inputs * b / 32, outputs)``, the words of an output are one row of bits with the inputs in
  succession, so that an integer of 3 bits may lie in two words; ``qzeros (groups, outputs * b / 32)``, likewise along
  the outputs, of the zero point less 1 (format 2, ``gptq_v2``, of the zero point itself); ``scales (groups, outputs)``;
  ``g_idx (inputs,)``, the group of every input. Where groups are no runs of inputs (``desc_act``), the layer becomes
  one that takes its inputs group by group, behind a choice of all of them in that order.
- AWQ: ``qweight (inputs, outputs / 8)`` and ``qzeros (groups, outputs / 8)`` of 4 bits, a word has the outputs 0, 2, 4,
  6, 1, 3, 5 and 7 of its eight; ``scales (groups, outputs)``.
- torchao: ``qdata (outputs, inputs)``, ``scale`` and ``zero_point (outputs, groups)`` of the weight of a module, as its
  ``IntxUnpackedToInt8Tensor`` has them, not packed.

Sources: ``pack`` of AutoGPTQ's ``qlinear_cuda.py`` and GPTQModel, ``WQLinear_GEMM.from_linear`` of AutoAWQ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from mase_hw.errors import ConfigError
from mase_hw.host.documents import Json
from mase_hw.importers.float8_weights import misfit

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Outputs of a word of AWQ, from the lowest bits up."""
_BITS_OF_FLOAT = 24


def load_group_weights(
    model: nn.Module,
    tensors: Mapping[str, Tensor] | None = None,
    layout: Literal["gptq", "gptq_v2", "awq", "torchao"] = "gptq",
) -> Json:
    """Put the weights of a file into the linear layers of a model, and say how they are to be quantised.

    With scales of 16 bits the weights are exactly those of the file. Scales of float32 are rounded to as many bits as
    leave the products exact in float32, which are 20 for integers of 4 bits with zero points.

    Args:
        model: With an ``nn.Linear`` of every name; its weights, and biases that the file has, are replaced, and a layer
            whose groups are no runs of inputs by an :class:`Ordered`. Of ``torchao`` the model itself has the tensors,
            and ordinary weights afterwards.
        tensors: By the names of the file, ``NAME.qweight`` and so on, as ``safetensors`` gives them. Others than those
            of such layers do not matter here.
        layout: What wrote them.

    Returns:
        Rules of the configuration's table ``quantize``: ``{"overrides": {node: {"config": {...}}}}``, with ``name =
        "groups"``, the bits of the differences and the size of the groups.

    Raises:
        ConfigError: A layer that is missing, tensors whose shapes do not fit it, bits that are not packed so, groups
            of other sizes than one, or none to load.
    """
    found: Json = {}
    for name, module, (codes, zeros, scales, group, order) in list(_layers(model, tensors or {}, layout)):
        integers = codes.to(torch.int64) - zeros.to(torch.int64).repeat_interleave(group, 1)[:, : codes.shape[1]]
        least, most = int(integers.min()), int(integers.max())
        width = max(2, (-least - 1).bit_length() + 1, most.bit_length() + 1)
        magnitude = max(-least, most, 1)
        scales = _rounded(scales.double(), _BITS_OF_FLOAT - (magnitude - 1).bit_length())
        weight = (integers * scales.repeat_interleave(group, 1)[:, : codes.shape[1]]).float()
        module.weight = nn.Parameter(weight, requires_grad=False)
        if order is not None:
            model.set_submodule(name, Ordered(module, order))
            name = f"{name}.linear"
        node = re.sub(r"\W", "_", name)
        keys = {"name": "groups", "weight_width": width, "weight_block_size": group}
        found[f"_{node}" if node[0].isdigit() else node] = {"config": keys}
    if not found:
        raise ConfigError(
            "there are no weights in groups",
            got=f"layout {layout}",
            expected="weights of torchao in groups" if layout == "torchao" else "tensors NAME.qweight",
            remedy="give the tensors of the checkpoint, and the layout that wrote them",
        )
    return {"overrides": found}


class Ordered(nn.Module):
    """A linear layer whose inputs come in another order.

    Args:
        linear: The layer.
        order: For every input of it, its place in the data.
    """

    order: Tensor

    def __init__(self, linear: nn.Linear, order: Tensor) -> None:
        super().__init__()
        self.linear = linear
        self.register_buffer("order", order)

    def forward(self, x: Tensor) -> Tensor:
        """``(..., inputs)`` -> ``(..., outputs)``."""
        found: Tensor = self.linear(x.index_select(-1, self.order))
        return found


_Groups = tuple[Tensor, Tensor, Tensor, int, Tensor | None]
"""Integers ``(outputs, inputs)``, zero points and scales ``(outputs, groups)``, inputs of a group, their order."""


def _layers(model: nn.Module, tensors: Mapping[str, Tensor], layout: str) -> Iterable[tuple[str, nn.Linear, _Groups]]:
    modules = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    if layout == "torchao":
        for name, module in modules.items():
            given: Any = module.weight
            if hasattr(given, "qdata") and hasattr(given, "zero_point"):
                yield name, module, _of_torchao(name, given)
        return
    if layout not in ("gptq", "gptq_v2", "awq"):
        raise ConfigError(
            "no such layout of weights", field="layout", got=layout, expected="gptq, gptq_v2, awq, torchao"
        )
    for key in tensors:
        if not key.endswith(".qweight"):
            continue
        name = key.removesuffix(".qweight")
        if name not in modules:
            raise misfit(name, "the model has no linear layer of that name", "an nn.Linear for every qweight")
        module = modules[name]
        missing = [part for part in ("qzeros", "scales") if f"{name}.{part}" not in tensors]
        if missing:
            raise misfit(name, f"no {' and no '.join(missing)}", "qweight, qzeros and scales")
        yield name, module, _of_file(name, module, tensors, layout)
        if f"{name}.bias" in tensors:
            module.bias = nn.Parameter(tensors[f"{name}.bias"].float(), requires_grad=False)


def _of_file(name: str, module: nn.Linear, tensors: Mapping[str, Tensor], layout: str) -> _Groups:
    packed, packed_zeros, scales = (tensors[f"{name}.{part}"] for part in ("qweight", "qzeros", "scales"))
    inputs, outputs, awq = module.in_features, module.out_features, layout == "awq"
    held = packed.shape[1] if awq else packed.shape[0]
    bits = 32 * held // (outputs if awq else inputs)
    wanted = (inputs, outputs * bits // 32) if awq else (inputs * bits // 32, outputs)
    if tuple(packed.shape) != wanted or bits not in ((4,) if awq else (2, 3, 4, 8)):
        what = "4" if awq else "2, 3, 4 or 8"
        raise misfit(name, f"qweight {list(packed.shape)}", f"{inputs} x {outputs} integers of {what} bits")
    groups = scales.shape[0]
    if tuple(scales.shape) != (groups, outputs) or tuple(packed_zeros.shape) != (groups, outputs * bits // 32):
        shapes = f"scales {list(scales.shape)}, qzeros {list(packed_zeros.shape)}"
        raise misfit(name, shapes, f"{outputs} numbers of {groups} groups")
    group = -(-inputs // groups)
    if awq:
        codes, zeros = (_unpacked(t, bits, AWQ_ORDER) for t in (packed, packed_zeros))
        return codes.T, zeros.T, scales.T, group, None
    codes, zeros = _unpacked(packed.T, bits), _unpacked(packed_zeros, bits).T
    order = _order(name, tensors.get(f"{name}.g_idx"), group, inputs)
    codes = codes if order is None else codes[:, order]
    return codes, zeros + (layout == "gptq"), scales.T, group, order


def _order(name: str, groups: Tensor | None, group: int, inputs: int) -> Tensor | None:
    """The inputs group by group; None if they are so already."""
    if groups is None:
        return None
    runs = torch.arange(inputs) // group
    found, order = groups.long().cpu().sort(stable=True)
    if found.shape != runs.shape or not torch.equal(found, runs):
        raise misfit(name, "g_idx with groups of other sizes", f"groups of {group} inputs, in any order")
    return None if torch.equal(order, torch.arange(inputs)) else order


def _of_torchao(name: str, given: Any) -> _Groups:
    scale, zero, codes = given.scale, given.zero_point, given.qdata
    groups = scale.shape[1] if scale.dim() == 2 else 0
    size = list(getattr(given, "block_size", ()))
    if codes.dim() != 2 or codes.dtype != torch.int8 or not groups or zero is None or zero.shape != scale.shape:
        raise misfit(name, f"{type(given).__name__} of {list(codes.shape)}", "IntxUnpackedToInt8Tensor, in groups")
    group = -(-codes.shape[1] // groups)
    if size != [1, group]:
        raise misfit(name, f"blocks of {size}", f"[1, {group}], groups of inputs")
    return codes, zero, scale, group, None


def _unpacked(words: Tensor, bits: int, order: Iterable[int] = ()) -> Tensor:
    """The integers of ``bits`` bits of words along the last dimension, one row of bits from the lowest up.

    Args:
        words: ``(rows, words)`` of 32 bits.
        bits: Of an integer.
        order: Places of a word's integers among them; in succession if empty.
    """
    rows = words.shape[0]
    stream = (words.to(torch.int64).cpu().unsqueeze(-1) >> torch.arange(32)) & 1
    found = (stream.reshape(rows, -1, bits) << torch.arange(bits)).sum(-1)
    places = list(order)
    if places:
        apart = found.reshape(rows, -1, len(places))
        found = torch.empty_like(apart)
        found[..., torch.tensor(places)] = apart
    return found.reshape(rows, -1)


def _rounded(scales: Tensor, bits: int) -> Tensor:
    """Scales to so many bits, half to even."""
    fraction, exponent = torch.frexp(scales)
    return torch.ldexp((fraction * 2.0**bits).round(), exponent - bits)
