"""The parameters of an RTL module as a nested record, and MASE's flat names derived from it.

A field of a record becomes one or several SystemVerilog parameters, in the order of the fields:

* a :class:`Port` called ``weight``: ``WEIGHT_PRECISION_0`` and ``_1``, ``WEIGHT_SIGNED``,
  ``WEIGHT_TENSOR_SIZE_DIM_n`` and ``WEIGHT_PARALLELISM_DIM_n``;
* a tuple called ``kernel_size``: ``KERNEL_SIZE_n``, or ``KERNEL_SIZE_DIM_n`` where its type says so (:class:`Dims`);
* a :class:`Precision` called ``state``: ``STATE_PRECISION_0`` and ``_1``;
* any other record: its own fields, without a prefix;
* a number or a truth value: its name in capitals.

The streams of the module, what its unused ports are tied to, and the formats of its arithmetic follow from the record.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeVar

import msgspec

from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledFormat
from mase_hw.formats.attributes import Attributes
from mase_hw.layouts import Layout
from mase_hw.streams import Stream, ceil_div

P = TypeVar("P")
DIMS = 3
"""Dimensions of an activation's parameters; outer ones are multiplied into the last."""


class Port(msgspec.Struct, frozen=True):
    """A tensor that a module takes or gives.

    Args:
        fmt: Format of every element, without scale and zero point.
        size: Sizes, innermost dimension first.
        lanes: Elements of a beat along each dimension, innermost first.
    """

    fmt: FixedFormat
    size: tuple[int, ...]
    lanes: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, outermost dimension first."""
        return self.size[::-1]

    @property
    def tiles(self) -> tuple[int, ...]:
        """Beats along each dimension, innermost first."""
        return tuple(map(ceil_div, self.size, self.lanes))

    @property
    def beats(self) -> int:
        """Beats of the tensor."""
        return math.prod(self.tiles)


class Dims(msgspec.Struct, frozen=True):
    """How many dimensions of a port, or of a tuple, become parameters; ``image``: they travel channels last."""

    count: int
    image: bool = False


Vector = Annotated[Port, Dims(1)]
Matrix = Annotated[Port, Dims(2)]
Tensor3 = Annotated[Port, Dims(DIMS)]
Tensor4 = Annotated[Port, Dims(4)]
Tensor5 = Annotated[Port, Dims(5)]
Pixels = Annotated[Port, Dims(3, image=True)]
Image = Annotated[Port, Dims(4, image=True)]
Pair = tuple[int, int]
"""Two numbers, ``_0`` along a row of an image and ``_1`` down a column."""
AxisPair = Annotated[Pair, Dims(2)]


class Cast(msgspec.Struct, frozen=True):
    """What happens to the bits that a result has no place for."""

    rounding: Rounding = Rounding.HALF_EVEN
    overflow: Overflow = Overflow.SATURATE


class Precision(msgspec.Struct, frozen=True):
    """Width and fraction width of what stays inside the module."""

    width: int
    frac_width: int


class Multiplication(msgspec.Struct, frozen=True):
    """How products are computed, as ``fixed_mac_array`` takes it.

    Args:
        packed: Output lanes that share a multiplier.
        chain: Most products of a chain; 0 for trees of adders.
        spacing: Bits of a field.
        narrow: Whether the most negative weight does not occur.
        lift: Whether the weights of all fields but the last are lifted.
        logic: Products whose rows make one sum where multipliers are look-up tables; 0 for blocks.
    """

    packed: int = 1
    chain: int = 0
    spacing: int = 17
    narrow: bool = False
    lift: bool = False
    logic: int = 0


class Segments(msgspec.Struct, frozen=True):
    """Polynomials over equal segments of a range; the widths are those of the coefficients by power."""

    segments: int = 1
    step_width: int = 1
    coefficient_frac: int = 0
    c0_width: int = 1
    c1_width: int = 1
    c2_width: int = 1


class ExponentTables(msgspec.Struct, frozen=True):
    """How an exponential is made of a table and a factor."""

    exp_frac: int
    index_width: int
    fine_width: int
    factor_frac: int
    exp_stages: int


def fold_shape(shape: tuple[int, ...], dims: int = DIMS) -> tuple[int, ...]:
    """Sizes innermost first, exactly ``dims`` of them: padded with 1, outer dimensions multiplied together."""
    sizes = list(reversed(shape)) or [1]
    if len(sizes) > dims:
        sizes = [*sizes[: dims - 1], math.prod(sizes[dims - 1 :])]
    return tuple(sizes + [1] * (dims - len(sizes)))


def port(shape: tuple[int, ...], fmt: FixedFormat, *lanes: int, dims: int = DIMS) -> Port:
    """The port of a tensor.

    Args:
        shape: Sizes, outermost dimension first.
        fmt: Format of every element.
        lanes: Elements of a beat along each dimension, innermost first; missing outer ones are 1.
        dims: Dimensions that the module counts.
    """
    plain = FixedFormat(fmt.width, fmt.frac_width, fmt.signed)
    return Port(plain, fold_shape(shape, dims), lanes + (1,) * (dims - len(lanes)))


def resized(params: P, sizes: Mapping[str, tuple[int, ...]]) -> P:
    """The same record of parameters with ports of other sizes, innermost first."""
    ports = {name: msgspec.structs.replace(getattr(params, name), size=size) for name, size in sizes.items()}
    made: Any = msgspec.structs.replace(typing.cast(msgspec.Struct, params), **ports)
    return typing.cast(P, made)


class Params(msgspec.Struct, frozen=True):
    """Base of the parameters of an RTL module.

    A port without ``data_out`` in its name is an input. Where a record has a field ``has_bias``, the port ``bias``
    carries a stream only if that is set; where it has ``inputs``, only so many of ``data_in_0``, ``data_in_1``, ... do.
    An op whose module differs overrides a method.
    """

    def repetitions(self) -> Mapping[str, int]:
        """How often a tensor is streamed for each frame, where it is more than once."""
        return {}

    def called(self, name: str) -> str:
        """What the port of a field is called."""
        return name

    def absent(self) -> tuple[str, ...]:
        """Ports of the module that carry no stream with these parameters."""
        ports = _ports(type(self))
        idle = [name for name in ports if not getattr(self, f"has_{name}", True)]
        inputs: int | None = getattr(self, "inputs", None)
        if inputs is not None:
            idle += [name for name in ports if name.startswith("data_in_")][inputs:]
        return tuple(idle)

    def fmt(self, name: str) -> FixedFormat:
        """The format of a port; with a zero point, that of integers with a scale of 1."""
        fmt: FixedFormat = getattr(self, name).fmt
        zero = getattr(self, f"{name}_zero_point", 0)
        return ScaledFormat.make(fmt.width, 1.0, zero, signed=fmt.signed) if zero else fmt

    def streams(self) -> tuple[Stream, ...]:
        """The streams of the module."""
        absent = self.absent()
        return tuple(self.stream(name) for name in _ports(type(self)) if self.called(name) not in absent)

    def stream(self, name: str) -> Stream:
        """The stream of a port."""
        tensor: Port = getattr(self, name)
        shape, lanes = tensor.shape, tensor.lanes
        if self.positions(name) > 1:
            # A row of the stream is all channels of a beat's positions.
            *outer, width, channels = shape
            shape = (*outer, width // lanes[1], channels * lanes[1])
            lanes = (lanes[0] * lanes[1],)
        return Stream(
            self.called(name),
            "out" if name.startswith("data_out") else "in",
            shape,
            self.fmt(name),
            lanes,
            repeat=self.repetitions().get(name, 1),
            layout=self.layout(name),
        )

    def layout(self, name: str) -> Layout | None:
        """Where the elements of a port's tensor stand in the stream, if not row-major."""
        if not _ports(type(self))[name].image:
            return None
        images, *space, channels = getattr(self, name).shape
        return Layout.tiled((images, channels, *space), self.positions(name))

    def positions(self, name: str) -> int:
        """Neighbouring positions of an image that a beat of it holds, along its width."""
        return getattr(self, name).lanes[1] if name.startswith("data_") and _ports(type(self))[name].image else 1

    def formats(self) -> dict[str, FixedFormat]:
        """The formats of the arithmetic, by tensor: those of the ports that carry a stream."""
        absent, ports = self.absent(), _ports(type(self))
        if not ports:  # a primitive states its streams itself
            return {stream.name: stream.fmt for stream in self.streams()}
        named = ((self.called(name), name) for name in ports)
        return {called: self.fmt(name) for called, name in named if called not in absent}

    def modes(self) -> Cast:
        """How the results are cast."""
        return getattr(self, "cast", Cast())

    def attributes(self) -> Attributes:
        """The attributes of the arithmetic that are among the parameters."""
        return {}

    def tied(self) -> dict[str, str]:
        """Ports that carry no stream, and what an instance ties them to (empty for an output)."""
        return {k: v for n in self.absent() for k, v in ((n, "'0"), (f"{n}_valid", "1'b0"), (f"{n}_ready", ""))}

    if not typing.TYPE_CHECKING:  # a misspelt field is an error of types

        def __getattr__(self, name: str) -> int | str:
            """A parameter by its name in SystemVerilog, as a custom op may ask for it."""
            if name.isupper() and name in (flat := verilog_params(self)):
                return flat[name]
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}", name=name, obj=self)


@functools.cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any, Dims], ...]:
    """Name, type and dimensions of every field."""
    found = []
    hints = typing.get_type_hints(kind, include_extras=True)
    for name in kind.__struct_fields__:
        hint = hints[name]
        kinds = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint,)
        found.append((name, kinds[0], next((k for k in kinds[1:] if isinstance(k, Dims)), Dims(0))))
    return tuple(found)


@functools.cache
def _ports(kind: type[Params]) -> dict[str, Dims]:
    return {name: dims for name, base, dims in _fields(kind) if base is Port}


def port_names(kind: type[Params]) -> tuple[str, ...]:
    """The fields of a record that are ports, in order."""
    return tuple(_ports(kind))


def _names(name: str, base: Any, dims: Dims) -> Iterator[str]:
    """The parameters of a field that is no record of its own."""
    name = name.upper()
    if base in (Port, Precision):
        yield from (f"{name}_PRECISION_0", f"{name}_PRECISION_1")
    if base is Port:
        yield f"{name}_SIGNED"
        yield from (f"{name}_TENSOR_SIZE_DIM_{i}" for i in range(dims.count))
        yield from (f"{name}_PARALLELISM_DIM_{i}" for i in range(dims.count))
    elif typing.get_origin(base) is tuple:
        yield from (f"{name}{'_DIM' * bool(dims.count)}_{i}" for i in range(len(typing.get_args(base))))
    elif base is not Precision:
        yield name


@functools.cache
def parameter_names(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The SystemVerilog parameters of a record, in order."""
    return tuple(
        parameter
        for name, base, dims in _fields(kind)
        for parameter in (parameter_names(base) if _nested(base) else _names(name, base, dims))
    )


def parameter_defaults(kind: type[msgspec.Struct]) -> dict[str, int]:
    """What a module declares for the parameters of a record: the smallest tensors of 8 bits, elsewhere 0.

    A field with a default has that of the field.
    """
    own = {field.name: field.default for field in msgspec.structs.fields(kind)}
    found: dict[str, int] = {}
    for name, base, dims in _fields(kind):
        if _nested(base):
            found |= parameter_defaults(base)
            continue
        names = tuple(_names(name, base, dims))
        values = [8, 0, 1][: len(names)] + [1] * (2 * dims.count) if base in (Port, Precision) else [0] * len(names)
        if own[name] is not msgspec.NODEFAULT:
            values = [int(own[name])]
        found |= zip(names, values, strict=True)
    return found


def _nested(base: Any) -> bool:
    return isinstance(base, type) and issubclass(base, msgspec.Struct) and base not in (Port, Precision)


def _values(record: msgspec.Struct) -> Iterator[int | str]:
    for name, _, _ in _fields(type(record)):
        value = getattr(record, name)
        if isinstance(value, Port):
            yield from (value.fmt.width, value.fmt.frac_width, int(value.fmt.signed), *value.size, *value.lanes)
        elif isinstance(value, msgspec.Struct):
            yield from _values(value)
        elif isinstance(value, tuple):
            yield from value
        else:
            yield value if isinstance(value, str) else int(value)


def verilog_params(params: Any) -> dict[str, int | str]:
    """The SystemVerilog parameters of a record, in the order of the module; truth values become 0 and 1.

    Args:
        params: A :class:`Params`; of a custom op also a dataclass whose fields are the parameters.
    """
    if isinstance(params, msgspec.Struct):
        return dict(zip(parameter_names(type(params)), _values(params), strict=True))
    values = ((field.name, getattr(params, field.name)) for field in dataclasses.fields(params))
    return {name: int(v) if isinstance(v, bool | int) else v for name, v in values}


def read_params(kind: type[P], values: Mapping[str, Any]) -> P:
    """A record from its SystemVerilog parameters; the inverse of :func:`verilog_params`.

    Raises:
        TypeError: A parameter is missing, or none of the module.
        FormatError: A format that there is none of.
    """
    if not issubclass(kind, msgspec.Struct):
        return kind(**values)
    names = parameter_names(kind)
    if set(names) != set(values):
        wrong = sorted(set(names) ^ set(values))
        raise TypeError(f"{kind.__name__}: parameters missing or unknown: {', '.join(wrong)}")
    record: P = _kept(kind, tuple(values.items()))
    return record


@functools.lru_cache(maxsize=4096)
def _kept(kind: Any, items: tuple[tuple[str, Any], ...]) -> Any:
    """A record, made once: every step asks for those of all instances, and equal instances have equal records."""
    return _read(kind, dict(items))


def _read(kind: Any, values: Mapping[str, Any]) -> Any:
    given: dict[str, Any] = {}
    for name, base, dims in _fields(kind):
        if _nested(base):
            given[name] = _read(base, values)
            continue
        own = [values[parameter] for parameter in _names(name, base, dims)]
        if base is Port:
            sizes = tuple(own[3 : 3 + dims.count])
            given[name] = Port(FixedFormat(own[0], own[1], bool(own[2])), sizes, tuple(own[3 + dims.count :]))
        elif base is Precision:
            given[name] = Precision(*own)
        else:
            given[name] = tuple(own) if typing.get_origin(base) is tuple else base(own[0])
    return kind(**given)
