"""The catalogue: what an op is, and how ops are found.

An op is one file in ``mase_hw/ops`` that exposes ``OPS``, a tuple of :class:`OpDef`. Nothing else names ops: torch
target -> op, op -> RTL module, parameters, golden and latency are all read from here.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from mase_hw.errors import CatalogueError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.streams import Stream

Cycles = npt.NDArray[np.int64]
"""One cycle number a beat."""
EXTERNAL = "external/"
"""Where RTL files that are not of this package stand, in place of ``rtl_templates``."""


@dataclass(frozen=True)
class Arithmetic:
    """All that fixes the bits of an op: formats by tensor name, the cast modes, and the op's attributes."""

    formats: Mapping[str, FixedFormat]
    rounding: Rounding = Rounding.HALF_EVEN
    overflow: Overflow = Overflow.SATURATE
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Latency:
    """Exact timing of a module.

    Args:
        interval: Cycles between the first beats of consecutive frames in steady state, inputs and outputs never
            stalling.
        departures: Maps the cycles in which the beats of one frame of ``data_in_0`` are accepted, the module idle
            before, to the cycles in which the beats of ``data_out_0`` are first valid.
        beats: Beats of one frame of ``data_in_0``.
    """

    interval: int
    departures: Callable[[Cycles], Cycles]
    beats: int

    @property
    def fill(self) -> int:
        """Cycles from the first input beat accepted to the first output beat valid, one input beat a cycle."""
        return int(self.departures(np.arange(self.beats, dtype=np.int64))[0])


class Params(Protocol):
    """A frozen dataclass whose fields are the SystemVerilog parameters, in the order of the module."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """One parameter set on which the catalogue test proves an op.

    Args:
        name: Unique within the op.
        params: The parameters.
        frames: Frames to stream in each run.
        exhaustive: Feed every input code instead of random ones (one-input, elementwise ops).
    """

    name: str
    params: Any
    frames: int = 4
    exhaustive: bool = False


@dataclass(frozen=True)
class Request:
    """What the hardware metadata pass asks of an op when it builds its parameters.

    Args:
        node: Node name, for errors.
        arithmetic: Formats by tensor name, cast modes and attributes.
        shapes: Shape of every tensor by name, outermost dimension first.
        parallelism: Lanes by tensor name, innermost dimension first, as far as chosen.
    """

    node: str
    arithmetic: Arithmetic
    shapes: Mapping[str, tuple[int, ...]]
    parallelism: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Hardware:
    """The hardware facets of an op; every one is required.

    Args:
        module: Name of the SystemVerilog module; it lives in ``file``.
        file: Path of the module below ``rtl_templates``.
        dependence_files: Every other file below ``rtl_templates`` it needs, dependencies first.
        params: The parameter dataclass.
        build: Makes the parameters for a node, or refuses with :class:`~mase_hw.errors.UnsupportedError`.
        ports: The streams of the module.
        arithmetic: Reads :class:`Arithmetic` back from the parameters.
        latency: The timing of the module.
        cases: Parameter sets for the catalogue test.
        work: Multiply-accumulates a frame (0 for ops without multipliers).
        multipliers: Multipliers the module instantiates.
        follows_input: Output lanes equal input lanes, so lanes follow the producer unless configured.
        static: Names of the input streams that carry parameters (weights) and come from a memory.
        tied: Ports that carry no stream with these parameters, and the expression an instance ties them to (empty for
            an output).
        toolchain: ``INTERNAL`` for the RTL of this package, ``EXTERNAL`` for a user's own.
        root: Folder of the files below ``external/``; every other file is of this package.
    """

    module: str
    file: str
    dependence_files: tuple[str, ...]
    params: type[Any]
    build: Callable[[Request], Any]
    ports: Callable[[Any], tuple[Stream, ...]]
    arithmetic: Callable[[Any], Arithmetic]
    latency: Callable[[Any], Latency]
    cases: Callable[[], Sequence[Case]]
    work: Callable[[Any], int] = lambda _: 0
    multipliers: Callable[[Any], int] = lambda _: 0
    follows_input: bool = False
    static: tuple[str, ...] = ()
    tied: Callable[[Any], Mapping[str, str]] = lambda _: {}
    toolchain: str = "INTERNAL"
    root: Path | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """Every file the module needs, dependencies first."""
        return (*self.dependence_files, self.file)

    def external(self, file: str) -> Path | None:
        """Where a file of the user lies; None for a file of this package."""
        if self.root is None or not file.startswith(EXTERNAL):
            return None
        return self.root / file.removeprefix(EXTERNAL)


Golden = Callable[[Arithmetic, Mapping[str, Tensor]], dict[str, Tensor]]
"""Integer mantissas in, integer mantissas out; tensors by name, any carrier dtype."""

MASE_TYPES = (
    "module", "module_related_func", "builtin_func", "implicit_func", "placeholder", "get_attr", "output"
)  # fmt: skip


@dataclass(frozen=True)
class OpDef:
    """One op, every facet.

    Args:
        name: ``mase_op``.
        mase_type: One of :data:`MASE_TYPES`; empty for structural ops, which no model contains.
        modules: torch module classes that are this op.
        functions: Functions that are this op.
        methods: Tensor methods that are this op.
        attributes: Module attributes recorded as arguments; functions record theirs by signature.
        parameters: Module parameters recorded as tensor arguments.
        implicit: No hardware of its own: the data passes unchanged, only the shape differs.
        golden: The arithmetic; None only for ops without hardware.
        formats: Tensor names whose format the quantisation configuration may set.
        default_out: Output format when the configuration gives none, from the input formats.
        finest: Finest fraction width worth choosing for a tensor, from its name and the formats chosen so far; None for
            no limit. Keeps an automatic choice from widening exact sums for bits that cannot matter.
        check: Refuses attributes the arithmetic does not cover, called with the node name and the attributes.
        hardware: Hardware facets; None for implicit ops and ops not in hardware.
    """

    name: str
    mase_type: str = ""
    modules: tuple[type[nn.Module], ...] = ()
    functions: tuple[Callable[..., Any], ...] = ()
    methods: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    implicit: bool = False
    golden: Golden | None = None
    formats: tuple[str, ...] = ("data_in_0", "data_out_0")
    default_out: Callable[[Mapping[str, FixedFormat]], FixedFormat] | None = None
    finest: Callable[[str, Mapping[str, FixedFormat]], int | None] | None = None
    check: Callable[[str, Mapping[str, Any]], None] | None = None
    hardware: Hardware | None = None

    def __post_init__(self) -> None:
        def fail(problem: str) -> None:
            raise CatalogueError(f"op {self.name!r}: {problem}", node=self.name)

        structural = not self.mase_type
        if not structural and self.mase_type not in MASE_TYPES:
            fail(f"mase_type {self.mase_type!r} is not one of {', '.join(MASE_TYPES)}")
        if structural and (self.modules or self.functions or self.methods):
            fail("a structural op (no mase_type) cannot match torch targets")
        if structural and self.hardware is None:
            fail("a structural op needs the hardware facets")
        if self.hardware is not None:
            if self.implicit:
                fail("an implicit op has no hardware facets")
            if self.golden is None:
                fail("missing facet: golden")
            for facet in dataclasses.fields(self.hardware):
                if facet.default is dataclasses.MISSING and getattr(self.hardware, facet.name) in (None, ""):
                    fail(f"missing facet: {facet.name}")
            if not dataclasses.is_dataclass(self.hardware.params):
                fail("params is not a dataclass")
            if not self.hardware.params.__dataclass_params__.frozen:
                fail("params is not frozen")
            if self.hardware.root is None and any(f.startswith(EXTERNAL) for f in self.hardware.files):
                fail(f"files below {EXTERNAL} need a root")


class Catalogue:
    """An immutable set of ops, searched by torch target.

    Args:
        ops: The op definitions.
        modules: Module classes that stand for any op (quantised ones) and write and rebuild themselves
            (:class:`mase_hw.ir.checkpoint_modules.Rebuildable`).

    Raises:
        CatalogueError: If two ops share a name or claim the same torch target.
    """

    def __init__(self, ops: Iterable[OpDef], modules: Iterable[type[nn.Module]] = ()) -> None:
        self.modules = tuple(modules)
        self._by_name: dict[str, OpDef] = {}
        self._targets: dict[Any, OpDef] = {}
        for op in ops:
            if op.name in self._by_name:
                raise CatalogueError(f"two ops are called {op.name!r}", node=op.name)
            self._by_name[op.name] = op
            for target in (*op.modules, *op.functions, *op.methods):
                if target in self._targets:
                    other = self._targets[target].name
                    raise CatalogueError(f"ops {other!r} and {op.name!r} both claim {target!r}", node=op.name)
                self._targets[target] = op

    def __iter__(self) -> Any:
        return iter(self._by_name.values())

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> OpDef:
        return self._by_name[name]

    def names(self) -> list[str]:
        """Names of all ops, in order of definition."""
        return list(self._by_name)

    def get(self, name: str) -> OpDef | None:
        """The op of that name, or None."""
        return self._by_name.get(name)

    def of_module(self, module: nn.Module) -> OpDef | None:
        """The op of a module: what it declares as ``mase_op``, else its class, else its nearest listed base."""
        declared = getattr(module, "mase_op", None)
        if isinstance(declared, str):
            return self._by_name.get(declared)
        for cls in type(module).__mro__:
            if cls in self._targets:
                return self._targets[cls]
        return None

    def of_function(self, function: Callable[..., Any]) -> OpDef | None:
        """The op of a function."""
        return self._targets.get(function)

    def of_method(self, method: str) -> OpDef | None:
        """The op of a tensor method."""
        return self._targets.get(method)

    def extended(self, ops: Iterable[OpDef], modules: Iterable[type[nn.Module]] = ()) -> Catalogue:
        """A new catalogue with more ops, and more module classes that stand for ops."""
        return Catalogue([*self, *ops], [*self.modules, *modules])


@functools.cache
def default_catalogue() -> Catalogue:
    """The ops of ``mase_hw.ops``: every file's ``OPS``, in order of file name; and the ``MODULES`` of ``mase_hw.nn``.

    Raises:
        CatalogueError: If a file has no ``OPS`` or an op is incomplete.
    """
    package = importlib.import_module("mase_hw.ops")
    ops: list[OpDef] = []
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name):
        if info.name.startswith("_"):
            continue
        module = importlib.import_module(f"mase_hw.ops.{info.name}")
        found = getattr(module, "OPS", None)
        if not isinstance(found, tuple) or not all(isinstance(op, OpDef) for op in found):
            raise CatalogueError(f"mase_hw/ops/{info.name}.py has no OPS, a tuple of OpDef", node=info.name)
        ops.extend(found)
    return Catalogue(ops, importlib.import_module("mase_hw.nn").MODULES)


def verilog_params(params: Any) -> dict[str, int | str]:
    """The SystemVerilog parameters of a parameter dataclass, in order; booleans become 0 and 1."""
    values = dataclasses.asdict(params)
    return {name: int(v) if isinstance(v, bool | int) else v for name, v in values.items()}
