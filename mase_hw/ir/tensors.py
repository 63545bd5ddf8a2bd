"""The metadata of one tensor, and of the tensors of a node by name."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from mase_hw.errors import refuse_unknown
from mase_hw.formats import BlockFormat, FixedFormat, GroupFormat, ScaledFormat, SignFormat
from mase_hw.formats.attributes import Attributes, attributes_of
from mase_hw.ir.records import Branch, Record, record

KNOWN_TYPES = ("fixed", "integer", "binary", "ternary", "mxint", "mxfp", "minifloat", "groups", "float", "NA")
KNOWN_TOOLCHAIN = ("INTERNAL", "EXTERNAL", "HLS")
KNOWN_STORAGE = ("BRAM", "LUT")


def one_of(field_name: str, value: Any, known: tuple[str, ...]) -> None:
    """Refuse a value outside a list of known ones with a ConfigError."""
    refuse_unknown(value, known, f"unknown {field_name} in metadata", field=field_name)


@record
class TensorMetadata(Record):
    """One tensor argument or result of a node.

    Args:
        shape: Sizes, outermost dimension first.
        type: ``"float"``, ``"fixed"`` (integers and booleans are fixed with no fraction), ``"integer"`` for scaled
            integers, ``"binary"`` and ``"ternary"`` for signs times a power of two, ``"mxint"`` for block floating
            point, or ``"NA"`` for what is none of these, such as a complex tensor or a plain Python value.
        precision: ``[width]`` of a float or a scaled integer, else ``[width, frac_width]``.
        torch_dtype: Element type of an activation; MASE records none for parameters.
        signed: Two's complement; not of floats.
        value: The tensor, if values are kept, or the Python value of an ``"NA"`` result.
        scale: Weight of the last bit of a scaled integer; a list has one for every channel.
        zero_point: The mantissa of 0 of a scaled integer.
        axis: Dimension of the channels of a scaled integer, where scales or limits differ between them.
        limits: ``[smallest, largest]`` mantissa of a scaled integer whose width would allow others; a list of such
            pairs has one for every channel.
        odd_ties: Of a scaled integer whose ties go to odd steps from 0, as an odd zero point is added before rounding.
        threshold: Of a ternary number, in steps: what has no larger magnitude is 0.
        block_size: Of block floating point: numbers that share an exponent; of groups: numbers that share a factor.
        exponent_width: Of block floating point: bits of the exponent.
        element: Of block floating point: the minifloat that its numbers are, such as ``"e4m3"``.
    """

    required: ClassVar[tuple[str, ...]] = ("shape", "type", "precision")
    free: ClassVar[bool] = True

    shape: list[int]
    type: str
    precision: list[int]
    torch_dtype: torch.dtype | None = None
    signed: bool | None = None
    value: Any = None
    scale: float | list[float] | None = None
    zero_point: int | None = None
    axis: int | None = None
    limits: list[Any] | None = None
    odd_ties: bool | None = None
    threshold: float | None = None
    block_size: int | None = None
    exponent_width: int | None = None
    element: str | None = None

    def coerce(self, name: str, value: Any) -> Any:
        """Refuse an unknown ``type``; keep shapes and precisions as lists."""
        if name == "type":
            one_of(name, value, KNOWN_TYPES)
        return list(value) if name in ("shape", "precision") else value

    @property
    def is_tensor(self) -> bool:
        """False for the plain Python value of a node such as ``size``."""
        return self.type != "NA" or self.torch_dtype is not None

    @property
    def fmt(self) -> FixedFormat | None:
        """The format; None of floats and of what has none. Assigning one sets all that describes it."""
        signed = True if self.signed is None else self.signed
        if self.type == "fixed":
            width, frac_width = self.precision
            return FixedFormat(width, frac_width, signed)
        if self.type in ("binary", "ternary"):
            width, frac_width = self.precision
            return SignFormat(width, frac_width, signed, self.threshold or 0.0)
        if self.type in ("mxint", "mxfp", "minifloat"):
            width, frac_width = self.precision
            exponent_width = 0 if self.type == "minifloat" else self.exponent_width or 8
            return BlockFormat(width, frac_width, signed, self.block_size or 32, exponent_width, self.element or "")
        if self.type == "groups":
            width, frac_width = self.precision
            return GroupFormat(width, frac_width, signed, self.block_size or 32)
        if self.type != "integer" or self.scale is None:
            return None
        scales = tuple(self.scale) if isinstance(self.scale, list) else (self.scale,)
        limits = self.limits or []
        pairs = limits if limits and isinstance(limits[0], list | tuple) else [limits] if limits else []
        lows, highs = (tuple(pair[end] for pair in pairs) for end in (0, 1))
        zero, axis, odd = self.zero_point or 0, self.axis or 0, bool(self.odd_ties)
        return ScaledFormat(self.precision[0], 0, signed, scales, zero, axis, lows, highs, odd)

    @fmt.setter
    def fmt(self, fmt: FixedFormat) -> None:
        self.type, self.precision, self.signed = "fixed", fmt.precision, fmt.signed
        self.scale = self.zero_point = self.axis = self.limits = self.odd_ties = self.threshold = None
        self.block_size = self.exponent_width = self.element = None
        if isinstance(fmt, BlockFormat):
            self.type, self.element = fmt.kind, fmt.element or None
            self.block_size, self.exponent_width = fmt.block, fmt.exponent_width or None
        if isinstance(fmt, GroupFormat):
            self.exponent_width = None
        if isinstance(fmt, SignFormat):
            self.type, self.threshold = fmt.kind, None if fmt.bipolar else fmt.threshold
        if isinstance(fmt, ScaledFormat):
            self.type, self.zero_point = "integer", fmt.zero_point
            self.scale = list(fmt.scales) if fmt.channels > 1 else fmt.scales[0]
            self.axis = fmt.axis if fmt.per_channel else None
            self.odd_ties = fmt.odd_ties or None
            if fmt.lows or fmt.highs:
                pairs = [list(pair) for pair in fmt.limits]
                self.limits = pairs if len(pairs) > 1 else pairs[0]

    def as_parameter(self) -> TensorMetadata:
        """A copy without ``torch_dtype``, as MASE shows weights and biases."""
        made = self.copy()
        made.pop("torch_dtype", None)
        return made

    def copy(self) -> TensorMetadata:
        """An independent copy that shares the value."""
        made = TensorMetadata.__new__(TensorMetadata)
        for key, value in self.items():
            dict.__setitem__(made, key, list(value) if isinstance(value, list) else value)
        return made


class TensorDict(Branch):
    """Arguments or results by name; a dict that describes a tensor becomes a :class:`TensorMetadata`."""

    def __setitem__(self, name: str, value: Any) -> None:
        described = isinstance(value, dict) and {"shape", "type", "precision"} <= value.keys()
        super().__setitem__(
            name, TensorMetadata(**value) if described and not isinstance(value, TensorMetadata) else value
        )

    @property
    def tensors(self) -> dict[str, TensorMetadata]:
        """Only the tensors, in order."""
        return {k: v for k, v in self.items() if isinstance(v, TensorMetadata) and v.is_tensor}

    @property
    def attributes(self) -> Attributes:
        """What is no tensor."""
        tensors = self.tensors
        return attributes_of({name: value for name, value in self.items() if name not in tensors})
