"""Training in low precision: learned steps that become formats."""

from mase_hw.training.learned_step import LearnedScale, LearnedStep
from mase_hw.training.model import TrainingModel
from mase_hw.training.prepare import prepare
from mase_hw.training.tables import TableConv2d, TableLinear

__all__ = ["LearnedScale", "LearnedStep", "TableConv2d", "TableLinear", "TrainingModel", "prepare"]
