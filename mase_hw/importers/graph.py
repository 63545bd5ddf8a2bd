"""The graph that an importer writes: functions, layers and stored tensors that the catalogue knows.

It is for any number of frames. A file says the shapes of one frame. Beside those, everything is computed for two frames
on the meta device, so that what mixes frames is refused, and a reshape leaves the dimension of the frames open.

What an importer cannot take, collected, so that one error names all of it.
"""

from __future__ import annotations

import dataclasses
import keyword
import math
import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from mase_hw.errors import GraphError, MaseHwError, UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledFormat
from mase_hw.formats.elements import Element
from mase_hw.ir import MaseGraph
from mase_hw.ir.export import frames
from mase_hw.opdef import OpDef
from mase_hw.passes.quantize.integers.thresholds import Requantizing

LONGEST_NAME = 60
"""Characters of the name of a node."""
MOST_ELEMENTS = 1 << 26
"""Elements of an input or of a result, beyond which a file is taken for a damaged one: 256 MB of float32."""
MANY = 1_000_003
"""Frames for which sizes are looked at as well, where a file leaves their number open; no size is as large."""
Ref: TypeAlias = Any
"""A value: a node of the graph, or a tensor that is known."""


class Refused(Exception):
    """Why a node of the source cannot be taken, in a few words, and what to do."""

    def __init__(self, why: str, remedy: str | None = None) -> None:
        super().__init__(why)
        self.why, self.remedy = why, remedy


def broken(kind: str, name: str, why: str) -> GraphError:
    """The error of a file that is not whole."""
    remedy = "the file is damaged or of another kind"
    return GraphError(f"not a whole {kind} file", node=name[:200], got=why or None, remedy=remedy)


@dataclass(frozen=True)
class Marker:
    """A quantisation between nodes of a file.

    Args:
        fmt: The format to which values are rounded.
        rounding: How.
        given: The format in which the values that come must be exact; None for any.
        how: How scaled integers are brought to ``fmt``; None for one multiplication, and ``rounding``.
        tied: Whether ``rounding`` says of ties what the file does; else there must be none.
        elements: The formats of the elements of a frame, in order, where these differ; ``fmt`` holds all of them.
        overflow: What becomes of values beyond the format.
    """

    fmt: FixedFormat
    rounding: Rounding
    given: FixedFormat | None = None
    how: Requantizing | None = None
    tied: bool = True
    elements: tuple[Element, ...] = ()
    overflow: Overflow = Overflow.SATURATE

    @property
    def requantizing(self) -> Requantizing:
        """How scaled integers are brought to ``fmt``."""
        return Requantizing(self.rounding) if self.how is None else self.how


@dataclass(frozen=True)
class Known:
    """What a file says of the numbers of a stored tensor.

    Args:
        fmt: Their format in fixed point; None if they have none, or nothing said it.
        integers: Their format as scaled integers, without a zero point.
        exact: The numbers in float64, where float32 does not hold them.
        every: Of a bias, that every sum with it must be requantised right.
    """

    fmt: FixedFormat | None = None
    integers: ScaledFormat | None = None
    exact: Tensor | None = None
    every: bool = False


@dataclass(frozen=True)
class Codes:
    """Of integers in a file: the step between two of them, and the one that stands for 0.

    Of rows of a stored table both are known once something reads these: until then ``table`` is the path of the table,
    and ``integers`` are those of the file.
    """

    step: Tensor
    zero: int = 0
    table: str = ""
    integers: Tensor | None = None


_FAILED = (Refused, RuntimeError, ValueError, IndexError, TypeError)
"""What a call says of shapes that it cannot take."""


class Writer:
    """Writes a graph node by node; what depends on no input is computed at once.

    Args:
        title: Class name of the made module.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.root = nn.Module()
        self.graph = fx.Graph()
        self.source = "constant"
        """Name of the source's node that is being written; nodes of the graph are called after it."""
        self.sources: dict[str, str] = {}
        """Name of the source's node, by name of the node of the graph."""
        self.outputs: list[str] = []
        """Names of the source's results."""
        self.markers: dict[str, Marker] = {}
        """Nodes that say to which format their input is rounded, by name."""
        self.weights: dict[str, Known] = {}
        """Formats of parameters, by path, as far as the file says them."""
        self.quantised = False
        """Whether the file quantises stored numbers, so that its data has to be quantised as well."""
        self.integers = False
        """Whether a scale is no power of two, or a zero point is not that of fixed point."""
        self._noted: dict[int, tuple[Tensor, Known]] = {}
        self._steps: dict[fx.Node, Codes] = {}
        self._tables: dict[str, Codes] = {}
        self._one: dict[fx.Node, Any] = {}
        self._two: dict[fx.Node, Any] = {}
        self._outside: dict[fx.Node, int] = {}
        self._stored: dict[int, tuple[Tensor, fx.Node]] = {}

    def input(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> fx.Node:
        """An input of the model: ``shape`` of one frame, the frames' dimension first."""
        made = self.graph.placeholder(self._free(python_name(name)))
        self._one[made] = torch.empty(tuple(shape), dtype=dtype, device="meta")
        self._two[made] = torch.empty((2 * shape[0], *shape[1:]), dtype=dtype, device="meta")
        self.sources[made.name] = name
        return made

    def is_data(self, value: Ref) -> bool:
        """Whether a value depends on an input."""
        return isinstance(value, fx.Node)

    def like(self, value: Ref) -> Tensor:
        """A tensor with the shape and the type of a value, for one frame."""
        found = self._one[value] if isinstance(value, fx.Node) else value
        if not isinstance(found, Tensor):
            raise Refused("it reads what is no tensor")
        return found

    def shape(self, value: Ref) -> tuple[int, ...]:
        """The shape of a value, for one frame."""
        return tuple(self.like(value).shape)

    def shape_of_many(self, value: Ref) -> tuple[int, ...]:
        """The shape of a value for :data:`MANY` frames; of a stored tensor its own."""
        where, shape = self.frames_dim(value), self.shape(value)
        return tuple(n * MANY if i == where else n for i, n in enumerate(shape))

    def frames_dim(self, value: Ref) -> int | None:
        """The dimension along which frames follow each other; None of a stored tensor."""
        if not isinstance(value, fx.Node):
            return None
        return frames.dimension(self.shape(value), self._two[value])

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Ref:
        """A call of a function, as a node, or its result where all arguments are known."""
        return self._emit("call_function", function, args, kwargs)

    def method(self, name: str, *args: Any, **kwargs: Any) -> Ref:
        """A call of a method of the first argument, likewise."""
        return self._emit("call_method", name, args, kwargs)

    def layer(self, module: nn.Module, x: Ref, *more: Ref, like: Callable[[int], Any] | None = None) -> Ref:
        """A layer, at the name of the source's node.

        Args:
            module: The layer.
            x: Its first input, a tensor.
            more: Its other inputs.
            like: What it gives for a number of frames, on the meta device; None to compute it.
        """
        module.eval()
        if not isinstance(x, fx.Node):
            with torch.no_grad():
                return module(x, *more)
        path = self._free(python_name(self.source))
        self.root.add_module(path, module)
        leaves, spec = pytree.tree_flatten((x, *more))

        def run(given: Sequence[Any]) -> Any:
            if like is not None:
                return like(given[0].shape[0])
            return _on_meta(module, pytree.tree_unflatten(list(given), spec))

        try:
            return self._made(self.graph.call_module(path, (x, *more)), leaves, run)
        except _FAILED:
            (x, *more), single = self._frames_apart((x, *more), run, leaves)
            found = self.layer(module, x, *more, like=like)
            return self.reshape(found, single)

    def _frames_apart(self, values: Any, run: Callable[[Sequence[Any]], Any], leaves: Sequence[Any]) -> tuple[Any, Any]:
        """Arguments of a call that cannot be for two frames, with the frames in a dimension of their own.

        Args:
            values: The arguments; one that has lost that dimension, as by ``Squeeze``, gets it back in front.
            run: The call.
            leaves: What it is given.

        Returns:
            The arguments, and the shape of the result for one frame.

        Raises:
            Exception: The one that is handled, if no argument has lost it.
        """
        error = sys.exception()
        assert error is not None
        self.graph.erase_node(next(reversed(self.graph.nodes)))

        def lost(value: Any) -> bool:
            if not isinstance(value, fx.Node) or self.frames_dim(value) != 0 or self._outside.get(value, 1) != 1:
                return False
            return self.shape(value)[0] != 1

        if not any(map(lost, leaves)):
            raise error
        with torch.no_grad():
            one = run([self._one[v] if isinstance(v, fx.Node) else v for v in leaves])
        if not isinstance(one, Tensor):
            raise error
        return pytree.tree_map(lambda v: self.reshape(v, (1, *self.shape(v))) if lost(v) else v, values), one.shape

    def computed(self, module: nn.Module, inputs: Sequence[fx.Node], shape: Sequence[int]) -> fx.Node:
        """A module on several tensors whose result has a known shape for one frame, the frames' dimension first."""
        path = self._free(python_name(self.source))
        self.root.add_module(path, module.eval())
        made = self.graph.call_module(path, tuple(inputs))
        self.sources[made.name] = self.source
        self._one[made] = torch.empty(tuple(shape), device="meta")
        self._two[made] = torch.empty((2 * shape[0], *shape[1:]), device="meta")
        return made

    def in_every_frame(self, values: Sequence[Ref]) -> list[Ref]:
        """Known values beside data as those of each frame of it."""
        data = next((value for value in values if isinstance(value, fx.Node)), None)
        where = self.frames_dim(data)
        made = list(values)
        for index, value in enumerate(values):
            if isinstance(value, Tensor) and where is not None and value.shape[where] == 1:
                count = self.method("size", data, where)
                sizes = [count if i == where else n for i, n in enumerate(value.shape)]
                made[index] = self.method("expand", self.constant(value), *sizes)
        return made

    def layer_of(self, value: Ref) -> nn.Module | None:
        """The layer whose result a value is; None if it is none."""
        if isinstance(value, fx.Node) and value.op == "call_module":
            return self.root.get_submodule(str(value.target))
        return None

    def reshape(self, x: Ref, shape: Sequence[int]) -> Ref:
        """A reshape to the shape of one frame, in which the frames' dimension is left open."""
        given = self.shape(x)
        if tuple(shape) == given:
            return x
        if not isinstance(x, fx.Node):
            return self.call(torch.reshape, x, tuple(shape))
        if math.prod(given) != math.prod(shape):
            raise Refused(f"{list(given)} does not become {list(shape)}")
        where = self.frames_dim(x)
        if where is None:  # of one element
            return self.call(torch.reshape, x, tuple(shape))
        if not shape:  # the one element of a file for one frame
            made = self.graph.call_function(torch.reshape, (x, ()))
            self.sources[made.name], self._outside[made] = self.source, 1
            self._one[made] = self._two[made] = torch.empty((), dtype=self.like(x).dtype, device="meta")
            return made
        before = math.prod(given[:where]) * self._outside.get(x, 1)
        found = frames.reshaped(before, shape)
        if found is None:
            raise Refused(f"{list(given)} becomes {list(shape)}: the frames do not stay in one dimension")
        made = self.call(torch.reshape, x, found[0])
        self._outside[made] = found[1]
        return made

    def constant(self, value: Tensor) -> fx.Node:
        """A stored tensor as a node."""
        kept = self._stored.get(id(value))
        if kept is None:
            path = self._free(f"{python_name(self.source)}_constant")
            self.root.register_buffer(path, value)
            made = self.graph.get_attr(path)
            self.weights[path] = self.noted(value)
            self.sources[made.name] = self.source
            self._one[made] = self._two[made] = value.to("meta")
            kept = self._stored[id(value)] = (value, made)
        return kept[1]

    def note(self, value: Tensor, known: Known) -> Tensor:
        """Remember what a file says of known values."""
        self._noted[id(value)] = (value, known)  # kept, so that its id stays its own
        return value

    def noted(self, value: Tensor) -> Known:
        """What a file says of known values; nothing of most."""
        found = self._noted.get(id(value))
        return Known() if found is None else found[1]

    def codes(self, value: Ref, codes: Codes) -> Ref:
        """Remember that the file has integers where the graph has the values they stand for."""
        if isinstance(value, fx.Node):
            self._steps[value] = codes
        return value

    def codes_of(self, value: Ref) -> Codes | None:
        """The integers that the file has in the place of these values; None if it has values."""
        found = self._steps.get(value) if isinstance(value, fx.Node) else None
        return self._tables.get(found.table, found) if found is not None else None

    def table_known(self, path: str, values: Tensor, codes: Codes) -> None:
        """Give a table, of which nothing but integers was known, the values for which these stand."""
        layer, _, name = path.rpartition(".")
        setattr(self.root.get_submodule(layer), name, nn.Parameter(values.to(torch.float32)))
        self.weights[path], self._tables[path] = self.noted(values), codes

    def values(self, integers: Ref, codes: Codes) -> Ref:
        """The values for which integers stand, in a node of its own; refuses others than these integers have."""
        known = self.codes_of(integers)
        if known is None:
            raise Refused("it reads integers that nothing has quantised")
        if not torch.equal(known.step, codes.step) or known.zero != codes.zero:
            said, have = (
                f"the scale {c.step.reshape(-1)[0].item():g} and the zero point {c.zero}" for c in (codes, known)
            )
            raise Refused(f"{said} of integers with {have}")
        return self.call(torch.reshape, integers, self._open(integers))

    def _open(self, value: Ref) -> tuple[int, ...]:
        """The shape of a value, the frames left open."""
        return tuple(-1 if i == self.frames_dim(value) else n for i, n in enumerate(self.shape(value)))

    def examples(self) -> dict[str, Tensor]:
        """An input for one frame by name: random with a fixed seed, or zeros where it is of integers."""
        drawn = torch.Generator().manual_seed(0)
        inputs = [node for node in self.graph.nodes if node.op == "placeholder"]
        return {str(node.target): example_of(self.like(node), drawn) for node in inputs}

    def finished(self, outputs: Sequence[Ref], names: Sequence[str]) -> fx.GraphModule:
        """The module, which gives one tensor, or a tuple of several; ``names`` has what the source calls them."""
        self.outputs = list(names)
        values = [v if isinstance(v, fx.Node) else self.constant(v) for v in outputs]
        self.graph.output(values[0] if len(values) == 1 else tuple(values))
        made = fx.GraphModule(self.root, self.graph, self.title)
        made.graph.eliminate_dead_code()
        made.delete_all_unused_submodules()
        made.recompile()
        return made.eval()

    def _emit(self, kind: str, target: Any, args: Any, kwargs: Any) -> Ref:
        leaves = pytree.tree_leaves((args, kwargs))
        run = _method(target) if kind == "call_method" else target
        if not any(isinstance(leaf, fx.Node) for leaf in leaves):
            _small(run(*_meta(args), **_meta(kwargs)) if any(isinstance(v, Tensor) for v in leaves) else None)
            with torch.no_grad():
                made = run(*args, **kwargs)
            if target in _MOVES and isinstance(made, Tensor) and isinstance(args[0], Tensor):
                self.note(made, moved(self.noted(args[0]), args[0], lambda value: run(value, *args[1:], **kwargs)))
            return made
        given = pytree.tree_map(lambda v: self.constant(v) if isinstance(v, Tensor) else v, (args, kwargs))
        made = self.graph.create_node(kind, target, given[0], given[1], name=python_name(self.source))
        nodes, spec = pytree.tree_flatten(given)

        def again(values: Sequence[Any]) -> Any:
            inner, named = pytree.tree_unflatten(list(values), spec)
            return run(*inner, **named)

        try:
            return self._made(made, nodes, again)
        except _FAILED:
            (args, kwargs), single = self._frames_apart((args, kwargs), again, nodes)
            return self.reshape(self._emit(kind, target, args, kwargs), single)

    def _made(self, made: fx.Node, leaves: Sequence[Any], run: Callable[[Sequence[Any]], Any]) -> fx.Node:
        """Compute the shapes of a node's result for one frame and for two."""
        self.sources[made.name] = self.source
        results = []
        for known in (self._one, self._two):
            with torch.no_grad():
                results.append(run([known[v] if isinstance(v, fx.Node) else v for v in leaves]))
        one, two = results
        _small(one)
        self._one[made], self._two[made] = one, two
        single = any(isinstance(v, fx.Node) and isinstance(o := self._one[v], Tensor) and not o.dim() for v in leaves)
        for a, b in zip(pytree.tree_leaves(one), pytree.tree_leaves(two), strict=True):
            if isinstance(a, Tensor) and frames.dimension(tuple(a.shape), b) is None and not single:
                raise Refused(
                    "it mixes the frames of a batch, or fixes their number",
                    "export the model with a batch of 1, or with a dynamic batch",
                )
        inputs = [v for v in leaves if isinstance(v, fx.Node)]
        self._outside[made] = max((self._outside.get(n, 1) for n in inputs), default=1)
        return made

    def _free(self, name: str) -> str:
        found, count = name, 0
        while hasattr(self.root, found) or any(found == n.target for n in self.graph.nodes if n.op == "placeholder"):
            count += 1
            found = f"{name}_{count}"
        return found


_MOVES = (torch.permute, torch.reshape, torch.unsqueeze, torch.squeeze)
"""What changes no value."""


def moved(known: Known, value: Tensor, run: Callable[[Tensor], Tensor]) -> Known:
    """What is known of values after their elements were moved."""
    fmt, exact = known.integers, None if known.exact is None else run(known.exact)
    if fmt is not None and fmt.per_channel:
        # The channel of every element shows in which dimension the channels are now.
        count = value.shape[fmt.axis]
        places = torch.arange(count).reshape(-1, *[1] * (value.dim() - 1 - fmt.axis % value.dim()))
        shown = run(places.expand(value.shape).contiguous())
        axes = [
            axis
            for axis, size in enumerate(shown.shape)
            if size == count and bool((shown == torch.arange(count).reshape(-1, *[1] * (shown.dim() - 1 - axis))).all())
        ]
        fmt = dataclasses.replace(fmt, axis=axes[0]) if axes else None
    return Known(known.fmt, fmt, exact)


def python_name(name: str) -> str:
    """A name of a source as one that Python takes: ``/layer1/Conv.0`` as ``layer1_Conv_0``.

    Of a long one, the last parts of its path that are not too long together: instances in the RTL have these names.
    """
    *before, kept = [part for part in re.split(r"[/;]", name) if part] or [""]
    for part in reversed(before):
        if len(part) + 1 + len(kept) > LONGEST_NAME:
            break
        kept = f"{part}/{kept}"
    made = re.sub(r"\W+", "_", kept[-LONGEST_NAME:], flags=re.ASCII).strip("_") or "node"
    return f"_{made}" if made[0].isdigit() or keyword.iskeyword(made) else made


def item(value: Ref, index: int) -> tuple[Any, ...]:
    """The call that takes one result of several."""
    return operator.getitem, value, index


def example_of(like: Tensor, drawn: torch.Generator) -> Tensor:
    """Random numbers in the shape of a tensor of floats, and zeros in that of integers."""
    if like.dtype.is_floating_point:
        return torch.rand(tuple(like.shape), generator=drawn).to(like.dtype) * 2 - 1
    return torch.zeros(tuple(like.shape), dtype=like.dtype)


def _method(name: str) -> Callable[..., Any]:
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


def _meta(values: Any) -> Any:
    return pytree.tree_map(lambda v: v.to("meta") if isinstance(v, Tensor) else v, values)


def _on_meta(module: nn.Module, given: tuple[Any, ...]) -> Any:
    state = {name: value.to("meta") for name, value in module.state_dict(keep_vars=True).items()}
    return torch.func.functional_call(module, state, given)


def _small(result: Any) -> None:
    for value in pytree.tree_leaves(result):
        if isinstance(value, Tensor) and value.numel() > MOST_ELEMENTS:
            raise Refused(f"a result of the shape {list(value.shape)}, which no hardware holds")


ON_HOST = "leave it to the host: ask for a partition (import_model(file, host=True), compile --partition)"
"""What to do with a node that hardware does not have."""
SHOWN = 40
"""Nodes that an error names one by one."""


class NodesRefused(UnsupportedError):
    """The error of :class:`Problems`; ``places`` has the reason by name of the node in the graph, as far as known."""

    places: dict[str, str]


@dataclass
class Problems:
    """The nodes of a source that cannot be taken.

    Args:
        source: What the file is, for the message.
        found: The node, its operation, the reason and the remedy.
        places: The reason by name of the node in the graph.
    """

    source: str
    found: list[tuple[str, str, str, str | None]] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)

    def add(self, node: str, operation: str, error: Exception, place: str | None = None) -> None:
        """Note why a node cannot be taken; anything but :class:`Refused` is what a damaged file makes torch say."""
        if place is not None:
            self.places[place] = error.why if isinstance(error, Refused) else str(error).splitlines()[0]
        if isinstance(error, Refused):
            self.found.append((node, operation, error.why, error.remedy))
        elif isinstance(error, MaseHwError):
            why = error.message.splitlines()[0] + (f" ({error.got!s:.200})" if error.got is not None else "")
            # A file has no rules of a quantisation that one could change.
            told = error.remedy is not None and "quantize." not in error.remedy
            self.found.append((node, operation, why, error.remedy if told else None))
        else:
            text = (str(error).strip().splitlines() or [type(error).__name__])[0]
            why = f"it cannot be computed as the file describes it ({text:.200})"
            self.found.append((node, operation, why, None))

    def refuse(self) -> None:
        """Raise one error for all.

        Raises:
            NodesRefused: Names every node, as the source calls it, its operation and the reason.
        """
        if not self.found:
            return
        lines = [f"{node[:120]} ({operation[:60]}): {why}" for node, operation, why, _ in self.found]
        more = [f"... and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
        remedies = dict.fromkeys(remedy for *_, remedy in self.found if remedy)
        error = NodesRefused(
            f"{len(lines)} node(s) of the {self.source} cannot be taken:\n  " + "\n  ".join(lines[:SHOWN] + more),
            node="; ".join(node[:120] for node, *_ in self.found[:SHOWN]),
            expected="operations that docs/importing.md lists, with constant attributes and static shapes",
            remedy="; ".join(remedies) or "replace the operation in the model",
        )
        error.places = dict(self.places)
        raise error


def plan_each(
    graph: MaseGraph,
    sources: Mapping[str, str],
    plan: Callable[[fx.Node, OpDef], None],
    lost: Callable[[fx.Node], Iterable[str]] = lambda node: (),
) -> None:
    """Plan every node that computes, in order of execution; what follows a refused node is passed over.

    Args:
        graph: The graph.
        sources: The file's names of nodes.
        plan: Plans a node, or raises why it cannot be taken.
        lost: Names of the nodes that a refused node takes with it, besides what reads it.

    Raises:
        NodesRefused: Naming every node that cannot be taken.
    """
    gone: set[str] = set()
    problems = Problems("model")
    for node in list(graph.nodes):
        op = graph.op_of(node)
        if op is None or not graph.meta_of(node).common.results.tensors:
            continue
        if gone & {node.name, *(n.name for n in node.all_input_nodes)}:
            gone.add(node.name)
            continue
        try:
            plan(node, op)
        except Exception as error:
            gone |= {node.name, *lost(node)}
            what = "quantisation" if op.name == "passed_on" else op.name  # what a marker is
            problems.add(sources.get(node.name, node.name), what, error, node.name)
    problems.refuse()
