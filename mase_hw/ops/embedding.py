"""Embedding: a row of a stored table for every id; no rounding beyond that of the table.

Ids are unsigned integers, as many bits as numbers of rows need. One that is no row is an error of the float model, and
of the quantised one where it is given as an integer; in hardware, which has no errors, it means the last row.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, ScaledFormat, ScaledUse, format_of_places
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Params, Tensor3, port
from mase_hw.layouts import Layout
from mase_hw.numerics import as_carrier, carrier, cast, magnitude
from mase_hw.numerics.observing import note_look_up
from mase_hw.opdef import Arithmetic, Case, Golden, Hardware, Latency, Memory, OpDef, Request
from mase_hw.ops._cases import case
from mase_hw.ops._tensors import lanes_within
from mase_hw.steps import Steps
from mase_hw.streams import ceil_div

FILE = "TABLE_FILE"


class EmbeddingParams(Params, frozen=True):
    """Parameters of ``fixed_embedding``: ids, result, rows of the table."""

    data_in_0: Tensor3
    data_out_0: Tensor3
    rows: int

    def positions(self, name: str) -> int:
        """Rows of a beat of the result."""
        return self.data_out_0.lanes[1] if name == "data_out_0" else 1

    def layout(self, name: str) -> Layout | None:
        """Of several rows in a beat: lane ``element * rows + row``."""
        rows = self.positions(name)
        return Layout.abreast(self.data_out_0.shape, rows) if rows > 1 else None

    def attributes(self) -> Attributes:
        """The table, and the lanes, on which its memory depends."""
        lanes = {s.name: s.parallelism for s in self.streams()}
        return {"table": (self.rows, self.data_out_0.size[0]), "parallelism": lanes}


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 (*)`` of ids and ``weight (rows, size)`` -> ``data_out_0 (*, size)``."""
    table = t["weight"] if "weight" in t else sample_table(a)
    return {"data_out_0": _read(a, t["data_in_0"], _cast(a, table))}


def _cast(a: Arithmetic, table: Tensor) -> Tensor:
    """The table as it is stored: in the format of the result."""
    target = a.formats["data_out_0"]
    made = cast(table, a.formats.get("weight", target).frac_width, target, a.rounding, a.overflow)
    return as_carrier(made, carrier(magnitude(target)))


def _read(a: Arithmetic, ids: Tensor, table: Tensor) -> Tensor:
    return table[ids.detach().to(torch.int64).clamp(0, table.shape[0] - 1)]


def sample_table(a: Arithmetic) -> Tensor:
    """A table of a catalogue case, which has a module and no weights: numbers of the result's format."""
    shape, target = a.attributes["table"], a.formats["data_out_0"]
    values = np.random.default_rng(shape).integers(target.min_mantissa, target.max_mantissa, shape, endpoint=True)
    return as_carrier(torch.from_numpy(values), carrier(magnitude(target)))


def _memories(a: Arithmetic) -> dict[str, Memory]:
    """Row after row, a beat a word."""
    given = a.attributes.get("parameters", {}).get("weight")
    table = _cast(a, given if given is not None else sample_table(a)).to(torch.int64).numpy()
    (ids, *_), (lanes, *_) = (a.attributes["parallelism"][name] for name in ("data_in_0", "data_out_0"))
    lanes, width = lanes // ids, a.formats["data_out_0"].width
    rows, size = table.shape
    padded = np.zeros((rows, ceil_div(size, lanes) * lanes), dtype=object)
    padded[:, :size] = table & ((1 << width) - 1)
    beats = padded.reshape(-1, lanes)
    words = (beats << np.arange(0, lanes * width, width).astype(object)).sum(1)
    return {
        FILE: Memory(tuple(words.tolist()), lanes * width, f"{rows} rows of {size}" + f", {ids} copies" * (ids > 1))
    }


def _reads(a: Arithmetic, name: str, content: Memory) -> Golden:
    """What the op gives with another table."""
    target = a.formats["data_out_0"]
    width, lanes = target.width, content.bits // target.width

    def compute(b: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
        rows, size = (t["weight"] if "weight" in t else sample_table(b)).shape
        ids = t["data_in_0"].detach().to(torch.int64).clamp(0, rows - 1)
        read, places = torch.unique(ids, return_inverse=True)  # of a large table few rows are read
        beats = len(content.words) // rows
        at = (read.cpu()[:, None] * beats + torch.arange(beats)).flatten()
        note_look_up(at)
        words = [content.words[word] for word in at.tolist()]
        codes = [(word >> (i * width)) & ((1 << width) - 1) for word in words for i in range(lanes)]
        values = torch.tensor([c - (1 << width) if c > target.max_mantissa else c for c in codes], dtype=torch.int64)
        table = as_carrier(values.reshape(len(read), -1)[:, :size], carrier(magnitude(target)))
        return {"data_out_0": table.to(ids.device)[places]}

    return compute


def _check(node: str, attributes: Attributes) -> None:
    if attributes.get("max_norm") is not None:
        raise UnsupportedError(
            "an embedding with max_norm changes its table as it is read",
            node=node,
            field="max_norm",
            got=attributes["max_norm"],
            remedy="renormalise the weight once, and leave max_norm out",
        )


def _build(r: Request) -> EmbeddingParams:
    formats, shape = r.arithmetic.formats, r.stream_shapes["data_in_0"]
    rows, size = r.shapes.get("weight") or r.arithmetic.attributes["table"]
    source = formats["data_in_0"]
    if source.signed or source.frac_width or source.width < format_of_places(rows).width:
        raise UnsupportedError(
            "ids must be unsigned integers that can name every row",
            node=r.node,
            got=str(source),
            expected=f"{format_of_places(rows)} or wider",
            remedy=f"leave the data_in formats of {r.node} out of the configuration",
        )
    lanes_within(r.node, "data_in_0", r.parallelism.get("data_in_0", (1,)), shape)
    beside = r.layouts["data_out_0"].beside if "data_out_0" in r.layouts else 1
    lanes = lanes_within(r.node, "data_out_0", r.parallelism.get("data_out_0", (1,)), (size,))
    return EmbeddingParams(
        data_in_0=port(shape, source, beside),
        data_out_0=port((math.prod(shape), size), formats["data_out_0"], lanes, beside),
        rows=rows,
    )


def _positions(
    attributes: Attributes, shapes: Mapping[str, tuple[int, ...]], arriving: int, wished: int
) -> tuple[int, int]:
    """As many rows as are wished for, as far as they divide the ids of a sequence; one if it has one element."""
    beside = math.gcd(wished, (shapes["data_in_0"] or (1,))[-1]) if shapes["data_out_0"][-1] > 1 else 1
    return beside, beside


def _latency(p: EmbeddingParams) -> Latency:
    """A step reads a beat of the table; the last one of a row lets the next id in."""
    source, sink = p.streams()
    each, beats = np.arange(source.beats, dtype=np.int64), sink.beats // source.beats
    return Latency.from_steps(
        Steps.at(
            sink.beats,
            needed=[each * beats],
            freed=[each * beats + beats - 1],
            emitted=np.arange(sink.beats, dtype=np.int64),
            delay=(1,),
            room=(1,),
            pipe=1,
            queue=1,
            room_lag=0,
            queue_lag=0,
        )
    )


def _case(name: str, tokens: tuple[int, ...], rows: int, size: int, lanes: int, formats: str, beside: int = 1) -> Case:
    shapes = {"data_in_0": tokens, "weight": (rows, size)}
    made = Layout.abreast((*tokens, size), beside)
    layouts = {} if made is None else {"data_out_0": made}

    def build(r: Request) -> EmbeddingParams:
        return _build(dataclasses.replace(r, layouts=layouts))

    return case(build, name, shapes, {"data_out_0": lanes}, formats, ("data_in_0", "weight", "data_out_0"))


def _cases() -> list[Case]:
    return [
        _case("one_lane", (1, 7), 11, 5, 1, "u4.0 s8.6 s8.6"),
        _case("uneven", (2, 5), 13, 8, 3, "u4.0 s8.6 s8.6"),
        _case("whole_rows", (1, 9), 40, 6, 6, "u6.0 s12.9 s12.9"),
        _case("one_column", (3, 4), 16, 1, 1, "u4.0 u5.5 u5.5"),
        _case("two_rows", (1, 6), 2, 4, 2, "u1.0 s8.6 s8.6"),
        _case("wide_ids", (6,), 5, 3, 2, "u9.0 s3.1 s3.1"),
        _case("two_tokens", (2, 6), 11, 5, 2, "u4.0 s8.6 s8.6", 2),
        _case("four_tokens", (1, 8), 16, 3, 3, "u4.0 u5.5 u5.5", 4),
    ]


def _scaled(formats: Mapping[str, FixedFormat], attributes: Attributes) -> str:
    """Of rows of scaled integers: ids, and a result that has the numbers of the table."""
    if isinstance(formats["data_in_0"], ScaledFormat) or formats["data_out_0"].per_channel:
        return "ids, and numbers of one scale"
    same = formats.get("weight", formats["data_out_0"]) == formats["data_out_0"]
    return "" if same else "a result in the format of its table; requantise it"


OPS = (
    OpDef(
        name="embedding",
        mase_type="builtin_func",
        modules=(nn.Embedding,),
        functions=(F.embedding,),
        attributes=("padding_idx", "max_norm"),
        parameters=("weight",),
        golden=golden,
        formats=("data_in_0", "weight", "data_out_0"),
        places=lambda shapes, _: shapes["weight"][0],
        default_out=lambda formats: formats["weight"],
        scaled=ScaledUse("rows", _scaled),
        check=_check,
        hardware=Hardware(
            module="fixed_embedding",
            params=EmbeddingParams,
            build=_build,
            latency=_latency,
            cases=_cases,
            memories=_memories,
            reads=_reads,
            layout="row_major",
            positions=_positions,
        ),
    ),
)
