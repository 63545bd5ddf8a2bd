"""Models of HGQ2, with bits of their own for every weight and every activation."""

from mase_hw.importers.hgq.convert import from_hgq

__all__ = ["from_hgq"]
