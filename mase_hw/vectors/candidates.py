"""Frames from which test vectors are chosen: extreme ones, some of the calibration data, random ones."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mase_hw.emit.reference import PortTensor, Reference
from mase_hw.ir import MaseGraph
from mase_hw.ir.inputs import input_dtype
from mase_hw.nn import QuantizeInput
from mase_hw.numerics import quantize
from mase_hw.vectors.playback import cut, frames_of, steps

SPARSE = 0.1
"""Share of elements that are not zero in a sparse frame."""


def extreme_frames(graph: MaseGraph) -> dict[str, Tensor]:
    """All inputs at their largest number, at their smallest, alternating, and zero; none twice.

    Args:
        graph: A quantised graph.

    Returns:
        Inputs by name of the model's input, frames along the first dimension.
    """
    made: dict[str, list[Tensor]] = {}
    for number, port in enumerate(Reference(graph).inputs):
        low, high = port.fmt.min_mantissa, port.fmt.max_mantissa
        count = max(1, torch.Size(port.shape).numel())
        # The second input begins with the other end, so that sums and differences of both are extreme too.
        alternating = torch.where((torch.arange(count) + number) % 2 == 0, high, low)
        flat = [torch.full((count,), high), torch.full((count,), low), alternating, torch.zeros(count)]
        made[port.name] = [mantissas.to(torch.float64) for mantissas in flat]
    kept: list[int] = []
    for index in range(4):
        if not any(all(torch.equal(m[index], m[other]) for m in made.values()) for other in kept):
            kept.append(index)
    return {
        port.name: _values(graph, port, torch.stack([made[port.name][i] for i in kept]))
        for port in Reference(graph).inputs
    }


def random_frames(graph: MaseGraph, count: int, seed: int) -> dict[str, Tensor]:
    """Frames of random numbers, of four kinds in turn.

    The whole range; a quarter of it, so that not everything saturates; few numbers among zeros, so that what one alone
    does is not lost in a sum; nothing but both ends and zero.

    Args:
        graph: A quantised graph.
        count: How many.
        seed: Of the numbers.
    """
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for port in Reference(graph).inputs:
        low, high = port.fmt.min_mantissa, port.fmt.max_mantissa
        size = max(1, torch.Size(port.shape).numel())
        unit, other = torch.rand(2, count, size, generator=generator, dtype=torch.float64)
        whole = torch.floor(low + unit * (high - low + 1)).clamp(low, high)
        kinds = (
            whole,
            torch.round(whole / 4),
            torch.where(other < SPARSE, whole, 0.0),
            torch.where(unit < 1 / 3, float(low), torch.where(unit < 2 / 3, 0.0, float(high))),
        )
        rows = [kinds[number % len(kinds)][number] for number in range(count)]
        found[port.name] = _values(graph, port, torch.stack(rows))
    return found


def real_frames(graph: MaseGraph, kept: Mapping[str, Tensor], example: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Frames of the calibration data, or the example if there are none, that differ once they are quantised.

    Args:
        graph: A quantised graph.
        kept: From :class:`mase_hw.passes.analysis.calibration.frames.FrameSample`.
        example: The inputs with which the graph was traced.
    """
    ports = Reference(graph).inputs
    given = dict(kept) if {port.name for port in ports} <= kept.keys() else dict(example)
    frames = Reference(graph).named({port.name: given[port.name] for port in ports})
    codes = [
        torch.cat([quantize(v, p.fmt, name=p.name).double().flatten() for p, v in _ports(ports, frames, graph, i)])
        for i in range(frames_of(graph, frames))
    ]
    kept_at = [i for i, code in enumerate(codes) if not any(torch.equal(code, other) for other in codes[:i])]
    return pick(graph, frames, kept_at)


def pick(graph: MaseGraph, frames: Mapping[str, Tensor], numbers: list[int]) -> dict[str, Tensor]:
    """Some frames, in this order."""
    firsts = torch.tensor(numbers, dtype=torch.long)[:, None]
    return {name: frames[name][(firsts * step + torch.arange(step)).flatten()] for name, step in steps(graph).items()}


def _ports(
    ports: list[PortTensor], frames: Mapping[str, Tensor], graph: MaseGraph, index: int
) -> list[tuple[PortTensor, Tensor]]:
    frame = cut(graph, frames, index, index + 1)
    return [(port, frame[port.name]) for port in ports]


def _values(graph: MaseGraph, port: PortTensor, mantissas: Tensor) -> Tensor:
    """Inputs of the model, of its element type, that become these mantissas wherever the type can hold them."""
    node = next(n for n in graph.nodes if n.op == "placeholder" and str(n.target) == port.name)
    dtype = input_dtype(graph, node) or torch.get_default_dtype()
    values: Tensor = port.fmt.values(mantissas)
    if not dtype.is_floating_point and dtype is not torch.bool:
        limits = torch.iinfo(dtype)
        values = values.round().clamp(float(limits.min), float(limits.max))
    places = [m.places for user in node.users if isinstance(m := graph.meta_of(user).module, QuantizeInput)]
    if any(places):
        values = values.clamp(max=min(p for p in places if p is not None) - 1)
    shape = (len(mantissas) * port.shape[0], *port.shape[1:]) if port.shape else (len(mantissas),)
    return values.to(dtype).reshape(shape)
