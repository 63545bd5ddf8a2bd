"""Evaluation: one number of quality of a model over a data set."""

from mase_hw.passes.evaluation.criteria import CRITERIA, Criterion, CriterionLike, make_criterion
from mase_hw.passes.evaluation.evaluate import Evaluation, evaluate_statistic, evaluation
from mase_hw.passes.evaluation.labelled import labelled_file
from mase_hw.passes.evaluation.targets import against

__all__ = [
    "CRITERIA",
    "Criterion",
    "CriterionLike",
    "Evaluation",
    "against",
    "evaluate_statistic",
    "evaluation",
    "labelled_file",
    "make_criterion",
]
