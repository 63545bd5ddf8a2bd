"""Models of other tools as graphs, one file or room a source."""

from mase_hw.importers.float8_weights import load_float8_weights
from mase_hw.importers.gates import from_gates
from mase_hw.importers.group_weights import load_group_weights
from mase_hw.importers.hgq import from_hgq
from mase_hw.importers.load import file_of_model, import_model
from mase_hw.importers.trees import from_trees

__all__ = [
    "file_of_model",
    "from_gates",
    "from_hgq",
    "from_trees",
    "import_model",
    "load_float8_weights",
    "load_group_weights",
]
