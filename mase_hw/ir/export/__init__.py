"""Programs of ``torch.export`` as graphs of the functions and layers that the catalogue knows."""

from mase_hw.ir.export.program import export_model, is_program, program_of

__all__ = ["export_model", "is_program", "program_of"]
