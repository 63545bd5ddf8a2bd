"""Windows over images: where they start and end, and pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mase_hw.catalogue import Arithmetic
from mase_hw.formats import Multipliers, Rounding
from mase_hw.formats.attributes import Attributes
from mase_hw.importers.graph import Refused
from mase_hw.importers.tflite.step import Step, Value
from mase_hw.nn import Quantized

Pair = tuple[int, int]
SAME, VALID = 0, 1
"""Paddings of the schema."""
MOST_SIDE = 1 << 16


def positive(s: Step, name: str) -> int:
    """A setting that counts pixels."""
    found = s.op.option(name)
    if not 0 < found < MOST_SIDE:
        raise Refused(f"{name} is {found}")
    return found


def window_pads(
    s: Step, sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[Pair]:
    """What is padded before and after every dimension.

    ``SAME`` has as many windows as the stride leaves pixels; of an odd padding the more is after the image.
    """
    if s.op.pads is not None:
        return list(s.op.pads)
    mode = s.op.option("Padding")
    if mode == VALID:
        return [(0, 0)] * len(kernel)
    if mode != SAME:
        raise Refused(f"the padding {mode}")
    totals = [
        max((-(-n // step) - 1) * step + d * (k - 1) + 1 - n, 0)
        for n, k, step, d in zip(sizes, kernel, stride, dilation, strict=True)
    ]
    return [(total // 2, total - total // 2) for total in totals]


def out_sizes(
    sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], pads: Sequence[Pair]
) -> tuple[int, ...]:
    """How many windows there are in every dimension.

    Raises:
        Refused: If there is none.
    """
    found = tuple(
        (n + before + after - d * (k - 1) - 1) // step + 1
        for n, k, step, d, (before, after) in zip(sizes, kernel, stride, dilation, pads, strict=True)
    )
    if min(found) < 1:
        raise Refused(f"a window of {list(kernel)} over {list(sizes)} pixels")
    return found


def pool(*, average: bool) -> Callable[[Step], Value]:
    """``MAX_POOL_2D`` or ``AVERAGE_POOL_2D``: no pixel outside of the image counts.

    An average is one of integers as they are, zero points and all, and rounded half away from 0, which is up of uint8.
    """

    def rule(s: Step) -> Value:
        x = s.data()
        if len(x.shape) != 4:
            raise Refused(f"data of the shape {list(x.shape)}, which is no image")
        want = s.out_format()
        if (want.scale, want.zero_point) != (x.fmt.scale, x.fmt.zero_point):
            raise Refused("a scale or a zero point of its result that its data has not")
        kernel, stride = ((positive(s, f"{name}H{end}"), positive(s, f"{name}W{last}")) for name, end, last in
                          (("Filter", "eight", "idth"), ("Stride", "", "")))  # fmt: skip
        pads = window_pads(s, x.shape[1:3], kernel, stride, (1, 1))
        outs = out_sizes(x.shape[1:3], kernel, stride, (1, 1), pads)
        attributes: Attributes = {
            "kernel_size": kernel,
            "stride": stride,
            "padding": tuple(before for before, _ in pads),
            "ceil_mode": _ceil_mode(x.shape[1:3], outs, kernel, stride, pads),
        }
        if average:
            attributes["count_include_pad"] = False
        rounding = Rounding.HALF_UP if s.info(0).unsigned else Rounding.HALF_AWAY
        arithmetic = Arithmetic({"data_in_0": x.fmt, "data_out_0": x.fmt}, rounding, attributes=attributes)
        module = Quantized(s.catalogue["avg_pool2d" if average else "max_pool2d"], arithmetic)
        shape = (1, x.shape[3], *outs)
        same = want.limits == s.out_format(activation=False).limits
        made = s.put(module, [s.channels_first(x)], shape, "" if same else "pool")
        if not same:  # a pool gives all numbers of its data, it cuts nothing off
            made = s.requantised(made, x.fmt, want, Multipliers((1,), 0), Rounding.FLOOR)
        return s.result(made, x.fmt if same else want, first=True)

    return rule


def _ceil_mode(sizes: Sequence[int], outs: Sequence[int], kernel: Pair, stride: Pair, pads: Sequence[Pair]) -> bool:
    """Whether pooling of PyTorch rounds the number of windows up, to have as many as there are."""
    for ceil in (False, True):
        found = []
        for n, k, step, (before, _) in zip(sizes, kernel, stride, pads, strict=True):
            room = n + 2 * before - k
            count = (-(-room // step) if ceil else room // step) + 1
            if ceil and (count - 1) * step >= n + before:
                count -= 1
            found.append(count)
        if found == list(outs) and all(before <= k // 2 for (before, _), k in zip(pads, kernel, strict=True)):
            return ceil
    raise Refused(
        "a padding after the image, and none before it, that the hardware of pooling has not",
        "use a kernel of odd size, or a stride above 1",
    )


RULES = {"MAX_POOL_2D": pool(average=False), "AVERAGE_POOL_2D": pool(average=True)}
"""Operation -> what writes it."""
