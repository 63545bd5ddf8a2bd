"""Linear layers and convolutions of one element whose constants are shifts and additions, without a multiplier.

The arithmetic is that of :mod:`mase_hw.ops.linear`; only how it is computed differs. The module is generated, since the
constants are its structure: every input enters at once, every output leaves at once, one vector per cycle.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import EmitError, UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.hardware.params import port
from mase_hw.opdef import Arithmetic, Case, Generated, Hardware, Latency, OpDef, Request, verilog_params
from mase_hw.ops import linear
from mase_hw.ops._conv import geometry_of
from mase_hw.ops._elementwise import ElementwiseParams
from mase_hw.ops._images import image
from mase_hw.ops.unrolled._layer import SOLVERS, layer_of
from mase_hw.ops.unrolled._stages import Stages
from mase_hw.ops.unrolled._text import context_of
from mase_hw.steps import Steps

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
    return linear.golden(_whole(a), {**a.attributes.get("parameters", {}), **t})


def _whole(a: Arithmetic) -> Arithmetic:
    """With the formats of the constants, which no parameter of the module says."""
    return dataclasses.replace(a, formats={**a.attributes.get("formats", {}), **a.formats})


def _build_conv(r: Request) -> UnrolledParams:
    """Of a convolution whose window is one element: a linear layer of the channels of every element."""
    weight = tuple(r.parameters["weight"].shape)
    g = geometry_of(r.arithmetic.attributes, weight[2:])
    ones = (1,) * len(weight[2:])
    plain = (1, 1), (0, 0), (0, 0), 1
    if weight[2:] != ones or (g.stride, g.before, g.after, g.groups) != plain:
        raise UnsupportedError(
            "a convolution is unrolled where each output depends on one element only",
            node=r.node,
            field=f"hardware.implementation.{r.node}",
            got=f"weight {list(weight)}, stride {list(g.stride)}, padding {list(g.before)}, {g.groups} groups",
            expected="a kernel of 1, stride 1, no padding, one group",
            remedy="ask for 'tree', 'chain', 'packed' or 'logic', or leave the choice to the cost",
        )
    images = {name: image(r.node, r.shapes[name], len(weight) - 2) for name in ("data_in_0", "data_out_0")}
    return _params(r, {name: (n, h, w, c) for name, (n, c, h, w) in images.items()})


def _build(r: Request) -> UnrolledParams:
    return _params(r, r.shapes)


def _params(r: Request, shapes: Mapping[str, tuple[int, ...]]) -> UnrolledParams:
    """The parameters for tensors of these shapes, the elements of a vector last."""
    formats = r.arithmetic.formats
    sizes = {name: (shapes[name] or (1,))[-1] for name in ("data_in_0", "data_out_0")}
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
    stages = Stages(layer_of(r.node, r.arithmetic, r.parameters, r.solver).graph, r.levels)
    return UnrolledParams(
        data_in_0=port(shapes["data_in_0"], formats["data_in_0"], sizes["data_in_0"]),
        data_out_0=port(shapes["data_out_0"], formats["data_out_0"], sizes["data_out_0"]),
        cast=r.arithmetic.modes,
        solver=list(SOLVERS).index(r.solver),
        levels=r.levels,
        stages=stages.count,
        adder_bits=stages.graph.adder_bits,
        carry_bits=stages.graph.carry_bits,
        register_bits=stages.register_bits,
    )


def _latency(p: UnrolledParams) -> Latency:
    return Latency.from_steps(Steps.registered(p.data_in_0.beats, pipe=p.stages))


def _generated(node: str, p: UnrolledParams, a: Arithmetic) -> Generated:
    layer = layer_of(node, _whole(a), a.attributes["parameters"], list(SOLVERS)[p.solver])
    stages = Stages(layer.graph, p.levels)
    found = {
        "stages": stages.count,
        "adder_bits": layer.graph.adder_bits,
        "carry_bits": layer.graph.carry_bits,
        "register_bits": stages.register_bits,
    }
    if any(getattr(p, name) != value for name, value in found.items()):
        raise EmitError(
            "the constants of an unrolled layer have changed since its hardware was chosen",
            node=node,
            got=found,
            expected={name: getattr(p, name) for name in found},
            remedy="run add_hardware_metadata_analysis_pass again",
        )
    order = range(p.data_in_0.size[0])
    layout = a.attributes.get("layouts", {}).get("data_in_0")
    # Of an image the vector is the channels, in their own order.
    if layout is not None and layout.shape[-1:] == (len(order),) and layout.rows_in_order():
        order = layout.last_dimension().to_stream(np.arange(len(order))[None]).reshape(-1).tolist()
    context = context_of(layer, stages, a, order, verilog_params(p))
    return Generated(f"fixed_unrolled_{node}", TEMPLATE, context)


def case(
    name: str,
    shape: tuple[int, ...],
    weight: Tensor,
    formats: Mapping[str, FixedFormat],
    modes: tuple[Rounding, Overflow] = (Rounding.HALF_EVEN, Overflow.SATURATE),
    levels: int = 2,
    frames: int = 6,
    **more: Tensor,
) -> Case:
    """A layer with these constants."""
    parameters = {"weight": weight, **more}  # in no parameter of the module
    a = Arithmetic(formats, *modes)
    request = Request(
        name,
        a,
        {"data_in_0": shape, "data_out_0": (*shape[:-1], len(weight))},
        {},
        parameters=parameters,
        levels=levels,
    )
    own = {k: f for k, f in formats.items() if k not in ("data_in_0", "data_out_0")}
    return Case(name, _build(request), frames, attributes={"parameters": parameters, "formats": own})


@functools.cache
def _cases() -> tuple[Case, ...]:
    def fmt(text: str) -> FixedFormat:
        width, frac = text[1:].split(".")
        return FixedFormat(int(width), int(frac), text[0] == "s")

    def formats(x: str, w: str, y: str, **more: str) -> dict[str, FixedFormat]:
        return {k: fmt(v) for k, v in {"data_in_0": x, "weight": w, "data_out_0": y, **more}.items()}

    def random(*size: int, bits: int = 8, seed: int = 0) -> Tensor:
        draw = torch.Generator().manual_seed(seed)
        return torch.randint(-(1 << (bits - 1)), 1 << (bits - 1), size, generator=draw)

    s8 = formats("s8.4", "s8.6", "s8.2", bias="s8.5")
    sparse = random(4, 7, seed=1) * (random(4, 7, seed=2) > 40)
    sparse[2], sparse[:, 3] = 0, 0
    return (
        case("layer", (1, 8), random(6, 8), s8, bias=random(6)),
        case("one_register", (1, 8), random(5, 8), s8, levels=0, bias=random(5)),
        case("register_each", (2, 3, 6), random(4, 6), s8, (Rounding.HALF_UP, Overflow.WRAP), 1, bias=random(4)),
        case("zeros", (1, 7), sparse, s8, bias=torch.tensor([0, 3, 0, -5])),
        case("floor", (1, 5), random(3, 5), formats("u6.4", "s6.3", "s9.2"), (Rounding.FLOOR, Overflow.WRAP), 3),
        case("trunc", (3, 4), random(3, 4), formats("s8.4", "s8.6", "u7.3"), (Rounding.TRUNC, Overflow.SATURATE)),
        case("half_away", (1, 4), random(2, 4), formats("s8.4", "s8.6", "s8.2"), (Rounding.HALF_AWAY, Overflow.WRAP)),
        case("one_input", (1, 1), random(4, 1), formats("s9.3", "s8.4", "s12.2")),
        case("one_output", (1, 9), random(1, 9), formats("s4.2", "s8.4", "s11.3")),
        case("finer_result", (1, 3), random(3, 3, bits=4), formats("s4.0", "s4.0", "s12.3")),
        case("fine_bias", (1, 4), random(3, 4), formats("s8.0", "s8.0", "s12.-6", bias="s8.5"), bias=random(3)),
        case(
            "per_channel",
            (1, 6),
            random(4, 6),
            formats("s8.4", "s8.9", "s10.3", bias="s8.5", weight_shift="u2.0"),
            bias=random(4),
            weight_shift=torch.tensor([0, 3, 1, 2]),
        ),
        case("powers", (1, 5), 1 << torch.arange(20).reshape(4, 5) % 7, formats("s8.4", "u7.0", "s14.2")),
    )


def _hardware(layout: str, build: Callable[[Request], UnrolledParams]) -> Hardware:
    return Hardware(
        module="fixed_unrolled",
        file=TEMPLATE,
        params=UnrolledParams,
        build=build,
        latency=_latency,
        cases=_cases,
        generated=_generated,
        layout=layout,
    )


OPS = (
    OpDef(
        name="unrolled_linear",
        mase_type="module_related_func",
        parameters=("weight", "bias", "weight_shift"),
        golden=golden,
        hardware=_hardware("rows", _build),
    ),
    OpDef(
        name="unrolled_conv",
        mase_type="module_related_func",
        parameters=("weight", "bias", "weight_shift"),
        golden=golden,
        hardware=_hardware("channels_last", _build_conv),
    ),
)
