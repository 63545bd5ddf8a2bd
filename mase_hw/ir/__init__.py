"""The intermediate representation: a traced model with typed metadata on every node."""

from mase_hw.ir.custom.ops import custom_op
from mase_hw.ir.graph import MaseGraph
from mase_hw.ir.metadata import (
    CommonMetadata,
    HardwareMetadata,
    MaseGraphMetadata,
    MaseMetadata,
    SoftwareMetadata,
    TensorMetadata,
)
from mase_hw.ir.trace.tracer import MaseTracer, trace_torch_module

__all__ = [
    "CommonMetadata",
    "HardwareMetadata",
    "MaseGraph",
    "MaseGraphMetadata",
    "MaseMetadata",
    "MaseTracer",
    "SoftwareMetadata",
    "TensorMetadata",
    "custom_op",
    "trace_torch_module",
]
