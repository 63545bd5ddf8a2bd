"""Which function of torch an operation of ``aten`` is, with its arguments in the order of that function."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx

from mase_hw.catalogue import Catalogue
from mase_hw.nn.recurrence import linear_recurrence

Keywords = Mapping[str, Any]
Call = tuple[str, Any, tuple[Any, ...], Keywords]
"""Kind of the node, its target, arguments and keywords."""

SAME = frozenset(
    {
        "alias",
        "clone",
        "detach",
        "lift_fresh_copy",
        "lift_fresh",
        "contiguous",
        "_conj",
        "positive",
        "dropout",
        "feature_dropout",
    }
)
"""Operations that give what they get, as far as a program without writes is concerned."""
SHAPED = frozenset(
    {
        "view",
        "reshape",
        "_unsafe_view",
        "expand",
        "flatten",
        "unflatten",
        "view_copy",
        "expand_copy",
        "squeeze",
        "unsqueeze",
    }
)
"""Operations that name the shape of their result; those that may split or join the frames do it in other ways."""
NOTHING = frozenset(
    {
        "_assert_tensor_metadata",
        "_assert_async",
        "_assert_scalar",
        "sym_constrain_range",
        "sym_constrain_range_for_size",
    }
)
"""Operations that compute nothing."""
SETTINGS = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "implicit"})
"""Keywords that say how a tensor is kept."""
REFUSED = {
    "native_dropout": "a dropout that is left on is random: write F.dropout(x, p, training=self.training), or use "
    "nn.Dropout",
    "bernoulli": "it is random",
    "rand": "it is random",
    "randn": "it is random",
    "rand_like": "it is random",
    "randn_like": "it is random",
    "nonzero": "the size of its result depends on data",
    "item": "a value of the data becomes a number of Python",
    "_local_scalar_dense": "a value of the data becomes a number of Python",
    "quantize_per_tensor": "the program is quantised: take it with mase_hw.import_model",
    "quantize_per_channel": "the program is quantised: take it with mase_hw.import_model",
}
"""Operations that no hardware has, and why, or what to do."""


class NotTaken(Exception):
    """Why an operation is none of the catalogue."""


def packet(target: Any) -> str:
    """Name of an operation without its overload: ``add`` of ``aten.add.Tensor``."""
    if target is operator.getitem:
        return "getitem"
    return str(getattr(target, "overloadpacket", target)).rsplit(".", 1)[-1]


def call_of(target: Any, args: tuple[Any, ...], kwargs: Keywords, known: Catalogue) -> Call | None:
    """The call that an operation of aten is; None if the catalogue has no such function.

    Args:
        target: The overload.
        args: Its arguments.
        kwargs: Its keywords.
        known: The ops.
    """
    if target is operator.getitem:
        return ("call_function", target, args, kwargs)
    name = packet(target)
    if name in ("max", "min") and target._overloadname == "other":
        name += "imum"
    rule = RULES.get(name)
    if rule is not None:
        return rule(*args, **kwargs)
    kept = {k: v for k, v in kwargs.items() if k not in SETTINGS}
    for place in (torch, F, torch.special):
        function = getattr(place, name.removeprefix("special_"), None)
        if function is not None and known.of_target(function) is not None:
            return ("call_function", function, args, kept)
    return ("call_method", name, args, kept) if known.of_target(name) is not None else None


def _function(function: Any, *args: Any, **kwargs: Any) -> Call:
    return ("call_function", function, args, kwargs)


def _to(x: Any, *, dtype: Any = None, **_: Any) -> Call:
    return ("call_method", "to", (x, dtype), {})


def _slice(x: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Call:
    whole = slice(None if start == 0 else start, None if end is not None and end >= 2**62 else end)
    part = slice(whole.start, whole.stop, None if step == 1 else step)
    return _function(operator.getitem, x, (*[slice(None)] * dim, part))


def _extreme(function: Any, a: Any, b: Any) -> Call:
    """The larger or the smaller of two; a number is a bound."""
    a, b = (a, b) if isinstance(a, fx.Node) else (b, a)
    if isinstance(b, fx.Node):
        return _function(function, a, b)
    return _function(torch.clamp, a, *((b,) if function is torch.maximum else (None, b)))


def _attention(q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0, *rest: Any, **more: Any) -> Call:
    return _function(F.scaled_dot_product_attention, q, k, v, attn_mask, dropout_p, *rest, **more)


def _normalised(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Call:
    return _function(F.layer_norm, x, shape, weight, bias, eps)


def _batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float = 0.1, eps: float = 1e-5, *_: Any
) -> Call:
    return _function(F.batch_norm, x, mean, var, weight, bias, False, momentum, eps)


def _group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Call:
    return _function(F.group_norm, x, groups, weight, bias, eps)


def _instance_norm(*operands: Any) -> Call:
    x, weight, bias, mean, var, own, momentum, eps, *_ = operands
    return _function(F.instance_norm, x, mean, var, weight, bias, own, momentum, eps)


def _enlarged(name: str) -> Callable[..., Call]:
    mode = name.removeprefix("_").removeprefix("upsample_").removesuffix("_aa")[:-2].replace("_", "-")

    def rule(x: Any, size: Any, *rest: Any) -> Call:
        more: dict[str, object] = {} if mode.startswith("nearest") else {"align_corners": rest[0]}
        if name.endswith("_aa"):
            more["antialias"] = True
        return _function(F.interpolate, x, size, None if size is not None else rest[-1], mode, **more)

    return rule


def _convolution(*operands: Any) -> Call:
    x, weight, bias, stride, padding, dilation, transposed, more, groups = operands
    dims = len(stride)
    if transposed:
        function: Any = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1]
        return _function(function, x, weight, bias, stride, padding, more, groups, dilation)
    function = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]
    return _function(function, x, weight, bias, stride, padding, dilation, groups)


RULES: dict[str, Callable[..., Call | None]] = {
    "linear_recurrence": functools.partial(_function, linear_recurrence),
    "_to_copy": _to,
    "slice": _slice,
    "select": lambda x, dim, index: _function(operator.getitem, x, (*[slice(None)] * dim, index)),
    "t": lambda x: _function(torch.transpose, x, 0, 1),
    "softmax": lambda x, dim, dtype=None: _function(F.softmax, x, dim),
    "_softmax": lambda x, dim, half=False: _function(F.softmax, x, dim),
    "log_softmax": lambda x, dim, dtype=None: _function(F.log_softmax, x, dim),
    "_log_softmax": lambda x, dim, half=False: _function(F.log_softmax, x, dim),
    "scaled_dot_product_attention": _attention,
    "layer_norm": _normalised,
    "native_layer_norm": _normalised,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "batch_norm": lambda x, w, b, m, v, training, momentum, eps, *_: _batch_norm(x, w, b, m, v, momentum, eps),
    "convolution": _convolution,
    "max_pool2d_with_indices": lambda x, *args: _function(F.max_pool2d, x, *args),
    "max_pool3d_with_indices": lambda x, *args: _function(F.max_pool3d, x, *args),
    "_adaptive_avg_pool2d": lambda x, size: _function(F.adaptive_avg_pool2d, x, size),
    "embedding": lambda weight, ids, *_: _function(F.embedding, ids, weight),
    "gelu": lambda x, approximate="none": _function(F.gelu, x, approximate=approximate),
    "silu": lambda x: _function(F.silu, x),
    "hardtanh": lambda x, low=-1.0, high=1.0: _function(F.hardtanh, x, low, high),
    "leaky_relu": lambda x, slope=0.01: _function(F.leaky_relu, x, slope),
    "split_with_sizes": lambda x, sizes, dim=0: _function(torch.split, x, sizes, dim),
    "copy": lambda x, other, *_: ("call_method", "expand_as", (other, x), {}),
    "fill": lambda x, value: _function(torch.full_like, x, value),
    "zero": lambda x: _function(torch.zeros_like, x),
    "linalg_vector_norm": lambda x, order=2, dim=None, keep=False, **_: _function(
        torch.linalg.vector_norm, x, order, dim, keep
    ),
    "clamp_min": lambda x, low: _function(torch.clamp, x, low),
    "clamp_max": lambda x, high: _function(torch.clamp, x, None, high),
    **{
        name: _enlarged(name)
        for name in (
            "upsample_nearest1d",
            "upsample_nearest2d",
            "upsample_nearest3d",
            "upsample_linear1d",
            "upsample_bilinear2d",
            "upsample_trilinear3d",
            "upsample_bicubic2d",
            "_upsample_nearest_exact1d",
            "_upsample_nearest_exact2d",
            "_upsample_nearest_exact3d",
            "_upsample_bilinear2d_aa",
            "_upsample_bicubic2d_aa",
        )
    },
    "log_sigmoid": lambda x: _function(F.logsigmoid, x),
    "log_sigmoid_forward": lambda x: _function(F.logsigmoid, x),
    "im2col": lambda x, *sizes: _function(F.unfold, x, *sizes),
    "col2im": lambda x, *sizes: _function(F.fold, x, *sizes),
    "unfold": lambda x, dim, size, step: ("call_method", "unfold", (x, dim, size, step), {}),
    "maximum": lambda a, b: _extreme(torch.maximum, a, b),
    "minimum": lambda a, b: _extreme(torch.minimum, a, b),
    "__and__": lambda a, b: _function(torch.logical_and, a, b),
    "__or__": lambda a, b: _function(torch.logical_or, a, b),
    "__xor__": lambda a, b: _function(torch.logical_xor, a, b),
    "bitwise_not": lambda a: _function(torch.logical_not, a),
    "pow": lambda x, e: _function(torch.pow, x, e),
}
"""By the name of the operation: arguments -> call, or None if these arguments have none."""
BITS = frozenset({"__and__", "__or__", "__xor__", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"})
"""Operations that are those of truth values for these alone."""
MULTIPLE = frozenset(
    {
        "native_layer_norm",
        "_native_batch_norm_legit_no_training",
        "native_group_norm",
        "log_sigmoid_forward",
        *(f"max_pool{n}d_with_indices" for n in (1, 2, 3)),
        *(f"adaptive_max_pool{n}d" for n in (1, 2, 3)),
    }
)
"""Operations with several results, of which the first one is what a function of torch gives alone."""
