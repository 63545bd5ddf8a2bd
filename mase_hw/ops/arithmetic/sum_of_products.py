"""The sum of two products, one rounding for all three operations: rotary positions, ``x * cos + y * sin``.

The products are ops of their own (``mul``), whose results are as wide as they need to be if this alone reads them, so
that nothing is lost before the one cast of the sum.
"""

from __future__ import annotations

import dataclasses

from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from mase_hw.opdef import Case
from mase_hw.ops import _binary as binary
from mase_hw.ops import binary as ops


def sum_of_products(x: Tensor, y: Tensor) -> Tensor:
    """``x + y``, where both are products.

    Args:
        x: Any shape.
        y: The same shape.
    """
    if has_torch_function((x, y)):  # tracing records one call
        result: Tensor = handle_torch_function(sum_of_products, (x, y), x, y)
        return result
    return x + y


def _cases() -> list[Case]:
    add = binary.build(binary.ADD)
    return [
        binary.case(add, "rotary", (2, 3, 8), 2, "s16.13 s16.13 s8.6"),
        binary.case(add, "aligned", (2, 5), 3, "s16.13 s17.14 s8.6 half_up"),
        binary.case(add, "without_sign", (7,), 1, "u9.8 s16.13 s6.2 floor wrap"),
    ]


_ADD = next(op for op in ops.OPS if op.name == "add")
assert _ADD.hardware is not None
OPS = (
    dataclasses.replace(
        _ADD,
        name="sum_of_products",
        functions=(sum_of_products,),
        methods=(),
        parameters=(),
        constant="",
        check=None,
        scaled=None,
        formats=("data_in_0", "data_in_1", "data_out_0"),
        exact_inputs=("data_in_0", "data_in_1"),
        hardware=dataclasses.replace(_ADD.hardware, cases=_cases, static=(), broadcast=()),
    ),
)
