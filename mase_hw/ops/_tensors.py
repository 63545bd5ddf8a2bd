"""What ops check of the lanes of a tensor."""

from __future__ import annotations

from mase_hw.errors import UnsupportedError


def lanes_within(node: str, name: str, lanes: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Parallelism along the innermost dimension, checked.

    Raises:
        UnsupportedError: If it exceeds the tensor, or an outer dimension is to be parallel.
    """
    size = shape[-1] if shape else 1
    if not 1 <= lanes[0] <= size or any(p != 1 for p in lanes[1:]):
        raise UnsupportedError(
            "this parallelism is not possible here",
            node=node,
            field=f"parallelism.{name}",
            got=list(lanes),
            expected=f"1 to {size} lanes along the innermost dimension, 1 along the others",
            remedy=f"lower hardware.parallelism.{node}.{name}",
        )
    return lanes[0]
