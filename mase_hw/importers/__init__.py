"""Models of other tools as graphs, one file or room a source."""

from mase_hw.importers.load import import_model, is_file_of_model

__all__ = ["import_model", "is_file_of_model"]
