"""Diagnostic files: everything that a graph holds at one moment, for people and for scripts."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from mase_hw.errors import ConfigError
from mase_hw.host.disk import write_whole, writing
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotated import MODEL_NAME
from mase_hw.ir.metadata import MaseMetadata
from mase_hw.ir.records import plain
from mase_hw.nn import Quantized


@dataclass(frozen=True)
class Place:
    """Where diagnostic files go.

    Args:
        folder: The folder; it is made.
        prefix: Begins the name of every file.
        suffix: Ends it, before the extension.
        name: What the model is called in between; by its class if None.

    Raises:
        ConfigError: If one of them cannot be a part of a file's name.
    """

    folder: Path
    prefix: str = ""
    suffix: str = ""
    name: str | None = None

    def __post_init__(self) -> None:
        for field, value in (("prefix", self.prefix), ("suffix", self.suffix), ("name", self.name or "")):
            if not re.fullmatch(r"[\w.+=-]*", value):
                raise ConfigError(
                    "this cannot be a part of a file's name",
                    field=field,
                    got=repr(value),
                    expected="letters, digits and . _ + = -",
                )

    def write(self, graph: MaseGraph, configuration: Json | None = None) -> list[Path]:
        """Write the files of a graph; see :func:`dump_diagnostic_files`."""
        arrays: dict[str, Any] = {}
        configured = _configuration(graph, configuration)
        documents = {"graph": _graph(graph), "configuration": configured, "statistics": _statistics(graph, arrays)}
        _arrays(graph, arrays)
        files = {f"{name}.json": (json.dumps(tree, indent=1) + "\n").encode() for name, tree in documents.items()}
        files["configuration.yaml"] = "".join(f"{line}\n" for line in _yaml(configured)).encode()
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        files["arrays.npz"] = buffer.getvalue()
        start = f"{self.prefix}{self.name or model_name(graph)}{self.suffix}"
        return [_write(self.folder, f"{start}.{name}", content) for name, content in files.items()]


def dump_diagnostic_files(
    graph: MaseGraph,
    folder: str | Path,
    prefix: str = "",
    suffix: str = "",
    *,
    name: str | None = None,
    configuration: Json | None = None,
) -> list[Path]:
    """Write what a graph holds: five files, the same bytes for the same graph.

    Their names are ``{prefix}{name}{suffix}.KIND``, so that graphs of several models can share a folder. ``KIND`` is

    - ``graph.json``: passes that have run, and every node with its op, target, inputs, common and hardware metadata.
    - ``configuration.json`` and the same as ``configuration.yaml``: formats and cast modes of every quantised node, and
      ``configuration``.
    - ``statistics.json``: what was observed, by node and tensor.
    - ``arrays.npz``: ``state/NAME`` for parameters and buffers of the model, ``mantissas/NODE.NAME`` for the
      integers that stand for them in hardware, ``values/NODE.NAME`` for tensors kept in metadata, and
      ``statistics/NODE.NAME.STATISTIC`` for statistics that are arrays.

    A graph without metadata is written as far as it goes, so that this also works on what a failed step left.

    Args:
        graph: The graph; it is not changed.
        folder: Where to; it is made. Files of the same names are replaced, each at once.
        prefix: Begins the name of every file.
        suffix: Ends it, before the extension.
        name: What the model is called in between; by its class if None.
        configuration: What else belongs to the configuration; anything JSON can hold.

    Returns:
        The files.

    Raises:
        ConfigError: If prefix, suffix or name cannot be a part of a file's name.
        EmitError: If a file cannot be written.
    """
    return Place(Path(folder), prefix, suffix, name).write(graph, configuration)


def model_name(graph: MaseGraph) -> str:
    """What the model is called, by its class if nothing else is known, as a part of a file's name."""
    return re.sub(r"[^\w.+=-]", "_", str(graph.meta.get(MODEL_NAME) or type(graph.model).__name__))


def _write(folder: Path, name: str, content: bytes) -> Path:
    file = folder / name
    with writing("a diagnostic file", file):
        write_whole(file, content)
    return file


def _meta(node: fx.Node) -> MaseMetadata | None:
    found = node.meta.get("mase")
    return found if isinstance(found, MaseMetadata) else None


def _graph(graph: MaseGraph) -> Json:
    nodes = []
    for node in graph.nodes:
        meta = _meta(node)
        entry = {
            "name": node.name,
            "op": node.op,
            "target": node._pretty_print_target(node.target),
            "inputs": [n.name for n in node.all_input_nodes],
        }
        if meta is not None:
            entry |= {"common": _json(plain(meta.common)), "hardware": _json(plain(meta.hardware))}
        nodes.append(entry)
    return {"model": type(graph.model).__name__, "passes": list(graph.completed), "nodes": nodes}


def _configuration(graph: MaseGraph, more: Json | None) -> Json:
    nodes = {}
    for node in graph.nodes:
        arithmetic = getattr(_module(graph, node), "arithmetic", None)
        if arithmetic is not None:
            nodes[node.name] = {
                "formats": {name: str(fmt) for name, fmt in arithmetic.formats.items()},
                "rounding": arithmetic.rounding.name.lower(),
                "overflow": arithmetic.overflow.name.lower(),
                "attributes": _json(arithmetic.attributes),
            }
    return {"nodes": nodes, **({} if more is None else {"configuration": _json(more)})}


def _statistics(graph: MaseGraph, arrays: Json) -> Json:
    found: Json = {}
    for node in graph.nodes:
        meta = _meta(node)
        software = {} if meta is None else {"args": meta.software.args, "results": meta.software.results}
        parts = {k: _json(v, f"statistics/{node.name}", arrays) for k, v in software.items() if v}
        if parts:
            found[node.name] = parts
    return found


def _arrays(graph: MaseGraph, arrays: Json) -> None:
    for name, tensor in graph.model.state_dict().items():
        if not tensor.is_meta:
            arrays[f"state/{name}"] = _array(tensor)
    for node in graph.nodes:
        module, meta = _module(graph, node), _meta(node)
        if isinstance(module, Quantized):
            for name in module.parameter_names:
                arrays[f"mantissas/{node.name}.{name}"] = _array(module.mantissa(name).long())
        tensors = {} if meta is None else {**meta.common.args.tensors, **meta.common.results.tensors}
        for name, record in tensors.items():
            if isinstance(record.value, Tensor) and not record.value.is_meta:
                arrays[f"values/{node.name}.{name}"] = _array(record.value)


def _module(graph: MaseGraph, node: fx.Node) -> torch.nn.Module | None:
    return graph.model.get_submodule(str(node.target)) if node.op == "call_module" else None


def _array(tensor: Tensor) -> Any:
    """As numpy has it; bfloat16, which numpy lacks, as float32, which holds every value."""
    value = tensor.detach().cpu()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def _json(value: Any, path: str = "", arrays: Json | None = None) -> Any:
    """A tree for a JSON file; tensors go to the arrays if there are any, else they are described."""
    if isinstance(value, Mapping):
        return {str(k): _json(v, f"{path}.{k}", arrays) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_json(v, f"{path}.{i}", arrays) for i, v in enumerate(value)]
    if isinstance(value, Tensor | np.ndarray):
        if arrays is not None:
            arrays[path] = _array(value) if isinstance(value, Tensor) else value
            return {"array": path}
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    if isinstance(value, str | int | float | bool | None):
        # Python writes what JSON has no word for as words of its own, so these go as text.
        return value if not isinstance(value, float) or np.isfinite(value) else repr(value)
    return str(value)


def _yaml(tree: Any, indent: str = "") -> Iterator[str]:
    """The lines of a tree of JSON as YAML, in blocks; single values, strings too, are written as in JSON."""
    items = list(tree.items()) if isinstance(tree, dict) else [(None, item) for item in tree]
    for key, value in items:
        start = f"{indent}-" if key is None else f"{indent}{json.dumps(key)}:"
        if isinstance(value, dict | list) and value:
            yield start
            yield from _yaml(value, f"{indent}  ")
        else:
            yield f"{start} {json.dumps(value)}"
