"""A network of constants of several inputs, or results, as one pipelined expression: a frame is one beat of each.

The inputs enter together, each with the range of its own format; all else is that of :mod:`mase_hw.ops.unrolled.frame`.
Several results are one row of elements, in a format that holds all, of which each takes its own by wires.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.hardware.params import Cast, Tensor3, port
from mase_hw.numerics import cast
from mase_hw.opdef import Arithmetic, Case, Generated, Hardware, Latency, OpDef, Request, verilog_params
from mase_hw.ops import binary, concat, linear
from mase_hw.ops._tensors import lanes_within
from mase_hw.ops.concat import MOST
from mase_hw.ops.slice import DIMS, SliceParams, latency
from mase_hw.ops.unrolled import frame
from mase_hw.ops.unrolled._network import Program, Step
from mase_hw.ops.unrolled._placed import stages_of
from mase_hw.ops.unrolled.data._products import Products
from mase_hw.ops.unrolled.unrolled import TEMPLATE, UnrolledParams, check_unchanged, random
from mase_hw.steps import Steps


class SeveralParams(UnrolledParams, frozen=True):
    """Parameters of a network of several inputs; those from ``inputs`` on are not used."""

    chosen_bits: int
    data: Products
    inputs: int
    data_in_1: Tensor3
    data_in_2: Tensor3
    data_in_3: Tensor3

    def tied(self) -> dict[str, str]:
        """Nothing: the module has no ports for them."""
        return {}


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_k`` of any shape -> ``data_out_0``, all results in a row."""
    program: Program = a.attributes["program"]
    parts = [t[f"data_in_{k}"].reshape(-1, size) for k, (size, _) in enumerate(program.inputs)]
    return {"data_out_0": program.run(torch.cat(parts, 1))}


def inputs_of(shapes: Sequence[tuple[int, ...]]) -> tuple[tuple[Step, ...], int]:
    """The steps that take each input from all elements in a row, and how many of these there are."""
    total, steps, begin = sum(torch.Size(shape).numel() for shape in shapes), [], 0
    for k, shape in enumerate(shapes):
        size = torch.Size(shape).numel()
        order = torch.arange(begin, begin + size).reshape(shape)
        steps.append(Step(f"data_in_{k}", None, Arithmetic({}), {}, (0,), shape, order, total))
        begin += size
    return tuple(steps), total


def _build(r: Request) -> SeveralParams:
    formats, stages = r.arithmetic.formats, stages_of(r.arithmetic.attributes["program"])
    sizes = {name: torch.Size(shape).numel() for name, shape in r.shapes.items()}
    if (inputs := len(sizes) - 1) > MOST:
        raise UnsupportedError(
            "a whole frame per beat of so many inputs is not in hardware",
            node=r.node,
            field="hardware.unroll",
            got=f"{inputs} inputs",
            expected=f"at most {MOST}",
            remedy="join some of them in front of the model",
        )
    idle = port((1,), FixedFormat(1, 0, signed=False), 1)
    ports: dict[str, Any] = {name: port((size,), formats[name], size) for name, size in sizes.items()}
    figures: dict[str, Any] = stages.figures
    return SeveralParams(
        **{name: ports.get(name, idle) for name in (*(f"data_in_{k}" for k in range(MOST)), "data_out_0")},
        cast=Cast(),
        solver=0,
        levels=stages.levels,
        **figures,
        data=stages.products,
        inputs=inputs,
    )


def _latency(p: SeveralParams) -> Latency:
    return Latency.from_steps(Steps.registered(1, p.inputs, p.stages))


def _generated(node: str, p: SeveralParams, a: Arithmetic) -> Generated:
    stages = stages_of(a.attributes["program"])
    check_unchanged(node, p, {**stages.figures, "data": stages.products})
    formats = (p.data_in_0.fmt, p.data_out_0.fmt)
    context = frame.context_of(stages, verilog_params(p), formats, stages.network.inputs)
    sizes = {f"data_in_{k}": getattr(p, f"data_in_{k}").size[0] for k in range(p.inputs)}
    lanes = [{"source": name, "lane": lane} for name, size in sizes.items() for lane in range(size)]
    for kind in ("inputs", "unread"):
        elements: Any = context[kind]
        context[kind] = [{**x, "number": x["lane"], **lanes[x["lane"]]} for x in elements]
    context |= {
        "sizes": sizes,
        "fmt_in": " and ".join(str(getattr(p, name).fmt) for name in sizes),
        "what": "a network of constants, a whole frame per beat of all inputs",
        "golden": "that of every op, one after the other",
    }
    return Generated(f"fixed_frame_{node}", TEMPLATE, context)


def result(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0``, all results in a row -> ``data_out_0``, one of them in its shape."""
    begin, length, shape = a.attributes["begin"], a.attributes["length"], a.attributes["out_shape"]
    x = cast(
        t["data_in_0"][..., begin : begin + length],
        a.formats["data_in_0"].frac_width,
        a.formats["data_out_0"],
        a.rounding,
        a.overflow,
    )
    return {"data_out_0": x.reshape(-1, *shape[1:])}


def _result(r: Request) -> SliceParams:
    a, size = r.arithmetic, torch.Size(r.shapes["data_in_0"]).numel()
    length = a.attributes["length"]
    for name, lanes in r.parallelism.items():
        lanes_within(r.node, name, lanes, r.shapes[name])
    return SliceParams(
        data_in_0=port((1, 1, 1, size), a.formats["data_in_0"], size, dims=DIMS),
        data_out_0=port((1, 1, 1, length), a.formats["data_out_0"], length, dims=DIMS),
        dim=0,
        begin=a.attributes["begin"],
        step=1,
        cast=a.modes,
    )


def _cases() -> tuple[Case, ...]:
    draw = functools.partial(random, bits=4)
    one, other, third = FixedFormat(4, 2), FixedFormat(5, 1), FixedFormat(3, 3, signed=False)
    weights = (draw(3, 4).float(), draw(3, 2, seed=1).float(), draw(2, 3, seed=2).float())

    def layer(name: str, formats: str, at: int, weight: Tensor) -> Step:
        a = Arithmetic.read(formats, ("data_in_0", "weight", "data_out_0"))
        op = next(op for op in linear.OPS if op.name == "linear")
        return Step(name, op, a, {"weight": weight}, (at,), (1, len(weight)))

    def both(name: str, ops: tuple[OpDef, ...], op: str, formats: str, ends: tuple[int, int], size: int) -> Step:
        a = Arithmetic.read(formats, ("data_in_0", "data_in_1", "data_out_0"), {"dim": 1} if op == "cat" else {})
        return Step(name, next(each for each in ops if each.name == op), a, {}, ends, (1, size))

    enter, total = inputs_of([(1, 4), (1, 2)])
    added = (
        *enter,
        layer("left", "s4.2 s4.3 s8.4", 1, weights[0]),
        layer("right", "s5.1 s4.3 s8.4", 2, weights[1]),
        both("sum", binary.OPS, "add", "s8.4 s8.4 s7.3", (3, 4), 3),
    )
    three, more = inputs_of([(1, 4), (1, 2), (1, 3)])
    joined = (
        *three,
        layer("left", "s4.2 s4.3 s8.4", 1, weights[0]),
        layer("last", "u3.3 s4.3 s6.2", 3, weights[2]),
        both("results", concat.OPS, "cat", "s8.4 s6.2 s8.4", (4, 5), 5),
    )
    return (
        case("added", Program((1, total), one, added, 2, inputs=((4, one), (2, other)))),
        case("unread_input", Program((1, more), one, joined, 0, inputs=((4, one), (2, other), (3, third)))),
    )


def case(name: str, program: Program) -> Case:
    """A case of a program of several inputs, each of one row."""
    names = [f"data_in_{k}" for k in range(len(program.inputs))]
    formats = dict(zip(names, (fmt for _, fmt in program.inputs), strict=True))
    shapes: dict[str, tuple[int, ...]] = {
        name: (1, size) for name, (size, _) in zip(names, program.inputs, strict=True)
    }
    last = program.steps[-1]
    formats["data_out_0"], shapes["data_out_0"] = last.arithmetic.formats["data_out_0"], (1, last.shape[1])
    a = Arithmetic(formats, attributes={"program": program})
    return Case(name, _build(Request(name, a, shapes, {})), 12, attributes={"program": program})


def _result_cases() -> tuple[Case, ...]:
    a = Arithmetic.read("s9.3 s6.2 floor wrap", attributes={"begin": 2, "length": 6, "out_shape": (1, 1, 1, 6)})
    shapes = {"data_in_0": (1, 11), "data_out_0": (1, 6)}
    lanes = {"data_in_0": (11,), "data_out_0": (6,)}
    return (Case("middle", _result(Request("middle", a, shapes, lanes)), 12, attributes=a.attributes),)


OPS = (
    OpDef(
        name="frame_of_several",
        mase_type="module",
        golden=golden,
        formats=(*(f"data_in_{k}" for k in range(MOST)), "data_out_0"),
        hardware=Hardware(
            module="fixed_frame",
            file=TEMPLATE,
            params=SeveralParams,
            build=_build,
            latency=_latency,
            cases=_cases,
            multipliers=frame.multipliers,
            generated=_generated,
            layout="row_major",
            whole=True,
        ),
    ),
    OpDef(
        name="frame_result",
        mase_type="module",
        golden=result,
        hardware=Hardware(
            module="fixed_slice",
            params=SliceParams,
            build=_result,
            latency=latency,
            cases=_result_cases,
            layout="row_major",
            whole=True,
        ),
    ),
)
