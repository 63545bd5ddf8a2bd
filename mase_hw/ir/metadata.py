"""The metadata of a node: a tree of dicts as MASE documents it, whose fields are attributes as well.

The tree has three branches. ``common`` says what a node is and what flows through it, ``software`` what was
observed, ``hardware`` how it is built. Typed code uses attributes (``meta.common.args["weight"].shape``),
MASE scripts use keys (``meta["common"]["args"]["weight"]["shape"]``); both reach the same objects.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, Self

from torch import fx, nn

from mase_hw.ir.hardware_branch import HardwareMetadata
from mase_hw.ir.paths import module_at
from mase_hw.ir.records import Branch, Entries, Record, record
from mase_hw.ir.tensors import KNOWN_STORAGE, KNOWN_TOOLCHAIN, KNOWN_TYPES, TensorDict, TensorMetadata

__all__ = [
    "CommonMetadata",
    "HardwareMetadata",
    "MaseGraphMetadata",
    "MaseMetadata",
    "SoftwareMetadata",
    "TensorDict",
    "TensorMetadata",
]


@record
class CommonMetadata(Record):
    """What a node is: ``args`` holds tensors and plain attributes, ``results`` tensors."""

    free: ClassVar[bool] = True

    mase_type: str = ""
    mase_op: str = ""
    args: TensorDict = field(default_factory=TensorDict)
    results: TensorDict = field(default_factory=TensorDict)

    def coerce(self, name: str, value: Any) -> Any:
        """Give plain dicts of arguments and results their types."""
        tensors = name in ("args", "results") and not isinstance(value, TensorDict)
        return TensorDict(value) if tensors else value

    def present(self, name: str) -> bool:
        """Arguments and results are listed, even when empty, once the op is known."""
        return super().present(name) or "mase_op" in self


@record
class SoftwareMetadata(Record):
    """What was observed: ``args[name]["stat"]["range_min_max"]`` and the like; free below the names.

    Args:
        args: By name of an argument.
        results: By name of a result.
        quantization: Keys of the node's quantisation, if a configuration was recorded.
    """

    free: ClassVar[bool] = True

    args: Entries = field(default_factory=Branch)
    results: Entries = field(default_factory=Branch)
    quantization: Entries = field(default_factory=Branch)


@record
class Tree(Record):
    """The three branches of a node's metadata, which are always there."""

    required: ClassVar[tuple[str, ...]] = ("common", "software", "hardware")

    common: CommonMetadata = field(default_factory=CommonMetadata)
    software: SoftwareMetadata = field(default_factory=SoftwareMetadata)
    hardware: HardwareMetadata = field(default_factory=HardwareMetadata)

    def __init__(self, owner: str = "") -> None:
        super().__init__()
        for name in self.required:
            getattr(self, name)
        self._place((owner,))

    def coerce(self, name: str, value: Any) -> Any:
        """A branch assigned as a plain dict becomes its record, with unknown keys refused."""
        kind = self.__dataclass_fields__[name].default_factory
        if isinstance(value, kind):
            return value
        made = kind()
        made.update(value)
        return made

    def __setitem__(self, key: str, value: Any) -> None:
        if key == "hardware" and isinstance(value, Mapping) and not isinstance(value, Record):
            self.hardware.update(value)  # its results stay
        else:
            super().__setitem__(key, value)

    def fill(self, branches: Entries) -> None:
        """Put back branches as they were, results of the hardware pass included."""
        for name, value in branches.items():
            if name == "hardware" and not isinstance(value, HardwareMetadata):
                value = HardwareMetadata.filled(value)
            self[name] = value

    @property
    def parameters(self) -> Self:
        """The tree under MASE's name; assigning a dict replaces the branches it names."""
        return self

    @parameters.setter
    def parameters(self, value: Entries) -> None:
        self.update(value)

    # Metadata belongs to one node, so it is hashed by identity although its content can be compared.
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._at[0] or 'no node'}, {self.to_dict()!r})"


class MaseMetadata(Tree):
    """Metadata of one node.

    Args:
        node: The fx node.
        model: The GraphModule the node belongs to.
    """

    known_types: ClassVar[list[str]] = list(KNOWN_TYPES)
    known_toolchain: ClassVar[list[str]] = list(KNOWN_TOOLCHAIN)
    known_storage: ClassVar[list[str]] = list(KNOWN_STORAGE)
    node: fx.Node | None = None
    model: fx.GraphModule | None = None

    def __init__(self, node: fx.Node | None = None, model: fx.GraphModule | None = None) -> None:
        super().__init__(node.name if node is not None else "")
        self.node = node
        self.model = model

    def __deepcopy__(self, memo: dict[int, Any]) -> MaseMetadata:
        made = MaseMetadata(self.node, self.model)
        made.fill(copy.deepcopy(dict(self), memo))
        return made

    @property
    def module(self) -> nn.Module | None:
        """The module of a ``call_module`` node, else None."""
        if self.node is None or self.model is None or self.node.op != "call_module":
            return None
        return module_at(self.model, str(self.node.target))

    @property
    def graph(self) -> fx.Graph | None:
        """The fx graph the node belongs to."""
        return self.model.graph if self.model is not None else None


@record
class GraphCommon(Record):
    """First and last nodes that compute, and the tensors that enter and leave the graph, in order."""

    free: ClassVar[bool] = True

    nodes_in: list[fx.Node] = field(default_factory=list)
    nodes_out: list[fx.Node] = field(default_factory=list)
    args: TensorDict = field(default_factory=TensorDict)
    results: TensorDict = field(default_factory=TensorDict)


@record
class GraphHardware(Record):
    """Of a whole graph nothing is recorded here: arguments of the hardware pass and the manifest have it."""


@record
class MaseGraphMetadata(Tree):
    """Metadata of a whole graph: ``graph.meta["mase"]``."""

    # Two branches of a graph have other fields than those of a node.
    common: GraphCommon = field(default_factory=GraphCommon)  # type: ignore[assignment]
    software: SoftwareMetadata = field(default_factory=SoftwareMetadata)
    hardware: GraphHardware = field(default_factory=GraphHardware)  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__("graph")
