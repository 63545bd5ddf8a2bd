"""Keys of MASE's quantisers that say more of a number than its width."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Literal[
    "fixed",
    "integer",
    "binary",
    "ternary",
    "mxint",
    "mxfp",
    "minifloat",
    "groups",
    "minifloat_ieee",
    "minifloat_denorm",
    "log",
    "block_fp",
    "NA",
]
"""What a node may become."""
NAMES = ("minifloat_ieee", "minifloat_denorm", "log", "block_fp")
"""Quantisers of MASE whose weights become what :mod:`mase_hw.passes.quantize.concept_weights` says."""
_MINIFLOATS = '``"minifloat_ieee"``, ``"minifloat_denorm"``'


class ConceptKeys(BaseModel):
    """Under the names that MASE's quantisers have for them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weight_exponent_bias: int | None = Field(
        default=None,
        ge=-512,
        le=512,
        examples=[7],
        description=f'{_MINIFLOATS}, ``"log"``, ``"block_fp"``: what is taken off the exponent of a weight; if left '
        "out, ``2**(bits of the exponent - 1) - 1``",
    )
    weight_bipolar: bool | None = Field(
        default=None,
        examples=[True],
        description='``"binary"``: true for weights of -1 and 1 without a scale; those of 0 and a mean, which false '
        "stands for in MASE, are refused",
    )
    weight_stochastic: bool = Field(default=False, description='``"binary"``: true is refused, as it needs a draw')
    weight_scaling_factor: bool | None = Field(
        default=None,
        examples=[False],
        description='``"ternary"``: false for weights of -1, 0 and 1 without a scale; true, or left out, for a power '
        "of two as scale",
    )
    weight_mean: float | None = Field(
        default=None, gt=0, examples=[0.5], description='``"ternary"``: the threshold is 0.75 times this'
    )
    weight_max: float | None = Field(
        default=None, gt=0, examples=[2.0], description='``"ternary"``: without a mean, the threshold is 0.05 of this'
    )
    weight_median: float | None = Field(
        default=None, gt=0, examples=[0.5], description='``"ternary"``: without these, 0.75 times this'
    )

    @property
    def threshold(self) -> float | None:
        """Of ternary weights, as it is configured."""
        if self.weight_mean is not None:
            return 0.75 * self.weight_mean
        if self.weight_max is not None:
            return 0.05 * self.weight_max
        return 0.75 * self.weight_median if self.weight_median is not None else None
