"""In which order a layer uses its multipliers, where it is free to choose.

``outputs_first`` computes an output tile after the other, for which the inputs are replayed; ``inputs_first`` uses an
input tile after the other, as they come, for all output tiles, and keeps the partial sums.
"""

from __future__ import annotations

import numpy as np

from mase_hw.steps import Steps

ORDERS = ("outputs_first", "inputs_first")


def inputs_first(rows: int, tiles: int, passes: int, pipe: int) -> Steps:
    """A step takes an activation beat, row by row, tile by tile, for every output beat of the row.

    Args:
        rows: Vectors per frame.
        tiles: Input beats a vector.
        passes: Output beats a vector.
        pipe: Cycles from a step that completes a result to its being valid.
    """
    first = np.arange(rows * tiles, dtype=np.int64) * passes
    return Steps.at(
        rows * tiles * passes,
        needed=(first,),
        freed=(first + passes - 1,),
        emitted=(first[tiles - 1 :: tiles, None] + np.arange(passes, dtype=np.int64)).reshape(-1),
        # The register of beat_repeat.
        delay=(1,),
        room=(1,),
        room_lag=0,
        pipe=pipe,
        # Results come one a cycle.
        queue=pipe + 2,
    )
