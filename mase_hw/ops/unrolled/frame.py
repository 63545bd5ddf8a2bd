"""A whole network of constants as one pipelined expression: a frame per beat, without buffers or multipliers.

Its steps are ops of the catalogue, whose goldens, one after the other, are its golden. What they compute is written as
one graph (:mod:`mase_hw.ops.unrolled._lowering`), and registers are placed over all of it, wherever layers meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from mase_hw.formats import FixedFormat
from mase_hw.hardware.params import Cast, port
from mase_hw.opdef import Arithmetic, Case, Generated, Hardware, OpDef, Request, verilog_params
from mase_hw.ops import cast, conv, linear, max_pool, relu
from mase_hw.ops.unrolled._graph import Sum
from mase_hw.ops.unrolled._network import Above, Larger, Looked, Positive, Program, Rounded, Step
from mase_hw.ops.unrolled._placed import NetworkStages, stages_of
from mase_hw.ops.unrolled.unrolled import (
    TEMPLATE,
    Text,
    UnrolledParams,
    check_unchanged,
    declared,
    latency,
    types_of,
)


def _flipped(value: Sum) -> str:
    """What flips the sign bit of a number, if that is among the bits of the value; of a negative one it is not."""
    return f" ^ {value.width}'d{value.constant}" if 0 < value.constant < 1 << value.width else ""


class _NetworkText(Text):
    """Names and expressions of a network."""

    stages: NetworkStages

    def __init__(self, stages: NetworkStages) -> None:
        super().__init__(stages.graph, stages)
        self.network = stages.network
        self.tables: dict[tuple[tuple[int, ...], int, int], str] = {}
        """Names of the tables by their words, the bits of one, and how many there are."""

    def element(self, number: int, stage: int, width: int) -> str:
        """The number that an element is, in two's complement of so many bits."""
        value = self.graph.values[number]
        fixed = self.network.constant(number)
        if fixed is not None:
            return f"{width}'d{fixed & ((1 << width) - 1)}"
        name, bits = self.name(number, stage), max(value.width, value.constant.bit_length())
        if not value.constant:
            return f"{width}'({name})"
        whole = name if bits == value.width else f"{bits}'({name})"
        return f"{width}'(signed'({whole} ^ {bits}'d{value.constant}))"

    def item(self, number: int) -> dict[str, object]:
        """Declaration and assignment of a value."""
        made = self.network.made.get(number)
        if made is None:
            return self.sum_of(number)
        value, stage = self.graph.values[number], self.stages.of(number)
        name = self.name(number, stage)
        item: dict[str, object] = {"declared": declared(value, name), "name": name, "wider": [], "casts": []}
        if isinstance(made, Rounded):
            return {**item, **self._rounded(number, made, stage)}
        if isinstance(made, Positive):
            given, whole = self.graph.values[made.value], self.name(made.value, stage)
            top = given.width - 1
            # The sign bit is flipped, so it is set if the number is not negative.
            wider = {"wider": [whole]} if top > value.width else {}
            return {**item, "value": f"{whole}[{top}] ? {value.width}'({whole}[{top - 1}:0]) : '0", **wider}
        if isinstance(made, Looked):
            return {**item, "value": self._looked(made, value.width, value.constant, stage)}
        if isinstance(made, Above):
            given = self.graph.values[made.value]
            limit = f"{given.width}'d{made.limit + given.constant}"
            return {**item, "value": f"{self.name(made.value, stage)} > {limit}"}
        return {**item, "value": self._larger(made, value, stage)}

    def _rounded(self, number: int, made: Rounded, stage: int) -> dict[str, object]:
        value, out = self.graph.values[number], made.fmt
        raw = f"c{number}"
        entered = self.cast((made.value, made.shift), made.frac, out, made.half, made.rounding, stage)
        if made.element:
            given = self.graph.values[made.value]
            width = max(given.width, given.constant.bit_length()) if given.constant else given.width + 1
            entered |= {"width": width, "in_width": width, "value": self.element(made.value, stage, width)}
        named = {"name": number, "sum": f"y{number}", "target": raw, "high": out.width - 1, "frac": out.frac_width}
        modes = {"signed": int(out.signed), "rounding": int(made.rounding), "overflow": int(made.overflow)}
        flipped = _flipped(value)
        narrower = {"wider": [raw]} if out.width > value.width else {}
        return {"casts": [{**entered, **named, **modes}], "value": f"{value.width}'({raw}){flipped}", **narrower}

    def _looked(self, made: Looked, width: int, flipped: int, stage: int) -> str:
        values = [self.graph.values[number] for number in made.values]
        words = np.zeros([1 << value.width for value in values], dtype=object)
        sizes, places = [], []
        for number, value in zip(made.values, values, strict=True):
            low, high = self.network.ends(number)
            sizes.append(high - low + 1)
            places.append(slice(low + value.constant, high + value.constant + 1))
        words[tuple(places)] = np.array(made.table, dtype=object).reshape(sizes) + flipped
        content = tuple(map(int, words.reshape(-1)))
        name = self.tables.setdefault((content, width, len(content)), f"Table{len(self.tables)}")
        names = ", ".join(self.name(number, stage) for number in made.values)
        index = f"{{{names}}}" if len(values) > 1 else names
        return f"{name}[{width}*32'({index})+:{width}]"

    def _larger(self, made: Larger, value: Sum, stage: int) -> str:
        width, flipped = value.width, value.constant
        values = [self.graph.values[number] for number in (made.one, made.other)]
        ends = [self.network.ends(number) for number in (made.one, made.other)]
        if all(value.coefficients for value in values) and values[0].constant == values[1].constant:
            # Both are moved by the same constant, which does not change their order.
            wide = max(value.width for value in values)
            one, other = (f"{wide}'({self.name(number, stage)})" for number in (made.one, made.other))
            if values[0].constant == flipped and wide == width:
                return f"{one} > {other} ? {one} : {other}"
        bits = max(max(-low - 1, high, 0).bit_length() for low, high in ends) + 1
        one, other = (self.element(number, stage, bits) for number in (made.one, made.other))
        return f"{width}'((signed'({one}) > signed'({other})) ? {one} : {other}){_flipped(value)}"

    def table_lines(self) -> list[dict[str, object]]:
        """The tables, as numbers of all their words side by side."""
        lines: list[dict[str, object]] = []
        for (words, width, count), name in self.tables.items():
            content = sum(word << (width * place) for place, word in enumerate(words))
            lines.append({"name": name, "bits": width * count, "content": f"{content:x}"})
        return lines


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0`` of the shape of the network's input -> ``data_out_0``: step after step."""
    program: Program = a.attributes["program"]
    return {"data_out_0": program.run(t["data_in_0"].reshape(-1, *program.shape[1:]))}


def build(r: Request) -> UnrolledParams:
    """The parameters of a frame, whose program is among the attributes."""
    formats, stages = r.arithmetic.formats, stages_of(r.arithmetic.attributes["program"])
    sizes = {name: torch.Size(r.shapes[name]).numel() for name in ("data_in_0", "data_out_0")}
    return UnrolledParams(
        data_in_0=port((sizes["data_in_0"],), formats["data_in_0"], sizes["data_in_0"]),
        data_out_0=port((sizes["data_out_0"],), formats["data_out_0"], sizes["data_out_0"]),
        cast=Cast(),
        solver=0,
        levels=stages.levels,
        **stages.figures,
    )


def generated(node: str, p: UnrolledParams, a: Arithmetic) -> Generated:
    """The module of a frame."""
    program: Program = a.attributes["program"]
    stages = stages_of(program)
    check_unchanged(node, p, stages)
    network, text, numbers = stages.network, _NetworkText(stages), stages.numbers
    live, values, out = set(numbers), stages.graph.values, p.data_out_0.fmt
    items = [text.item(n) for n in numbers if n not in network.inputs and values[n].coefficients]
    last, most = stages.count - 1, len(str(len(stages.graph.outputs) - 1))
    casts = {made.fmt.width for n in live if isinstance(made := network.made.get(n), Rounded)}
    context = {
        "what": "a network of constants, a whole frame per beat",
        "golden": "that of every op, one after the other",
        "types": types_of((values[n] for n in numbers if values[n].coefficients), casts),
        "parameters": list(verilog_params(p).items()),
        "stages": stages.count,
        "elements": len(network.inputs),
        "adders": sum(values[n].a >= 0 for n in numbers),
        "adder_bits": p.adder_bits,
        "fmt_in": p.data_in_0.fmt,
        "fmt_out": out,
        "inputs": [
            {
                "declared": declared(values[n], text.name(n, 0)),
                "name": text.name(n, 0),
                "lane": lane,
                "flipped": _flipped(values[n]),
            }
            for lane, n in enumerate(network.inputs)
            if n in live
        ],
        "unread": [lane for lane, n in enumerate(network.inputs) if n not in live],
        "halves": False,
        "last": "The results",
        "tables": text.table_lines(),
        "levels": [items],
        "registers": [text.registers(stage) for stage in range(last)],
        "casts": [
            {"lane": lane, "pad": " " * (most - len(str(lane))), "plain": text.element(output[0], last, out.width)}
            for lane, output in enumerate(stages.graph.outputs)
            if output is not None
        ],
        "rounding": 0,
        "overflow": 0,
    }
    return Generated(f"fixed_frame_{node}", TEMPLATE, context)


def _step(ops: Sequence[OpDef], name: str, formats: str, at: int, shape: tuple[int, ...], **more: object) -> Step:
    parameters = {key: value for key, value in more.items() if isinstance(value, Tensor)}
    attributes = {key: value for key, value in more.items() if key not in parameters}
    names = ("data_in_0", *parameters, "data_out_0")
    a = Arithmetic.read(formats, names, attributes)
    return Step(name, next(op for op in ops if op.name == name), a, parameters, (at,), shape)


def _cases() -> tuple[Case, ...]:
    def random(*size: int, bits: int = 4, seed: int = 0) -> Tensor:
        draw = torch.Generator().manual_seed(seed)
        return torch.randint(-(1 << (bits - 1)), 1 << (bits - 1), size, generator=draw).float()

    kernel, narrow = random(3, 2, 3, 3), random(4, 1, 3, 2)
    order = torch.arange(24).reshape(1, 24)
    image = (
        _step(conv.OPS, "conv2d", "s4.2 s4.3 s6.5 s6.3", 0, (1, 3, 4, 5), weight=kernel, bias=random(3), padding=1),
        _step(relu.OPS, "relu", "s6.3 u5.3", 1, (1, 3, 4, 5)),
        _step(max_pool.OPS, "max_pool2d", "u5.3 u5.3", 2, (1, 3, 2, 4), kernel_size=2, stride=(2, 1)),
        Step("flatten", None, Arithmetic({}), {}, (3,), (1, 24), order),
        _step(linear.OPS, "linear", "u5.3 s4.3 s9.3 half_up wrap", 4, (1, 5), weight=random(5, 24, seed=1)),
    )
    how = {"groups": 2, "stride": (1, 2), "padding": (1, 0)}
    strided = (_step(conv.OPS, "conv2d", "s4.2 s4.3 s6.2", 0, (1, 4, 3, 2), weight=narrow, **how),)
    less, offsets = -random(4, 3).abs(), -random(4).abs() - 1
    below = (
        _step(linear.OPS, "linear", "u3.0 s4.0 s9.0 s7.0", 0, (1, 2, 4), weight=less, bias=offsets),
        _step(cast.OPS, "cast", "s7.0 s6.-1", 1, (1, 2, 4)),
        _step(max_pool.OPS, "max_pool1d", "s6.-1 s6.-1", 2, (1, 2, 2), kernel_size=2),
    )
    plain, bias = torch.tensor([[1.0, 0], [0, 1], [4, 0]]), torch.tensor([8.0, 7, 32])
    alone = (_step(linear.OPS, "linear", "s4.0 s4.0 s7.0 s7.0", 0, (1, 3), weight=plain, bias=bias),)
    pixels, fmt = (1, 2, 4, 5), FixedFormat(4, 2)
    return (
        _case("image", Program(pixels, fmt, image, 2), image[-1].arithmetic.formats["data_out_0"]),
        _case("image_at_once", Program(pixels, fmt, image, 0), image[-1].arithmetic.formats["data_out_0"]),
        _case("never_positive", Program((1, 2, 3), FixedFormat(3, 0, signed=False), below, 1), FixedFormat(6, -1)),
        _case("terms_alone", Program((1, 2), FixedFormat(4, 0), alone, 2), FixedFormat(7, 0)),
        _case("groups", Program((1, 2, 3, 4), fmt, strided, 3), strided[-1].arithmetic.formats["data_out_0"]),
    )


def _case(name: str, program: Program, out: FixedFormat) -> Case:
    a = Arithmetic({"data_in_0": program.fmt, "data_out_0": out}, attributes={"program": program})
    shapes = {"data_in_0": program.shape, "data_out_0": program.steps[-1].shape}
    return Case(name, build(Request(name, a, shapes, {})), 12, attributes={"program": program})


OPS = (
    OpDef(
        name="frame",
        mase_type="module",
        golden=golden,
        hardware=Hardware(
            module="fixed_frame",
            file=TEMPLATE,
            params=UnrolledParams,
            build=build,
            latency=latency,
            cases=_cases,
            generated=generated,
            layout="row_major",
            whole=True,
        ),
    ),
)
