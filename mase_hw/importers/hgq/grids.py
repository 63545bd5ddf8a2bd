"""The quantisers of HGQ2: the numbers to which they round."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.formats.elements import Element, format_of, holding
from mase_hw.importers.graph import Marker, Ref, Refused, Writer
from mase_hw.ops.cast import passed_on

ROUNDINGS = {
    "RND": Rounding.HALF_UP,
    "RND_CONV": Rounding.HALF_EVEN,
    "RND_INF": Rounding.HALF_AWAY,
    "TRN": Rounding.FLOOR,
    "TRN_ZERO": Rounding.TRUNC,
}
"""Names of HGQ2 -> modes; with ``S_`` in front they add noise in training only."""
OVERFLOWS = {"WRAP": Overflow.WRAP, "SAT": Overflow.SATURATE, "SAT_SYM": Overflow.SATURATE}
MOST_BITS = 32


def numbers(value: Any) -> Tensor:
    """A tensor of any backend of Keras in float64."""
    if isinstance(value, Tensor):
        return value.detach().cpu().double()
    return torch.from_numpy(np.array(value, dtype=np.float64))


class Grids:
    """Which numbers values of the graph are.

    Args:
        writer: Of the graph.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.formats: dict[fx.Node, FixedFormat] = {}
        """Of values whose format is known."""
        self._float: set[fx.Node] = set()
        """Inputs that nothing has quantised, and what moves their elements."""

    def entered(self, x: fx.Node, fmt: FixedFormat | None) -> None:
        """Note an input of the model, and the format in which it comes, if there is one."""
        if fmt is None:
            self._float.add(x)
        else:
            self.formats[x] = fmt

    def moved(self, x: Ref, made: Ref) -> Ref:
        """``made``, which has only numbers of ``x``."""
        if x in self._float:
            self._float.add(made)
        elif x in self.formats:
            self.formats[made] = self.formats[x]
        return made

    def rounded(self, x: Ref, quantiser: Any, name: str) -> Ref:
        """Data as a quantiser gives it.

        Args:
            x: The data.
            quantiser: A ``Quantizer`` of HGQ2.
            name: What its node is called.

        Raises:
            Refused: If no cast gives the same.
        """
        inner = quantiser.quantizer
        if quantiser.scaler is not None or quantiser.affine is not None:
            raise Refused("a quantiser with a scaler or an affine term", "quantise without them")
        if getattr(inner, "__dummy__", False):
            return x
        if not hasattr(inner, "kif"):
            raise Refused(f"a quantiser {type(inner).__name__} of data", "quantise data to fixed point (kif or kbi)")
        mode = str(inner.round_mode).removeprefix("S_")
        if mode not in ROUNDINGS or inner.overflow_mode not in OVERFLOWS:
            known = ", ".join([*ROUNDINGS, *OVERFLOWS])
            raise Refused(f"the modes {mode} and {inner.overflow_mode}", f"use {known}")
        overflow = OVERFLOWS[inner.overflow_mode]
        elements = self._elements(inner, self.writer.shape(x))
        fmt = holding(elements)
        own = tuple(elements) if any(format_of(e) != fmt for e in elements) else ()
        symmetric = inner.overflow_mode == "SAT_SYM" and fmt.signed
        if symmetric and own:
            raise Refused("SAT_SYM of data whose elements differ", "use SAT or WRAP, or one format for the tensor")
        source, self.writer.source = self.writer.source, name
        if x in self._float:  # the host rounds to one format
            x = self._marked(x, Marker(fmt, Rounding.HALF_EVEN))
        if symmetric:
            x = self.moved(x, self.writer.call(torch.clamp, x, -fmt.max_value, fmt.max_value))
        if own or self.formats.get(x) != fmt:
            x = self._marked(x, Marker(fmt, ROUNDINGS[mode], elements=own, overflow=overflow))
        self.writer.source = source
        return x

    def _marked(self, x: Ref, marker: Marker) -> Ref:
        made = self.writer.call(passed_on, x)
        self.writer.markers[made.name] = marker
        self.formats[made] = marker.fmt
        return made

    def _elements(self, inner: Any, shape: tuple[int, ...]) -> list[Element]:
        signs, whole, frac = (torch.broadcast_to(numbers(v), shape).reshape(-1).tolist() for v in inner.kif)
        found = []
        for k, i, f in zip(signs, whole, frac, strict=True):
            bits = max(int(k + i + f), 0)
            if bits > MOST_BITS:
                raise Refused(f"{bits} bits of data", f"at most {MOST_BITS}; trace the model (trace_minmax)")
            found.append((bits, int(f) if bits else 0, bool(k) if bits else False))
        return found
