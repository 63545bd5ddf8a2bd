"""Images and sequences without a dimension of frames, which PyTorch takes and hardware does not."""

from __future__ import annotations

from mase_hw.errors import UnsupportedError
from mase_hw.passes.transforms.lowering.call import Call

_KINDS = ("conv", "conv_transpose", "max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool", "lp_pool")
SPATIAL = {f"{kind}{dims}d": dims for kind in _KINDS for dims in (1, 2, 3)}
"""Dimensions of space that a layer works on, by the name of the op."""
_PADS = {"reflection_pad", "replication_pad", "circular_pad"}


def refuse_unbatched(call: Call) -> None:
    """Refuse a layer of images whose first input has no dimension for frames.

    Raises:
        UnsupportedError: Says which shape there should be.
    """
    spatial = SPATIAL.get(call.op)
    if call.op in _PADS or (call.op == "pad" and call.attributes.get("mode", "constant") != "constant"):
        given = call.attributes.get("pad", call.attributes.get("padding"))
        spatial = len(given) // 2 if isinstance(given, list | tuple) else None
    if spatial is None or len(call.shapes[0]) != spatial + 1:
        return
    raise UnsupportedError(
        "the batch dimension is missing",
        node=call.name,
        field="data_in_0",
        got=list(call.shapes[0]),
        expected=f"(N, C, {', '.join('DHW'[3 - spatial :] if spatial > 1 else 'L')}): the first dimension is that of "
        "frames",
        remedy="give the model an example with a first dimension of 1: x.unsqueeze(0)",
    )
