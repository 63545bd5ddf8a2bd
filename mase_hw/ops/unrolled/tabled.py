"""Layers whose neurons read few bits as truth tables: a vector, or a window, per cycle, without sums.

The arithmetic is that of :mod:`mase_hw.ops.linear` and :mod:`mase_hw.ops.conv`; a table holds what the golden says for
every combination of the bits that a neuron reads (:mod:`mase_hw.ops.unrolled._neurons`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mase_hw.cost.casts import table_luts
from mase_hw.formats import FixedFormat
from mase_hw.hardware.params import Params, port
from mase_hw.opdef import (
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
from mase_hw.ops._elementwise import ElementwiseParams
from mase_hw.ops.unrolled import conv, frame, unrolled
from mase_hw.ops.unrolled._network import Elements, Looked, Network
from mase_hw.ops.unrolled._neurons import Rows, neurons
from mase_hw.ops.unrolled._placed import NetworkStages
from mase_hw.ops.unrolled._tables import words_of
from mase_hw.ops.unrolled.conv import OF_WINDOWS, WindowParams
from mase_hw.ops.unrolled.unrolled import TEMPLATE, check_lanes, check_unchanged
from mase_hw.steps import Steps

NAME = "fixed_tabled"


class TabledParams(ElementwiseParams, frozen=True):
    """Parameters of a layer of truth tables; the module is made for these and takes no others.

    ``tables`` is how many there are, ``luts_6`` and ``luts_4`` are the look-up tables that they take in families whose
    look-up tables have six and four inputs.
    """

    tables: int
    luts_6: int
    luts_4: int


class TabledConvParams(WindowParams, frozen=True):
    """Parameters of a convolution of truth tables, likewise; geometry as in ``fixed_conv2d``."""

    tables: int
    luts_6: int
    luts_4: int


def stages_of(network: Network) -> NetworkStages:
    """A network with one register, at its output."""
    numbers = network.live()
    return NetworkStages(network.graph, 0, network, tuple(numbers), dict.fromkeys(numbers, 0), 1)


def network_of(fmt: FixedFormat, inputs: int, made: Callable[[Network], Elements]) -> Network:
    """A network of one vector.

    Args:
        fmt: Of the inputs.
        inputs: How many there are.
        made: Gives the elements of the result.
    """
    network = Network()
    network.inputs = [network.graph.enter(fmt.min_mantissa, fmt.max_mantissa, 0) for _ in range(inputs)]
    network.graph.outputs = [(int(number), 0) for number in made(network).tolist()]
    return network


def figures(network: Network) -> dict[str, int]:
    """What the parameters of a module say of its tables; equal ones are one."""
    found = [number for number in network.live() if isinstance(network.made.get(number), Looked)]
    words = [(words_of(network, number), network.graph.values[number].width) for number in found]
    luts = {f"luts_{inputs}": sum(table_luts(*each, inputs == 6) for each in words) for inputs in (6, 4)}
    return {"tables": len(found), **luts}


def _of_rows(node: str, rows: Rows) -> Network:
    fmt = rows.arithmetic.formats["data_in_0"]
    return network_of(fmt, rows.weight.shape[1], lambda network: neurons(network, node, network.inputs, rows))


def _linear_build(r: Request) -> TabledParams:
    formats, shapes = r.arithmetic.formats, r.shapes
    sizes = {name: (shapes[name] or (1,))[-1] for name in ONE_INPUT}
    check_lanes(r, sizes)
    return TabledParams(
        data_in_0=port(shapes["data_in_0"], formats["data_in_0"], sizes["data_in_0"]),
        data_out_0=port(shapes["data_out_0"], formats["data_out_0"], sizes["data_out_0"]),
        cast=r.arithmetic.modes,
        **figures(_of_rows(r.node, Rows.of(r.arithmetic, r.parameters))),
    )


def _conv_build(r: Request) -> TabledConvParams:
    found = conv.windows(r)
    a, parameters = conv.layer_of_window(r.arithmetic, r.parameters, found["data_in_0"].size[0])
    check_lanes(r, {name: found[name].size[0] for name in ONE_INPUT})
    found |= figures(_of_rows(r.node, Rows.of(a, parameters)))
    return TabledConvParams(**found)


def linear_latency(p: Params) -> Latency:
    """One beat per cycle through one register."""
    return Latency.from_steps(Steps.registered(p.stream("data_in_0").beats, pipe=1))


def conv_latency(p: TabledConvParams) -> Latency:
    """A window per cycle, then one register."""
    return conv.latency_of(p, 1)


def _context(network: Network, p: Params, order: Sequence[int]) -> dict[str, Any]:
    formats = p.fmt("data_in_0"), p.fmt("data_out_0")
    lanes = [network.inputs[element] for element in order]
    context = frame.context_of(stages_of(network), verilog_params(p), formats, lanes)
    return {**context, "what": "y = cast(W x + b) of constants as truth tables", "golden": "`mase_hw/ops/linear.py`"}


def _linear_generated(node: str, p: TabledParams, a: Arithmetic) -> Generated:
    network = _of_rows(node, Rows.of(unrolled.whole(a), a.attributes["parameters"]))
    check_unchanged(node, p, figures(network), "a layer of truth tables")
    return Generated(f"{NAME}_{node}", TEMPLATE, _context(network, p, unrolled.order_of(p.data_in_0.size[0], a)))


def _conv_generated(node: str, p: TabledConvParams, a: Arithmetic) -> Generated:
    arithmetic, parameters = conv.layer_of_window(unrolled.whole(a), a.attributes["parameters"], p.data_in_0.size[0])
    return windowed(node, p, _of_rows(node, Rows.of(arithmetic, parameters)))


def windowed(node: str, p: TabledConvParams, network: Network) -> Generated:
    """The module of windows whose elements, channel by channel, are the inputs of a network."""
    check_unchanged(node, p, figures(network), "a layer of truth tables")
    context = _context(network, p, conv.order_of(p))
    context["golden"] = "`mase_hw/ops/conv.py`"
    if not p.line_buffer_depth:
        return Generated(f"{NAME}_{node}", TEMPLATE, context)
    context |= {"source": "window", "channels": p.data_in_0.size[0]}
    return Generated(f"{NAME}_{node}", OF_WINDOWS, context)


def _sparse(*size: int, bits: int, fan_in: int, seed: int) -> Tensor:
    """Weights of which every row has so many that are not 0."""
    draw = torch.Generator().manual_seed(seed)
    weight = torch.randint(-(1 << (bits - 1)), 1 << (bits - 1), size, generator=draw)
    chosen = torch.stack([torch.randperm(weight[0].numel(), generator=draw)[:fan_in] for _ in range(size[0])])
    mask = torch.zeros(size[0], weight[0].numel(), dtype=torch.int64).scatter(1, chosen, 1)
    return weight * mask.reshape(size)


def _random(*size: int, bits: int) -> Tensor:
    return unrolled.random(*size, bits=bits, seed=bits)


@functools.cache
def _linear_cases() -> tuple[Case, ...]:
    case = functools.partial(unrolled.case, _linear_build, frames=12)
    sparse = _sparse(5, 9, bits=5, fan_in=3, seed=0)
    sparse[2] = 0
    return (
        case("sparse", (1, 9), sparse, "s4.2 s5.3 s6.3 s5.2", bias=_random(5, bits=6)),
        case("narrow", (2, 3, 6), _random(4, 6, bits=4), "u2.1 s4.2 - u3.1 half_up wrap"),
        case("one_bit", (1, 12), _random(3, 12, bits=3), "u1.0 s3.0 - s4.0"),
        case(
            "scales",
            (1, 5),
            _sparse(4, 5, bits=4, fan_in=2, seed=1),
            "s5.3 s4.5 s6.4 s8.3 weight_shift=u2.0",
            bias=_random(4, bits=6),
            weight_shift=torch.tensor([0, 3, 1, 2]),
        ),
    )


@functools.cache
def _conv_cases() -> tuple[Case, ...]:
    sparse, case = functools.partial(_sparse, bits=4), functools.partial(unrolled.case, _conv_build, frames=4)
    return (
        case("one_element", (1, 5, 2, 3), sparse(4, 5, 1, 1, fan_in=3, seed=2), "s3.1 s4.2 - s5.2", frames=6),
        case(
            "window",
            (1, 2, 5, 4),
            sparse(3, 2, 3, 3, fan_in=4, seed=3),
            "u2.0 s4.2 s6.2 s4.1",
            bias=_random(3, bits=6),
            padding=1,
        ),
        case("strided", (2, 1, 4, 5), _random(3, 1, 2, 3, bits=4), "s2.1 s4.2 - u4.1 floor", stride=(2, 1)),
        case("depthwise", (1, 3, 4, 4), _random(3, 1, 2, 2, bits=3), "s3.1 s3.1 - s5.1 trunc", groups=3, padding=1),
    )


def _op(name: str, golden: Callable[[Arithmetic, Mapping[str, Tensor]], dict[str, Tensor]], **facets: Any) -> OpDef:
    return OpDef(
        name=name,
        mase_type="module_related_func",
        parameters=("weight", "bias", "weight_shift"),
        golden=golden,
        hardware=Hardware(**facets),
    )


OPS = (
    _op(
        "tabled_linear",
        unrolled.golden,
        module=NAME,
        file=TEMPLATE,
        params=TabledParams,
        build=_linear_build,
        latency=linear_latency,
        cases=_linear_cases,
        generated=_linear_generated,
        layout="rows",
    ),
    _op(
        "tabled_conv",
        conv.golden,
        module=f"{NAME}_conv",
        file=OF_WINDOWS,
        params=TabledConvParams,
        build=_conv_build,
        latency=conv_latency,
        cases=_conv_cases,
        generated=_conv_generated,
        layout="channels_last",
    ),
)
