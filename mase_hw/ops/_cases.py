"""What the cases of most ops share: a request from formats and modes as text."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mase_hw.layouts import Layout
from mase_hw.opdef import ONE_INPUT, Arithmetic, Case, Request

Shapes = Sequence[int] | Mapping[str, Sequence[int]]
ASKED = ("implementation", "levels", "order", "fast", "slots")
"""What a request asks for beside tensors, as keyword arguments of a case."""


def case(
    build: Callable[[Request], Any],
    name: str,
    shapes: Shapes,
    lanes: int | Mapping[str, int],
    formats: str = "s8.4 s8.4",
    names: Sequence[str] = ONE_INPUT,
    frames: int = 4,
    **attributes: Any,
) -> Case:
    """A catalogue case of an op.

    Args:
        build: Makes its parameters.
        name: Unique within the op.
        shapes: The shape of ``data_in_0``, or those of all tensors by name; outermost dimension first.
        lanes: Those of ``data_in_0``, or by name, along the innermost dimension.
        formats: Formats and modes as :meth:`Arithmetic.read` takes them.
        names: The tensors that have these formats.
        frames: Frames to stream in each run.
        attributes: Of the op; or one of :data:`ASKED`, or ``positions``, the neighbouring positions of an image in a
            beat of ``data_in_0``, which then comes channels last; or ``beside``, the rows of a beat along the last
            dimension but one.
    """
    asked = asked_of(attributes)
    sizes = shapes if isinstance(shapes, Mapping) else {"data_in_0": shapes}
    layouts = order_of(attributes, tuple(sizes["data_in_0"]))
    offered = lanes if isinstance(lanes, Mapping) else {"data_in_0": lanes}
    request = Request(
        name,
        Arithmetic.read(formats, names, attributes),
        {tensor: tuple(shape) for tensor, shape in sizes.items()},
        {tensor: (count,) for tensor, count in offered.items()},
        layouts,
    )
    return Case(name, build(dataclasses.replace(request, **asked)), frames)


def order_of(attributes: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Layout]:
    """The order of ``data_in_0`` where several of its positions, or rows, are in a beat, as :func:`case` takes them."""
    positions, beside = attributes.pop("positions", 0), attributes.pop("beside", 0)
    made = Layout.abreast(shape, beside) if beside else Layout.tiled(shape, positions) if positions else None
    return {} if made is None else {"data_in_0": made}


def asked_of(attributes: dict[str, Any]) -> dict[str, Any]:
    """What of :data:`ASKED` is among keyword arguments; it is taken out of them."""
    return {key: attributes.pop(key) for key in ASKED if key in attributes}
