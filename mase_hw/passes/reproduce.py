"""A failing step of a pipeline as a folder that repeats it: the graph before it, its arguments, and ``run.py``."""

from __future__ import annotations

import importlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel

from mase_hw.catalogue import default_catalogue
from mase_hw.errors import ConfigError, MaseHwError
from mase_hw.host.documents import Json
from mase_hw.host.reproducible import SCRIPT, NotData, as_data, reproducible, script
from mase_hw.host.user_code import user_code
from mase_hw.ir import MaseGraph
from mase_hw.passes.base import GraphPass


class Reproducer:
    """Keeps what a pipeline had before every step, and writes it down when one fails.

    A checkpoint does not hold what emission made, so the steps of an emission are repeated from its first one.

    Args:
        folder: Where the folder will be if a step fails.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._kept = Path(tempfile.mkdtemp(prefix="mase_hw."))
        self._steps: list[tuple[str, Any, Any]] = []
        self._reason: str | None = None
        """Why the graph cannot be kept."""

    def before(self, graph: MaseGraph, name: str, run: Any, args: Any) -> Any:
        """Note a step that is about to run; return its arguments, which can be read twice then."""
        args = _twice(args)
        if not any(done.startswith("emit_") for done in graph.completed):
            self._steps, self._reason = [], _foreign(graph)
            try:
                graph.export(self._kept / "graph")
            except MaseHwError as error:
                self._reason = str(error)
        self._steps.append((name, run, args))
        return args

    def failed(self) -> str:
        """Write the folder; what to tell, also if that is not possible."""
        try:
            if self._reason is not None:
                raise NotData(self._reason)
            with reproducible(self.folder) as folder:
                self._write(folder)
        except (NotData, MaseHwError) as error:
            return f"it cannot be repeated from a folder: {error}"
        return f"`python {self.folder / SCRIPT}` repeats it"

    def close(self) -> None:
        """Forget everything."""
        shutil.rmtree(self._kept, ignore_errors=True)

    def _write(self, folder: Path) -> None:
        arguments, imports, body = {}, ["import torch"], []
        left: list[str] = []
        for name, run, args in self._steps:
            module, function = _home(run)
            imports.append(f"from {module} import {function}")
            arguments[name] = _arguments(name, args, left)
            body.append(f"graph, _ = {function}(graph, arguments[{name!r}])")
        what = f"step {self._steps[-1][0]!r} of a pipeline"
        if left:
            what += f" (without {', '.join(left)})"
        for file in ("graph.pt", "graph.mz"):
            shutil.copy(self._kept / file, folder / file)
        torch.save(arguments, folder / "arguments.pt")
        start = [
            'arguments = torch.load(HERE / "arguments.pt", weights_only=True)',
            'graph = MaseGraph.from_checkpoint(HERE / "graph")',
        ]
        imports.append("from mase_hw import MaseGraph")
        (folder / SCRIPT).write_text(script(what, dict.fromkeys(imports), [*start, *body]), encoding="utf-8")


def _twice(args: Any) -> Any:
    """Arguments whose iterators are lists, which the step and a reproducer can both read."""
    with user_code("the data of a step cannot be read", ConfigError):
        if isinstance(args, BaseModel):
            again = {n: list(v) for n in args.model_fields_set if isinstance(v := getattr(args, n), Iterator)}
            return args.model_copy(update=again) if again else args
        if isinstance(args, Mapping):
            return {name: list(value) if isinstance(value, Iterator) else value for name, value in args.items()}
    return args


def _arguments(step: str, args: Any, left: list[str]) -> Json:
    """The arguments as data; functions, which only listen, are left out and named."""
    if isinstance(args, BaseModel):
        args = {name: getattr(args, name) for name in sorted(args.model_fields_set)}
    found = {}
    for name, value in (args or {}).items():
        if callable(value) and not isinstance(value, torch.nn.Module):
            left.append(f"{step}.{name}")
        else:
            found[str(name)] = as_data(value, f"{step}.{name}")
    return found


def _home(run: Any) -> tuple[str, str]:
    """Module and name under which a step can be imported elsewhere."""
    body = run.body if isinstance(run, GraphPass) else run
    module, name = getattr(body, "__module__", ""), getattr(body, "__name__", "")
    try:
        found = None if module == "__main__" else getattr(importlib.import_module(module), name, None)
    except (ImportError, ValueError):
        found = None
    if found is not run:
        raise NotData(f"{name or run!r} is no name of a module that could be imported elsewhere")
    return module, name


def _foreign(graph: MaseGraph) -> str | None:
    known = default_catalogue()
    own = {op.name for n in graph.nodes if (op := graph.op_of(n)) is not None and known.get(op.name) is not op}
    return f"the graph has ops of its own: {', '.join(sorted(own))}" if own else None
