"""Segments of hardware, and what PyTorch runs on the host."""

from mase_hw.partition.design import PartitionedDesign, compile_partitioned
from mase_hw.partition.passes import import_and_transform, partition_transform_pass

__all__ = ["PartitionedDesign", "compile_partitioned", "import_and_transform", "partition_transform_pass"]
