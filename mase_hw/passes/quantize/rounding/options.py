"""What can be chosen about the rounding of weights and the correction of biases."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from mase_hw.passes.base import PassArgs

Correction = Literal["none", "empirical", "analytic"]


class RoundingOptions(PassArgs):
    """How weights become mantissas; also the table ``rounding`` of a configuration of ``compile``."""

    method: Literal["nearest", "gptq", "adaround"] = Field(
        default="nearest",
        description="``nearest``; ``gptq``: by second order, column by column; ``adaround``: learned, down or up",
    )
    bias_correction: Correction = Field(
        default="none", description="how the mean error of a layer is taken off its bias, once its weights are rounded"
    )
    target: Literal["network", "layer"] = Field(
        default="network",
        description="what a layer is to come close to: its results in the float network, or what its float weights "
        "make of the quantised inputs",
    )
    damping: float = Field(
        default=0.01,
        gt=0,
        le=10,
        description="share of the mean of the Hessian's diagonal that is added to the diagonal",
    )
    order: bool = Field(
        default=True, description="of ``gptq``: round the columns with the largest inputs first (act-order)"
    )
    iterations: int = Field(default=1000, ge=1, le=1_000_000, description="of ``adaround``: steps of its optimiser")
    frames: int = Field(default=2048, ge=1, description="whole batches are used until there are so many frames")
    keep: Literal["better", "always"] = Field(
        default="better",
        description="whether the result is kept only if it raises the signal-to-noise ratio of the quantised network "
        "on the data",
    )

    @property
    def enabled(self) -> bool:
        """Whether there is anything to do."""
        return self.method != "nearest" or self.bias_correction != "none"


class RoundingArgs(RoundingOptions):
    """Arguments of :func:`round_weights_transform_pass`."""

    data: Any = Field(description="iterable of batches, as for calibration")
    reference: Any = Field(
        default=None, description="the float graph; the one that ``keep_float_analysis_pass`` kept if left out"
    )


class CorrectionArgs(PassArgs):
    """Arguments of :func:`correct_bias_transform_pass`."""

    method: Literal["empirical", "analytic"] = Field(
        default="empirical", description="from the results of every layer, or from the means of its inputs"
    )
    data: Any = Field(description="iterable of batches, as for calibration")
    reference: Any = Field(
        default=None, description="the float graph; the one that ``keep_float_analysis_pass`` kept if left out"
    )
    frames: int = Field(default=2048, ge=1, description="whole batches are used until there are so many frames")
    keep: Literal["better", "always"] = Field(
        default="better",
        description="whether the result is kept only if it raises the signal-to-noise ratio of the quantised network "
        "on the data",
    )
