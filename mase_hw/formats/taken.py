"""What an op takes besides fixed point: how it takes scaled integers, and which tensors may have other formats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from mase_hw.errors import UnsupportedError
from mase_hw.formats.attributes import Attributes
from mase_hw.formats.blocks import BlockFormat
from mase_hw.formats.fixed import FixedFormat, Overflow
from mase_hw.formats.scaled import ScaledFormat
from mase_hw.formats.signs import SignFormat

Formats = Mapping[str, FixedFormat]
Ends = tuple[float | None, float | None]
Kind = Literal[
    "sums",
    "selection",
    "sum",
    "product",
    "total",
    "function",
    "pieces",
    "steps",
    "slopes",
    "shares",
    "clamp",
    "around",
    "rows",
    "requantisation",
]


@dataclass(frozen=True)
class ScaledUse:
    """How an op takes scaled integers.

    Args:
        kind: ``sums``: exact sums of products, at the scale of the products, which are then requantised.
            ``selection``: some of the numbers that it takes, at one scale; the golden is called with the formats of the
            mantissas. ``sum``: an exact sum or difference of two, at a common scale, ``product``: an exact product, and
            ``total``: exact sums of numbers of one scale; all of them are then requantised. ``function``: a table
            over the codes, whose results are of any format. ``pieces``: a function of linear pieces: a table, or,
            beyond what a table takes, exact pieces that are then requantised. ``steps``: one of a few whole numbers,
            by thresholds among the codes, so that the result is exact. ``slopes``: the data or its product with
            a parameter, exact, and requantised. ``shares``: shares of 1 at a scale that is a power of two.
            ``clamp``: what it takes between two ends, so that it becomes a requantisation. ``around``: its data are
            integers as they are, and all else is fixed point, between requantisations. ``rows``: rows of a stored
            table, whose numbers are those of the result. ``requantisation``: that.
        wrong: What is wrong with formats of which one is scaled integers, given the attributes, in words that follow
            "takes"; empty if they are right.
        sums: Of ``sums``, and of a ``product`` that adds: the narrowest format of every sum, from formats and shapes.
        ends: Of ``clamp``: the smallest and the largest value, from the attributes.
        count: Of ``total``, and of an average, which is one with another divisor than that: numbers in a sum, from the
            shape of the data and the attributes.
        border: Of ``selection``: it puts what stands for 0 around them, and its golden is called with the formats as
            they are.
        at_zero: Whether the zero point of the data must be 0 in hardware, from the attributes: the op has zeros of its
            own.
    """

    kind: Kind
    wrong: Callable[[Formats, Attributes], str]
    sums: Callable[[Formats, Mapping[str, tuple[int, ...]]], FixedFormat] | None = None
    ends: Callable[[Attributes], Ends] | None = None
    count: Callable[[tuple[int, ...], Attributes], int] | None = None
    border: bool = False
    at_zero: Callable[[Attributes], bool] = lambda _: False

    def exact(self, attributes: Attributes) -> bool:
        """Whether results are exact, so that a requantisation follows."""
        divided = self.count is not None and bool(attributes.get("divisor_override"))
        return self.kind in ("sums", "sum", "product", "total", "pieces", "slopes") or divided


def any_scaled(formats: Formats) -> bool:
    """Whether a tensor has scaled integers."""
    return any(isinstance(fmt, ScaledFormat) for fmt in formats.values())


def refuse_scaled(
    node: str,
    op: str,
    use: ScaledUse | None,
    formats: Formats,
    overflow: Overflow,
    attributes: Attributes | None = None,
) -> None:
    """Refuse formats of scaled integers that an op does not take.

    Raises:
        UnsupportedError: Naming the node and the formats.
    """
    if not any_scaled(formats):
        return
    wrong = "fixed point only" if use is None else use.wrong(formats, attributes or {})
    if not wrong and overflow is not Overflow.SATURATE:
        wrong = "scaled integers that saturate only"
    if wrong:
        raise UnsupportedError(
            f"{op} takes {wrong}",
            node=node,
            got=", ".join(f"{name} {fmt}" for name, fmt in formats.items()),
            remedy=f'quantise it with name = "fixed" (quantize.overrides.{node}.config.name)',
        )


def refuse_others(
    node: str, op: str, ternary: Collection[str], blocks: Collection[str], formats: Mapping[str, FixedFormat]
) -> None:
    """Refuse binary and ternary tensors, and blocks that share an exponent or a factor, where an op takes none.

    Args:
        node: For the error.
        op: Its op.
        ternary: Tensors that may be binary or ternary.
        blocks: Tensors that may be in blocks.
        formats: Of all tensors.

    Raises:
        UnsupportedError: Naming the node and the tensor.
    """
    for name, fmt in formats.items():
        if not isinstance(fmt, SignFormat | BlockFormat):
            continue
        taken = ternary if isinstance(fmt, SignFormat) else blocks
        if name not in taken:
            raise UnsupportedError(
                f"{op} takes no {fmt.kind} {name}",
                node=node,
                field=name,
                got=str(fmt),
                expected=f"{fmt.kind} numbers for {' and '.join(taken)} only" if taken else "fixed point",
                remedy=f"{fmt.kind} numbers are for weights of linear layers and convolutions",
            )
