"""Layers of ``torch.nn`` in the place of functions whose weights are parameters of the model.

A program has functions and parameters. Where the parameters of a function are called as those of a layer would be
(``fc.weight``, ``fc.bias``), the graph has that layer at that path: it can be trained, configured and equalised by its
name like the layer that the model had.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.ir.paths import attribute_at

META: Any = {"device": "meta"}
"""Options of a layer that gets the tensors of a program."""


def _conv(kind: Any, w: Tensor, b: Tensor | None, rest: Sequence[Any]) -> nn.Module:
    defaults: list[Any] = [1, 0, 1, 1]
    stride, padding, dilation, groups = [*rest, *defaults[len(rest) :]]
    sizes: Any = [v if isinstance(v, str) else _sizes(v, w.dim() - 2) for v in (stride, padding, dilation)]
    channels = w.shape[1] * groups
    made: nn.Module = kind(channels, w.shape[0], tuple(w.shape[2:]), *sizes, groups, b is not None, **META)
    return made


def _transposed(kind: Any, w: Tensor, b: Tensor | None, rest: Sequence[Any]) -> nn.Module:
    defaults: list[Any] = [1, 0, 0, 1, 1]
    stride, padding, more, groups, dilation = [*rest, *defaults[len(rest) :]]
    dims = w.dim() - 2
    stride, padding, more, dilation = (_sizes(v, dims) for v in (stride, padding, more, dilation))
    shape = (w.shape[0], w.shape[1] * groups, tuple(w.shape[2:]))
    made: nn.Module = kind(*shape, stride, padding, more, groups, b is not None, dilation, **META)
    return made


def _sizes(value: Any, dims: int) -> tuple[int, ...]:
    given = tuple(value) if isinstance(value, list | tuple) else (int(value),)
    return given * dims if len(given) == 1 else given


def _layer_norm(w: Tensor, b: Tensor | None, rest: Sequence[Any]) -> nn.Module:
    return nn.LayerNorm(list(w.shape), rest[0] if rest else 1e-5, bias=b is not None, **META)


LAYERS: dict[Any, tuple[int, Callable[..., nn.Module]]] = {
    F.linear: (1, lambda w, b, rest: nn.Linear(w.shape[1], w.shape[0], b is not None, **META)),
    F.conv1d: (1, functools.partial(_conv, nn.Conv1d)),
    F.conv2d: (1, functools.partial(_conv, nn.Conv2d)),
    F.conv3d: (1, functools.partial(_conv, nn.Conv3d)),
    F.conv_transpose1d: (1, functools.partial(_transposed, nn.ConvTranspose1d)),
    F.conv_transpose2d: (1, functools.partial(_transposed, nn.ConvTranspose2d)),
    F.conv_transpose3d: (1, functools.partial(_transposed, nn.ConvTranspose3d)),
    F.layer_norm: (2, _layer_norm),
    F.embedding: (1, lambda w, b, rest: nn.Embedding(w.shape[0], w.shape[1], **META)),
    F.prelu: (1, lambda w, b, rest: nn.PReLU(w.numel(), **META)),
}
"""Function -> place of its weight, behind which comes the bias, and what makes the layer of weight, bias and the rest
of the arguments."""
BATCH_NORMS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
"""Dimensions of the data -> the layer."""


class Layers:
    """The layers that a graph gets.

    Args:
        root: The module that holds them and the tensors of the program, at their paths.
    """

    def __init__(self, root: nn.Module) -> None:
        self.root = root
        self._made: dict[str, tuple[Any, ...]] = {}
        self.beside: dict[str, str] = {}
        """Tensors that a layer does not have: the path of each beside it, by the path that it had."""

    def place(self, function: Any, args: Sequence[Any], path_of: Callable[[Any], str | None], dims: int) -> str | None:
        """The path of the layer that a call is, which is put there; None if it is none.

        Args:
            function: A function of ``torch.nn.functional``.
            args: Its arguments: tensors of the program as something that ``path_of`` knows.
            path_of: The path of a parameter or buffer; None for anything else.
            dims: Dimensions of the data.
        """
        if function is F.batch_norm:
            return self._batch_norm(args, path_of, dims)
        if function not in LAYERS:
            return None
        index, make = LAYERS[function]
        weight = path_of(args[index])
        bias = args[index + 1] if len(args) > index + 1 and function not in (F.embedding, F.prelu) else None
        if weight is None or not weight.endswith(".weight") or (bias is not None and path_of(bias) is None):
            return None
        path = weight.removesuffix(".weight")
        if bias is not None and path_of(bias) != f"{path}.bias":
            return None
        w, b = self._tensor(weight), None if bias is None else self._tensor(f"{path}.bias")
        rest = tuple(args[index + (1 if function in (F.embedding, F.prelu) else 2) :])
        return self._put(path, (function, repr(rest), b is None), lambda: make(w, b, rest), {"weight": w, "bias": b})

    def _batch_norm(self, args: Sequence[Any], path_of: Callable[[Any], str | None], dims: int) -> str | None:
        names = ("running_mean", "running_var", "weight", "bias")
        paths = [None if a is None else path_of(a) for a in args[1:5]]
        if not paths[0] or dims not in BATCH_NORMS:
            return None
        stem = paths[0].removesuffix(".running_mean")
        given = dict(zip(names, args[1:5], strict=True))
        if any(a is not None and p != f"{stem}.{n}" for (n, a), p in zip(given.items(), paths, strict=True)):
            return None
        tensors = {n: None if a is None else self._tensor(f"{stem}.{n}") for n, a in given.items()}
        affine = tensors["weight"] is not None
        size = tensors["running_mean"].shape[0]  # type: ignore[union-attr]
        kind: Any = BATCH_NORMS[dims]
        return self._put(stem, (kind, args[7]), lambda: kind(size, args[7], args[6], affine), tensors)

    def _tensor(self, path: str) -> Tensor:
        value = attribute_at(self.root, self.beside.get(path, path))
        assert isinstance(value, Tensor)  # a path that path_of gave
        return value

    def recurrent(self, layer: nn.Module, names: Sequence[str], paths: Sequence[str], free: str) -> str:
        """Put a recurrent layer where its parameters are, if they are called as a layer calls them; give its path.

        Args:
            layer: The layer.
            names: Its parameters.
            paths: Where they are.
            free: Its path otherwise.
        """
        tensors = {name: self._tensor(path) for name, path in zip(names, paths, strict=True)}
        stem, _, last = paths[0].rpartition(".")
        own = bool(stem) and last == names[0] and all(p == f"{stem}.{n}" for p, n in zip(paths, names, strict=True))
        key = (type(layer), repr(layer))
        placed = self._put(stem, key, lambda: layer, dict(tensors)) if own else None
        if placed is None:
            self.root.add_module(free, nn.Module())
            placed = self._put(free, (*key, free), lambda: layer, dict(tensors))
        assert placed is not None  # nothing else is at a free path
        return placed

    def _put(
        self, path: str, key: tuple[Any, ...], make: Callable[[], nn.Module], tensors: dict[str, Tensor | None]
    ) -> str | None:
        """Put a layer at a path, unless another one is there."""
        if path in self._made:
            return path if self._made[path] == key else None
        home = self.root.get_submodule(path)
        if any(True for _ in home.children()):
            return None
        layer = make()
        parent, _, last = path.rpartition(".")
        outer = self.root.get_submodule(parent)
        own = {*layer._parameters, *layer._buffers} - {name for name, value in tensors.items() if value is None}
        for name, value in tensors.items():
            _hold(layer, name, value)
        # A class of the user's own may have more, as the scale of an embedding by which its forward multiplies; and a
        # weight may be used by itself as well, without the bias beside it.
        for name, value in {**home._parameters, **home._buffers}.items():
            if name not in own:
                _hold(outer, f"{last}_{name}", value)
                self.beside[f"{path}.{name}"] = f"{parent}.{last}_{name}".removeprefix(".")
        setattr(outer, last, layer)
        self._made[path] = key
        return path


def _hold(module: nn.Module, name: str, value: Tensor | None) -> None:
    """Keep a tensor in a module as what it is: a parameter, or a buffer."""
    if isinstance(value, nn.Parameter):
        module.register_parameter(name, value)
    elif value is not None:
        module._parameters.pop(name, None)
        module.register_buffer(name, value)
