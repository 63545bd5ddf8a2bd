"""Linear layers whose constants are shifts and additions, without a multiplier.

The arithmetic is that of :mod:`mase_hw.ops.linear`; only how it is computed differs. The module is generated, since the
constants are its structure: every input enters at once, every output leaves at once, one vector per cycle.

A layer of constant weights as a graph: what the constants are, and what of the cast they take over.

Where the registers of an unrolled layer are: after every so many additions, and at the output.

What the template of an unrolled layer prints: the values of the graph as expressions, stage by stage.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import EmitError, UnsupportedError
from mase_hw.formats import FixedFormat, Rounding
from mase_hw.hardware.params import port
from mase_hw.opdef import (
    LAYER_TENSORS,
    ONE_INPUT,
    Arithmetic,
    Case,
    Generated,
    Hardware,
    Latency,
    OpDef,
    Request,
    verilog_params,
)
from mase_hw.ops import linear
from mase_hw.ops._conv import geometry_of
from mase_hw.ops._elementwise import ElementwiseParams
from mase_hw.ops.unrolled._da4ml import solve as solve_with_da4ml
from mase_hw.ops.unrolled._graph import Graph, Sum
from mase_hw.ops.unrolled._solver import digits, solve
from mase_hw.steps import Steps
from mase_hw.streams import ceil_div

MOST_DIGITS = 16_384
"""Most non-zero digits of the weights of an unrolled layer."""
SOLVERS = {"own": solve, "da4ml": solve_with_da4ml}
"""What finds the additions, by the names in the configuration."""
Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Layer:
    """An unrolled layer.

    Args:
        graph: Its sums, half an output LSB included where ``halves`` says so.
        frac: Fraction width of the sums.
        halves: Of every output: whether half an output LSB is in the sum already, so that rounding drops bits.
    """

    graph: Graph
    frac: int
    halves: tuple[bool, ...]


@functools.lru_cache(maxsize=64)
def _graph(matrix: Rows, constants: tuple[int, ...], fmt: FixedFormat, solver: str) -> Graph:
    return SOLVERS[solver](matrix, constants, [(fmt.min_mantissa, fmt.max_mantissa)] * len(matrix[0]))


def layer_of(node: str, a: Arithmetic, parameters: Mapping[str, Tensor], solver: str) -> Layer:
    """The graph of ``cast(W x + b)``.

    Args:
        node: Its name, for errors.
        a: Formats and cast modes.
        parameters: Mantissas of ``weight (out, in, ...)``, and perhaps of ``bias`` and ``weight_shift``.
        solver: A key of :data:`SOLVERS`.

    Raises:
        ToolError: If the solver is not installed.
        UnsupportedError: If there are too many constants.
    """
    weights = [[int(w) for w in row] for row in parameters["weight"].flatten(1).tolist()]
    given = parameters.get("weight_shift", torch.zeros(len(weights), dtype=torch.int64))
    fmt = a.formats["weight"]
    spread = fmt.spread(fmt.factors(given.to(torch.int64)), parameters["weight"].shape)
    factors = spread.expand(parameters["weight"].shape).flatten(1).tolist()
    biases = _integers(parameters.get("bias"), len(weights))
    frac = product_frac = a.formats["data_in_0"].frac_width + a.formats["weight"].frac_width
    if "bias" in parameters:
        frac = max(frac, a.formats["bias"].frac_width)
        biases = [b << (frac - a.formats["bias"].frac_width) for b in biases]
    matrix = tuple(
        tuple(w * factor << (frac - product_frac) for w, factor in zip(*rows, strict=True))
        for rows in zip(weights, factors, strict=True)
    )
    found = sum(len(digits(w)) for row in matrix for w in row)
    if found > MOST_DIGITS:
        raise UnsupportedError(
            "a layer has too many constants to be unrolled",
            node=node,
            field=f"hardware.implementation.{node}",
            got=f"{len(matrix)} x {len(matrix[0])} weights of {found} non-zero digits",
            expected=f"at most {MOST_DIGITS} digits",
            remedy="fold this layer ('tree', 'chain', 'packed', 'logic'), or give its weights fewer bits or more zeros",
        )
    drop = frac - a.formats["data_out_0"].frac_width
    fmt = a.formats["data_in_0"]
    rounded = drop > 0 and a.rounding in (Rounding.HALF_EVEN, Rounding.HALF_UP)
    halves = tuple(rounded and drop <= _width(row, b, fmt) for row, b in zip(matrix, biases, strict=True))
    constants = tuple(b + (1 << (drop - 1) if half else 0) for b, half in zip(biases, halves, strict=True))
    return Layer(_graph(matrix, constants, fmt, solver), frac, halves)


def _integers(values: Tensor | None, count: int) -> list[int]:
    return [0] * count if values is None else [int(v) for v in values.flatten().tolist()]


def _width(row: Sequence[int], constant: int, fmt: FixedFormat) -> int:
    """Bits of the largest magnitude of a sum."""
    most = max(abs(fmt.min_mantissa), fmt.max_mantissa)
    return (sum(map(abs, row)) * most + abs(constant)).bit_length()


@dataclass(frozen=True)
class Stages:
    """A graph cut into stages of a pipeline; the casts of the outputs count as one more addition.

    Args:
        graph: The graph.
        levels: Additions between two registers; 0 for registers at the output only.
    """

    graph: Graph
    levels: int

    @property
    def count(self) -> int:
        """Registers from the input to the output."""
        return max(ceil_div(self.graph.levels + 1, self.levels), 1) if self.levels else 1

    def of(self, number: int) -> int:
        """The stage in which a value is computed."""
        level = self.graph.values[number].level
        return (level - 1) // self.levels if self.levels and level else 0

    @property
    def figures(self) -> dict[str, int]:
        """What the parameters of the module say of its size."""
        bits, carries = self.graph.bits, self.graph.carries
        return {
            "stages": self.count,
            "adder_bits": sum(map(bits, self.numbers)),
            "carry_bits": sum(map(carries, self.numbers)),
            "register_bits": self.register_bits,
        }

    @property
    def numbers(self) -> Sequence[int]:
        """The values that are computed, in order."""
        return range(len(self.graph.values))

    def operands(self, number: int) -> tuple[int, ...]:
        """What a value is computed from."""
        made = self.graph.values[number]
        return (made.a, made.b) if made.a >= 0 else ()

    def needed(self, number: int, operand: int) -> int:
        """The last stage in which an operand is, for a value."""
        return self.of(number)

    def kept(self) -> Iterator[tuple[int, int]]:
        """The values that a register holds, and the stage behind which each of these registers is."""
        last: dict[int, int] = {}
        for number in self.numbers:
            for operand in self.operands(number):
                last[operand] = max(last.get(operand, 0), self.needed(number, operand))
        for output in self.graph.outputs:
            if output is not None:
                last[output[0]] = self.count - 1
        for number, stage in sorted(last.items()):
            if self.graph.moves(number):
                yield from ((number, before) for before in range(self.of(number), stage))

    @property
    def register_bits(self) -> int:
        """Flip-flops of these registers, those of the result not counted: a bit that passes an addition has one."""
        values, source = self.graph.values, self.graph.source
        return len({(at, *source(n, bit)) for n, at in self.kept() for bit in range(values[n].width)})


def context_of(
    layer: Layer, stages: Stages, a: Arithmetic, order: Sequence[int], parameters: Mapping[str, int | str]
) -> dict[str, Any]:
    """The context of the template.

    Args:
        layer: The layer.
        stages: Where its registers are.
        a: Formats and cast modes.
        order: The input that comes on each lane.
        parameters: The SystemVerilog parameters.
    """
    text = Text(layer.graph, stages)
    lane_of = {element: lane for lane, element in enumerate(order)}
    used = {operand for made in layer.graph.values for operand in (made.a, made.b) if operand >= 0}
    used |= {output[0] for output in layer.graph.outputs if output is not None}
    inputs = len(layer.graph.inputs)
    return {
        "what": "y = cast(W x + b) of constants, a whole vector per beat",
        "golden": "`mase_hw/ops/linear.py` and `conv.py`",
        "types": types_of(made for made in layer.graph.values if made.coefficients),
        "parameters": list(parameters.items()),
        "stages": stages.count,
        "elements": inputs,
        "adders": sum(made.a >= 0 for made in layer.graph.values),
        "adder_bits": layer.graph.adder_bits,
        "fmt_in": a.formats["data_in_0"],
        "fmt_out": a.formats["data_out_0"],
        "inputs": [
            {
                "declared": declared(layer.graph.values[i], text.name(i, 0)),
                "name": text.name(i, 0),
                "lane": lane_of[i],
                "flipped": f" ^ {layer.graph.values[i].width}'d{layer.graph.values[i].constant}"
                if layer.graph.values[i].constant
                else "",
            }
            for i in range(inputs)
            if i in used
        ],
        "unread": [{"lane": lane_of[i]} for i in range(inputs) if i not in used],
        "last": "The cast of every sum",
        "tables": [],
        "halves": any(layer.halves),
        "levels": [
            [text.sum_of(number) for number, made in enumerate(layer.graph.values) if made.level == level]
            for level in range(1, layer.graph.levels + 1)
        ],
        "registers": [text.registers(stage) for stage in range(stages.count - 1)],
        "casts": [_cast(layer, text, a, lane) for lane in range(len(layer.graph.outputs))],
        "rounding": int(a.rounding),
        "overflow": int(a.overflow),
    }


def types_of(values: Iterable[Sum], widths: Iterable[int] = ()) -> list[dict[str, object]]:
    """The types of values, for :func:`declared`, and of plain bits of some widths."""
    types = {("s" if made.signed else "u", made.width) for made in values} | {("u", width) for width in widths}
    return [
        {"name": f"{kind}{width:03}_t", "sign": "signed " if kind == "s" else "", "high": width - 1}
        for kind, width in sorted(types)
    ]


def declared(made: Sum, name: str) -> str:
    """A declaration with a type of its own: their names have one length, so that nothing need be aligned."""
    return f"{'s' if made.signed else 'u'}{made.width:03}_t {name}"


class Text:
    """Names and expressions of a graph."""

    def __init__(self, graph: Graph, stages: Stages) -> None:
        self.graph, self.stages = graph, stages
        self._kept: dict[int, list[int]] = {}
        for number, stage in stages.kept():
            self._kept.setdefault(stage, []).append(number)

    def name(self, number: int, stage: int) -> str:
        """What holds a value in a stage."""
        made = self.graph.values[number]
        # Names of one length: nothing need be aligned.
        plain = f"{'x' if number in self.graph.ranges else 's'}{number:0{len(str(len(self.graph.values)))}}"
        at = self.stages.of(number)
        return plain if stage == at or not made.coefficients else f"{plain}_q{stage - 1}"

    def operand(self, number: int, shift: int, width: int, stage: int) -> str:
        """A value as a number of so many bits."""
        made = self.graph.values[number]
        if not made.coefficients:
            return f"{width}'d{(made.constant << shift) & ((1 << width) - 1)}"
        plain = f"{width}'({self.name(number, stage)})"
        return f"({plain} << {shift})" if shift else plain

    def sum_of(self, number: int) -> dict[str, object]:
        """Declaration and assignment of a sum, and the operands that are wider than it."""
        made = self.graph.values[number]
        stage = self.stages.of(number)
        operands = [(made.a, made.a_shift), (made.b, made.b_shift)]
        wider = [
            self.name(of, stage)
            for of, shift in operands
            if self.graph.values[of].coefficients and self.graph.values[of].width + shift > made.width
        ]
        return {
            "declared": declared(made, self.name(number, stage)),
            "name": self.name(number, stage),
            "value": self._value(number, stage),
            "wider": wider,
            "casts": [],
        }

    def _value(self, number: int, stage: int) -> str:
        made, offsets, apart = self.graph.values[number], self.graph.offsets(number), self.graph.apart(number)
        a, low, width = self.graph.values[made.a], made.b_shift, made.width
        passes = low > 0 and not offsets and not apart and low < a.width
        if passes:
            # The lowest bits of the first operand pass by. That they are seen to also keeps Yosys from adding three
            # operands in one carry-save adder, which takes more look-up tables than two carry chains.
            width -= low
            upper = f"{self.name(made.a, stage)}[{a.width - 1}:{low}]"
            first = f"{width}'(signed'({upper}))" if a.signed else f"{width}'({upper})"
        else:
            first = self.operand(made.a, made.a_shift, width, stage)
        second = self.operand(made.b, 0 if passes else low, width, stage)
        above = made.width - low - self.graph.values[made.b].width
        if made.minus and not offsets and above > 0:
            # Ones above what is subtracted: the next power of two less.
            zeros = f", {low}'d0" if low and not passes else ""
            second = f"{{{above}'d{(1 << above) - 1}, {self.name(made.b, stage)}{zeros}}}"
        found = f"{first} {'-' if made.minus else '|' if apart else '+'} {second}"
        return f"{{{found}, {self.name(made.a, stage)}[{low - 1}:0]}}" if passes else found

    def cast(
        self, term: tuple[int, int], frac: int, out: FixedFormat, half: bool, rounding: Rounding, stage: int
    ) -> dict[str, object]:
        """What enters the cast of a shifted value.

        Args:
            term: The value and the places by which it is shifted.
            frac: Fraction width of the result of that.
            out: Format of the result.
            half: Whether half an output LSB is in the sum already, so that rounding drops bits.
            rounding: How bits are dropped.
            stage: Where.
        """
        number, shift = term
        made, drop = self.graph.values[number], frac - out.frac_width
        width = made.width + (0 if made.signed else 1) + shift
        width = max(width, drop + 2) if half else width
        return {
            "width": width,
            "value": self.operand(number, shift, width, stage),
            "half": half,
            "even": half and rounding is Rounding.HALF_EVEN,
            "drop": drop,
            "in_width": width - drop if half else width,
            "in_frac": out.frac_width if half else frac,
        }

    def registers(self, stage: int) -> list[dict[str, str]]:
        """What the registers behind a stage hold."""
        return [
            {
                "declared": declared(self.graph.values[number], self.name(number, stage + 1)),
                "name": self.name(number, stage + 1),
                "value": self.name(number, stage),
            }
            for number in self._kept.get(stage, ())
        ]


def _cast(layer: Layer, text: Text, a: Arithmetic, lane: int) -> dict[str, object]:
    """How a sum becomes an output."""
    output = layer.graph.outputs[lane]
    if output is None:
        return {"lane": lane, "pad": "", "plain": "'0"}
    named = {"name": lane, "sum": f"y{lane}", "target": f"result[{lane}]"}
    cast = text.cast(output, layer.frac, a.formats["data_out_0"], layer.halves[lane], a.rounding, text.stages.count - 1)
    return {"lane": lane, **named, **cast}


TEMPLATE = "ops/fixed_unrolled.sv.j2"


class UnrolledParams(ElementwiseParams, frozen=True):
    """Parameters of an unrolled layer; the module is made for these and takes no others.

    ``solver`` is what found the additions (0: ours, 1: da4ml), ``levels`` are those between two registers (0: none but
    at the output), ``stages`` the registers from input to output, ``adder_bits`` the bits that both operands of an
    addition have, ``carry_bits`` those of all carry chains and ``register_bits`` those of the registers before the
    result.
    """

    solver: int
    levels: int
    stages: int
    adder_bits: int
    carry_bits: int
    register_bits: int


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """That of a linear layer, with the constants among the attributes if they are not among the tensors."""
    return linear.golden(whole(a), {**a.attributes.get("parameters", {}), **t})


def whole(a: Arithmetic) -> Arithmetic:
    """With the formats of the constants, which no parameter of the module says."""
    return dataclasses.replace(a, formats={**a.attributes.get("formats", {}), **a.formats})


def check_lanes(r: Request, sizes: Mapping[str, int]) -> None:
    """Refuse other lanes than whole vectors.

    Args:
        r: The request.
        sizes: Elements of the vectors that come and leave.

    Raises:
        UnsupportedError: If other lanes are asked for.
    """
    for name, size in sizes.items():
        if name in r.chosen and r.parallelism[name] != (size,):
            raise UnsupportedError(
                "an unrolled layer takes a whole vector per cycle, so this parallelism is not possible",
                node=r.node,
                field=f"parallelism.{name}",
                got=list(r.parallelism[name]),
                expected=f"{size} lanes",
                remedy=f"leave out hardware.parallelism.{r.node}.{name}, or fold the layer",
            )


def figures(r: Request, sizes: Mapping[str, int]) -> dict[str, int]:
    """What the parameters of a module say of its additions.

    Args:
        r: The request.
        sizes: Elements of the vectors that come and leave.

    Raises:
        UnsupportedError: If other lanes are asked for, or there are too many constants.
    """
    check_lanes(r, sizes)
    stages = Stages(layer_of(r.node, r.arithmetic, r.parameters, r.solver).graph, r.levels)
    return {"solver": list(SOLVERS).index(r.solver), "levels": r.levels, **stages.figures}


def _build(r: Request) -> UnrolledParams:
    formats, shapes = r.arithmetic.formats, r.shapes
    sizes = {name: (shapes[name] or (1,))[-1] for name in ("data_in_0", "data_out_0")}
    return UnrolledParams(
        data_in_0=port(shapes["data_in_0"], formats["data_in_0"], sizes["data_in_0"]),
        data_out_0=port(shapes["data_out_0"], formats["data_out_0"], sizes["data_out_0"]),
        cast=r.arithmetic.modes,
        **figures(r, sizes),
    )


def latency(p: UnrolledParams) -> Latency:
    """One beat per cycle through all stages."""
    return Latency.from_steps(Steps.registered(p.data_in_0.beats, pipe=p.stages))


def check_unchanged(node: str, p: Any, found: Mapping[str, object], kind: str = "an unrolled layer") -> None:
    """Refuse constants whose figures are not those of the parameters.

    Raises:
        EmitError: If the module would have another size.
    """
    if any(getattr(p, name) != value for name, value in found.items()):
        raise EmitError(
            f"the constants of {kind} have changed since its hardware was chosen",
            node=node,
            got=found,
            expected={name: getattr(p, name) for name in found},
            remedy="run add_hardware_metadata_analysis_pass again",
        )


def order_of(size: int, a: Arithmetic) -> Sequence[int]:
    """The element that comes on each lane of a vector of so many."""
    layout = a.attributes.get("layouts", {}).get("data_in_0")
    # Of an image the vector is the channels, in their own order.
    if layout is not None and layout.shape[-1:] == (size,) and layout.rows_in_order():
        order: list[int] = layout.last_dimension().to_stream(np.arange(size)[None]).reshape(-1).tolist()
        return order
    return range(size)


def _generated(node: str, p: UnrolledParams, a: Arithmetic) -> Generated:
    layer = layer_of(node, whole(a), a.attributes["parameters"], list(SOLVERS)[p.solver])
    stages = Stages(layer.graph, p.levels)
    check_unchanged(node, p, stages.figures)
    context = context_of(layer, stages, a, order_of(p.data_in_0.size[0], a), verilog_params(p))
    return Generated(f"fixed_unrolled_{node}", TEMPLATE, context)


def case(
    build: Callable[[Request], Any],
    name: str,
    shape: tuple[int, ...],
    weight: Tensor,
    formats: str,
    levels: int = 2,
    frames: int = 6,
    **more: Any,
) -> Case:
    """A layer or convolution with these constants; formats and modes as :meth:`Arithmetic.read` takes them."""
    # In no parameter of the module.
    parameters = {"weight": weight} | {key: more.pop(key) for key in ("bias", "weight_shift") if key in more}
    a = Arithmetic.read(formats, LAYER_TENSORS, more)
    out: tuple[int, ...] = (*shape[:-1], len(weight))
    if weight.dim() == 4:
        kernel = (weight.shape[2], weight.shape[3])
        out = (shape[0], len(weight), *geometry_of(a.attributes, kernel).out((shape[2], shape[3]), kernel))
    request = Request(name, a, {"data_in_0": shape, "data_out_0": out}, {}, parameters=parameters, levels=levels)
    own = {k: f for k, f in a.formats.items() if k not in ONE_INPUT}
    return Case(name, build(request), frames, attributes={"parameters": parameters, "formats": own})


def random(*size: int, bits: int = 8, seed: int = 0) -> Tensor:
    """Constants of so many bits."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(-(1 << (bits - 1)), 1 << (bits - 1), size, generator=draw)


@functools.cache
def _cases() -> tuple[Case, ...]:
    s8, of = "s8.4 s8.6 s8.5 s8.2", functools.partial(case, _build)
    sparse = random(4, 7, seed=1) * (random(4, 7, seed=2) > 40)
    sparse[2], sparse[:, 3] = 0, 0
    return (
        of("layer", (1, 8), random(6, 8), s8, bias=random(6)),
        of("one_register", (1, 8), random(5, 8), s8, levels=0, bias=random(5)),
        of("register_each", (2, 3, 6), random(4, 6), "s8.4 s8.6 s8.5 s8.2 half_up wrap", 1, bias=random(4)),
        of("zeros", (1, 7), sparse, s8, bias=torch.tensor([0, 3, 0, -5])),
        of("floor", (1, 5), random(3, 5), "u6.4 s6.3 - s9.2 floor wrap", 3),
        of("trunc", (3, 4), random(3, 4), "s8.4 s8.6 - u7.3 trunc"),
        of("half_away", (1, 4), random(2, 4), "s8.4 s8.6 - s8.2 half_away wrap"),
        of("one_input", (1, 1), random(4, 1), "s9.3 s8.4 - s12.2"),
        of("one_output", (1, 9), random(1, 9), "s4.2 s8.4 - s11.3"),
        of("finer_result", (1, 3), random(3, 3, bits=4), "s4.0 s4.0 - s12.3"),
        of("fine_bias", (1, 4), random(3, 4), "s8.0 s8.0 s8.5 s12.-6", bias=random(3)),
        of(
            "per_channel",
            (1, 6),
            random(4, 6),
            "s8.4 s8.9 s8.5 s10.3 weight_shift=u2.0",
            bias=random(4),
            weight_shift=torch.tensor([0, 3, 1, 2]),
        ),
        of("powers", (1, 5), 1 << torch.arange(20).reshape(4, 5) % 7, "s8.4 u7.0 - s14.2"),
    )


OPS = (
    OpDef(
        name="unrolled_linear",
        mase_type="module_related_func",
        parameters=("weight", "bias", "weight_shift"),
        golden=golden,
        hardware=Hardware(
            module="fixed_unrolled",
            file=TEMPLATE,
            params=UnrolledParams,
            build=_build,
            latency=latency,
            cases=_cases,
            generated=_generated,
            layout="rows",
        ),
    ),
)
