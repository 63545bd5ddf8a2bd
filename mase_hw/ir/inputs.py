"""What is refused before a graph is evaluated: unknown ops, and inputs that do not fit. Arrays become tensors here."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensor

from mase_hw.errors import ConfigError, UnsupportedError, suggest
from mase_hw.ir.annotated import AnnotatedGraph
from mase_hw.ir.evaluate import Values
from mase_hw.ir.paths import module_at
from mase_hw.nn.on_host import OnHost
from mase_hw.ops._no_hardware import reasons

STRUCTURAL = {
    "placeholder": ("placeholder", "placeholder"),
    "get_attr": ("get_attr", "constant"),
    "output": ("output", "output"),
}
"""fx operation -> (mase_type, mase_op) of nodes that are no op of the catalogue."""


def unknown_nodes(graph: AnnotatedGraph) -> list[fx.Node]:
    """The nodes of a graph whose targets are not in the catalogue."""
    return [n for n in graph.nodes if n.op not in STRUCTURAL and graph.op_of(n) is None]


def refuse_unknown(graph: AnnotatedGraph) -> None:
    """Refuse a graph with targets that are not in the catalogue, all of them at once.

    Raises:
        UnsupportedError: Names every such node and its target.
    """
    if unknown := unknown_nodes(graph):
        raise unknown_error(graph, unknown)


def unknown_error(graph: AnnotatedGraph, unknown: Sequence[fx.Node]) -> UnsupportedError:
    """What is said of nodes that the catalogue does not have."""
    on_host = {n.name: m for n in unknown if isinstance(m := graph.modules.get(str(n.target)), OnHost)}
    if on_host:
        return UnsupportedError(
            f"{len(on_host)} node(s) of the model are for the host",
            node="; ".join(on_host),
            got="; ".join(dict.fromkeys(module.reason for module in on_host.values())),
            remedy="leave them there with mase_hw.compile_partitioned, or --partition on the command line",
        )
    names = [op.name for op in graph.catalogue if op.mase_type]
    first = _target(graph, unknown[0])
    similar = difflib.get_close_matches(first.rsplit(".", 1)[-1].lower(), names, n=3)
    near = f" (near {first} there are: {', '.join(similar)})" if similar else ""
    short = dict.fromkeys(_target(graph, n).rsplit(".", 1)[-1] for n in unknown)
    why = "; ".join(f"{name}: {reasons()[name]}" for name in short if name in reasons())
    return UnsupportedError(
        f"{len(unknown)} node(s) of the model are no op of the catalogue",
        node="; ".join(f"{n.name} ({n.op} {_target(graph, n)})" for n in unknown),
        got=why or None,
        expected=f"one of the {len(names)} ops that `mase-hw ops` lists",
        remedy=f"replace the layer, add the op to the catalogue, or pass it with custom_ops{near}",
    )


def _target(graph: AnnotatedGraph, node: fx.Node) -> str:
    if node.op == "call_module":
        cls = type(module_at(graph.model, str(node.target)))
        return f"{cls.__module__}.{cls.__qualname__}"
    return str(node._pretty_print_target(node.target))


def as_tensor(value: Any, model: nn.Module, dtype: torch.dtype | None, name: str) -> Any:
    """A numpy array as a tensor; anything else as it is.

    Args:
        value: What a user gave.
        model: Floats become what its parameters are.
        dtype: Element type of this input, if it is known; else floats become the model's and integers stay.
        name: Name of the input, for errors.

    Raises:
        ConfigError: If it is an array of something else than numbers, or of numbers that the input cannot hold.
    """
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind not in "fiub":
        raise ConfigError(
            "an array does not hold real numbers", node=name, got=f"dtype {value.dtype}", expected="floats or integers"
        )
    floats = value.dtype.kind == "f"
    # An own copy in the byte order of this machine: the array may be read-only, or run backwards.
    own = np.array(value, dtype=np.float64 if floats else bool if value.dtype.kind == "b" else np.int64, order="C")
    tensor = torch.from_numpy(own)
    if floats and dtype is None:
        dtype = next((p.dtype for p in model.parameters() if p.dtype.is_floating_point), torch.get_default_dtype())
    made = tensor if dtype is None else tensor.to(dtype)
    # A float is rounded to the model's type as ever, but an integer that becomes another one is another input.
    other = floats and not made.dtype.is_floating_point
    if other or (not floats and not (np.array_equal(own, value) and torch.equal(made.to(tensor.dtype), tensor))):
        raise ConfigError(
            "an array holds numbers that the model's input cannot",
            node=name,
            got=f"dtype {value.dtype}",
            expected=f"what {made.dtype} can hold",
            remedy="convert it to the type that the model takes",
        )
    return made


def frame_tensor(value: Any, name: str) -> Tensor:
    """A tensor of frames as an ordinary tensor: no subclass, no gradient.

    Args:
        value: What a user gave, arrays already converted.
        name: Name of the input, for errors.

    Raises:
        ConfigError: If it is no tensor, or none of real numbers in rows: complex, quantised, sparse, nested, without
            values, without dimensions or without elements.
    """
    if not isinstance(value, Tensor):
        raise ConfigError(
            f"{name}: not a tensor but {type(value).__name__}",
            node=name,
            got=type(value).__name__,
            expected="a tensor, or a numpy array",
            remedy="convert it, for example with torch.tensor(values); what is no tensor belongs into the model",
        )
    problem = _no_frame(value)
    if problem is not None:
        raise ConfigError(
            "a tensor holds no frames",
            node=name,
            got=problem,
            expected="real numbers (such as torch.float32), one frame or several along the first dimension",
        )
    return value.detach().as_subclass(Tensor)


def _no_frame(value: Tensor) -> str | None:
    if value.is_nested or value.layout is not torch.strided:
        return "a nested tensor" if value.is_nested else f"a sparse tensor ({value.layout})"
    if value.is_meta or isinstance(value, FakeTensor):
        return "a tensor without values, on the meta device"
    if value.is_complex() or value.is_quantized:
        return f"dtype {value.dtype}"
    return None if value.dim() and value.numel() else f"shape {list(value.shape)}"


def input_dtype(graph: AnnotatedGraph, node: fx.Node) -> torch.dtype | None:
    """Element type of a placeholder in the example that the metadata was made with; None if there is none."""
    found = graph.meta_of(node).common.results.tensors.get("data_out_0")
    return None if found is None else found.torch_dtype


def check_inputs(graph: AnnotatedGraph, dummy_in: Values | None, what: str = "dummy_in") -> dict[str, object]:
    """A value for every placeholder, defaults of the model's ``forward`` filled in.

    Raises:
        ConfigError: If an input is missing, unexpected, or not a tensor or number; names all of them.
    """
    given = dict(dummy_in or {})
    values: dict[str, object] = {}
    problems = []
    places = [n for n in graph.nodes if n.op == "placeholder"]
    for node in places:
        target = str(node.target)
        key = node.name if node.name in given else target
        if key in given:
            values[node.name] = as_tensor(given.pop(key), graph.model, None, f"{what}.{key}")
            if not isinstance(values[node.name], Tensor | int | float | bool | None):
                problems.append(f"{what}.{key}: not a tensor but {type(values[node.name]).__name__}")
        elif target.startswith("*"):
            values[node.name] = {} if target.startswith("**") else ()
        elif node.args:
            values[node.name] = node.args[0]
        else:
            problems.append(f"{what}.{target}: missing")
    expected = [str(n.target) for n in places if not str(n.target).startswith("*")]
    for name in given:
        problems.append(f"{what}.{name}: the model has no such input ({suggest(str(name), expected)})")
    if problems:
        raise ConfigError(
            f"{what} does not fit the inputs of the model:\n  " + "\n  ".join(problems),
            field=what,
            got=", ".join(map(str, dummy_in)) if dummy_in else "nothing",
            expected=", ".join(expected),
            remedy=f"pass {{{what!r}: {{{', '.join(f'{e!r}: tensor' for e in expected)}}}}}",
        )
    return values
