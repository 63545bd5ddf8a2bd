"""A stored tensor as a result of the model: one frame of it for each frame of a stream, whatever that holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from mase_hw.formats import FixedFormat
from mase_hw.hardware.params import Cast, Params, Tensor3, port
from mase_hw.layouts import Layout
from mase_hw.numerics import cast
from mase_hw.opdef import ONE_INPUT, Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._binary import CONSTANT
from mase_hw.ops._cases import case
from mase_hw.ops._tensors import lanes_within
from mase_hw.steps import Steps


def stored_result(x: Tensor, constant: Tensor) -> Tensor:
    """``constant``, beside ``x``.

    Args:
        x: Says when; its values do not matter.
        constant: Any shape, a tensor that the model stores.
    """
    if has_torch_function((x, constant)):  # tracing records one call
        recorded: Tensor = handle_torch_function(stored_result, (x, constant), x, constant)
        return recorded
    return constant.clone()


class StoredParams(Params, frozen=True):
    """Parameters of ``fixed_stored``: the stream that says when, the constant, and the result."""

    data_in_0: Tensor3
    constant: Tensor3
    data_out_0: Tensor3
    cast: Cast


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``constant`` of any shape -> ``data_out_0`` of that shape; ``data_in_0`` does not matter."""
    frac = a.formats[CONSTANT].frac_width
    return {"data_out_0": cast(t[CONSTANT], frac, a.formats["data_out_0"], a.rounding, a.overflow)}


def _build(r: Request) -> StoredParams:
    formats, source, shape = r.arithmetic.formats, r.stream_shapes["data_in_0"], r.shapes[CONSTANT]
    taken = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], source)
    given = lanes_within(r.node, "data_out_0", r.parallelism["data_out_0"], shape)
    return StoredParams(
        data_in_0=port(source, formats["data_in_0"], taken),
        constant=port(shape, formats[CONSTANT], given),
        data_out_0=port(shape, formats["data_out_0"], given),
        cast=r.arithmetic.modes,
    )


def _latency(p: StoredParams) -> Latency:
    """In step k of a frame beat k of either side, as long as there are any."""
    taken, given = (np.arange(port.beats, dtype=np.int64) for port in (p.data_in_0, p.data_out_0))
    steps = Steps.at(
        max(taken.size, given.size),
        needed=(taken,),
        freed=(taken,),
        emitted=given,
        delay=(0,),
        room=(0,),
        pipe=1,
        queue=1,
        queue_lag=0,
    )
    return Latency.from_steps(steps)


def _case(name: str, source: Sequence[int], shape: Sequence[int], lanes: tuple[int, int], formats: str) -> Case:
    sizes = {"data_in_0": source, CONSTANT: shape, "data_out_0": shape}
    return case(_build, name, sizes, dict(zip(ONE_INPUT, lanes, strict=True)), formats, tuple(sizes))


S8, S4 = FixedFormat(8, 4), FixedFormat(4, 1)


def _cases() -> list[Case]:
    return [
        _case("longer", (1, 3), (2, 3, 5), (2, 2), "s8.4 s8.4 s8.4"),
        _case("shorter", (2, 7, 5), (1, 3), (1, 3), "s4.1 u6.2 u6.2"),
        _case("as_long", (4, 2), (2, 4), (1, 1), "s4.1 s8.4 s7.2 floor"),
        _case("a_number", (1, 2), (1,), (2, 1), "s4.1 s8.4 s8.4"),
    ]


OPS = (
    OpDef(
        name="stored_result",
        mase_type="builtin_func",
        functions=(stored_result,),
        parameters=(CONSTANT,),
        golden=golden,
        formats=("data_in_0", CONSTANT, "data_out_0"),
        exact_inputs=("data_in_0",),
        default_out=lambda formats: formats[CONSTANT],
        relayout=lambda layout, shape, attributes: Layout.row_major(shape),
        hardware=Hardware(
            module="fixed_stored",
            params=StoredParams,
            build=_build,
            latency=_latency,
            cases=_cases,
            static=(CONSTANT,),
        ),
    ),
)
