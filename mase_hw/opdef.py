"""What an op is, as data: its arithmetic, its hardware, its cases.

An op is one file in ``mase_hw/ops`` that exposes ``OPS``, a tuple of :class:`OpDef`; :mod:`mase_hw.catalogue` finds
them all.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from torch import Tensor, nn

from mase_hw.errors import CatalogueError
from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledUse, any_scaled, read_format
from mase_hw.formats.attributes import Attributes, attributes_of
from mase_hw.hardware.latency import Cycles as Cycles
from mase_hw.hardware.latency import Latency as Latency
from mase_hw.hardware.latency import kept
from mase_hw.hardware.library import with_dependences
from mase_hw.hardware.params import Cast, Params, read_params
from mase_hw.hardware.params import verilog_params as verilog_params
from mase_hw.host.resources import Generated as Generated
from mase_hw.layouts import Layout
from mase_hw.steps import Counts, Steps
from mase_hw.streams import Stream

T = TypeVar("T")
ONE_INPUT = ("data_in_0", "data_out_0")
"""The tensors of an op with one input and no parameters."""
LAYER_TENSORS = ("data_in_0", "weight", "bias", "data_out_0")
"""Those of a layer."""
EXTERNAL = "external/"
"""Where RTL files that are not of this package stand, in place of ``rtl_templates``."""
SUPPORT = ("lib/unread.sv", "lib/invariant.sv")
"""Files below ``rtl_templates`` that every design has."""


@dataclass(frozen=True)
class Arithmetic:
    """All that fixes the bits of an op: formats by tensor name, the cast modes, and the op's attributes."""

    formats: Mapping[str, FixedFormat]
    rounding: Rounding = Rounding.HALF_EVEN
    overflow: Overflow = Overflow.SATURATE
    attributes: Attributes = field(default_factory=Attributes)

    @property
    def modes(self) -> Cast:
        """Rounding and overflow, as a module takes them."""
        return Cast(self.rounding, self.overflow)

    @classmethod
    def of(cls, params: Any) -> Arithmetic:
        """What a record of parameters says; see :class:`mase_hw.hardware.params.Params`."""
        modes = params.modes()
        return cls(params.formats(), modes.rounding, modes.overflow, params.attributes())

    @classmethod
    def read(cls, text: str, names: Sequence[str] = ONE_INPUT, attributes: Mapping[str, object] | None = None) -> Self:
        """From a text such as ``s8.4 - u6.3 half_up wrap``.

        Args:
            text: The format of every tensor (see :func:`mase_hw.formats.read_format`; ``-`` where it is not there),
                then rounding and overflow if they are not ``half_even`` and ``saturate``. ``gate=s9.6`` is the format
                of a tensor by name, the last one that of one named twice.
            names: The tensors, in that order.
            attributes: Of the op.
        """
        named = dict(word.split("=") for word in text.split() if "=" in word)
        words = [word for word in text.split() if "=" not in word]
        named = {name: word for name, word in zip(names, words, strict=False) if word != "-"} | named
        formats = {name: read_format(word) for name, word in named.items()}
        modes = words[len(names) :]
        overflow = modes.pop() if modes[-1:] in (["wrap"], ["saturate"]) else "saturate"
        return cls(
            formats, Rounding.parse(*modes or ["half_even"]), Overflow.parse(overflow), attributes_of(attributes or {})
        )


@dataclass(frozen=True)
class Case:
    """One parameter set on which the catalogue test proves an op.

    Args:
        name: Unique within the op.
        params: The parameters.
        frames: Frames to stream in each run.
        exhaustive: Feed every input code instead of random ones (one-input, elementwise ops).
        attributes: Attributes of the op, where the arithmetic has any that are not among the parameters.
        given: What some inputs carry, frame after frame, over and over, where their values decide the timing.
    """

    name: str
    params: Any
    frames: int = 4
    exhaustive: bool = False
    attributes: Attributes = field(default_factory=Attributes)
    given: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """What the hardware metadata pass asks of an op when it builds its parameters.

    Args:
        node: Node name, for errors.
        arithmetic: Formats by tensor name, cast modes and attributes.
        shapes: Shape of every tensor by name, outermost dimension first.
        parallelism: Lanes by tensor name, innermost dimension of the stream first, as far as chosen.
        layouts: Order of the elements of every data tensor by name; row-major if missing.
        chosen: Tensors whose lanes the user gave: an op may lower the others, but refuses these.
        implementation: What was asked for where an op has several implementations; empty for its own choice.
        family: Family of FPGAs for which it chooses; empty for none in particular.
        narrow: Whether the most negative code does not occur among the stored weights.
        parameters: Mantissas of the stored parameters by name, for implementations that are made for them.
        levels: Additions between two registers of such an implementation, for which ``solver`` finds them; or of a
            division, 0 if nothing is said.
        order: The order of its work that was asked for, where an op has several; empty for its own.
        fast: Whether registers are wanted where long paths begin.
        slots: Sequences in turn (:mod:`mase_hw.ops._slots`); 1 if every frame is one of its own.
    """

    node: str
    arithmetic: Arithmetic
    shapes: Mapping[str, tuple[int, ...]]
    parallelism: Mapping[str, tuple[int, ...]]
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()
    implementation: str = ""
    family: str = ""
    narrow: bool = False
    parameters: Mapping[str, Tensor] = field(default_factory=dict)
    levels: int = 0
    order: str = ""
    solver: str = "own"
    fast: bool = False
    slots: int = 1

    @property
    def stream_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every tensor in the order of its stream, the slowest dimension first."""
        return {n: self.layouts[n].stream_shape if n in self.layouts else s for n, s in self.shapes.items()}


LAYOUTS = ("any", "channels_last", "row_major", "rows")


@dataclass(frozen=True)
class Memory:
    """The content of a memory that a module has inside and reads at any address.

    Args:
        words: Unsigned words, that of address 0 first.
        bits: Width of a word.
        note: What the manifest says of it.
    """

    words: tuple[int, ...]
    bits: int
    note: str = ""


_PORTS = 1024
"""Streams of a module that are kept."""
Golden = Callable[[Arithmetic, Mapping[str, Tensor]], dict[str, Tensor]]
Positions = Callable[[Attributes, Mapping[str, tuple[int, ...]], int, int], tuple[int, int]]
"""See :attr:`Hardware.positions`."""
SomeChannels = tuple[Arithmetic, dict[str, Tensor], int]
"""What a golden takes to give some output channels, and the dimension of the channels in its result."""
"""Integer mantissas in, integer mantissas out; tensors by name, any carrier dtype."""


def _streams(params: Any) -> tuple[Stream, ...]:
    streams: tuple[Stream, ...] = params.streams()
    return streams


def _tied(params: Any) -> Mapping[str, str]:
    return params.tied() if isinstance(params, Params) else {}


@dataclass(frozen=True)
class Hardware:
    """The hardware facets of an op; every one is required.

    Args:
        module: Name of the SystemVerilog module.
        params: The record of its parameters, a :class:`~mase_hw.hardware.params.Params`; of a module of the user's
            also a frozen dataclass whose fields are the SystemVerilog parameters.
        build: Makes the parameters for a node, or refuses with :class:`~mase_hw.errors.UnsupportedError`.
        latency: The timing of the module.
        cases: Parameter sets for the catalogue test.
        file: Path of the module below ``rtl_templates``; empty for that of its name in ``ops``, with a ``root`` there.
        ports: The streams of the module, if they are not those that its record says.
        arithmetic: Reads :class:`Arithmetic` back from the parameters, likewise.
        work: Multiply-accumulates per frame (0 for ops without multipliers).
        multipliers: Multipliers the module instantiates.
        idle: Of an op that computes with its own results: cycles per frame in which it waits for them.
        at_positions: Of a module with a port ``slot``: its steps, from the parameters and the positions of tokens,
            where :attr:`latency` takes whole sequences.
        follows_input: Output lanes equal input lanes, so lanes follow the producer unless configured.
        static: Names of the input streams that carry parameters (weights) and come from a memory.
        tied: Ports that carry no stream with these parameters, and the expression an instance ties them to (empty for
            an output), if they are not those that the record says.
        layout: In which order the data streams run: ``any`` (one common order, whatever arrives), ``channels_last``
            (images ``(N, C, *S)`` as ``(N, *S, C)``), ``row_major``, or ``rows`` (the last dimension in any order, the
            others as they are; the result row-major).
        positions: Of an op whose beats may have several neighbouring positions, with lanes of their channels (of all
            elements if its layout is ``any`` and it follows its input): attributes, shapes of the tensors, positions
            in which the input arrives and those that are wished for -> those of a beat of the input and of the
            output. Of ``row_major`` they are tokens, dimension 1: those in which its first and its last input arrive ->
            those of the first input, which the output has too, and of the others. Where the op has a ``relayout``, that
            says it instead. None: one position a beat.
        joined: Of an op that puts its inputs behind each other: along which dimension, from the attributes. They come
            in any order that all of them have. None: ``layout`` says it.
        stretch: Elements of its input that pass in one piece, from the layout of that and the attributes: as many lanes
            as a producer has, up to these, where the innermost dimension is shorter. None: lanes are along that.
        abreast: Of ``rows``: the op whose hardware facets it has where a beat has several neighbouring rows; its result
            has as many. Empty: one row a beat, or ``positions`` says it.
        permuted: Of ``rows``: the parameters whose last dimension follows the order of the input's.
        broadcast: The parameters that are broadcast to ``data_in_0`` and come in the order of its elements.
        memories: Content of the memories inside the module, by the name of the string parameter that takes the path of
            the file; these parameters are not among ``params``. In a netlist the attributes of the arithmetic have
            ``shapes``, ``layouts`` and ``parallelism`` of the tensors besides, and ``parameters``, their mantissas.
        reads: What the golden is if the memory of this name held something else; None for one of which that is not
            known. For simulating faults.
        takes: Of parameters that may be late: the step of the last stage in which each beat of a frame is taken, by
            name. Such a step happens once the beat is there, and nothing else waits for it.
        tiled: Of a layer that may take the whole frame for one output beat after the other (``weights_first``): the
            parameters of a module that gives the first output beat of each row, for as many frames as there are of
            these, and their number; None if it cannot.
        unrolls: The configuration may give ``kernel``, the window elements of a step as ``[height, width]``; ``build``
            finds them as dimensions 1 and 2 of the parallelism of ``weight``, width first.
        implementations: What a configuration may ask of the op; empty if there is only one way.
        orders: Orders of its work that a configuration may ask for; empty if there is only one.
        narrow: Parameters of whose codes the module takes all but the most negative one, from the parameters.
        time_multiplexed: Its multipliers may take the lanes of a beat one after the other: without configured lanes it
            has as few as keep up with the beats of what comes before.
        registers_static: Every beat of a parameter goes into registers as it is taken: its memory needs none behind it.
        fast: Whether it has registers for a fast clock, for :attr:`Request.fast`.
        levels: Additions between two of its registers if nothing is said; 0 if there is no choice.
        delegates: Of some of the implementations: the op whose hardware facets they are, in place of these.
        generated: Of a module that is made for its constants: node name, parameters, and the arithmetic as for
            ``memories`` -> what makes it; ``file`` is then a template. None for modules that are files.
        whole: A beat holds a whole tensor, at the ports of a design as well.
        toolchain: ``INTERNAL`` for the RTL of this package, ``EXTERNAL`` for a user's own.
        root: Folder of the files below ``external/``; every other file is of this package.
        dependence_files: Files that the module needs, dependencies first, besides those of the RTL library, which are
            found from its instantiations.
    """

    module: str
    params: type[Any]
    build: Callable[[Request], Any]
    latency: Callable[[Any], Latency]
    cases: Callable[[], Sequence[Case]]
    file: str = ""
    ports: Callable[[Any], tuple[Stream, ...]] = _streams
    arithmetic: Callable[[Any], Arithmetic] = Arithmetic.of
    work: Callable[[Any], int] = lambda _: 0
    multipliers: Callable[[Any], int] = lambda _: 0
    idle: Callable[[Any], int] | None = None
    at_positions: Callable[[Any, Sequence[int]], tuple[Steps, ...]] | None = None
    follows_input: bool = False
    static: tuple[str, ...] = ()
    tied: Callable[[Any], Mapping[str, str]] = _tied
    layout: str = "any"
    positions: Positions | None = None
    joined: Callable[[Attributes], int] | None = None
    stretch: Callable[[Layout, Attributes], int] | None = None
    abreast: str = ""
    permuted: tuple[str, ...] = ()
    unrolls: bool = False
    memories: Callable[[Arithmetic], Mapping[str, Memory]] = lambda _: {}
    reads: Callable[[Arithmetic, str, Memory], Golden | None] | None = None
    broadcast: tuple[str, ...] = ()
    takes: Callable[[Any], Mapping[str, Counts]] = lambda _: {}
    tiled: Callable[[Any], tuple[Any, int] | None] = lambda _: None
    implementations: tuple[str, ...] = ()
    orders: tuple[str, ...] = ()
    narrow: Callable[[Any], tuple[str, ...]] = lambda _: ()
    time_multiplexed: bool = False
    registers_static: bool = False
    fast: bool = False
    levels: int = 0
    delegates: Mapping[str, str] = field(default_factory=dict)
    generated: Callable[[str, Any, Arithmetic], Generated] | None = None
    whole: bool = False
    toolchain: str = "INTERNAL"
    root: Path | None = None
    dependence_files: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Name the file, and keep timings and streams: a network asks again and again for those of equal modules."""
        folder = "ops/" if self.root is None else EXTERNAL
        object.__setattr__(self, "file", self.file or f"{folder}{self.module}.sv")
        if callable(self.latency):  # what is no facet is refused by the catalogue
            object.__setattr__(self, "latency", _kept(self.latency, kept))
        if callable(self.ports):
            object.__setattr__(self, "ports", _kept(self.ports, functools.lru_cache(maxsize=_PORTS)))

    @property
    def files(self) -> tuple[str, ...]:
        """Every file the module needs, dependencies first; not that of a module that is made."""
        named = (*SUPPORT, *self.dependence_files, self.file)
        made = self.file if self.generated is not None else ""
        return tuple(file for file in with_dependences(named, self.external) if file != made)

    def record(self, values: Mapping[str, int | str]) -> Any:
        """The record of these SystemVerilog parameters; :func:`~mase_hw.hardware.params.read_params` has the errors."""
        return read_params(self.params, values)

    def external(self, file: str) -> Path | None:
        """Where a file of the user lies; None for a file of this package."""
        if self.root is None or not file.startswith(EXTERNAL):
            return None
        return self.root / file.removeprefix(EXTERNAL)


def _kept(function: Callable[[Any], T], keep: Callable[[Callable[[Any], T]], Callable[[Any], T]]) -> Callable[[Any], T]:
    """A facet that follows from the parameters alone, whose results are kept."""
    remembered = keep(function)

    @functools.wraps(function)
    def facet(params: Any) -> T:
        return remembered(params) if isinstance(params, Hashable) else function(params)

    return facet


MASE_TYPES = (
    "module", "module_related_func", "builtin_func", "implicit_func", "placeholder", "get_attr", "output"
)  # fmt: skip


@dataclass(frozen=True)
class Inner:
    """Tensors inside an op that have formats of their own.

    Args:
        names: Those that there are, from the attributes.
        observe: Their values in float: module (None of a function) and inputs -> tensors by name.
        width: Their bits where the configuration leaves them open, from the name and the bits of the result.
    """

    names: Callable[[Attributes], tuple[str, ...]]
    observe: Callable[[nn.Module | None, Sequence[Tensor]], dict[str, Tensor]]
    width: Callable[[str, int], int]


class KnownOps(Protocol):
    """A set of ops that is asked by name."""

    def get(self, name: str) -> OpDef | None:
        """The op of that name, or None."""

    def names(self) -> list[str]:
        """Names of all ops."""


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
        derive: Parameters of the golden from those of the float node: node name, float parameters, attributes and rank
            of the data -> parameters by name. None where they are the same.
        constant: Name of the parameter that an operand becomes which is a number or a stored tensor; the attribute
            ``reversed`` then says that it comes before the data. Empty for ops whose operands are all data.
        lowered: Of an op that a pass writes as others before the quantisation: those, by name.
        implicit: No hardware of its own: only the shape or the order of the data's dimensions changes.
        relayout: Of an implicit op that is no plain reshape, or of one in hardware that takes any order and leaves out
            elements: layout of the input, shape of the result and attributes -> layout of the result, or None if the
            op cannot work in that order.
        arranged: Of an op in hardware that gives its result in any order it likes: layout of the input, shape of the
            result, attributes and the layouts in which readers want it (none if any will do) -> layout in which it
            takes the input, which is that or :attr:`~mase_hw.layouts.Layout.one_by_one` of it, and that of the result.
        golden: The arithmetic; None only for ops without hardware.
        oracle: Of an op of every element: its exact value, from the exact values of the operands. The test of the
            golden casts it; an op of another kind has a test of its own.
        on_values: The same on values, from formats and the mantissas of the parameters; None if those do not allow it
            (:mod:`mase_hw.nn.values`). Only makes inference faster, and is not a second definition.
        channels: Of an op with an output channel for every index of the first dimension of its parameters: formats and
            tensors of the golden and numbers of channels, any number of times -> those of a golden that gives these
            channels one after the other, and the dimension of the result; None if these tensors do not allow it.
        variants: Whether the golden takes all tensors with one more first dimension, along which the parameters or the
            memory (words one after the other) differ. This and ``channels`` only make looking for faults faster.
        formats: Tensor names whose format the quantisation configuration may set.
        default_out: Output format when the configuration gives none, from the input formats: of an op that selects or
            moves numbers. None: what was observed.
        rounds: Of an op with ``default_out``: that may be coarser than its results, which leave the model with more.
        exact_out: Output format that the arithmetic fixes, whatever is configured: from the formats, the shape of
            ``data_in_0`` and the attributes, as of a place in a tensor; None if these leave it open.
        places: Of an op whose input is a place in a table: how many there are, from the shapes of the parameters and
            the attributes. The input is an unsigned integer that can name each of them, whatever is observed.
        non_negative: Of an op with ``default_out``: it gives 0 for negative numbers, so its result needs no sign.
        finest: Finest fraction width worth choosing for a tensor, from its name and the formats chosen so far; None for
            no limit. Keeps an automatic choice from widening exact sums for bits that cannot matter.
        refused: Of an op that will not be in hardware: why, and what to do instead.
        check: Refuses attributes the arithmetic does not cover, called with the node name and the attributes.
        exact: The format in which a result needs no cast, from formats and shapes; None if no format is known.
        scaled: How it takes scaled integers; None: it takes none.
        ternary: Parameters that may be binary or ternary.
        blocks: Parameters that may be in block floating point.
        exact_inputs: Inputs that are taken as exact as their producer (of an op with ``exact``) can give them.
        inner: What has a format inside the op, that is chosen from observed values.
        stateful: Whether the op has a memory of the hops before, from its attributes. Its golden then takes a batch as
            consecutive hops of a stream, what was before them as the tensor ``before`` (none after a reset), and gives
            besides what comes ``after``; see :mod:`mase_hw.nn.streaming`. None: never.
        hardware: Hardware facets; None for implicit ops and ops not in hardware.
    """

    name: str
    mase_type: str = ""
    modules: tuple[type[nn.Module], ...] = ()
    functions: tuple[Callable[..., Any], ...] = ()
    methods: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    derive: Callable[[str, Mapping[str, Tensor], Attributes, int], dict[str, Tensor]] | None = None
    constant: str = ""
    lowered: tuple[str, ...] = ()
    implicit: bool = False
    relayout: Callable[[Layout, Sequence[int], Attributes], Layout | None] | None = None
    arranged: Callable[[Layout, Sequence[int], Attributes, Sequence[Layout]], tuple[Layout, Layout]] | None = None
    golden: Golden | None = None
    oracle: Callable[..., Fraction] | None = None
    on_values: Callable[[Arithmetic, Mapping[str, Tensor]], Any] | None = None
    channels: Callable[[Arithmetic, Mapping[str, Tensor], Sequence[int]], SomeChannels | None] | None = None
    variants: Callable[[Arithmetic, Mapping[str, Tensor]], bool] | None = None
    formats: tuple[str, ...] = ("data_in_0", "data_out_0")
    default_out: Callable[[Mapping[str, FixedFormat]], FixedFormat] | None = None
    rounds: bool = False
    exact_out: Callable[[Mapping[str, FixedFormat], Sequence[int], Attributes], FixedFormat | None] | None = None
    places: Callable[[Mapping[str, tuple[int, ...]], Attributes], int] | None = None
    non_negative: bool = False
    finest: Callable[[str, Mapping[str, FixedFormat]], int | None] | None = None
    refused: str = ""
    check: Callable[[str, Attributes], None] | None = None
    exact: Callable[[Mapping[str, FixedFormat], Mapping[str, tuple[int, ...]]], FixedFormat] | None = None
    scaled: ScaledUse | None = None
    ternary: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    exact_inputs: tuple[str, ...] = ()
    inner: Inner | None = None
    stateful: Callable[[Attributes], bool] | None = None
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
            if self.hardware.layout not in LAYOUTS:
                fail(f"layout {self.hardware.layout!r} is not one of {', '.join(LAYOUTS)}")
            if not issubclass(self.hardware.params, Params):
                if not dataclasses.is_dataclass(self.hardware.params):
                    fail("params is neither a record of parameters nor a dataclass")
                if not self.hardware.params.__dataclass_params__.frozen:
                    fail("params is not frozen")
            named = (*self.hardware.dependence_files, self.hardware.file)
            if self.hardware.root is None and any(file.startswith(EXTERNAL) for file in named):
                fail(f"files below {EXTERNAL} need a root")


def for_golden(op: OpDef, a: Arithmetic) -> Arithmetic:
    """The arithmetic with which a golden is called: an op that only selects or adds sees mantissas alone."""
    if op.scaled is None or op.scaled.kind not in ("selection", "total") or op.scaled.border:
        return a
    if not any_scaled(a.formats):
        return a
    return dataclasses.replace(a, formats={name: fmt.mantissas for name, fmt in a.formats.items()})
