"""Modules as documents: a class that the catalogue lists, and the arguments to construct it with.

Nothing is pickled and nothing is looked up by path: a document names one of the classes that ops of the catalogue
match, or one of the catalogue's own module classes, and gives plain values. How a module is described is proven on the
spot by building it again and comparing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.catalogue import Catalogue
from mase_hw.errors import CheckpointError, GraphError, suggest
from mase_hw.host.documents import Json
from mase_hw.ir.records import same
from mase_hw.ir.trace.derived import computes_as

_INTERNAL = frozenset(vars(nn.Module()))
_HOOKS = tuple(name for name in sorted(_INTERNAL) if name.endswith(("_hooks", "_hooks_with_kwargs")))
_MISSING = object()

_OF_MODULE = ("class", "arguments")
"""Keys of an argument that is a module."""


def _of_first(of: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda m: of(m.encoder.layers[0])


_OF_LAYER: dict[str, Callable[[Any], object]] = {
    "d_model": lambda m: m.self_attn.embed_dim,
    "nhead": lambda m: m.self_attn.num_heads,
    "dim_feedforward": lambda m: m.linear1.out_features,
    "dropout": lambda m: m.dropout.p,
    "activation": lambda m: {F.relu: "relu", F.gelu: "gelu"}.get(m.activation, m.activation),
    "layer_norm_eps": lambda m: m.norm1.eps,
    "batch_first": lambda m: m.self_attn.batch_first,
    "norm_first": lambda m: m.norm_first,
    "bias": lambda m: m.linear1.bias is not None,
}
_NOT_KEPT: dict[type[nn.Module], dict[str, Callable[[Any], object]]] = {
    nn.MultiheadAttention: {
        "bias": lambda m: m.in_proj_bias is not None,
        "add_bias_kv": lambda m: m.bias_k is not None,
    },
    nn.TransformerEncoderLayer: _OF_LAYER,
    nn.TransformerDecoderLayer: _OF_LAYER,
    nn.TransformerEncoder: {"encoder_layer": lambda m: m.layers[0]},
    nn.TransformerDecoder: {"decoder_layer": lambda m: m.layers[0]},
    nn.Transformer: {
        **{key: _of_first(of) for key, of in _OF_LAYER.items()},
        "num_encoder_layers": lambda m: len(m.encoder.layers),
        "num_decoder_layers": lambda m: len(m.decoder.layers),
    },
}
"""Constructor arguments that a class of PyTorch does not keep under their own name, and how to tell them."""


@runtime_checkable
class Rebuildable(Protocol):
    """A module class whose instances describe themselves; of the others, attributes are taken for arguments."""

    def to_document(self) -> Json:
        """All but the tensors: numbers, texts, formats, and lists, tuples and dicts of them."""

    @classmethod
    def from_document(cls, document: Json, tensors: Mapping[str, Tensor], catalogue: Catalogue) -> nn.Module:
        """Build the module; ``tensors`` are its own parameters and buffers.

        Raises:
            MaseHwError: If the document does not describe such a module; it may come from anybody.
        """


class LeftOut(nn.Module):
    """Stands for a module of a user's own that a checkpoint could not hold; has its tensors.

    Args:
        path: Its path in the model.
        kind: Name of its class.
    """

    def __init__(self, path: str, kind: str) -> None:
        super().__init__()
        self.path, self.kind = path, kind

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse to compute.

        Raises:
            GraphError: Always, with the module that is missing.
        """
        raise GraphError(
            "the checkpoint did not hold this module",
            node=self.path,
            got=f"a stand-in for {self.kind}, which has its tensors",
            remedy=f"put the module in its place: graph.model.set_submodule({self.path!r}, module)",
        )


def is_own(module: nn.Module) -> bool:
    """Whether the class of a module is a user's own: neither PyTorch's nor the package's."""
    return isinstance(module, LeftOut) or type(module).__module__.partition(".")[0] not in ("torch", "mase_hw")


def class_name(cls: type[nn.Module]) -> str:
    """The name of a class in a document."""
    return f"{cls.__module__}.{cls.__qualname__}"


def known_classes(catalogue: Catalogue) -> dict[str, type[nn.Module]]:
    """The classes a document may name."""
    classes = [*catalogue.modules, *(cls for op in catalogue for cls in op.modules)]
    return {class_name(cls): cls for cls in classes}


def describe_module(module: nn.Module, path: str, catalogue: Catalogue) -> tuple[str, Json]:
    """Class name and arguments of a module.

    Raises:
        CheckpointError: If its class is not in the catalogue, or building it again gives something else.
    """
    refuse_hooks(module, path)
    cls = _listed_class(module, path, catalogue)
    arguments = (
        module.to_document()
        if isinstance(module, Rebuildable)
        else _constructor_arguments(cls, module, path, catalogue)
    )
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    try:
        again = build_module(class_name(cls), arguments, tensors, catalogue)
    except Exception as error:  # a constructor may raise anything
        raise _changed(path, module, f"{cls.__name__}({arguments}): {type(error).__name__}: {error}") from error
    _compare(module, again, path)
    return class_name(cls), arguments


def build_module(name: str, arguments: Json, tensors: Mapping[str, Tensor], catalogue: Catalogue) -> nn.Module:
    """Build a module; parameters and buffers that it makes itself are on the ``meta`` device.

    Raises:
        CheckpointError: If the catalogue has no such class, or the class no such argument.
    """
    classes = known_classes(catalogue)
    if name not in classes:
        raise CheckpointError(
            "the checkpoint needs a module that is not in the catalogue",
            node=name,
            remedy="pass the custom_ops (or the catalogue) with which the graph was made; "
            + (suggest(name.rsplit(".", 1)[-1], [n.rsplit(".", 1)[-1] for n in classes]) or ""),
        )
    cls = classes[name]
    if hasattr(cls, "from_document"):
        built: nn.Module = cls.from_document(arguments, tensors, catalogue)
        return built
    unknown = set(arguments) - set(_parameters(cls))
    if unknown:
        raise CheckpointError("a module has no such constructor argument", node=name, got=", ".join(sorted(unknown)))
    inner = {
        key: build_module(value["class"], value["arguments"], {}, catalogue)
        for key, value in arguments.items()
        if isinstance(value, dict) and value.keys() == set(_OF_MODULE)
    }
    # Without memory and without random numbers: the checkpoint has the tensors.
    with torch.device("meta"):
        return cls(**{**arguments, **inner})


def refuse_hooks(module: nn.Module, path: str) -> None:
    """Refuse a module with hooks.

    Raises:
        CheckpointError: Names the module and the kind of hook.
    """
    for name, part in module.named_modules(prefix=path):
        for kind in _HOOKS:
            if getattr(part, kind, None):
                raise CheckpointError(
                    "a checkpoint cannot hold hooks, which are code",
                    node=name or "the model",
                    got=kind.strip("_"),
                    remedy="remove them before exporting, and add them again after loading",
                )


def _listed_class(module: nn.Module, path: str, catalogue: Catalogue) -> type[nn.Module]:
    classes = known_classes(catalogue)
    for cls in type(module).__mro__:
        if classes.get(class_name(cls)) is cls and computes_as(type(module), cls):
            return cls
    raise CheckpointError(
        "a checkpoint cannot hold a module whose class is not in the catalogue",
        node=path,
        got=class_name(type(module)),
        remedy="register the class with custom_ops, here and when loading",
    )


def _parameters(cls: type[nn.Module]) -> dict[str, inspect.Parameter]:
    signature = inspect.signature(cls.__init__)
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {
        name: parameter
        for name, parameter in list(signature.parameters.items())[1:]
        if parameter.kind not in variable and name not in ("device", "dtype") and not name.startswith("_")
    }


def _constructor_arguments(cls: type[nn.Module], module: nn.Module, path: str, catalogue: Catalogue) -> Json:
    arguments: Json = {}
    special = _NOT_KEPT.get(cls, {})
    for name in _parameters(cls):
        value = special[name](module) if name in special else getattr(module, name, _MISSING)
        if name == "bias" and (value is None or isinstance(value, Tensor)):
            value = value is not None
        if isinstance(value, nn.Module):
            value = dict(zip(_OF_MODULE, describe_module(value, f"{path}.{name}", catalogue), strict=True))
        if value is not _MISSING:
            arguments[name] = value
    return arguments


def _compare(module: nn.Module, again: nn.Module, path: str) -> None:
    """Refuse a module that was changed after it was constructed."""
    for part, (name, old) in zip(again.modules(), module.named_modules(prefix=path), strict=False):
        kept = {key: value for key, value in vars(old).items() if key not in _INTERNAL}
        made = {key: value for key, value in vars(part).items() if key not in _INTERNAL}
        for key, value in made.items():
            if key not in kept or not same(kept[key], value):
                raise _changed(name, old, f"{key} = {kept.get(key)!r}, constructed with {value!r}")
        replaced = [key for key in kept if key not in made and hasattr(type(old), key)]
        if replaced:
            raise _changed(name, old, f"{', '.join(replaced)} set on the instance")
    old_tensors, new_tensors = _tensors(module), _tensors(again)
    if old_tensors != new_tensors:
        raise _changed(path, module, f"parameters and buffers {old_tensors}, constructed {new_tensors}")


def _tensors(module: nn.Module) -> dict[str, list[int]]:
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return {name: list(tensor.shape) for name, tensor in named}


def _changed(path: str, module: nn.Module, got: str) -> CheckpointError:
    return CheckpointError(
        "a module cannot be rebuilt from its constructor arguments, so no checkpoint can hold it",
        node=f"{path} ({class_name(type(module))})",
        got=got,
        expected="a module as its constructor makes it, apart from the content of parameters and buffers",
        remedy="construct it with these values, or give its class to_document and from_document "
        "(see mase_hw.ir.checkpoint.modules.Rebuildable)",
    )
