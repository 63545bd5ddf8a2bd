"""``LOG_SOFTMAX`` of 8 bits as LiteRT's reference kernel computes it, in hardware.

The kernel is ``reference_integer_ops::LogSoftmax``: the difference to the largest element, less the logarithm of the
sum of exponentials. The logarithm (``log_x_for_x_greater_than_or_equal_to_1``) takes what is between 2^-1/2 and 1 of
the sum, for which a quotient of two polynomials stands, and a multiple of a quarter of log 2 for the rest.
"""

from __future__ import annotations

import numpy as np
from torch import fx

from mase_hw.formats import FixedFormat, Multipliers, Rounding
from mase_hw.importers.tflite.softmax import INTEGER_BITS, RECIPROCAL, SUM_BITS, Row, result_format, unsigned
from mase_hw.importers.tflite.step import Step, Value

_LOG_2, _ROOT, _FOURTH_ROOT = 1488522236, 1518500250, 1805811301
"""``log(2)``, and the square root and the fourth root of 1/2, of 31 fraction bits."""
_TOP, _SQUARED, _OFFSET, _FIRST = 117049297, 127690142, 1057819769, 638450708
"""Coefficients of the polynomials above and below the line, of 31 fraction bits."""
_ONE = 1 << 31
_WHOLE, _WIDE = FixedFormat(32, 31), FixedFormat(33, 31)


def log_softmax(s: Step) -> Value:
    """``LOG_SOFTMAX`` along the last dimension."""
    want, row = result_format(s, 1 / 16, 127), Row(s, 1.0)
    # Of a sum of k bits: from which one on the part is taken as it is, and the logarithms of the rest.
    sizes = [31 - SUM_BITS + max(count, 1).bit_length() for count in range(1 << row.whole)]
    edges = [-(-((1 << size + 30) - (1 << 30)) // _ROOT) for size in sizes]
    rest = [[(((size - 20) << 2) + more << 23) * _LOG_2 + (1 << 30) >> 31 for size in sizes] for more in (1, 3)]
    edge = row.table("edge", row.count, row.index, row.total, edges)
    above = row.put("ge", "above", [row.sum, edge], [row.total, row.total, unsigned(1, 0)])
    small = row.put("mul", "by_root", [row.half], [row.root, unsigned(31, 31), unsigned(31, 31)], by=_ROOT / _ONE)
    double = unsigned(32, 31)
    twice = row.put("mul", "twice", [small], [unsigned(31, 31), unsigned(2, 0), double], by=2.0)
    part = unsigned(31, 31)
    r = row.put("where", "part", [above, row.half, twice], [unsigned(1, 0), row.root, double, part])

    def times(name: str, node: fx.Node, number: int) -> fx.Node:
        return row.put("mul", name, [node], [_WHOLE, unsigned(31, 31), _WHOLE], by=number / _ONE)

    total = row.put("add", "both", [r], [part, unsigned(31, 31), double], by=_FOURTH_ROOT / _ONE)
    p = row.put("mul", "middle", [total], [double, unsigned(1, 1), part], by=0.5)
    apart = row.put("sub", "apart", [r], [part, unsigned(31, 31), _WHOLE], by=_FOURTH_ROOT / _ONE)
    q = row.put("mul", "apart_twice", [apart], [_WHOLE, unsigned(2, 0), _WHOLE], by=2.0)
    square = row.put("mul", "square", [q, q], [_WHOLE, _WHOLE, _WHOLE])
    line = row.put("mul", "top_first", [q, r], [_WHOLE, part, _WHOLE])
    cube = times("top_third", row.put("mul", "cube", [q, square], [_WHOLE, _WHOLE, _WHOLE]), _TOP)
    top = row.put("add", "top", [line, cube], [_WHOLE, _WHOLE, _WHOLE])
    inner = row.put("add", "inner", [q, times("squared", square, _SQUARED)], [_WHOLE, _WHOLE, _WHOLE])
    inner = row.put("add", "inner_whole", [inner], [_WHOLE, unsigned(31, 31), _WHOLE], by=_OFFSET / _ONE)
    inner = row.put("mul", "inner_product", [p, inner], [part, _WHOLE, _WHOLE])
    below = row.put("add", "below", [inner, times("first", q, _FIRST)], [_WHOLE, _WHOLE, _WHOLE])
    below = row.put("add", "below_whole", [below], [_WHOLE, unsigned(1, 0), _WIDE], by=1.0)
    half = row.put("mul", "below_half", [below], [_WIDE, unsigned(1, 1), part], by=0.5, rounding=Rounding.FLOOR)
    inverse = row.reciprocal(half, part)
    few, rough = FixedFormat(32, 25), FixedFormat(32, 24)
    top = row.put("cast", "top_rounded", [top], [_WHOLE, few], rounding=Rounding.HALF_AWAY)
    quotient = row.put("mul", "quotient", [top, inverse], [few, RECIPROCAL, rough])
    low, high = (row.table(name, row.count, row.index, rough, codes) for name, codes in
                 zip(("rest_low", "rest_high"), rest, strict=True))  # fmt: skip
    other = row.put("where", "rest", [above, high, low], [unsigned(1, 0), rough, rough, rough])
    both = row.put("add", "logarithm_twice", [quotient, other], [rough, rough, rough])
    logarithm = row.put("mul", "logarithm", [both], [rough, unsigned(1, 1), few], by=0.5)

    fine = FixedFormat(32, 31 - INTEGER_BITS)
    far = row.kernel.scaled(-np.arange(256, dtype=np.int64)).tolist()
    away = row.table("scaled", row.away, row.far, fine, far)
    spread = row.spread(logarithm, few, "logarithm_of_row")
    exact = FixedFormat(33, fine.frac_width)
    made = row.put("sub", "exact", [away, spread], [fine, few, exact])
    found = Multipliers((1,), fine.frac_width - 4)
    return s.result(s.requantised(made, exact, want, found, Rounding.HALF_AWAY), want, first=False)


RULES = {"LOG_SOFTMAX": log_softmax}
"""Operation -> what writes it."""
