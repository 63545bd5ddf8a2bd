"""Mixed precision: which node needs how many bits."""

from mase_hw.passes.mixed_precision.cost import COSTS, CostModel
from mase_hw.passes.mixed_precision.noise_based import (
    MixedPrecision,
    MixedPrecisionConfig,
    noise_based_mixed_precision_quantization,
)
from mase_hw.passes.mixed_precision.plan import Plan, uniform
from mase_hw.passes.mixed_precision.rank import Ranked
from mase_hw.passes.mixed_precision.search import MIXED_PRECISION_SEARCH_LIMIT, BinarySearchState, binary_search

__all__ = [
    "COSTS",
    "MIXED_PRECISION_SEARCH_LIMIT",
    "BinarySearchState",
    "CostModel",
    "MixedPrecision",
    "MixedPrecisionConfig",
    "Plan",
    "Ranked",
    "binary_search",
    "noise_based_mixed_precision_quantization",
    "uniform",
]
