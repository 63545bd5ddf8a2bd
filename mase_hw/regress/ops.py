"""An op case of the catalogue as a regression job: what to build, what to feed, what to expect."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from mase_hw.catalogue import Arithmetic, Case, OpDef, default_catalogue, verilog_params
from mase_hw.design.vectors import Played
from mase_hw.emit.render import render_generated
from mase_hw.errors import ConfigError
from mase_hw.host.resources import rtl_root
from mase_hw.nn.streaming import AFTER, BEFORE
from mase_hw.numerics import as_carrier, carrier, magnitude
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.plan import Limits
from mase_hw.streams import IntArray, Stream


class OpCase:
    """One parameter set of one op.

    Args:
        op: Name of the op.
        case: Name of the case.

    Raises:
        ConfigError: If the catalogue has no such case.
    """

    def __init__(self, op: str, case: str) -> None:
        found = default_catalogue().get(op)
        cases = {c.name: c for c in found.hardware.cases()} if found is not None and found.hardware else {}
        if found is None or found.hardware is None or case not in cases:
            raise ConfigError("the catalogue has no such case", node=op, got=case, expected=sorted(cases))
        self.op: OpDef = found
        self.hardware = found.hardware
        self.case: Case = cases[case]
        self.streams: tuple[Stream, ...] = tuple(self.hardware.ports(self.case.params))
        self.source = next(s for s in self.streams if s.direction == "in" and s.name not in self.hardware.static)
        self.sinks = tuple(s for s in self.streams if s.direction == "out")

    @property
    def multipliers(self) -> int:
        """Multipliers of the module."""
        return int(self.hardware.multipliers(self.case.params))

    @property
    def arithmetic(self) -> Arithmetic:
        """What the golden computes: what stands in the parameters, and the attributes of the case that do not."""
        read = self.hardware.arithmetic(self.case.params)
        return dataclasses.replace(read, attributes={**read.attributes, **self.case.attributes})

    def dut(self, folder: Path) -> Dut:
        """The module, from exactly its declared files.

        Args:
            folder: Where the files of memories inside the module are written.
        """
        sources = []
        for file in self.hardware.files:
            own = self.hardware.external(file)
            sources.append(own if own is not None else rtl_root() / file)
        if self.hardware.generated is not None:
            made = self.hardware.generated(self.case.name, self.case.params, self.arithmetic)
            folder.mkdir(parents=True, exist_ok=True)
            source = folder / f"{made.module}.sv"
            source.write_text(render_generated(made), encoding="utf-8")
            return Dut(made.module, (*sources, source), verilog_params(self.case.params), self.streams)
        tied = self.hardware.tied(self.case.params)
        parameters = verilog_params(self.case.params)
        memories = self.hardware.memories(self.arithmetic)
        for name, memory in memories.items():
            digits = (memory.bits + 3) // 4
            target = folder / f"{name.lower()}.mem"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("".join(f"{word:0{digits}x}\n" for word in memory.words), encoding="utf-8")
            parameters[name] = f"mem/{target.name}"
        memory_folder = folder if memories else None
        return Dut(self.hardware.module, tuple(sources), parameters, self.streams, memory_folder, tied)

    def stimulus(self, seed: int) -> dict[str, IntArray]:
        """Random frames, then one of all smallest and one of all largest mantissas; parameters change as well."""
        rng = np.random.default_rng([seed, *self.op.name.encode(), *self.case.name.encode()])
        tensors: dict[str, IntArray] = {}
        for stream in self.streams:
            if stream.direction == "in":
                low, high = stream.fmt.min_mantissa, stream.fmt.max_mantissa
                if stream.name in self.hardware.narrow(self.case.params):
                    low = -high  # of weights that share a multiplier, the lowest is promised not to occur
                shape = stream.tensor_shape
                frames = rng.integers(low, high, (self.case.frames, *shape), dtype=np.int64, endpoint=True)
                if stream.fmt.bipolar:
                    frames[frames == 0] = 1
                corners = np.stack([np.full(shape, value) for value in (low, high)])
                tensors[stream.name] = np.concatenate([frames, corners])
        return tensors

    def expected(self, tensors: Mapping[str, IntArray]) -> dict[str, IntArray]:
        """What the golden says, frame by frame."""
        golden = self.op.golden
        if golden is None:
            raise ConfigError("the op has no golden", node=self.op.name)
        arithmetic = self.arithmetic
        formats = {s.name: s.fmt for s in self.streams}
        frames: dict[str, list[IntArray]] = {s.name: [] for s in self.sinks}
        past: dict[str, torch.Tensor] = {}
        for index in range(len(tensors[self.source.name])):
            mantissas = {
                name: as_carrier(torch.from_numpy(tensor[index]), carrier(magnitude(formats[name])))
                for name, tensor in tensors.items()
            }
            result = golden(arithmetic, mantissas | past)
            past = {BEFORE: result[AFTER]} if AFTER in result else {}
            for sink in self.sinks:
                frames[sink.name].append(result[sink.name].to(torch.int64).numpy().reshape(sink.tensor_shape))
        return {name: np.stack(tensors) for name, tensors in frames.items()}

    def played(self, seed: int) -> Played:
        """Frames for every port: those of :meth:`stimulus`, and what the golden makes of them."""
        tensors = self.stimulus(seed)
        return Played.of(tensors, self.expected(tensors), {stream.name: stream for stream in self.streams})

    def limits(self, frames: int, slowdown: float) -> Limits:
        """How long to wait for so many frames."""
        latency = self.hardware.latency(self.case.params)
        quiet = latency.interval + latency.fill
        return Limits(8 * quiet + 200, int(40 * (frames + 1) * quiet * slowdown) + 4000)
