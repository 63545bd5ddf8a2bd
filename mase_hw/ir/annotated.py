"""A traced model with metadata, as everything that annotates, propagates, draws or writes it asks for it.

:class:`~mase_hw.ir.graph.MaseGraph` is made of this and of those: they know this class and not that one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from torch import fx, nn

from mase_hw.catalogue import Catalogue, OpDef, default_catalogue
from mase_hw.errors import GraphError, MetadataKeyError, PassOrderError, refuse_unknown, suggest
from mase_hw.formats import FixedFormat
from mase_hw.ir import binding
from mase_hw.ir.evaluate import Values
from mase_hw.ir.metadata import MaseGraphMetadata, MaseMetadata, TensorMetadata
from mase_hw.ir.trace.nested import Nested
from mase_hw.nn import Quantized

N = TypeVar("N")

INIT_PASS = "init_metadata_analysis_pass"
SOURCE_NAMES = "imported"
"""Key of ``graph.meta`` of an imported model: by node of the graph, the name of the node in the source."""
SOURCE_OUTPUTS, MODEL_NAME = "imported_outputs", "name"
"""Likewise: what the source calls the results, in order; and what the model is called."""
INPUT_ORDERS = "input_orders"
"""Likewise: by name of an input the order in which its elements arrive, a :class:`mase_hw.layouts.Layout`."""
SOLVED = "solved"
"""Likewise: what was computed of the timing of graphs with the same modules, a :class:`mase_hw.beat_times.Solved`."""
OF_SOURCE = frozenset({SOURCE_NAMES, SOURCE_OUTPUTS, MODEL_NAME, INPUT_ORDERS, SOLVED})
"""What every graph keeps that is made of an imported one."""
EMITTED = frozenset({"netlist", "schedule", "bundle", "vectors", SOLVED})
"""Keys of ``graph.meta`` under which emission puts what it makes of a graph: neither a copy nor a checkpoint has it."""


class _ImplicitOps:
    """Names of the ops that have no hardware of their own: of a graph's catalogue, on the class of the package's."""

    def __get__(self, graph: AnnotatedGraph | None, owner: type) -> list[str]:
        return [op.name for op in (default_catalogue() if graph is None else graph.catalogue) if op.implicit]


def _all_have(branch: str, field: str, graph: AnnotatedGraph) -> bool:
    metas = [node.meta.get("mase") for node in graph.nodes]
    return all(isinstance(meta, MaseMetadata) and (not branch or field in meta[branch]) for meta in metas)


def _is_quantised(graph: AnnotatedGraph) -> bool | None:
    return any(isinstance(module, Quantized) for module in graph.model.modules()) or None


_SEEN: Mapping[str, Callable[[AnnotatedGraph], bool | None]] = {
    INIT_PASS: functools.partial(_all_have, "", ""),
    "add_common_metadata_analysis_pass": functools.partial(_all_have, "common", "mase_op"),
    "quantize_transform_pass": _is_quantised,
}
"""Passes whose results show in the graph: whether they are there; None if only a record can tell."""
Meta = dict[str, Any]
"""What passes leave at a graph for other passes and for users, by name; see :meth:`AnnotatedGraph.note`."""


class AnnotatedGraph:
    """A traced model, the catalogue that knows its ops, and the metadata of every node.

    Args:
        model: The traced model; it is kept as it is.
        catalogue: The known ops.
        cf_args: Arguments of ``forward`` that were fixed to a value while tracing.
    """

    implicit_nodes = _ImplicitOps()
    """Names of the ops that have no hardware of their own (flatten, dropout, ...)."""

    def __init__(self, model: fx.GraphModule, catalogue: Catalogue, cf_args: Values | None = None) -> None:
        self.model = model
        self.catalogue = catalogue
        self.cf_args = dict(cf_args or {})
        for node in self.model.graph.nodes:
            node.meta.pop("mase", None)  # fx copies share metadata objects with the graph they came from
        self.meta: Meta = {"mase": MaseGraphMetadata(), "passes": []}
        self.example: Any = None
        """Inputs of the model, by name or in order, with which it was traced; None if it was traced without."""
        self.nested: Nested | None = None
        """What the inputs of the model are held in, if not in nothing."""
        self.plain: set[str] = set()
        """Keys of :attr:`meta` whose values a checkpoint gave: plain ones, see :meth:`note`."""

    @property
    def fx_graph(self) -> fx.Graph:
        """The fx graph; assigning one recompiles the model."""
        return self.model.graph

    @fx_graph.setter
    def fx_graph(self, graph: fx.Graph) -> None:
        self.model.graph = graph

    @property
    def nodes(self) -> list[fx.Node]:
        """All nodes in order of execution; a snapshot, safe to iterate over while the graph changes."""
        return list(self.model.graph.nodes)

    @staticmethod
    def holds(node: fx.Node) -> bool:
        """Whether a node has not been erased, at a cost that does not grow with the graph."""
        return node.prev.next is node

    @property
    def modules(self) -> dict[str, nn.Module]:
        """Every module of the model by its path."""
        return dict(self.model.named_modules())

    @property
    def completed(self) -> tuple[str, ...]:
        """Passes whose results the graph holds, by what is there: some may be the work of another pass."""
        seen = {name: found(self) for name, found in _SEEN.items()}
        kept = [name for name in self.meta["passes"] if seen.get(name) is not False]
        return (*(name for name, there in seen.items() if there and name not in kept), *kept)

    @property
    def lasting(self) -> list[str]:
        """Passes whose results a copy or a checkpoint of the graph holds: all but those of an emission."""
        return [name for name in self.completed if not name.startswith(("emit_", "choose_vectors_"))]

    @property
    def notes(self) -> Meta:
        """What passes left at the graph besides metadata, by its key in :attr:`meta`, without what emission made."""
        return {key: value for key, value in self.meta.items() if key not in EMITTED | {"mase", "passes"}}

    def note(self, key: str, kind: type[N]) -> N | None:
        """What a pass left at the graph, as what it was then: a checkpoint gives it back as plain values.

        Args:
            key: Its key in :attr:`meta`.
            kind: Its type.

        Returns:
            It, or None if there is nothing.

        Raises:
            GraphError: If a checkpoint had something else there.
        """
        if key not in self.plain:
            return self.meta.get(key)
        try:
            found = self.meta[key] = TypeAdapter(kind).validate_python(self.meta.get(key))
        except ValidationError as error:
            raise GraphError(
                "the graph has something else there than a pass leaves",
                node=f"graph.meta[{key!r}]",
                got=str(error),
                expected=getattr(kind, "__name__", str(kind)),
                remedy="run the pass that made it again",
            ) from error
        self.plain.discard(key)
        return found

    def __repr__(self) -> str:
        model, passes = type(self.model).__name__, list(self.completed)
        return f"{type(self).__name__}({model}, {len(self.nodes)} nodes, passes={passes})"

    def node(self, name: str) -> fx.Node:
        """The node of that name, or a GraphError with what was probably meant."""
        for node in self.nodes:
            if node.name == name:
                return node
        names = [n.name for n in self.nodes]
        raise GraphError("the graph has no such node", node=name, remedy=suggest(name, names))

    def op_of(self, node: fx.Node) -> OpDef | None:
        """The catalogue's op of a node; None for inputs, attributes, the output and unknown targets."""
        return binding.op_of(self.catalogue, self.model, node)

    def hardware_op(self, node: fx.Node) -> OpDef | None:
        """The op whose hardware facets a node has: another one where its implementation is elsewhere."""
        op, module = self.op_of(node), self.meta_of(node).hardware.module
        if op is None or op.hardware is None or op.hardware.module == module:
            return op
        names = (*op.hardware.delegates.values(), op.hardware.abreast)
        others = (self.catalogue[name] for name in names if name)
        return next((o for o in others if o.hardware is not None and o.hardware.module == module), op)

    def is_implicit(self, node: fx.Node) -> bool:
        """Whether the node passes its data on without hardware."""
        op = self.op_of(node)
        return op is not None and op.implicit

    def meta_of(self, node: fx.Node) -> MaseMetadata:
        """The metadata of a node.

        Raises:
            PassOrderError: If it was not initialised.
        """
        meta = node.meta.get("mase")
        if not isinstance(meta, MaseMetadata):
            raise PassOrderError("the node has no metadata", node=node.name, remedy=f"run {INIT_PASS} first")
        return meta

    @property
    def metadata(self) -> MaseGraphMetadata:
        """The metadata of the whole graph, also at ``graph.meta["mase"]``."""
        meta: MaseGraphMetadata = self.meta["mase"]
        return meta

    def init_metadata(self) -> None:
        """Give every node and the graph empty metadata."""
        for node in self.nodes:
            node.meta["mase"] = MaseMetadata(node, self.model)
        self.meta["mase"] = MaseGraphMetadata()

    def sources(self, node: fx.Node) -> dict[str, tuple[fx.Node, str]]:
        """Where each tensor argument of a node comes from: argument -> (producer, result of the producer)."""
        results = {n: self.meta_of(n).common.results for n in node.all_input_nodes}
        slots = binding.slots(self.op_of(node), self.model, node, results)
        return {slot.name: slot.source for slot in slots if slot.source is not None}

    def consumers(self, node: fx.Node, result: str = "data_out_0") -> list[tuple[fx.Node, str]]:
        """Who reads a result: (consumer, its argument), in order of execution."""
        readers = []
        for user in node.users:
            readers += [(user, arg) for arg, source in self.sources(user).items() if source == (node, result)]
        return readers

    def tensor(self, node: fx.Node, name: str) -> TensorMetadata:
        """The metadata of one tensor argument or result of a node."""
        common = self.meta_of(node).common
        found = {**common.args.tensors, **common.results.tensors}
        refuse_unknown(name, found, "the node has no such tensor", node=node.name, error=MetadataKeyError)
        return found[name]

    def set_format(self, node: fx.Node, name: str, fmt: FixedFormat) -> None:
        """Set the fixed-point format of a tensor; a result takes its consumers' arguments along."""
        self.tensor(node, name).fmt = fmt
        if name in self.meta_of(node).common.results:
            for user, arg in self.consumers(node, name):
                self.tensor(user, arg).fmt = fmt
