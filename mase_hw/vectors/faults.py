"""Faults of a design that leave its handshakes alone: a stuck bit of a memory, a cast that rounds or saturates wrongly.

A fault is simulated in the quantised model, which computes what the hardware does: the golden of one node runs with the
fault, and what depends on it is computed again (serial fault simulation from the fault's place on; see M. Abramovici et
al., "Digital Systems Testing and Testable Design", ch. 5).
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, fx

from mase_hw.catalogue import Golden, Memory
from mase_hw.emit.constants import order_of_constants
from mase_hw.emit.netlist import Netlist
from mase_hw.formats import FixedFormat, SignFormat, of_code
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.numerics import quantize
from mase_hw.numerics.observing import look_ups, observing
from mase_hw.opdef import OpDef, for_golden
from mase_hw.streams import Stream
from mase_hw.vectors.playback import ROOM, Playback
from mase_hw.vectors.watch import CastRecorder, FaultyCast, SeenCast


@dataclass(frozen=True)
class MemoryBit:
    """One bit of a stored parameter is the other one.

    Args:
        node: The node that reads it.
        parameter: Which of its parameters.
        index: Number of the element, as it is stored.
        bit: Number of the bit, 0 the last.
    """

    node: str
    parameter: str
    index: int
    bit: int

    def __str__(self) -> str:
        return f"{self.node}.{self.parameter}[{self.index}] bit {self.bit}"


@dataclass(frozen=True)
class WrongCast:
    """All casts of a node have a fault.

    Args:
        node: The node.
        kind: One of :data:`mase_hw.vectors.watch.CAST_FAULTS`.
    """

    node: str
    kind: str

    def __str__(self) -> str:
        return f"{self.node}: {self.kind}"


Fault = MemoryBit | WrongCast


@dataclass(frozen=True)
class _Stored:
    """What a memory holds of a node: ``count`` elements of ``bits`` bits.

    A parameter comes on ``port``; without one it is a memory inside the module, with what it holds.
    """

    node: str
    parameter: str
    count: int
    bits: int
    port: Stream | None = None
    memory: Memory | None = None


class Memories:
    """Every bit that a design has stored; lanes that only fill a word up are not counted.

    Args:
        graph: A graph whose top level was emitted.

    Attributes:
        left_out: Files whose bits are not counted: the op does not say what it computes with another content.
    """

    def __init__(self, graph: MaseGraph) -> None:
        self.graph = graph
        self.left_out: list[str] = []
        netlist: Netlist = graph.meta["netlist"]
        stored: list[_Stored] = []
        for net in netlist.nets:
            if net.source.instance not in netlist.memories:
                continue
            reader = netlist.instance(net.sink.instance)
            port = next(p for p in reader.ports if p.name == net.sink.port)
            stored.append(_Stored(reader.node, port.name, math.prod(port.tensor_shape), port.fmt.width, port))
        for instance in netlist.instances:
            for name, (file, memory) in instance.memories.items():
                if self._golden(instance.node, name, memory) is not None:
                    stored.append(_Stored(instance.node, name, len(memory.words), memory.bits, memory=memory))
                elif f"mem/{file}" not in self.left_out:
                    self.left_out.append(f"mem/{file}")
        # Copies of a module read the same file.
        self._stored = {(s.node, s.parameter): s for s in stored}
        self._ends = list(itertools.accumulate(s.count * s.bits for s in self._stored.values()))

    @property
    def bits(self) -> int:
        """How many there are."""
        return self._ends[-1] if self._ends else 0

    def sample(self, count: int, seed: str) -> list[MemoryBit]:
        """Different bits, drawn evenly from all; all of them if there are no more."""
        if count >= self.bits:
            return [self._bit(number) for number in range(self.bits)]
        return [self._bit(number) for number in sorted(random.Random(seed).sample(range(self.bits), count))]

    def _bit(self, number: int) -> MemoryBit:
        place = bisect.bisect_right(self._ends, number)
        stored = list(self._stored.values())[place]
        index, bit = divmod(number - (self._ends[place] - stored.count * stored.bits), stored.bits)
        return MemoryBit(stored.node, stored.parameter, index, bit)

    def faulty(self, part: Playback, node: fx.Node, fault: Fault, mantissas: Mapping[str, Tensor]) -> Tensor:
        """What a node gives with a fault.

        Args:
            part: The frames.
            node: The node of the fault.
            fault: The fault.
            mantissas: What its golden takes.

        Returns:
            Mantissas of the node's result.
        """
        module = part.module(node)
        if isinstance(fault, WrongCast):
            with observing(FaultyCast(fault.kind)):
                return _result(module.op.golden, module, mantissas)
        stored = self._stored[fault.node, fault.parameter]
        if stored.memory is not None:
            changed = _changed(stored.memory, [fault])
            return _result(self._golden(fault.node, fault.parameter, changed), module, mantissas)
        flipped = {**mantissas, fault.parameter: self._flipped(part, node, fault, mantissas[fault.parameter])}
        return _result(module.op.golden, module, flipped)

    def several(self, part: Playback, node: fx.Node, mantissas: Mapping[str, Tensor]) -> bool:
        """Whether many faults of a node cost as much as one."""
        module = part.module(node)
        return module.op.variants is not None and module.op.variants(module.arithmetic, mantissas)

    def each(
        self, part: Playback, node: fx.Node, faults: Mapping[int, Fault], mantissas: Mapping[str, Tensor], room: int
    ) -> Iterator[tuple[int, Tensor]]:
        """The same for many faults by number, as many at a time as the op and the room allow.

        Those of each memory inside the module apart, as the golden is another one; all others together.
        """
        module, together = part.module(node), dict[str, list[int]]()
        for number, fault in faults.items():
            if self.several(part, node, mantissas):
                inside = fault.parameter if isinstance(fault, MemoryBit) and not self.of_parameter(fault) else ""
                together.setdefault(inside, []).append(number)
            else:
                yield number, self.faulty(part, node, fault, mantissas)
        for memory, numbers in together.items():
            for at in (numbers[begin : begin + room] for begin in range(0, len(numbers), room)):
                some = [faults[number] for number in at]
                golden, given = module.op.golden, {n: m.expand(len(at), *m.shape) for n, m in mantissas.items()}
                bits = [fault for fault in some if isinstance(fault, MemoryBit)]
                if (content := self._stored[node.name, memory].memory if memory else None) is not None:
                    golden = self._golden(node.name, memory, _changed(content, bits))
                else:
                    for name in {bit.parameter for bit in bits}:
                        right = mantissas[name]
                        wrong = {id(b): self._flipped(part, node, b, right) for b in bits if b.parameter == name}
                        given[name] = torch.stack([wrong.get(id(fault), right) for fault in some])
                kinds = [fault.kind if isinstance(fault, WrongCast) else "" for fault in some]
                with observing(FaultyCast(*kinds)) if any(kinds) else contextlib.nullcontext():
                    found = _result(golden, module, given)
                yield from zip(at, found, strict=True)

    def in_channels(
        self,
        part: Playback,
        node: fx.Node,
        faults: Sequence[MemoryBit],
        mantissas: Mapping[str, Tensor],
        right: Tensor,
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]] | None:
        """The same for many wrong bits, if every element of a parameter belongs to one output channel of the node.

        Each fault is a channel of its own among those that the golden gives at once.

        Args:
            part: The frames.
            node: The node of the faults.
            faults: Wrong bits of its parameters.
            mantissas: What its golden takes.
            right: What it gives without a fault.

        Returns:
            For some of the faults at a time: the number of a fault and a frame in which the node gives something else,
            for each such pair, and what it gives there; None if the op cannot give channels apart.
        """
        op, arithmetic = part.module(node).op, part.module(node).arithmetic
        repeated = op.hardware.broadcast if op.hardware else ()
        places = [_place(fault, mantissas[fault.parameter]) for fault in faults]
        if op.channels is None or None in places or any(fault.parameter in repeated for fault in faults):
            return None
        channels, offsets = zip(*(place for place in places if place), strict=True)
        one = op.channels(arithmetic, mantissas, channels[:1])
        if one is None:
            return None
        copied = one[1]["data_in_0"].numel() if one[1]["data_in_0"] is not mantissas["data_in_0"] else 0
        step = max(1, ROOM // max(1, right.numel() // right.shape[one[2]] + copied))

        def each(op: OpDef) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
            assert op.channels is not None and op.golden is not None  # a quantised module has one
            for begin in range(0, len(faults), step):
                some = channels[begin : begin + step]
                apart = op.channels(arithmetic, mantissas, some)
                assert apart is not None  # as one was not
                formats, tensors, dim = apart
                # A copy of what does not lie in memory in its own order does not do so either.
                tensors |= {fault.parameter: tensors[fault.parameter].contiguous() for fault in faults}
                for row, fault in enumerate(faults[begin : begin + step]):
                    own, bits = tensors[fault.parameter][row].view(-1), self._stored[fault.node, fault.parameter].bits
                    at = offsets[begin + row]
                    own[at] = _flip(int(own[at]), arithmetic.formats[fault.parameter], bits, fault.bit)
                wrong = op.golden(for_golden(op, formats), tensors)["data_out_0"]
                places = torch.tensor(some, device=right.device)
                differs = (wrong != right.index_select(dim, places)).movedim(dim, 0)
                rows, frames = differs.reshape(len(some), part.frames, -1).any(2).nonzero().unbind(1)
                yield rows + begin, frames, part.with_channels(right, dim, frames, places[rows], wrong, rows)

        return each(op)

    def of_parameter(self, fault: MemoryBit) -> bool:
        """Whether it is a bit of a parameter, not of a memory inside a module."""
        return self._stored[fault.node, fault.parameter].memory is None

    def read(self, part: Playback, node: fx.Node, parameter: str, mantissas: Mapping[str, Tensor]) -> set[int] | None:
        """Which words of a memory inside a module are read in these frames; None if that is not known.

        A wrong bit in another word changes nothing.
        """
        memory = self._stored[node.name, parameter].memory
        if memory is None:
            return None
        module = part.module(node)
        with look_ups() as found:
            _result(self._golden(node.name, parameter, memory), module, mantissas)
        return set(torch.cat([each.flatten() for each in found]).tolist()) if found else None

    def _golden(self, node: str, name: str, memory: Memory) -> Golden | None:
        """What a node computes if a memory inside its module holds this."""
        module = self.graph.meta_of(self.graph.node(node)).module
        facets = module.op.hardware if isinstance(module, Quantized) else None
        if not isinstance(module, Quantized) or facets is None or facets.reads is None:
            return None
        return facets.reads(module.arithmetic, name, memory)

    def _flipped(self, part: Playback, node: fx.Node, fault: MemoryBit, mantissa: Tensor) -> Tensor:
        """A parameter with one bit of one stored element changed."""
        module = part.module(node)
        fmt, facets = module.arithmetic.formats[fault.parameter], module.op.hardware
        bits = self._stored[fault.node, fault.parameter].bits
        if facets is None or fault.parameter not in facets.broadcast:
            changed = mantissa.clone().reshape(-1)
            changed[fault.index] = _flip(int(changed[fault.index]), fmt, bits, fault.bit)
            return changed.reshape(mantissa.shape)
        # It is stored as often as it does not repeat itself along the stream of the data.
        shape = tuple(self.graph.tensor(node, "data_in_0").shape)
        places = self._places(node, fault, shape)
        changed = torch.broadcast_to(mantissa, shape).clone().reshape(-1)
        changed[places] = _flip(int(changed[places[0]]), fmt, bits, fault.bit)
        return changed.reshape(shape).repeat(part.frames, *[1] * (len(shape) - 1))

    def _places(self, node: fx.Node, fault: MemoryBit, shape: tuple[int, ...]) -> Tensor:
        """The elements of the data that meet one stored element of a constant."""
        stored = self._stored[fault.node, fault.parameter]
        numbers = order_of_constants(self.graph, node).to_stream(np.arange(math.prod(shape)).reshape(1, *shape))
        return torch.from_numpy(numbers.reshape(-1, stored.count)[:, fault.index].copy())


def detected(memories: Memories, parts: Sequence[Playback], faults: Sequence[Fault]) -> Tensor:
    """Which frames show which faults at an output.

    Args:
        memories: Of the design.
        parts: The frames.
        faults: The faults.

    Returns:
        Booleans of shape ``(faults, frames)``.
    """
    table = torch.zeros(len(faults), sum(part.frames for part in parts), dtype=torch.bool)
    by_node: dict[str, list[int]] = {}
    for number, fault in enumerate(faults):
        by_node.setdefault(fault.node, []).append(number)
    at = 0
    for part in parts:
        for name, numbers in by_node.items():
            seen = _detected(memories, part, name, [faults[n] for n in numbers])
            table[torch.tensor(numbers), at : at + part.frames] = seen
        at += part.frames
    return table


def _detected(memories: Memories, part: Playback, name: str, faults: Sequence[Fault]) -> Tensor:
    """The same for the faults of one node."""
    node = memories.graph.node(name)
    mantissas = part.mantissas(node)
    table = torch.zeros(len(faults), part.frames, dtype=torch.bool)
    values: list[Tensor] = []
    rows: list[Tensor] = []
    with torch.no_grad():
        several = memories.several(part, node, mantissas)
        right, last = _right(part, node, mantissas, not several and any(isinstance(f, WrongCast) for f in faults))
        inside = set() if several else {fault.parameter for fault in faults if isinstance(fault, MemoryBit)}
        read = {parameter: memories.read(part, node, parameter, mantissas) for parameter in inside}

        def keep(numbers: Tensor, frames: Tensor, value: Tensor) -> None:
            # Only frames in which the node gives something else can show it.
            if len(frames):
                values.append(value)
                rows.append(torch.stack([numbers, frames]).cpu())

        left = dict(enumerate(faults))
        stored = {n: f for n, f in left.items() if isinstance(f, MemoryBit) and memories.of_parameter(f)}
        apart = memories.in_channels(part, node, list(stored.values()), mantissas, right) if stored else None
        if apart is not None:
            names = torch.tensor(list(stored))
            for some, differs, value in apart:
                keep(names[some.cpu()], differs.cpu(), value)
            left = {number: fault for number, fault in left.items() if number not in stored}
        words = {n: read.get(fault.parameter) for n, fault in left.items() if isinstance(fault, MemoryBit)}
        left = {n: f for n, f in left.items() if isinstance(f, WrongCast) or f.index in (words[n] or (f.index,))}
        again = {n: fault for n, fault in left.items() if isinstance(fault, WrongCast) and last is not None}
        casts = ((n, last.again(fault.kind).reshape(right.shape)) for n, fault in again.items() if last is not None)
        left = {number: fault for number, fault in left.items() if number not in again}
        room = max(1, ROOM // max(1, right.numel()))
        for number, wrong in itertools.chain(casts, memories.each(part, node, left, mantissas, room)):
            differs = (wrong != right).reshape(part.frames, -1).any(1).nonzero().flatten()
            keep(torch.full_like(differs, number), differs, part.rows(wrong, differs))
    if rows:
        of, frames = torch.cat(rows, dim=1)
        # A frame of a single number has no dimension along which frames could follow each other.
        seen = part.differing(node, torch.cat(values) if right.dim() else torch.stack(values), frames)
        table[of[seen], frames[seen]] = True
    return table


def _right(
    part: Playback, node: fx.Node, mantissas: Mapping[str, Tensor], casts: bool
) -> tuple[Tensor, SeenCast | None]:
    """What a node gives; and the cast that gives it, if that is wanted and there is nothing else behind the sums."""
    module = part.module(node)
    if not casts:
        return quantize(part.values[node], module.arithmetic.formats["data_out_0"], name=node.name), None
    with observing(recorder := CastRecorder()):
        right = _result(module.op.golden, module, mantissas)
    return right, recorder.only(right)


def _changed(memory: Memory, faults: Sequence[MemoryBit]) -> Memory:
    """What a memory holds with a wrong bit; with several, one after the other."""
    words = list(memory.words * len(faults))
    for number, fault in enumerate(faults):
        words[number * len(memory.words) + fault.index] ^= 1 << fault.bit
    return dataclasses.replace(memory, words=tuple(words))


def _place(fault: MemoryBit, parameter: Tensor) -> tuple[int, int] | None:
    """The output channel that an element of a parameter belongs to, and its number there; None without channels."""
    return divmod(fault.index, math.prod(parameter.shape[1:])) if parameter.dim() else None


def _result(golden: Golden | None, module: Quantized, given: Mapping[str, Tensor]) -> Tensor:
    assert golden is not None  # a quantised module has one, and memories without one are left out
    return golden(for_golden(module.op, module.arithmetic), given)["data_out_0"]


def _flip(mantissa: int, fmt: FixedFormat, bits: int, bit: int) -> int:
    """The number whose code, stored with so many bits, differs in one of them."""
    if isinstance(fmt, SignFormat):
        return of_code((int(mantissa < 0) if bits == 1 else mantissa & 3) ^ (1 << bit), bits)
    code = (mantissa & ((1 << fmt.width) - 1)) ^ (1 << bit)
    return code - (1 << fmt.width) if code > fmt.mantissas.max_mantissa else code
