"""A recurrent layer behind its input part: RNN, GRU or LSTM, one module of hardware.

``lower_recurrent_transform_pass`` writes ``nn.RNN``, ``nn.GRU`` and ``nn.LSTM`` as linear layers, which do not depend
on the state and fold by themselves, and this op, which has the exact sums of theirs as its input. The arithmetic is
in :mod:`mase_hw.ops.recurrent._cells`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, Matrix, Params, Precision, Tensor3, Vector, port
from mase_hw.nn.recurrence import GATES, Recurrence, inside
from mase_hw.nn.streaming import AFTER, BEFORE
from mase_hw.numerics import carrier, magnitude, symbolic
from mase_hw.opdef import Arithmetic, Case, Golden, Hardware, Inner, Latency, Memory, OpDef, Request
from mase_hw.ops._binary import covering_both
from mase_hw.ops._functions import TABLE_BITS, entries, key_of, memory
from mase_hw.ops._tensors import lanes_within
from mase_hw.ops.recurrent._cells import TABLES, Cell, tables
from mase_hw.steps import Steps
from mase_hw.streams import ceil_div


def cases(build: Callable[[Request], Any]) -> list[Case]:
    """Every kind with tiles that divide and that do not, one lane, one unit, one time step and several sequences."""

    def case(
        name: str, kind: str, shape: tuple[int, ...], lanes: int, formats: str, frames: int = 3, streaming: bool = False
    ) -> Case:
        units, gates, cells = shape[-1], GATES[kind], "state=" in formats
        attributes: Attributes = {"kind": kind, "streaming": streaming, "cells": cells}
        a = Arithmetic.read(formats, ("data_in_0", "weight", "data_out_0"), attributes)
        out = (*shape[:-1], units * (1 + cells))
        shapes = {"data_in_0": (*shape[:-1], units * gates), "weight": (units * gates, units), "data_out_0": out}
        shapes |= {"bias": (units,)} if "bias" in a.formats else {}
        shapes |= {n: (shape[0], 1, units) for n in ("data_in_1", "data_in_2") if n in a.formats}
        parallelism = {"data_in_0": (gates * lanes,), "data_out_0": (lanes * (1 + cells),)}
        return Case(name, build(Request(name, a, shapes, parallelism)), frames, attributes=attributes)

    relu, tanh = "s12.8 s6.6 u8.5", "s14.11 s8.8 s8.7 gate=s10.7"
    gru = "s14.11 s8.7 s8.7 bias=s8.10 gate=s9.6"
    lstm = "s14.11 s8.7 s8.7 gate=s9.6 cell=s16.12"
    both = "data_in_1=s8.7 data_in_2=s12.8"
    cells = f"{lstm} data_out_0=s17.12 state=s8.7"
    return [
        case("relu", "rnn_relu", (1, 5, 6), 2, f"{relu} half_up"),
        case("tanh", "rnn_tanh", (1, 4, 7), 2, tanh),
        case("tanh_dense", "rnn_tanh", (1, 3, 9), 1, f"{tanh} floor"),
        case("tanh_unit", "rnn_tanh", (2, 3, 1), 1, "s8.5 s4.3 s6.5 gate=s7.4 trunc", frames=6),
        case("gru", "gru", (1, 4, 5), 2, gru),
        case("gru_unrolled", "gru", (2, 3, 3), 3, "s9.6 s5.4 u6.6 gate=s7.4 half_up wrap", 5),
        case("gru_dense", "gru", (1, 2, 11), 1, f"{gru} data_in_0=s20.18 bias=s9.5 floor"),
        case("gru_step", "gru", (1, 1, 4), 2, f"{gru} data_out_0=s8.6 wrap", frames=6),
        case("lstm", "lstm", (1, 4, 5), 2, lstm),
        case("lstm_unit", "lstm", (2, 4, 1), 1, f"{lstm} cell=s9.7 data_out_0=s6.5 half_up"),
        case("lstm_dense", "lstm", (1, 2, 11), 1, f"{lstm} data_in_0=s20.18 gate=s8.3 floor"),
        case("lstm_unrolled", "lstm", (1, 5, 3), 3, f"{lstm} cell=s14.8 trunc wrap", frames=6),
        case("relu_begins", "rnn_relu", (2, 3, 5), 2, f"{relu} data_in_1=s9.3 half_up", frames=4),
        case("tanh_begins", "rnn_tanh", (2, 1, 1), 1, f"{tanh} data_in_1=u6.6", frames=6),
        case("gru_begins", "gru", (2, 3, 5), 2, f"{gru} data_in_1=s8.7"),
        case("gru_begins_step", "gru", (3, 1, 3), 3, f"{gru} data_in_1=s12.10 trunc", frames=5),
        case("gru_begins_dense", "gru", (2, 1, 11), 1, f"{gru} data_in_1=s6.4 floor wrap"),
        case("lstm_begins", "lstm", (2, 3, 5), 2, f"{lstm} {both}"),
        case("lstm_begins_dense", "lstm", (2, 2, 11), 1, f"{lstm} {both} data_in_2=s20.18 floor"),
        case("lstm_begins_step", "lstm", (3, 1, 3), 3, f"{lstm} {both} data_in_1=u5.3 half_up wrap", 5),
        case("lstm_cells", "lstm", (1, 4, 5), 2, cells),
        case("lstm_cells_unit", "lstm", (2, 2, 1), 1, f"{cells} {both} cell=s9.7 data_out_0=s9.7 trunc"),
        case("relu_stream", "rnn_relu", (1, 1, 6), 2, f"{relu} half_up", frames=8, streaming=True),
        case("tanh_stream", "rnn_tanh", (1, 3, 9), 1, tanh, frames=4, streaming=True),
        case("gru_stream", "gru", (1, 2, 5), 2, gru, frames=6, streaming=True),
        case("lstm_stream", "lstm", (2, 1, 4), 2, lstm, frames=6, streaming=True),
        case("lstm_stream_dense", "lstm", (1, 1, 11), 1, f"{lstm} gate=s8.3 floor", frames=4, streaming=True),
        case("relu_floor", "rnn_relu", (1, 3, 4), 2, "s12.8 s6.6 s8.5 floor"),
        case("gru_of_wide_inputs", "gru", (1, 3, 3), 1, "s20.10 s4.3 s5.3 bias=s8.10 gate=s9.6"),
    ]


KINDS = tuple(GATES)
"""Kinds in the order of the parameter ``KIND``."""


class RecurrentParams(Params, frozen=True):
    """Parameters of ``fixed_recurrent``; see the module for their meaning."""

    data_in_0: Tensor3
    weight: Matrix
    has_bias: bool
    bias: Vector
    has_state: bool
    data_in_1: Tensor3
    data_in_2: Tensor3
    data_out_0: Tensor3
    kind: int
    streaming: bool
    cells: bool
    state: Precision
    gate: Precision
    cell: Precision
    cast: Cast

    @property
    def kind_name(self) -> str:
        """The kind by name."""
        return KINDS[self.kind]

    @property
    def tiles(self) -> int:
        """Beats of a state."""
        return self.weight.tiles[0]

    @property
    def rows(self) -> int:
        """Time steps a frame, of all its sequences."""
        return self.data_out_0.size[1] * self.data_out_0.size[2]

    @property
    def begins(self) -> tuple[str, ...]:
        """Ports of what a sequence begins with."""
        return ("data_in_1", "data_in_2")[: self.has_state * (1 + (self.kind_name == "lstm"))]

    def absent(self) -> tuple[str, ...]:
        """What is not there of the bias and of the states that a sequence begins with."""
        begins = tuple(name for name in ("data_in_1", "data_in_2") if name not in self.begins)
        return (*super().absent(), *begins)

    def repetitions(self) -> dict[str, int]:
        """The parameters come once for every time step."""
        return {"weight": self.rows, "bias": self.rows}

    def formats(self) -> dict[str, FixedFormat]:
        """Those of the streams and those inside."""
        inside = {"gate": self.kind_name != "rnn_relu", "cell": self.kind_name == "lstm", "state": self.cells}
        own = {name: getattr(self, name) for name, there in inside.items() if there}
        return super().formats() | {name: FixedFormat(fmt.width, fmt.frac_width) for name, fmt in own.items()}

    def attributes(self) -> Attributes:
        """The kind, and which results it has."""
        return {"kind": self.kind_name, "streaming": self.streaming, "cells": self.cells}

    @property
    def pauses(self) -> int:
        """Time steps of a sequence behind which the next one waits for the state."""
        # A GRU reads the state that a sequence was given once more with its results: behind the issues of the next.
        early = self.has_state and self.kind_name == "gru" and self.data_out_0.size[1] == 1
        return self.data_out_0.size[1] - 1 + int(self.streaming or early)


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 (..., T, H * G)``, ``weight (H * G, H)``, optional ``bias (H,)`` -> ``data_out_0 (..., T, H)``.

    A sequence may begin with a state ``data_in_1`` and, of an LSTM, a cell state ``data_in_2``, both ``(..., 1, H)``.
    With the attribute ``cells`` the result is ``(..., T, H * 2)``: beside the state of a unit its cell state.
    """
    x = t["data_in_0"]
    if symbolic(x):
        shape = (*x.shape[:-1], t["weight"].shape[1] * (2 if a.attributes.get("cells") else 1))
        return {"data_out_0": x.new_zeros(shape, dtype=carrier(magnitude(a.formats["data_out_0"])))}
    return _results(a, Cell(a, t).run(t, t.get(BEFORE)))


def _results(a: Arithmetic, found: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """What a golden gives: the states, and what the next hop begins with, if there is one."""
    return {"data_out_0": found[0]} | ({AFTER: found[1]} if a.attributes.get("streaming") else {})


def _reads(a: Arithmetic, name: str, content: Memory) -> Golden | None:
    """What a layer gives with another table, or with one for each index of the first dimension."""
    replaced = {name: entries(key_of(TABLES[name], tables(a)[name]), content)}
    return lambda _, t: _results(a, Cell(a, t, replaced).run(t, t.get(BEFORE)))


def _build(r: Request) -> RecurrentParams:
    formats, shapes, kind = r.arithmetic.formats, r.shapes, r.arithmetic.attributes["kind"]
    cells = bool(r.arithmetic.attributes.get("cells"))
    lanes = lanes_within(r.node, "data_out_0", r.parallelism["data_out_0"], shapes["data_out_0"])
    if cells:
        if lanes % 2 and "data_out_0" in r.chosen:
            raise UnsupportedError(
                "the state and the cell state of a unit come side by side",
                node=r.node,
                field="parallelism.data_out_0",
                got=lanes,
                expected="an even number of lanes",
                remedy=f"set hardware.parallelism.{r.node}.data_out_0 to {lanes + 1} or {max(lanes - 1, 2)}",
            )
        lanes = ceil_div(lanes, 2)
    # Input lanes follow from those of the result: the gates of a unit come together.
    for name in [each for each in r.parallelism if each.startswith("data_in_")]:
        lanes_within(r.node, name, r.parallelism[name], shapes[name])
    gates = GATES[kind]
    gate, cell, state = (formats.get(name, FixedFormat(1, 0)) for name in ("gate", "cell", "state"))
    begins = {name: shapes.get(name, shapes["weight"][1:]) for name in ("data_in_1", "data_in_2")}
    for name, fmt in (("data_in_0", formats["data_in_0"]), ("weight", formats["weight"]), ("gate", gate)):
        if not fmt.signed or (name == "gate" and fmt.width > TABLE_BITS):
            raise UnsupportedError(
                "a recurrent layer cannot have this format",
                node=r.node,
                field=name,
                got=str(fmt),
                expected=f"a sign, and at most {TABLE_BITS} bits where tables are looked up",
                remedy=f"set {name}_width and {name}_signed in the rule for this node",
            )
    return RecurrentParams(
        data_in_0=port(shapes["data_in_0"], formats["data_in_0"], lanes * gates),
        weight=port(shapes["weight"], formats["weight"], lanes, lanes * gates, dims=2),
        has_bias="bias" in shapes,
        bias=port(shapes["weight"][1:], formats.get("bias", formats["weight"]), lanes, dims=1),
        has_state="data_in_1" in shapes,
        data_in_1=port(begins["data_in_1"], formats.get("data_in_1", formats["data_out_0"]), lanes),
        data_in_2=port(begins["data_in_2"], formats.get("data_in_2", formats["data_out_0"]), lanes),
        data_out_0=port(shapes["data_out_0"], formats["data_out_0"], lanes * (1 + cells)),
        kind=KINDS.index(kind),
        streaming=bool(r.arithmetic.attributes.get("streaming")),
        cells=cells,
        state=Precision(state.width, state.frac_width),
        gate=Precision(gate.width, gate.frac_width),
        cell=Precision(cell.width, cell.frac_width),
        cast=r.arithmetic.modes,
    )


def _pipe(p: RecurrentParams) -> int:
    """Operand register, product register, adder tree, accumulator, cell, memory of the state or output FIFO."""
    cell = 5 if p.kind_name in ("gru", "lstm") else 1
    return 4 + math.ceil(math.log2(p.weight.lanes[0])) + cell


def idle_steps(tiles: int, pipe: int) -> int:
    """The next time step would read its last tile before it is written, if there are too few tiles."""
    return max(0, pipe - tiles)


def state_latency(out: Tensor3, tiles: int, pipe: int, pauses: int, begins: int = 0) -> Latency:
    """The latency of a module that multiplies its state by a matrix in every time step.

    Args:
        out: The result: sequences of time steps.
        tiles: Beats of a state.
        pipe: Cycles from a step to what it gives.
        pauses: Time steps of a sequence behind which the next one waits for the state.
        begins: Inputs that say what a sequence begins with.
    """
    sequences, times, idle = out.size[2], out.size[1], idle_steps(tiles, pipe)
    # A step multiplies a tile of the state: tile of units by tile of units; in idle ones nothing happens.
    # A sequence that goes on waits for the state of the hop before, like every other time step.
    sequence = times * tiles**2 + pauses * idle
    of, at, unit = (a.reshape(-1) for a in np.indices((sequences, times, tiles)))
    first = of * sequence + at * (tiles**2 + idle) + unit * tiles
    # The first tile of units meets every tile of the state, which is then there for the others; each tile of units
    # takes its cell states.
    begin = np.arange(sequences)[:, None] * sequence
    taken = [(begin + np.arange(tiles) * step).reshape(-1) for step in (1, tiles)]
    inputs = (first, *taken[:begins])
    steps = Steps.at(
        sequences * sequence,
        needed=inputs,
        freed=inputs,
        emitted=first + tiles - 1,
        delay=(0,) * len(inputs),
        room=(0,) * len(inputs),
        pipe=pipe,
        queue=max((pipe + tiles) // tiles + 1, 2),
    )
    return Latency.from_steps(steps)


_MOST = 54
"""Bits of the widest signed numbers that are values of a model."""


def _inner_width(name: str, width: int) -> int:
    """Bits of an inner tensor where the configuration leaves them open, from those of the state."""
    return {"gate": min(TABLE_BITS, width + 4), "cell": max(width, min(2 * width, _MOST)), "state": width}[name]


def _finest(tensor: str, formats: Mapping[str, FixedFormat]) -> int | None:
    """A bias finer than the products would widen every sum for bits below their LSB."""
    return formats["data_out_0"].frac_width + formats["weight"].frac_width if tensor == "bias" else None


def _inner_names(attributes: Attributes) -> tuple[str, ...]:
    """What has a format inside a kind."""
    if attributes.get("cells"):
        return ("gate", "cell", "state")
    return {"rnn_relu": (), "lstm": ("gate", "cell")}.get(attributes["kind"], ("gate",))


def _both(formats: Mapping[str, FixedFormat], shape: Sequence[int], attributes: Attributes) -> FixedFormat | None:
    """Of a result with cell states: what holds these and the states exactly."""
    return covering_both({name: formats[name] for name in ("cell", "state")}) if attributes.get("cells") else None


OPS = (
    OpDef(
        name="recurrence",
        mase_type="module_related_func",
        modules=(Recurrence,),
        attributes=("kind", "streaming", "cells"),
        stateful=lambda attributes: bool(attributes.get("streaming")),
        parameters=("weight", "bias"),
        golden=golden,
        variants=lambda a, t: t["data_in_0"].dim() > 2 and not a.attributes.get("streaming"),
        formats=("data_in_0", "weight", "bias", "gate", "cell", "state", "data_out_0"),
        exact_inputs=("data_in_0",),
        inner=Inner(_inner_names, inside, _inner_width),
        exact_out=_both,
        finest=_finest,
        hardware=Hardware(
            module="fixed_recurrent",
            params=RecurrentParams,
            build=_build,
            latency=lambda p: state_latency(p.data_out_0, p.tiles, _pipe(p), p.pauses, len(p.begins)),
            cases=lambda: cases(_build),
            work=lambda p: p.rows * p.weight.size[0] * p.weight.size[1],
            multipliers=lambda p: p.weight.lanes[0] * p.weight.lanes[1],
            idle=lambda p: p.data_out_0.size[2] * p.pauses * idle_steps(p.tiles, _pipe(p)),
            layout="row_major",
            static=("weight", "bias"),
            memories=lambda a: {name: memory(key_of(TABLES[name], at)) for name, at in tables(a).items()},
            reads=_reads,
        ),
    ),
)
