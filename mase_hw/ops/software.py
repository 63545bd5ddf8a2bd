"""Ops that common metadata knows and hardware does not have yet: one table, by the names MASE gives them.

An op gets hardware in a file of its own with all facets: the entry of that name here then gives way. None is implicit,
although MASE calls many ``implicit_func``: they compute, or they move elements, so a graph that needs them is refused
by name.
"""

from __future__ import annotations

import builtins
import dataclasses
import math
import operator
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.opdef import OpDef


def setitem(tensor: Tensor, index: Any, value: Any) -> Tensor:
    """``tensor[index] = value``, as an expression; stands for ``operator.setitem``, which returns nothing."""
    tensor[index] = value
    return tensor


def _op(
    name: str, kind: str, *targets: Any, attributes: str = "", parameters: str = "", lowered: tuple[str, ...] = ()
) -> OpDef:
    """An entry: module classes, functions and names of methods in any order; names separated by spaces."""
    modules, functions, methods = [], [], []
    for target in dict.fromkeys(targets):
        if isinstance(target, str):
            methods.append(target)
        elif isinstance(target, type) and issubclass(target, nn.Module):
            modules.append(target)
        else:
            functions.append(target)
    return OpDef(
        name=name,
        mase_type=kind,
        modules=tuple(modules),
        functions=tuple(functions),
        methods=tuple(methods),
        attributes=tuple(attributes.split()),
        parameters=tuple(parameters.split()),
        lowered=lowered,
    )


def _plain(names: str, kind: str) -> Iterator[OpDef]:
    """Ops that have one name everywhere: function of torch and of math, operator, method, method that writes."""
    places = (torch, torch.special, math, operator)
    for name in names.split():
        functions = [getattr(place, name) for place in places if callable(getattr(place, name, None))]
        methods = [m for m in (name, f"{name}_") if callable(getattr(torch.Tensor, m, None))]
        yield _op(name, kind, *functions, *methods)


MODULE, RELATED, BUILTIN, IMPLICIT = "module", "module_related_func", "builtin_func", "implicit_func"
AFFINE = "weight bias"
MOMENTS = "weight bias running_mean running_var"

LAYERS = (
    _op(
        "instance_norm1d",
        RELATED,
        nn.InstanceNorm1d,
        attributes="eps momentum",
        parameters=MOMENTS,
        lowered=("group_norm",),
    ),
    _op(
        "instance_norm3d",
        RELATED,
        nn.InstanceNorm3d,
        attributes="eps momentum",
        parameters=MOMENTS,
        lowered=("group_norm",),
    ),
    _op(
        "instance_norm2d",
        RELATED,
        nn.InstanceNorm2d,
        F.instance_norm,
        attributes="eps momentum",
        parameters=MOMENTS,
        lowered=("group_norm",),
    ),
    _op("layer_norm", RELATED, nn.LayerNorm, F.layer_norm, attributes="normalized_shape eps", parameters=AFFINE),
    _op("group_norm", RELATED, nn.GroupNorm, F.group_norm, attributes="num_groups eps", parameters=AFFINE),
    _op("rms_norm", RELATED, nn.RMSNorm, F.rms_norm, attributes="normalized_shape eps", parameters="weight"),
)

ACTIVATIONS = (
    _op("softmax", RELATED, nn.Softmax, F.softmax, torch.softmax, torch.special.softmax, "softmax", attributes="dim"),
    _op("log_softmax", RELATED, nn.LogSoftmax, F.log_softmax, torch.log_softmax, "log_softmax", attributes="dim"),
    _op(
        "scaled_dot_product_attention",
        BUILTIN,
        F.scaled_dot_product_attention,
        lowered=("grouped_matmul", "masked_softmax"),
    ),
    _op("normalize", BUILTIN, F.normalize, lowered=("rms_norm",)),
)

ARITHMETIC = (
    *_plain("matmul bmm mm mv addmm baddbmm", BUILTIN),
    *_plain("var std min max topk sort argsort kthvalue median", BUILTIN),
    *_plain("square", BUILTIN),
    *_plain("diff triu tril einsum", BUILTIN),
    _op("and", BUILTIN, operator.and_, torch.logical_and, torch.bitwise_and, "logical_and", "bitwise_and"),
    _op("or", BUILTIN, operator.or_, torch.logical_or, torch.bitwise_or, "logical_or", "bitwise_or"),
    _op("xor", BUILTIN, operator.xor, torch.logical_xor, torch.bitwise_xor, "logical_xor", "bitwise_xor"),
    _op("not", BUILTIN, operator.invert, torch.logical_not, torch.bitwise_not, "logical_not", "bitwise_not"),
    dataclasses.replace(
        _op("prod", BUILTIN, torch.prod, "prod"),
        refused="an exact product has as many bits as all its factors together; multiply part by part (x[:, 0] * "
        "x[:, 1]), so that each product has a format, or sum logarithms",
    ),
    _op("norm", BUILTIN, torch.norm, torch.linalg.vector_norm, "norm"),
    _op("setitem", BUILTIN, operator.setitem, setitem),
)

MOVEMENT = (
    *_plain("stack hstack dstack column_stack split chunk unbind tile gather", IMPLICIT),
    _op("vstack", IMPLICIT, torch.vstack, torch.row_stack),
    *_plain("tensor_split hsplit dsplit split_with_sizes", IMPLICIT),
    *_plain("masked_fill index_select narrow select flip roll", IMPLICIT),
    *_plain("repeat_interleave rot90 take take_along_dim diagonal", IMPLICIT),
    *_plain("slice_scatter select_scatter index_copy", IMPLICIT),
    _op(
        "unfold",
        IMPLICIT,
        nn.Unfold,
        F.unfold,
        "unfold",
        attributes="kernel_size dilation padding stride",
        lowered=("rearrange",),
    ),
    _op("expand", IMPLICIT, torch.broadcast_to, "expand", "expand_as", "broadcast_to"),
    _op("repeat", IMPLICIT, "repeat"),
    _op("view_as", IMPLICIT, "view_as", "reshape_as"),
)

CONVERSIONS = (
    *(
        _op(name, IMPLICIT, name)
        for name in ("to", "type", "type_as", "float", "long", "bool", "int", "half", "bfloat16", "double")
    ),
    _op("numel", IMPLICIT, torch.numel, "numel"),
    _op("dim", IMPLICIT, "dim", "ndimension"),
    _op("getattr", IMPLICIT, builtins.getattr),
    _op("finfo", IMPLICIT, torch.finfo, torch.iinfo),
    _op("_assert", IMPLICIT, torch._assert),
)

CONSTANTS = (
    _op("arange", BUILTIN, torch.arange),
    _op("range", BUILTIN, torch.range),
    _op("full", IMPLICIT, torch.full, torch.full_like, "new_full"),
    _op("ones", IMPLICIT, torch.ones, torch.ones_like, "new_ones"),
    _op("zeros", IMPLICIT, torch.zeros, "new_zeros"),
    _op("zeros_like", IMPLICIT, torch.zeros_like),
    _op("empty", IMPLICIT, torch.empty, torch.empty_like, "new_empty"),
    _op("eye", IMPLICIT, torch.eye),
    _op("tensor", IMPLICIT, torch.tensor, "new_tensor"),
)

OPS = LAYERS + ACTIVATIONS + ARITHMETIC + MOVEMENT + CONVERSIONS + CONSTANTS
