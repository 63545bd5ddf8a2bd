"""A whole network of constants as one pipelined expression: a frame per beat, without buffers or multipliers.

Its steps are ops of the catalogue, whose goldens, one after the other, are its golden. What they compute is written as
one graph (:mod:`mase_hw.ops.unrolled._lowering`), and registers are placed over all of it, wherever layers meet. A
frame may also come in several beats, each some rows of an image or positions of a sequence; the graph is then that of
a beat, and what it needs of other beats is in registers.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.hardware.params import Cast, Port, port
from mase_hw.opdef import Arithmetic, Case, Generated, Hardware, Latency, OpDef, Request, verilog_params
from mase_hw.ops import avg_pool, binary, cast, conv, linear, max_pool, relu
from mase_hw.ops.products import matmul
from mase_hw.ops.rows import softmax
from mase_hw.ops.unrolled._graph import Sum
from mase_hw.ops.unrolled._network import (
    Above,
    Accumulated,
    Larger,
    Looked,
    Masked,
    Neighbour,
    Positive,
    Product,
    Program,
    Reached,
    Rest,
    Rounded,
    Saved,
    Step,
)
from mase_hw.ops.unrolled._placed import NetworkStages, stages_of
from mase_hw.ops.unrolled._tables import words_of
from mase_hw.ops.unrolled.data._products import Products
from mase_hw.ops.unrolled.unrolled import (
    TEMPLATE,
    Text,
    UnrolledParams,
    check_unchanged,
    declared,
    random,
    types_of,
)
from mase_hw.steps import Buffers, Steps

_WAITS = 8
"""Registers of a module that wait for the next beat, at most."""
_PART = 336
"""Most bits of a table on a line."""


def _flipped(value: Sum) -> str:
    """What flips the sign bit of a number, if that is among the bits of the value; of a negative one it is not."""
    return f" ^ {value.width}'d{value.constant}" if 0 < value.constant < 1 << value.width else ""


class _NetworkText(Text):
    """Names and expressions of a network."""

    stages: NetworkStages

    def __init__(self, stages: NetworkStages) -> None:
        super().__init__(stages.graph, stages)
        self.network = stages.network
        self.tables: dict[tuple[tuple[int, ...], int], str] = {}
        """Names of the tables by their words, and the bits of one."""

    def name(self, number: int, stage: int) -> str:
        """What holds a value in a stage; one of another beat has no name of its own where it begins."""
        made = self.network.made.get(number)
        if isinstance(made, Neighbour) and stage == self.stages.of(number):
            return self.name(made.value, self.stages.needed(number, made.value))
        return super().name(number, stage)

    def registers(self, stage: int) -> list[dict[str, str]]:
        """What the registers behind a stage hold, and sums over beats in it."""
        sums = [
            {"declared": declared(self.graph.values[n], f"{name}_sum"), "name": f"{name}_sum", "value": name}
            for n in self.stages.numbers
            if isinstance(self.network.made.get(n), Accumulated) and self.stages.of(n) == stage
            for name in [self.name(n, stage)]
        ]
        return super().registers(stage) + sums

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
            return {**item, "value": self._looked(number, made, stage)}
        if isinstance(made, Above):
            given = self.graph.values[made.value]
            limit = f"{given.width}'d{made.limit + given.constant}"
            return {**item, "value": f"{self.name(made.value, stage)} > {limit}"}
        if isinstance(made, Masked):
            bit, whole = self.name(made.bit, stage), self.element(made.value, stage, value.width)
            return {**item, "value": f"{value.width}'({bit} ? {whole} : '0){_flipped(value)}"}
        if isinstance(made, Accumulated):
            before = f"{value.width}'({self.name(made.bit, stage)} ? '0 : {name}_sum)"
            return {**item, "value": f"{self.operand(made.value, 0, value.width, stage)} + {before}"}
        if isinstance(made, Saved):
            return {**item, "value": self._saved(made, value.width, stage)}
        if isinstance(made, Product):
            return {**item, "value": self._product(made, value, stage)}
        if isinstance(made, Rest | Reached):
            return {**item, **self._reached(number, made, value, stage)}
        assert isinstance(made, Larger)
        return {**item, "value": self._larger(made, value, stage)}

    def _rounded(self, number: int, made: Rounded, stage: int) -> dict[str, object]:
        value, out = self.graph.values[number], made.fmt
        raw = f"c{number}"
        entered = self.cast((made.value, made.shift), made.frac, out, made.half, made.rounding, stage)
        if made.element:
            given = self.graph.values[made.value]
            width = max(given.width, given.constant.bit_length()) if given.constant else given.width + 1
            entered |= {"width": width, "in_width": width, "value": self.element(made.value, stage, width)}
        first = None if made.first is None else made.frac - made.first
        named = {"name": number, "sum": f"y{number}", "target": raw, "high": out.width - 1, "frac": out.frac_width}
        named |= {"first": first} if entered["even"] and first is not None else {}
        modes = {"signed": int(out.signed), "rounding": int(made.rounding), "overflow": int(made.overflow)}
        flipped = _flipped(value)
        narrower = {"wider": [raw]} if out.width > value.width else {}
        return {"casts": [{**entered, **named, **modes}], "value": f"{value.width}'({raw}){flipped}", **narrower}

    def _looked(self, number: int, made: Looked, stage: int) -> str:
        width, content = self.graph.values[number].width, words_of(self.network, number)
        name = self.tables.setdefault((content, width), f"Table{len(self.tables)}")
        # A word begins at a power of two, so that its address is no product.
        zeros = (width - 1).bit_length()
        names = [self.name(operand, stage) for operand in made.values] + ([f"{zeros}'d0"] if zeros else [])
        return f"{name}[{'{' + ', '.join(names) + '}' if len(names) > 1 else names[0]}+:{width}]"

    def _saved(self, made: Saved, width: int, stage: int) -> str:
        low, whole = self.network.places(made)[0], made.width
        given = []
        for number, shift, inverted in made.terms:
            plain = self.operand(number, 0, whole, stage)
            if inverted:  # of its own bits; a cast of ~ to more bits inverts these as well in Verilator
                bits = self.graph.values[number].width
                plain = f"{whole}'({self.name(number, stage)} ^ {bits}'d{(1 << bits) - 1})"
            given.append(f"({plain} << {shift})" if shift else plain)
        both = " | ".join(f"({one} & {other})" for one, other in itertools.combinations(given, 2))
        found = both if made.carry else " ^ ".join(given)
        return f"{width}'(({found}) >> {low})" if low else f"{width}'({found})"

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

    def _product(self, made: Product, value: Sum, stage: int) -> str:
        numbers = (made.one, made.other)
        ends, bits = [self.network.ends(number) for number in numbers], [self.graph.values[n].width for n in numbers]
        # Operands of as many bits as the product: a tool sees of each which of these are its sign.
        signed, width = any(low < 0 for low, _ in ends), max(value.width, *bits) + 1
        found = []
        for number, (low, _) in zip(numbers, ends, strict=True):
            name = self.name(number, stage)
            plain = f"{width}'(signed'({{1'b0, {name}}}))" if signed else f"{width}'({name})"
            found.append(self.element(number, stage, width) if low < 0 else plain)
        return f"{value.width}'({' * '.join(found)}){_flipped(value)}"

    def _reached(self, number: int, made: Rest | Reached, value: Sum, stage: int) -> dict[str, object]:
        """A step of a division, whose two operands have names."""
        numbers = {f"value_{number}": (made.value, made.shift), f"divisor_{number}": (made.divisor, 0)}
        ends = [end << shift for operand, shift in numbers.values() for end in self.network.ends(operand)]
        width = max(max(-low - 1, low).bit_length() for low in ends) + int(min(ends) < 0)
        width = max(width, value.width)
        operands = []
        for name, (operand, shift) in numbers.items():
            plain = self.element(operand, stage, width)
            operands.append(
                {
                    "declared": f"logic {'signed ' if min(ends) < 0 else ''}[{width - 1}:0] {name}",
                    "name": name,
                    "value": f"{plain} << {shift}" if shift else plain,
                }
            )
        one, other = numbers
        compared = f"{one} >= {other}"
        rest = f"{value.width}'(({compared}) ? {one} - {other} : {one})"
        return {"operands": operands, "value": compared if isinstance(made, Reached) else rest}

    def table_lines(self) -> list[dict[str, object]]:
        """The tables, as numbers of all their words side by side, cut where a line would be too long."""
        lines: list[dict[str, object]] = []
        for (words, width), name in self.tables.items():
            room = 1 << (width - 1).bit_length()
            bits, content = room * len(words), sum(word << (room * place) for place, word in enumerate(words))
            count = -(-bits // _PART)
            sizes = [bits * (at + 1) // count - bits * at // count for at in range(count)]
            places = [sum(sizes[at + 1 :]) for at in range(len(sizes))]
            parts = [
                f"{size}'h{content >> place & ((1 << size) - 1):x}" for size, place in zip(sizes, places, strict=True)
            ]
            declared_as = f"localparam logic [{bits - 1}:0] {name} ="
            lines.append({"declared": declared_as, "parts": parts, "long": len(declared_as) + len(parts[0]) > 96})
        return lines


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0`` of the shape of the network's input, or beat by beat -> ``data_out_0``, alike: step after step."""
    program: Program = a.attributes["program"]
    given = t["data_in_0"]
    if not program.streamed:
        return {"data_out_0": program.run(given.reshape(-1, *program.shape[1:]))}
    plain = program.layout(program.shape).from_stream(given.reshape(1, -1).numpy())[0]
    made = program.run(torch.from_numpy(np.ascontiguousarray(plain)))
    return {"data_out_0": torch.from_numpy(program.layout(tuple(made.shape)).to_stream(made[None].numpy())[0])}


Waits = tuple[int, int, int, int, int, int, int, int]


class FrameParams(UnrolledParams, frozen=True):
    """Parameters of a network; the module is made for these and takes no others.

    ``chosen_bits`` are the bits of values that are no sums or products, ``data`` are the products of data. ``first`` is
    the beat of a frame with which the first beat of the result is complete, and ``step`` how many later the next one
    is. A beat waits for the one behind it in the register behind stage ``waits``; -1 for none.
    """

    chosen_bits: int
    data: Products
    first: int
    step: int
    waits: Waits


def build(r: Request) -> FrameParams:
    """The parameters of a frame, whose program is among the attributes."""
    formats, stages = r.arithmetic.formats, stages_of(r.arithmetic.attributes["program"])
    gives = [beat for beat, complete in enumerate(stages.network.gives) if complete]
    waits = list(stages.waits)
    if len(waits) > _WAITS:
        raise UnsupportedError(
            "windows of too many layers reach into the next beat",
            node=r.node,
            field="hardware.unroll_beats",
            got=f"{len(waits)} layers, one after the other",
            expected=f"at most {_WAITS}",
            remedy="ask for fewer beats with more positions each, or compile the network in parts",
        )

    def side(name: str, beats: int) -> Port:
        size = torch.Size(r.shapes[name]).numel()
        shape = (size,) if stages.network.beats == 1 else (beats, size // beats)
        return port(shape, formats[name], size // beats)

    return FrameParams(
        data_in_0=side("data_in_0", stages.network.beats),
        data_out_0=side("data_out_0", len(gives)),
        cast=Cast(),
        solver=0,
        levels=stages.levels,
        **stages.figures,
        data=stages.products,
        first=gives[0],
        step=gives[1] - gives[0] if len(gives) > 1 else 1,
        waits=typing.cast(Waits, (*waits, *[-1] * (_WAITS - len(waits)))),
    )


def latency(p: FrameParams) -> Latency:
    """One beat per cycle through all stages; the beats of a register that waits are freed by those behind them."""
    beats = p.data_in_0.beats
    if beats == 1:
        return Latency.from_steps(Steps.registered(1, pipe=p.stages))
    each = np.arange(beats, dtype=np.int64)
    given = p.first + p.step * np.arange(p.data_out_0.beats, dtype=np.int64)
    waits = [wait for wait in p.waits if wait >= 0]
    # A beat that waits has a register for itself and one before it; the last register is that of the result.
    begins, ends = [-1, *waits], [*(wait - 1 for wait in waits), p.stages - 1]
    stages = []
    for index, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        pipe = end - begin - 1
        if index:
            behind = (np.maximum(each - 1, 0),)
            own = Buffers(delay=(1,), room=(2,), room_lag=0, pipe=pipe, queue=pipe, queue_lag=0)
            stages.append(Steps.at(beats, needed=behind, freed=(each,), emitted=each, **own))
        elif pipe:
            stages.append(Steps.registered(beats, pipe=pipe))
    result = Steps.at(
        beats, needed=(each,), freed=(each,), emitted=given, delay=(0,), room=(0,), pipe=1, queue=1, queue_lag=0
    )
    return Latency.from_steps(*stages, result)


def multipliers(p: Any) -> int:
    """The products of data."""
    return sum(p.data.products)


def _control(stages: NetworkStages) -> dict[str, object]:
    """What the template says of the beats of a frame; nothing if there is one."""
    network, count = stages.network, stages.count
    if network.beats == 1:
        return {"beats": 1, "bits": [], "takes": f"enable[{count - 1}]"}
    moves = []
    for stage in range(count):
        there = f"full_q[{stage - 1}]" if stage else "data_in_0_valid"
        before = f"full_q[{stage - 2}]" if stage > 1 else "data_in_0_valid"
        waits = [f"(final_q[{stage - 1}] || {before})"] if stage - 1 in stages.waits else []
        gives = f"gives_q[{stage - 1}]" if stage else "Gives[beat_q]"
        room = f"(!full_q[{stage}] || go_{stage + 1})"
        if stage == count - 1:
            room = f"(!{gives} || !data_out_0_valid || data_out_0_ready)"
        moves.append({"there": there, "when": " && ".join([*waits, room]), "gives": gives})
    live = set(stages.numbers)
    bits = [
        {"name": f"x{number:0{len(str(len(stages.graph.values)))}}", "there": _word(there)}
        for there, number in network.bits.items()
        if number in live
    ]
    takes = f"enable[{count - 1}] && {moves[-1]['gives']}"
    return {
        "beats": network.beats,
        "bits": bits,
        "moves": moves,
        "gives": _word(network.gives),
        "takes": takes,
        "waits": max(stages.waits, default=-1) + 1,
    }


def _word(there: Sequence[bool]) -> str:
    """Bits by beat as a number."""
    return f"{len(there)}'b{''.join(str(int(bit)) for bit in reversed(there))}"


def generated(node: str, p: FrameParams, a: Arithmetic) -> Generated:
    """The module of a frame."""
    program: Program = a.attributes["program"]
    stages = stages_of(program)
    check_unchanged(node, p, {**stages.figures, "data": stages.products})
    beats = stages.network.beats
    context = context_of(stages, verilog_params(p), (p.data_in_0.fmt, p.data_out_0.fmt), stages.network.inputs)
    context |= {
        "what": f"a network of constants, a frame in {beats} beats"
        if beats > 1
        else "a network of constants, a whole frame per beat",
        "golden": "that of every op, one after the other",
    }
    return Generated(f"fixed_frame_{node}", TEMPLATE, context)


def context_of(
    stages: NetworkStages,
    parameters: Mapping[str, int | str],
    formats: tuple[FixedFormat, FixedFormat],
    order: Sequence[int],
) -> dict[str, object]:
    """What the template prints of a network.

    Args:
        stages: The network and its registers.
        parameters: The SystemVerilog parameters.
        formats: Of its input and its result.
        order: The input that comes on each lane, as a number of the network.
    """
    network, text, numbers = stages.network, _NetworkText(stages), stages.numbers
    live, values, out = set(numbers), stages.graph.values, formats[1]
    entered = {*network.inputs, *network.bits.values()}
    made = [n for n in numbers if n not in entered and values[n].coefficients]
    items = [text.item(n) for n in made if not isinstance(network.made.get(n), Neighbour)]
    last, most = stages.count - 1, len(str(len(stages.graph.outputs) - 1))
    casts = {found.fmt.width for n in live if isinstance(found := network.made.get(n), Rounded)}
    return {
        **_control(stages),
        "types": types_of((values[n] for n in numbers if values[n].coefficients), casts),
        "parameters": list(parameters.items()),
        "stages": stages.count,
        "elements": len(network.inputs),
        "adders": sum(values[n].a >= 0 for n in numbers),
        "adder_bits": parameters.get("ADDER_BITS", 0),
        "products": sum(stages.products.products),
        "fmt_in": formats[0],
        "fmt_out": out,
        "inputs": [
            {
                "declared": declared(values[n], text.name(n, 0)),
                "name": text.name(n, 0),
                "lane": lane,
                "flipped": _flipped(values[n]),
            }
            for lane, n in enumerate(order)
            if n in live
        ],
        "unread": [{"lane": lane} for lane, n in enumerate(order) if n not in live],
        "halves": False,
        "last": "The results",
        "tables": text.table_lines(),
        "levels": [items],
        "registers": [text.registers(stage) for stage in range(stages.count if network.beats > 1 else last)],
        "casts": [
            {"lane": lane, "pad": " " * (most - len(str(lane))), "plain": text.element(output[0], last, out.width)}
            for lane, output in enumerate(stages.graph.outputs)
            if output is not None
        ],
        "rounding": 0,
        "overflow": 0,
    }


def _step(ops: Sequence[OpDef], name: str, formats: str, at: int, shape: tuple[int, ...], **more: object) -> Step:
    parameters = {key: value for key, value in more.items() if isinstance(value, Tensor)}
    attributes = {key: value for key, value in more.items() if key not in parameters}
    names = ("data_in_0", *parameters, "data_out_0")
    a = Arithmetic.read(formats, names, attributes)
    return Step(name, next(op for op in ops if op.name == name), a, parameters, (at,), shape)


def _both(
    ops: Sequence[OpDef], name: str, formats: str, at: tuple[int, int], shape: tuple[int, ...], **how: object
) -> Step:
    a = Arithmetic.read(formats, ("data_in_0", "data_in_1", "data_out_0"), how)
    return Step(name, next(op for op in ops if op.name == name), a, {}, at, shape)


def _random(*size: int, bits: int, seed: int = 0) -> Tensor:
    return random(*size, bits=bits, seed=seed).float()


def _cases() -> tuple[Case, ...]:
    draw = functools.partial(_random, bits=4)
    kernel, narrow = draw(3, 2, 3, 3), draw(4, 1, 3, 2)
    order = torch.arange(24).reshape(1, 24)
    image = (
        _step(conv.OPS, "conv2d", "s4.2 s4.3 s6.5 s6.3", 0, (1, 3, 4, 5), weight=kernel, bias=draw(3), padding=1),
        _step(relu.OPS, "relu", "s6.3 u5.3", 1, (1, 3, 4, 5)),
        _step(max_pool.OPS, "max_pool2d", "u5.3 u5.3", 2, (1, 3, 2, 4), kernel_size=2, stride=(2, 1)),
        Step("flatten", None, Arithmetic({}), {}, (3,), (1, 24), order),
        _step(linear.OPS, "linear", "u5.3 s4.3 s9.3 half_up wrap", 4, (1, 5), weight=draw(5, 24, seed=1)),
    )
    how = {"groups": 2, "stride": (1, 2), "padding": (1, 0)}
    strided = (_step(conv.OPS, "conv2d", "s4.2 s4.3 s6.2", 0, (1, 4, 3, 2), weight=narrow, **how),)
    less, offsets = -draw(4, 3).abs(), -draw(4).abs() - 1
    below = (
        _step(linear.OPS, "linear", "u3.0 s4.0 s9.0 s7.0", 0, (1, 2, 4), weight=less, bias=offsets),
        _step(cast.OPS, "cast", "s7.0 s6.-1", 1, (1, 2, 4)),
        _step(max_pool.OPS, "max_pool1d", "s6.-1 s6.-1", 2, (1, 2, 2), kernel_size=2),
    )
    plain, bias = torch.tensor([[1.0, 0], [0, 1], [4, 0]]), torch.tensor([8.0, 7, 32])
    alone = (_step(linear.OPS, "linear", "s4.0 s4.0 s7.0 s7.0", 0, (1, 3), weight=plain, bias=bias),)
    pixels, fmt = (1, 2, 4, 5), FixedFormat(4, 2)
    rounds = (
        _step(linear.OPS, "linear", "s4.2 s4.3 s8.3", 0, (1, 3), weight=draw(3, 4)),
        _step(cast.OPS, "cast", "s8.3 s4.1", 1, (1, 3)),
    )
    means = (
        _step(avg_pool.OPS, "avg_pool2d", "s4.2 s6.3", 0, (1, 2, 2, 2), kernel_size=3, stride=2),
        _step(avg_pool.OPS, "avg_pool2d", "s6.3 s5.2 half_up", 1, (1, 2, 1, 1), kernel_size=2, divisor_override=3),
    )
    scores = (
        _step(linear.OPS, "linear", "s4.2 s4.3 s6.3", 0, (1, 3, 2), weight=draw(2, 4, seed=3)),
        _step(linear.OPS, "linear", "s4.2 s4.3 s8.5", 0, (1, 3, 2), weight=draw(2, 4, seed=4)),
        _step(relu.OPS, "relu", "s8.5 u7.5", 2, (1, 3, 2)),
        Step("heads", None, Arithmetic({}), {}, (1,), (1, 3, 1, 2), torch.arange(6).reshape(1, 3, 1, 2)),
        Step("rows", None, Arithmetic({}), {}, (3,), (1, 3, 1, 2), torch.arange(6).reshape(1, 3, 1, 2)),
        _both(matmul.OPS, "grouped_matmul", "s6.3 u7.5 s9.4 half_up", (4, 5), (1, 3, 1, 3), transposed=True),
        _both(binary.OPS, "mul", "s9.4 s9.4 u10.2 floor wrap", (6, 6), (1, 3, 1, 3)),
    )
    shares = (_step(softmax.OPS, "softmax", "s4.2 u6.5 floor", 0, (1, 3, 2), dim=2),)
    return (
        _case("image", Program(pixels, fmt, image, 2)),
        _case("softmax", Program((1, 3, 2), fmt, shares, 3)),
        _case("products", Program((1, 3, 4), fmt, scores, 3)),
        _case("products_at_once", Program((1, 3, 4), fmt, scores, 0)),
        _case("products_apart", Program((1, 3, 4), fmt, scores, 1)),
        _case("image_at_once", Program(pixels, fmt, image, 0)),
        _case("never_positive", Program((1, 2, 3), FixedFormat(3, 0, signed=False), below, 1), FixedFormat(6, -1)),
        _case("terms_alone", Program((1, 2), FixedFormat(4, 0), alone, 2), FixedFormat(7, 0)),
        _case("groups", Program((1, 2, 3, 4), fmt, strided, 3)),
        _case("two_casts", Program((1, 4), fmt, rounds, 2)),
        _case("means", Program((1, 2, 5, 5), fmt, means, 2)),
    )


def _case(name: str, program: Program, out: FixedFormat | None = None) -> Case:
    out = out or program.steps[-1].arithmetic.formats["data_out_0"]
    program = dataclasses.replace(program, streamed=program.beats > 1)
    a = Arithmetic({"data_in_0": program.fmt, "data_out_0": out}, attributes={"program": program})
    shapes = {"data_in_0": program.shape, "data_out_0": program.steps[-1].shape}
    return Case(name, build(Request(name, a, shapes, {})), 12, attributes={"program": program})


def _cases_in_beats() -> tuple[Case, ...]:
    draw = functools.partial(_random, bits=3)
    fmt, first, second = FixedFormat(4, 2), draw(3, 2, 3), draw(2, 3, 5, seed=1)
    radio = (
        _step(conv.OPS, "conv1d", "s4.2 s3.2 s6.4 s6.3", 0, (1, 3, 12), weight=first, bias=draw(3, bits=6), padding=1),
        _step(relu.OPS, "relu", "s6.3 u5.3", 1, (1, 3, 12)),
        _step(conv.OPS, "conv1d", "u5.3 s3.2 s6.3 floor", 2, (1, 2, 12), weight=second, padding=2),
    )
    flat = torch.arange(24).reshape(1, 24)
    ends = (
        *radio,
        Step("flatten", None, Arithmetic({}), {}, (3,), (1, 24), flat),
        _step(linear.OPS, "linear", "s6.3 s3.2 s9.3 half_up wrap", 4, (1, 3), weight=draw(3, 24, seed=2)),
        _step(relu.OPS, "relu", "s9.3 u6.2", 5, (1, 3)),
    )
    gated = (
        *radio,
        _step(conv.OPS, "conv1d", "u5.3 s3.2 s5.3", 2, (1, 2, 12), weight=draw(2, 3, 3, seed=4), padding=1),
        _both(binary.OPS, "mul", "s6.3 s5.3 s8.4", (3, 4), (1, 2, 12)),
        _step(conv.OPS, "conv1d", "s8.4 s3.2 s7.3", 5, (1, 1, 12), weight=draw(1, 2, 3, seed=5), padding=1),
    )
    image = (
        _step(conv.OPS, "conv2d", "s4.2 s3.2 s6.3", 0, (1, 3, 4, 3), weight=draw(3, 2, 3, 2), stride=(2, 2), padding=1),
        _step(max_pool.OPS, "max_pool2d", "s6.3 s6.3", 1, (1, 3, 2, 3), kernel_size=(2, 1)),
        _step(conv.OPS, "conv2d", "s6.3 s3.2 s5.2", 2, (1, 2, 2, 3), weight=draw(2, 3, 3, 1, seed=3), padding=(1, 0)),
    )
    return (
        *(_case(f"radio_{k}", Program((1, 2, 12), fmt, radio, 2, k, 2)) for k in (2, 4, 12)),
        *(_case(f"gated_{k}", Program((1, 2, 12), fmt, gated, 2, k, 2)) for k in (3, 12)),
        *(_case(f"ends_{k}", Program((1, 2, 12), fmt, ends, 1 + k % 3, k, 2)) for k in (3, 12)),
        _case("rows", Program((1, 2, 8, 4), fmt, image, 3, 8, 2)),
        _case("two_rows", Program((1, 2, 8, 4), fmt, image, 1, 4, 2)),
    )


def _hardware(layout: str, cases: Callable[[], Sequence[Case]]) -> Hardware:
    return Hardware(
        module="fixed_frame",
        file=TEMPLATE,
        params=FrameParams,
        build=build,
        latency=latency,
        cases=cases,
        multipliers=multipliers,
        generated=generated,
        layout=layout,
        whole=True,
    )


OPS = (
    OpDef(name="frame", mase_type="module", golden=golden, hardware=_hardware("row_major", _cases)),
    OpDef(
        name="frame_channels_last",
        mase_type="module",
        golden=golden,
        hardware=_hardware("channels_last", _cases_in_beats),
    ),
)
