"""The metadata of a node: typed records that read and write like MASE's documented tree.

The tree has three branches. ``common`` says what a node is and what flows through it, ``software`` what was
observed, ``hardware`` how it is built. Typed code uses attributes (``meta.common.args["weight"].shape``),
MASE scripts use keys (``meta["common"]["args"]["weight"]["shape"]``); both reach the same objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import fx, nn

from mase_hw.ir.tensors import KNOWN_STORAGE, KNOWN_TOOLCHAIN, KNOWN_TYPES, TensorDict, TensorMetadata, one_of
from mase_hw.ir.view import Record, View

__all__ = [
    "CommonMetadata",
    "HardwareMetadata",
    "MaseGraphMetadata",
    "MaseMetadata",
    "SoftwareMetadata",
    "TensorDict",
    "TensorMetadata",
]


@dataclass
class CommonMetadata(Record):
    """What a node is: ``args`` holds tensors and plain attributes, ``results`` tensors."""

    mase_type: str = ""
    mase_op: str = ""
    args: TensorDict = field(default_factory=TensorDict)
    results: TensorDict = field(default_factory=TensorDict)

    @classmethod
    def coerce(cls, name: str, value: Any) -> Any:
        """Give plain dicts of arguments and results their types."""
        if name in ("args", "results") and not isinstance(value, TensorDict):
            return TensorDict(value)
        return value

    def present(self, name: str) -> bool:
        """Arguments and results are listed, even when empty, once the op is known."""
        return super().present(name) or (name in ("args", "results") and bool(self.mase_op))


@dataclass
class SoftwareMetadata(Record):
    """What was observed: ``args[name]["stat"]["range_min_max"]`` and the like; free below the names.

    Args:
        args: By name of an argument.
        results: By name of a result.
        quantization: Keys of the node's quantisation, if a configuration was recorded.
    """

    args: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    quantization: dict[str, Any] = field(default_factory=dict)


@dataclass
class HardwareMetadata(Record):
    """How a node is built; fields are filled by the hardware metadata pass.

    Args:
        is_implicit: No hardware of its own.
        interface: Parameter name -> ``{"storage": "BRAM", "transpose": False}``.
        toolchain: ``INTERNAL``, ``EXTERNAL`` or ``HLS``.
        module: Name of the SystemVerilog module.
        device_id: Device the node is mapped to, -1 for the default one.
        dependence_files: Files of the module, dependencies first.
        verilog_param: The instantiation's parameters, in order.
        max_parallelism: Upper bound of lanes, innermost dimension first.
        parallelism: Tensor name -> lanes along each dimension, innermost first.
        latency: Timing of the module.
        fifo_depth: Data input -> depth of the FIFO before it, where one is configured.
        layouts: Tensor name -> order of its elements in the stream (:meth:`mase_hw.layouts.Layout.to_dict`).
    """

    is_implicit: bool | None = None
    interface: dict[str, Any] = field(default_factory=dict)
    toolchain: str | None = None
    module: str | None = None
    device_id: int | None = None
    dependence_files: list[str] = field(default_factory=list)
    verilog_param: dict[str, Any] = field(default_factory=dict)
    max_parallelism: Any = None
    parallelism: dict[str, Any] = field(default_factory=dict)
    latency: Any = None
    fifo_depth: dict[str, int] = field(default_factory=dict)
    layouts: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def coerce(cls, name: str, value: Any) -> Any:
        """Refuse an unknown toolchain."""
        if name == "toolchain" and value is not None:
            one_of(name, value, KNOWN_TOOLCHAIN)
        return value


def _branch(kind: type[Any], value: Any) -> Any:
    """A branch assigned as a plain dict becomes its record, with unknown keys refused."""
    if isinstance(value, kind):
        return value
    record = kind()
    view = View(record)
    for key, item in value.items():
        view[key] = item
    return record


@dataclass
class Tree(Record):
    """The three branches of a node's metadata."""

    required: ClassVar[tuple[str, ...]] = ("common", "software", "hardware")

    common: CommonMetadata = field(default_factory=CommonMetadata)
    software: SoftwareMetadata = field(default_factory=SoftwareMetadata)
    hardware: HardwareMetadata = field(default_factory=HardwareMetadata)

    @classmethod
    def coerce(cls, name: str, value: Any) -> Any:
        """Give branches assigned as dicts their types."""
        kinds = {"common": CommonMetadata, "software": SoftwareMetadata, "hardware": HardwareMetadata}
        return _branch(kinds[name], value)


class MetadataView(MutableMapping[str, Any]):
    """The dict face of a metadata tree; ``parameters`` is the same view under MASE's name."""

    def __init__(self, tree: Record, owner: str) -> None:
        self._tree = tree
        self._owner = owner

    @property
    def parameters(self) -> View:
        """The whole tree as a dict view; assigning a dict replaces the branches it names."""
        return View(self._tree, (), self._owner)

    @parameters.setter
    def parameters(self, value: Mapping[str, Any]) -> None:
        self.parameters.update(value)

    def __getitem__(self, key: str) -> Any:
        return self.parameters[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.parameters[key] = value

    def __delitem__(self, key: str) -> None:
        del self.parameters[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parameters)

    def __len__(self) -> int:
        return len(self.parameters)

    def __eq__(self, other: object) -> bool:
        return self.parameters == (other.parameters if isinstance(other, MetadataView) else other)

    # Metadata belongs to one node, so it is hashed by identity although its content can be compared.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._owner or 'no node'}, {self.parameters!r})"

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dicts, as MASE documents them; what is not set is left out."""
        return self.parameters.to_dict()


class MaseMetadata(MetadataView):
    """Metadata of one node.

    Args:
        node: The fx node.
        model: The GraphModule the node belongs to.
    """

    known_types: ClassVar[list[str]] = list(KNOWN_TYPES)
    known_toolchain: ClassVar[list[str]] = list(KNOWN_TOOLCHAIN)
    known_storage: ClassVar[list[str]] = list(KNOWN_STORAGE)

    def __init__(self, node: fx.Node | None = None, model: fx.GraphModule | None = None) -> None:
        self.node = node
        self.model = model
        self.tree = Tree()
        super().__init__(self.tree, node.name if node is not None else "")

    @property
    def common(self) -> CommonMetadata:
        """What the node is and what flows through it."""
        return self.tree.common

    @property
    def software(self) -> SoftwareMetadata:
        """What was observed."""
        return self.tree.software

    @property
    def hardware(self) -> HardwareMetadata:
        """How the node is built."""
        return self.tree.hardware

    @property
    def module(self) -> nn.Module | None:
        """The module of a ``call_module`` node, else None."""
        if self.node is None or self.model is None or self.node.op != "call_module":
            return None
        return self.model.get_submodule(str(self.node.target))

    @property
    def graph(self) -> fx.Graph | None:
        """The fx graph the node belongs to."""
        return self.model.graph if self.model is not None else None


@dataclass
class GraphCommon(Record):
    """First and last nodes that compute, and the tensors that enter and leave the graph, in order."""

    nodes_in: list[fx.Node] = field(default_factory=list)
    nodes_out: list[fx.Node] = field(default_factory=list)
    args: TensorDict = field(default_factory=TensorDict)
    results: TensorDict = field(default_factory=TensorDict)


@dataclass
class GraphTree(Record):
    """The branches of the metadata of a whole graph."""

    required: ClassVar[tuple[str, ...]] = ("common", "software", "hardware")

    common: GraphCommon = field(default_factory=GraphCommon)
    software: SoftwareMetadata = field(default_factory=SoftwareMetadata)
    hardware: HardwareMetadata = field(default_factory=HardwareMetadata)

    @classmethod
    def coerce(cls, name: str, value: Any) -> Any:
        """Give branches assigned as dicts their types."""
        return _branch(GraphCommon, value) if name == "common" else Tree.coerce(name, value)


class MaseGraphMetadata(MetadataView):
    """Metadata of a whole graph: ``graph.meta["mase"]``."""

    def __init__(self) -> None:
        self.tree = GraphTree()
        super().__init__(self.tree, "graph")

    @property
    def common(self) -> GraphCommon:
        """What enters and leaves the graph."""
        return self.tree.common
