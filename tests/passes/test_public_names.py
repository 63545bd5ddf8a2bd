"""Where the documentation says a name is, there it is; `test_verify_exports.py` imports each module first."""

from __future__ import annotations

import importlib

import pytest

NAMES = {
    "mase_hw.passes": [
        "CalibrationState", "Pipeline", "Plan", "Step", "analyse_noise", "binary_search", "choose_format",
        "cross_layer_equalization_transform_pass", "dump_diagnostic_files", "evaluate_statistic", "explain",
        "fold_batch_norm_transform_pass", "noise_analysis_pass", "noise_based_mixed_precision_quantization",
        "smooth_quant_transform_pass", "update_quantization_configs",
    ],
    "mase_hw.passes.evaluation": ["Criterion", "evaluate_statistic", "evaluation"],
    "mase_hw.passes.mixed_precision": ["binary_search", "noise_based_mixed_precision_quantization"],
    "mase_hw.passes.pipeline": ["Pipeline", "Step", "failure_of"],
    "mase_hw.passes.diagnostics": ["dump_diagnostic_files"],
    "mase_hw.passes.quantize.record": ["update_quantization_configs"],
    "mase_hw.passes.explanation": ["explain"],
    "mase_hw.passes.quantize.calibration": ["CalibrationState", "choose_format"],
    "mase_hw.compiler.stages": ["compile_pipeline"],
}  # fmt: skip


@pytest.mark.parametrize("module", NAMES)
def test_names(module: str) -> None:
    found = importlib.import_module(module)
    for name in NAMES[module]:
        assert getattr(found, name).__module__.startswith("mase_hw.")
        assert module == "mase_hw.compiler.stages" or name in getattr(found, "__all__", NAMES[module])


def test_the_function_does_not_hide_the_package() -> None:
    """``evaluation`` is a function in the package of that name; the package stays reachable as an attribute."""
    import mase_hw.passes.evaluation as package

    assert callable(package.evaluation) and package.__name__ == "mase_hw.passes.evaluation"
