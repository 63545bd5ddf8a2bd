"""From a program of ``torch.export`` to an fx graph of functions and layers that the catalogue knows.

What depends on no data and no parameter (positions, masks, frequencies) is computed here, once.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from mase_hw.catalogue import Catalogue
from mase_hw.errors import GraphError, UnsupportedError
from mase_hw.host.user_code import user_code
from mase_hw.ir.export import frames
from mase_hw.ir.export.apart import SQUEEZED, frames_apart
from mase_hw.ir.export.aten import BITS, MULTIPLE, NOTHING, REFUSED, SAME, SHAPED, NotTaken, call_of, packet
from mase_hw.ir.export.decompose import decomposed
from mase_hw.ir.export.layers import Layers
from mase_hw.ir.export.program import program_of
from mase_hw.ir.export.recurrent import RECURRENT, write_recurrent
from mase_hw.ir.faithful.same_function import describe, equal
from mase_hw.ir.paths import attribute_at

MOST_PAIRS = 1 << 20
"""Elements, times those that are added to them, beyond which a sum of slices is no matrix any more."""
_STORED = ("PARAMETER", "BUFFER", "CONSTANT_TENSOR")


def import_program(model: ExportedProgram | fx.GraphModule, known: Catalogue) -> fx.GraphModule:
    """The graph of a program, for any number of frames; parameters are shared with it.

    Layers have the paths that they had in the model. Where the program keeps the inputs it was exported with, graph and
    program are compared on them.

    Args:
        model: An ``ExportedProgram``, or what its ``module()`` gives.
        known: The ops.

    Raises:
        UnsupportedError: If a size is left open, the program writes state, or it has operations that are no op; names
            all of them.
        GraphError: If the graph gives something else than the program.
    """
    program = program_of(model)
    made = ProgramImport(program, known).run()
    if program.example_inputs is not None:
        args, kwargs = program.example_inputs
        given = {s.arg.name: v for s, v in zip(_inputs(program), pytree.tree_leaves((args, kwargs)), strict=True)}
        inputs = {n.target: given[str(n.target)] for n in made.graph.nodes if n.op == "placeholder"}
        problem, remedy = (
            "the program cannot be run on its example",
            "check the inputs, for example ids that are no row",
        )
        with torch.no_grad(), torch.random.fork_rng(devices=[]), user_code(problem, remedy=remedy):
            found = made(**inputs)
            wanted = program.module()(*args, **kwargs)  # which may write its inputs
        if not equal(wanted, found):
            raise GraphError(
                "the graph made of an exported program gives something else than the program",
                got=describe(found),
                expected=describe(wanted),
                remedy="pass the model that it was made of",
            )
    return made


def _inputs(program: ExportedProgram) -> list[Any]:
    return [s for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]


class ProgramImport:
    """Writes the graph of a program, node by node; see :func:`import_program`."""

    def __init__(self, program: ExportedProgram, known: Catalogue) -> None:
        self.program = program
        self.known = known
        self.root = nn.Module()
        self.layers = Layers(self.root)
        self.graph = fx.Graph()
        self.paths: dict[fx.Node, str] = {}
        """Nodes of the program that are a stored tensor, with its path."""
        self.static: dict[fx.Node, Any] = {}
        """Values of nodes that depend on neither data nor parameters."""
        self.env: dict[fx.Node, Any] = {}
        """Nodes of the graph, and other values, by node of the program."""
        self.two: dict[fx.Node, Any] = {}
        """Results for two frames, on the meta device, by node of the graph."""
        self.outside: dict[fx.Node, int] = {}
        """Elements outside of the frames in the dimension that has both."""
        self.front: dict[fx.Node, int] = {}
        """Dimensions in front of the frames that a reshape took away."""
        self.lost: dict[fx.Node, tuple[int, ...]] = {}
        """Shapes for one frame of those whose frames are a part of another dimension, the first one."""
        self.data: set[fx.Node] = set()
        """Nodes of the graph that depend on data."""
        self.problems: list[tuple[str, str, str]] = []

    def run(self) -> fx.GraphModule:
        """The graph.

        Raises:
            UnsupportedError: As :func:`import_program`.
        """
        self._refuse_writes()
        specs = {s.arg.name: s for s in self.program.graph_signature.input_specs}
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, specs[node.name])
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self._output(node)
        if self.problems:
            names = dict.fromkeys(f"{op}{f': {why}' if why else ''}" for _, op, why in self.problems)
            raise UnsupportedError(
                f"{len(self.problems)} operation(s) of the exported program are no op of the catalogue:\n  "
                + "\n  ".join(names),
                node="; ".join(f"{node} ({op})" for node, op, _ in self.problems),
                expected="operations that `mase-hw ops` lists",
                remedy="replace the operation in the model, or pass the model itself with custom_ops",
            )
        for got in self.graph.nodes:
            if got.op == "get_attr":
                got.target = self.layers.beside.get(str(got.target), got.target)
        made = fx.GraphModule(self.root, self.graph, "Exported")
        made.graph.eliminate_dead_code()
        made.recompile()
        return made.eval()

    def _refuse_writes(self) -> None:
        specs = self.program.graph_signature.output_specs
        written = [s for s in specs if "MUTATION" in s.kind.name and s.kind.name != "USER_INPUT_MUTATION"]
        if written:
            raise UnsupportedError(
                "the exported program writes state: a result depends on the calls before",
                node=", ".join(str(s.target or s.arg.name) for s in written),
                expected="a forward that writes no buffer",
                remedy="export the model in evaluation mode; what counts calls or keeps a cache is no part of it",
            )

    def _placeholder(self, node: fx.Node, spec: Any) -> None:
        kind, target = spec.kind.name, spec.target
        if kind in _STORED:
            held = self.program.state_dict if target in self.program.state_dict else self.program.constants
            self.paths[node] = target
            self._store(target, held[target])
            if kind != "PARAMETER":
                self.static[node] = held[target]
        elif kind == "USER_INPUT" and isinstance(node.meta.get("val"), Tensor):
            val = node.meta["val"]
            self.env[node] = made = self.graph.placeholder(node.name)
            size = (2 * val.shape[0], *val.shape[1:]) if val.dim() else ()
            self.two[made] = torch.empty(size, dtype=val.dtype, device="meta")
            self.data.add(made)
        elif kind == "USER_INPUT":
            self.env[node] = node.meta.get("val")
        else:
            self.problems.append((node.name, kind.lower(), "only tensors are inputs of hardware"))

    def _store(self, path: str, value: Tensor) -> None:
        home = self.root
        *parents, name = path.split(".")
        for part in parents:
            if not hasattr(home, part):
                home.add_module(part, nn.Module())
            home = getattr(home, part)
        if isinstance(value, nn.Parameter):
            home.register_parameter(name, value)
        else:
            home.register_buffer(name, value)

    def kept(self, path: str, value: Tensor) -> fx.Node:
        """A tensor that the graph has from now on."""
        self._store(path, value)
        return self._get(path)

    def _call(self, node: fx.Node) -> None:
        name, sources = packet(node.target), node.all_input_nodes
        if name in NOTHING:
            return
        if any(source not in self.static and source not in self.paths and source not in self.env for source in sources):
            return  # behind an operation that is refused
        stored = all(source in self.static for source in sources)
        if name == "item" and not stored and _asserted(node):
            return
        if name in REFUSED and not (name == "item" and stored):
            self.problems.append((node.name, name, REFUSED[name]))
        elif stored:
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: self.static[n])
            with torch.no_grad():
                self.static[node] = node.target(*args, **kwargs)  # type: ignore[operator]
        else:
            try:
                found, why = self._moved(node, name), ""
            except NotTaken as error:
                found, why = None, str(error)
            if found is None and not (not why and self._decomposed(node)):
                self.problems.append((node.name, name if why else str(node.target), why))
            elif found is not None:
                self.env[node] = found

    def _moved(self, node: fx.Node, name: str) -> Any:
        """The node of the graph for a node of the program; None if there is none."""
        source = node.args[0] if node.args else None
        if isinstance(source, fx.Node) and isinstance(source.meta.get("val"), Tensor):
            given, val = source.meta["val"], node.meta.get("val")
            if name in SAME or (name == "_to_copy" and isinstance(val, Tensor) and val.dtype == given.dtype):
                if name == "dropout" and node.args[2:] and node.args[2]:
                    return self.emit(("call_function", F.dropout, (self.value(source), node.args[1], True), {}), node)
                return self.value(source)
            if name in SHAPED and isinstance(val, Tensor):
                return self._shaped(node, name, source, tuple(given.shape), tuple(val.shape))
            if name == "index":
                return self._indexed(node, source)
            if name in ("scatter", "scatter_add"):
                return self._scattered(node, source, name == "scatter_add")
            given_to: Any = node.args[1:]
            if name == "index_copy" and given_to[1] in self.static and not self.is_data(given_to[2]):
                dim, at = given_to[0] % given.dim(), self.static[given_to[1]]
                return self._filled(node, self.value(source), self._computed(given_to[2]), dim, at, adds=False)
            if name == "index_put":
                return self._put(node, source, val.shape if isinstance(val, Tensor) else given.shape)
        if name in RECURRENT:
            return write_recurrent(self, node, name)
        if name == "getitem" and isinstance(source, fx.Node) and packet(source.target) in MULTIPLE:
            return self.value(source) if node.args[1] == 0 else None
        if name == "getitem" and isinstance(source, fx.Node) and isinstance(self.env[source], tuple):
            return self.env[source][node.args[1]]
        if name == "copy" and node.meta["val"].shape == node.args[1].meta["val"].shape:  # type: ignore[union-attr]
            return self.value(node.args[1])  # type: ignore[arg-type]
        given_args: Any = node.args
        if name == "cat":  # tensors of no elements and one dimension are left out, as caches begin with them
            parts = [part for part in given_args[0] if tuple(part.meta["val"].shape) != (0,)]
            if len(parts) == 1:
                return self.value(parts[0])
            given_args = (parts, *given_args[1:])
            if not all(self.is_data(part) for part in parts):
                joined = self._joined(node, parts)
                if joined is not None:
                    return joined
        args, kwargs = fx.node.map_arg((given_args, dict(node.kwargs)), self.value)
        if name in BITS and node.meta["val"].dtype is not torch.bool:
            raise NotTaken("it works on the bits of integers: write it with products, // and %")
        if name == "clamp" and any(isinstance(bound, fx.Node) for bound in args[1:]):
            args = tuple(self._bound(node, i, a) if isinstance(a, int | float) else a for i, a in enumerate(args))
        call = call_of(node.target, args, kwargs, self.known)
        # What rounds stored weights says in which format they are: as plain floats they would get another one.
        if call is None and "quantize" not in name and not any(self.is_data(n) for n in node.all_input_nodes):
            self.static[node] = self._computed(node)
            return self.value(node)
        return None if call is None else self.emit(call, node)

    def _decomposed(self, node: fx.Node) -> bool:
        """Write an operation as those that PyTorch itself decomposes it into; whether all of them are known."""
        made = decomposed(node)
        if made is None:
            return False
        before = len(self.problems)
        places = iter(node.all_input_nodes)
        for inner in made.nodes:
            if inner.op == "placeholder":
                source = next(places)
                tables: tuple[dict[fx.Node, Any], ...] = (self.static, self.paths, self.env)
                for values in tables:
                    if source in values:
                        values[inner] = values[source]
            elif inner.op == "call_function":
                self._call(inner)
            elif inner.op == "output" and len(self.problems) == before:
                results = fx.node.map_arg(inner.args[0], self.value)
                self.env[node] = tuple(results) if isinstance(results, list | tuple) else results
        refused, self.problems = len(self.problems) > before, self.problems[:before]
        return not refused

    def value(self, node: fx.Node) -> Any:
        """What stands for a node of the program in the graph: a node, or a number for a tensor without dimensions."""
        if node in self.env:
            return self.env[node]
        value = self.static.get(node)
        if isinstance(value, Tensor) and value.dim() == 0 and node not in self.paths:
            return value.item()
        if node in self.static and not isinstance(value, Tensor):
            return value
        if node not in self.paths:
            assert isinstance(value, Tensor)  # only tensors are stored
            self.paths[node] = path = f"{node.name}_constant"
            self._store(path, value)
        self.env[node] = made = self._get(self.paths[node])
        return made

    def _bound(self, node: fx.Node, index: int, value: float) -> fx.Node:
        """A number beside a bound that is a tensor, as one."""
        return self.kept(f"{node.name}_bound_{index}", torch.tensor(float(value)))

    def _computed(self, node: fx.Node) -> Any:
        """The value of a node of the program that depends on no data."""
        if node in self.paths or node in self.static:
            return self.attribute(self.paths[node]) if node in self.paths else self.static[node]
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), self._computed)
        with torch.no_grad():
            return node.target(*args, **kwargs)  # type: ignore[operator]

    def _get(self, path: str) -> fx.Node:
        path = self.layers.beside.get(path, path)
        made = self.graph.get_attr(path)
        self.two[made] = self.attribute(path).to("meta")
        return made

    def emit(self, call: Any, node: fx.Node) -> fx.Node:
        """Put a call into the graph, as a layer if it is one.

        Where the call is not one for each frame, since the frames have no dimension of their own (``x.squeeze()`` of
        an example with one frame), they get it back in front.
        """
        kind, target, args, kwargs = call
        inputs = [n for n in pytree.tree_leaves((args, kwargs)) if isinstance(n, fx.Node)]
        data = any(n in self.data for n in inputs)
        result = self.on_meta(kind, target, args, kwargs)
        val = node.meta.get("val")
        one = tuple(val.shape) if isinstance(val, Tensor) else ()
        where = frames.dimension(one, result) if isinstance(result, Tensor) else None
        lost = [n for n in inputs if n in self.lost] if packet(node.target) not in SHAPED or where is None else []
        row = any(len(self.lost[n]) == 1 for n in lost)
        if one and (row or (lost and where is None)):
            found = frames_apart(self, call, node, one)
            if found is not None:
                return found
            if row:
                raise NotTaken(SQUEEZED)
        path = self._layer(target, args, node) if kind == "call_function" and data else None
        if path is not None:
            made = self.graph.call_module(path, (args[0],))
        else:
            made = self.graph.create_node(kind, target, tuple(args), kwargs, name=node.name)
        self.two[made] = result
        if data:
            self.data.add(made)
            self.outside[made] = max(self.outside.get(n, 1) for n in inputs)
            turns = target in ("permute", "transpose", torch.permute, torch.transpose)
            self.front[made] = 0 if turns else max(self.front.get(n, 0) for n in inputs)
            if where == 0 and one[0] != 1 and self.outside[made] == 1:
                self.lost[made] = one
        return made

    def _layer(self, target: Any, args: Any, node: fx.Node) -> str | None:
        """The path of the layer that a call of data is; None if it is none."""
        source = args[0] if args else None
        result = self.two.get(source) if isinstance(source, fx.Node) else None
        if source not in self.data or not isinstance(result, Tensor):
            return None
        paths = {self.env[n]: self.own(path, node) for n, path in self.paths.items() if n in self.env}
        return self.layers.place(target, args, lambda n: paths.get(n) if isinstance(n, fx.Node) else None, result.dim())

    def own(self, path: str, node: fx.Node) -> str:
        """The path of a tensor in the module that an operation stood in, if that has the same tensor as another."""
        stack = list(node.meta.get("nn_module_stack", {}).values())
        inside = f"{stack[-1][0]}.{path.rpartition('.')[2]}" if stack else path
        state = self.program.state_dict
        if inside == path or inside not in state or state[inside] is not state.get(path):
            return path
        self._store(inside, state[inside])
        return inside

    def on_meta(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        """The result for two frames on the meta device; None if it cannot be computed."""
        given, named = fx.node.map_arg((tuple(args), kwargs), lambda n: self.two.get(n))
        try:
            with torch.no_grad():
                if kind == "call_method":
                    return getattr(given[0], target)(*given[1:], **named)
                return target(*given, **named)
        except Exception:  # the graph then does for one frame at a time
            return None

    def attribute(self, path: str) -> Tensor:
        """The tensor at a path."""
        value = attribute_at(self.root, path)
        assert isinstance(value, Tensor)  # _store put it there
        return value

    def _shaped(
        self, node: fx.Node, name: str, source: fx.Node, given: tuple[int, ...], shape: tuple[int, ...]
    ) -> fx.Node | None:
        x = self.value(source)
        if given == shape:
            return x  # type: ignore[no-any-return]
        if name.startswith("expand"):
            return self.emit(("call_method", "expand", (x, *frames.expanded(given, shape)), {}), node)
        if name == "unsqueeze":
            return self.emit(("call_function", torch.unsqueeze, (x, node.args[1]), {}), node)
        where = frames.dimension(given, self.two[x]) if isinstance(self.two.get(x), Tensor) else None
        front, before = where or self.front.get(x, 0), math.prod(given[:where]) * self.outside.get(x, 1)
        found = None if where is None else frames.reshaped(before, shape, front)
        target, outside = found or (shape, 1)
        made = self.emit(("call_function", torch.reshape, (x, target), {}), node)
        self.outside[made], self.front[made] = outside, front
        return made

    def _indexed(self, node: fx.Node, source: fx.Node) -> fx.Node | None:
        """``x[i, j]`` with indices that are known: a choice of elements of the frame, or of a stored tensor."""
        indices: Any = node.args[1]
        if any(i is not None and i not in self.static for i in indices) or not self.is_data(source):
            at = tuple(slice(None) if i is None else self.value(i) for i in indices)
            return self.emit(("call_function", operator.getitem, (self.value(source), at), {}), node)
        given, shape = tuple(source.meta["val"].shape), tuple(node.meta["val"].shape)
        places = torch.arange(source.meta["val"].numel()).reshape(given)
        chosen = places[tuple(slice(None) if i is None else self.static[i] for i in indices)].reshape(-1)
        x = self.value(source)
        if given[0] != 1 or shape[0] != 1:
            return None
        flat = self.emit(("call_function", torch.reshape, (x, (-1, places.numel())), {}), node)
        if not torch.equal(chosen, places.reshape(-1)):
            path = f"{node.name}_places"
            self._store(path, chosen)
            flat = self.emit(("call_function", torch.index_select, (flat, 1, self._get(path)), {}), node)
        return self.emit(("call_function", torch.reshape, (flat, (-1, *shape[1:])), {}), node)

    def _put(self, node: fx.Node, source: fx.Node, shape: Sequence[int]) -> fx.Node:
        """``x[i] = v``: a choice by truth values, or rows at places that are known."""
        indices: Any = node.args[1]
        at, (index, *more) = next(
            (k, [i for i in indices if i is not None]) for k, i in enumerate(indices) if i is not None
        )
        adds = bool(node.args[3:] and node.args[3])
        if more:
            raise NotTaken("it has several indices: write slice by slice")
        values, seen, x = node.args[2], index.meta["val"], self.value(source)
        assert isinstance(values, fx.Node)
        rank, given = len(shape) - at - seen.dim(), tuple(values.meta["val"].shape)
        if seen.dtype is torch.bool and len(given) <= rank and not adds:
            mask = self.value(index)
            if rank or at:
                mask = self.emit(
                    ("call_function", operator.getitem, (mask, (None,) * at + (..., *(None,) * rank)), {}), node
                )
            return self.emit(("call_function", torch.where, (mask, self.value(values), x), {}), node)
        places = self.static.get(index)
        if not isinstance(places, Tensor) or places.dtype is torch.bool:
            raise NotTaken("its places depend on data, or the number of values does: torch.where has one for each")
        if places.dim() != 1 or not at:
            raise NotTaken("its places are along the frames, or have several dimensions: write slice by slice")
        rows = (*shape[:at], len(places), *shape[at + 1 :])
        part = self.value(values)
        if not self.is_data(values):
            return self._filled(node, x, self._computed(values), at, places % shape[at], adds)
        if math.prod(given) == math.prod(rows) and rows[0] == 1:
            part = self.emit(("call_function", torch.reshape, (part, (-1, *rows[1:])), {}), node)
        elif len(given) < len(rows):
            raise NotTaken("its values lack a dimension")
        else:
            part = self.emit(("call_method", "expand", (part, *frames.expanded(given, rows)), {}), node)
        if not adds and not self.is_data(source):
            x, adds = self._emptied(node, self._computed(source), at, places % shape[at]), True
        if adds:
            return self._added(node, x, part, (at, len(shape) - 1), places % shape[at], shape[at])
        self._store(f"{node.name}_places", places % shape[at])
        return self.emit(("call_function", torch.index_copy, (x, at, self._get(f"{node.name}_places"), part), {}), node)

    def _filled(self, node: fx.Node, x: fx.Node, values: Tensor, dim: int, at: Tensor, adds: bool) -> fx.Node:
        """A tensor in which slices at places that are known are stored numbers, or to which these are added."""
        empty = torch.zeros(tuple(node.meta["val"].shape), dtype=node.meta["val"].dtype)
        rows = values.to(empty.dtype).expand(*empty.shape[:dim], len(at), *empty.shape[dim + 1 :])
        filled = self.kept(
            f"{node.name}_values", empty.index_add(dim, at, rows) if adds else empty.index_copy(dim, at, rows)
        )
        if adds:
            return self.emit(("call_function", torch.add, (x, filled), {}), node)
        there = torch.zeros(empty.shape[dim], dtype=torch.bool).index_fill(0, at, True)
        self._store(f"{node.name}_there", there.reshape(-1, *[1] * (empty.dim() - dim - 1)))
        return self.emit(("call_function", torch.where, (self._get(f"{node.name}_there"), filled, x), {}), node)

    def _emptied(self, node: fx.Node, stored: Tensor, dim: int, at: Tensor) -> fx.Node:
        """A stored tensor with zeros in the place of slices, which data are added to in every frame."""
        return self.kept(f"{node.name}_kept", stored.index_fill(dim, at, 0))

    def _added(self, node: fx.Node, x: fx.Node, part: fx.Node, dims: tuple[int, int], at: Tensor, size: int) -> fx.Node:
        """A tensor to which slices are added at places that are known: sums of slices, as a linear layer of ones."""
        (dim, last), places = dims, at
        if len(places) * size > MOST_PAIRS:
            raise NotTaken(f"sums of more than {MOST_PAIRS} pairs of elements: write it as a product with a matrix")
        sums = self.kept(f"{node.name}_sums", F.one_hot(places, size).T.to(torch.float32))
        turned = part if dim == last else self.emit(("call_function", torch.transpose, (part, dim, last), {}), node)
        made = self.emit(("call_function", F.linear, (turned, sums), {}), node)
        made = made if dim == last else self.emit(("call_function", torch.transpose, (made, dim, last), {}), node)
        return self.emit(("call_function", torch.add, (x, made), {}), node)

    def _scattered(self, node: fx.Node, source: fx.Node, adds: bool) -> fx.Node:
        """``scatter`` and ``scatter_add`` of data at places that are known, within a frame."""
        (dim, index, values), data = node.args[1:4], self.is_data(source)
        assert isinstance(dim, int) and isinstance(index, fx.Node)
        places, shape = self.static.get(index), tuple(node.meta["val"].shape)
        if not isinstance(places, Tensor) or not isinstance(values, fx.Node) or not self.is_data(values):
            raise NotTaken("its places depend on data, or its values do not: torch.where has one for each element")
        dim %= len(shape)
        if not dim or node.kwargs or shape[0] != 1 or not places.numel():
            raise NotTaken("it works along the frames, or reduces in another way than by a sum")
        x, part = self.value(source), self.value(values)
        if tuple(values.meta["val"].shape) != tuple(places.shape):
            kept = (slice(None), *(slice(n) for n in places.shape[1:]))
            part = self.emit(("call_function", operator.getitem, (part, kept), {}), node)
        rows = places.movedim(dim, 0).reshape(places.shape[dim], -1)
        whole = all(a == b for d, (a, b) in enumerate(zip(places.shape, shape, strict=True)) if d != dim)
        last, size, at, flat = len(shape) - 1, shape[dim], rows[:, 0], not (whole and bool((rows == rows[:, :1]).all()))
        if flat:  # element by element
            size = math.prod(shape)
            at = torch.arange(size).reshape(shape).gather(dim, places).reshape(-1)
            x, part = (
                self.emit(("call_function", torch.reshape, (v, (-1, n)), {}), node)
                for v, n in ((x, size), (part, at.numel()))
            )
            dim = last = 1
        if not adds and not data:
            stored = self._computed(source)
            x = self._emptied(node, stored.reshape(-1, size) if flat else stored, dim, at)
        if adds or not data:
            made = self._added(node, x, part, (dim, last), at, size)
        else:
            at_places = self.kept(f"{node.name}_places", at)
            made = self.emit(("call_function", torch.index_copy, (x, dim, at_places, part), {}), node)
        return self.emit(("call_function", torch.reshape, (made, (-1, *shape[1:])), {}), node) if flat else made

    def _joined(self, node: fx.Node, parts: list[fx.Node]) -> fx.Node | None:
        """Data and stored tensors one after the other: zeros in the place of what is stored, to which it is added."""
        data = [i for i, part in enumerate(parts) if self.is_data(part)]
        shape, dim = tuple(node.meta["val"].shape), node.args[1] if len(node.args) > 1 else 0
        assert isinstance(dim, int)
        dim %= len(shape)
        if len(data) != 1:
            return None
        of_data = parts[data[0]]
        two = self.two.get(self.value(of_data))
        where = frames.dimension(tuple(of_data.meta["val"].shape), two) if isinstance(two, Tensor) else None
        where = where or 0
        if dim == where:
            return None
        sizes = [part.meta["val"].shape[dim] for part in parts]
        before, after = sum(sizes[: data[0]]), sum(sizes[data[0] + 1 :])
        wide = [0, 0] * (len(shape) - dim - 1) + [before, after]
        padded: Any = self.value(parts[data[0]])
        if where or (
            len(shape) == 3 and dim == 1
        ):  # tokens as the places of a row of channels: the order of their data
            order = [where, *(d for d in range(len(shape)) if d not in (where, dim)), dim]
            back = [order.index(d) for d in range(len(shape))]
            turned = self.emit(("call_function", torch.permute, (padded, order), {}), node)
            turned = self.emit(("call_function", F.pad, (turned, [before, after]), {}), node)
            padded = self.emit(("call_function", torch.permute, (turned, back), {}), node)
        else:
            padded = self.emit(("call_function", F.pad, (padded, wide), {}), node)
        if all(i in data or (p in self.static and not self.static[p].any()) for i, p in enumerate(parts)):
            return padded  # type: ignore[no-any-return]
        empty = torch.zeros((*shape[:dim], sizes[data[0]], *shape[dim + 1 :]))
        self._store(f"{node.name}_empty", empty)
        filled = [self._get(f"{node.name}_empty") if i == data[0] else self.value(part) for i, part in enumerate(parts)]
        stored = self.emit(("call_function", torch.cat, (filled, dim), {}), node)
        return self.emit(("call_function", torch.add, (padded, stored), {}), node)

    def is_data(self, node: fx.Node) -> bool:
        """Whether a node of the program depends on data."""
        return self.env.get(node) in self.data

    def _output(self, node: fx.Node) -> None:
        if self.problems:
            return
        specs = self.program.graph_signature.output_specs  # an input that is written is a result that nobody asked for
        results = [n for n, s in zip(node.args[0], specs, strict=True) if s.kind.name == "USER_OUTPUT"]  # type: ignore[arg-type]
        values = [self.value(n) if isinstance(n, fx.Node) else n for n in results]
        spec = self.program.call_spec.out_spec
        self.graph.output(_plain(pytree.tree_unflatten(values, spec)))


def _asserted(node: fx.Node) -> bool:
    """Whether a number of Python is read by assertions alone."""
    numbers = (torch.SymInt, torch.SymBool, torch.SymFloat)
    return all(
        packet(user.target) in NOTHING or (isinstance(user.meta.get("val"), numbers) and _asserted(user))
        for user in node.users
    )


def _plain(value: Any) -> Any:
    """Containers that a graph can return."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items() if v is not None}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, list | tuple):
        return tuple(_plain(v) for v in value)
    return value
