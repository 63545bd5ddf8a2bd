"""The catalogue cases of recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.nn.recurrence import GATES
from mase_hw.opdef import Arithmetic, Case, Request

EVEN, SATURATE = Rounding.HALF_EVEN, Overflow.SATURATE


def _fmt(text: str) -> FixedFormat:
    width, frac = text[1:].split(".")
    return FixedFormat(int(width), int(frac), text[0] == "s")


def cases(build: Callable[[Request], Any]) -> list[Case]:
    """Every kind with tiles that divide and that do not, one lane, one unit, one time step and several sequences."""

    def case(
        name: str,
        kind: str,
        shape: tuple[int, ...],
        lanes: int,
        formats: dict[str, str],
        rounding: Rounding = EVEN,
        overflow: Overflow = SATURATE,
        frames: int = 3,
        streaming: bool = False,
    ) -> Case:
        units, gates, cells = shape[-1], GATES[kind], "state" in formats
        attributes = {"kind": kind, "streaming": streaming, "cells": cells}
        a = Arithmetic({n: _fmt(f) for n, f in formats.items()}, rounding, overflow, attributes)
        out = (*shape[:-1], units * (1 + cells))
        shapes = {"data_in_0": (*shape[:-1], units * gates), "weight": (units * gates, units), "data_out_0": out}
        shapes |= {"bias": (units,)} if "bias" in formats else {}
        shapes |= {n: (shape[0], 1, units) for n in ("data_in_1", "data_in_2") if n in formats}
        parallelism = {"data_in_0": (gates * lanes,), "data_out_0": (lanes * (1 + cells),)}
        return Case(name, build(Request(name, a, shapes, parallelism)), frames, attributes=attributes)

    def formats(x: str, weight: str, out: str, **inner: str) -> dict[str, str]:
        return {"data_in_0": x, "weight": weight, "data_out_0": out, **inner}

    relu = formats("s12.8", "s6.6", "u8.5")
    tanh = formats("s14.11", "s8.8", "s8.7", gate="s10.7")
    gru = formats("s14.11", "s8.7", "s8.7", bias="s8.10", gate="s9.6")
    lstm = formats("s14.11", "s8.7", "s8.7", gate="s9.6", cell="s16.12")
    both = {"data_in_1": "s8.7", "data_in_2": "s12.8"}
    cells = lstm | {"data_out_0": "s17.12", "state": "s8.7"}
    half_up, floor, trunc, wrap = Rounding.HALF_UP, Rounding.FLOOR, Rounding.TRUNC, Overflow.WRAP
    return [
        case("relu", "rnn_relu", (1, 5, 6), 2, relu, half_up),
        case("tanh", "rnn_tanh", (1, 4, 7), 2, tanh),
        case("tanh_dense", "rnn_tanh", (1, 3, 9), 1, tanh, floor),
        case("tanh_unit", "rnn_tanh", (2, 3, 1), 1, formats("s8.5", "s4.3", "s6.5", gate="s7.4"), trunc, frames=6),
        case("gru", "gru", (1, 4, 5), 2, gru),
        case("gru_unrolled", "gru", (2, 3, 3), 3, formats("s9.6", "s5.4", "u6.6", gate="s7.4"), half_up, wrap, 5),
        case("gru_dense", "gru", (1, 2, 11), 1, gru | {"data_in_0": "s20.18", "bias": "s9.5"}, floor),
        case("gru_step", "gru", (1, 1, 4), 2, gru | {"data_out_0": "s8.6"}, EVEN, wrap, frames=6),
        case("lstm", "lstm", (1, 4, 5), 2, lstm),
        case("lstm_unit", "lstm", (2, 4, 1), 1, lstm | {"cell": "s9.7", "data_out_0": "s6.5"}, half_up),
        case("lstm_dense", "lstm", (1, 2, 11), 1, lstm | {"data_in_0": "s20.18", "gate": "s8.3"}, floor),
        case("lstm_unrolled", "lstm", (1, 5, 3), 3, lstm | {"cell": "s14.8"}, trunc, wrap, frames=6),
        case("relu_begins", "rnn_relu", (2, 3, 5), 2, relu | {"data_in_1": "s9.3"}, half_up, frames=4),
        case("tanh_begins", "rnn_tanh", (2, 1, 1), 1, tanh | {"data_in_1": "u6.6"}, frames=6),
        case("gru_begins", "gru", (2, 3, 5), 2, gru | {"data_in_1": "s8.7"}),
        case("gru_begins_step", "gru", (3, 1, 3), 3, gru | {"data_in_1": "s12.10"}, trunc, frames=5),
        case("gru_begins_dense", "gru", (2, 1, 11), 1, gru | {"data_in_1": "s6.4"}, floor, wrap),
        case("lstm_begins", "lstm", (2, 3, 5), 2, lstm | both),
        case("lstm_begins_dense", "lstm", (2, 2, 11), 1, lstm | both | {"data_in_2": "s20.18"}, floor),
        case("lstm_begins_step", "lstm", (3, 1, 3), 3, lstm | both | {"data_in_1": "u5.3"}, half_up, wrap, 5),
        case("lstm_cells", "lstm", (1, 4, 5), 2, cells),
        case("lstm_cells_unit", "lstm", (2, 2, 1), 1, cells | both | {"cell": "s9.7", "data_out_0": "s9.7"}, trunc),
        case("relu_stream", "rnn_relu", (1, 1, 6), 2, relu, half_up, frames=8, streaming=True),
        case("tanh_stream", "rnn_tanh", (1, 3, 9), 1, tanh, frames=4, streaming=True),
        case("gru_stream", "gru", (1, 2, 5), 2, gru, frames=6, streaming=True),
        case("lstm_stream", "lstm", (2, 1, 4), 2, lstm, frames=6, streaming=True),
        case("lstm_stream_dense", "lstm", (1, 1, 11), 1, lstm | {"gate": "s8.3"}, floor, frames=4, streaming=True),
    ]
