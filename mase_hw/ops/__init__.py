"""The ops, one file each; every file exposes ``OPS``. See :mod:`mase_hw.catalogue` for how they are found."""
