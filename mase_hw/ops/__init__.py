"""One file an op; each exposes ``OPS``. See :mod:`mase_hw.catalogue` for how they are found."""
