"""Mixed precision: which node needs how many bits."""

from mase_hw.passes.mixed_precision.cost import COSTS, CostModel
from mase_hw.passes.mixed_precision.noise_based import (
    MixedPrecision,
    MixedPrecisionConfig,
    noise_based_mixed_precision_quantization,
)
from mase_hw.passes.mixed_precision.pareto import Point, WidthSearch, pareto_front
from mase_hw.passes.mixed_precision.plan import Plan, uniform
from mase_hw.passes.mixed_precision.rank import Ranked
from mase_hw.passes.mixed_precision.search import MIXED_PRECISION_SEARCH_LIMIT, BinarySearchState, binary_search
from mase_hw.passes.mixed_precision.width_search import search_widths

__all__ = [
    "COSTS",
    "MIXED_PRECISION_SEARCH_LIMIT",
    "BinarySearchState",
    "CostModel",
    "MixedPrecision",
    "MixedPrecisionConfig",
    "Plan",
    "Point",
    "Ranked",
    "WidthSearch",
    "binary_search",
    "noise_based_mixed_precision_quantization",
    "pareto_front",
    "search_widths",
    "uniform",
]
