"""The intermediate representation: a traced model with typed metadata on every node."""

from mase_hw.deprecation import former_modules
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

MOVED = {
    "checkpoint_document": "ir.checkpoint.document",
    "checkpoint_files": "ir.checkpoint.files",
    "checkpoint_graph": "ir.checkpoint.graph",
    "checkpoint_metadata": "ir.checkpoint.metadata",
    "checkpoint_modules": "ir.checkpoint.modules",
    "checkpoint_tensors": "ir.checkpoint.tensors",
    "checkpoint_values": "ir.checkpoint.values",
    "containers": "ir.trace.containers",
    "custom_files": "ir.custom.files",
    "custom_ops": "ir.custom.ops",
    "custom_spec": "ir.custom.spec",
    "draw_cards": "ir.draw.cards",
    "draw_layout": "ir.draw.layout",
    "draw_order": "ir.draw.order",
    "fingerprint": "ir.faithful.fingerprint",
    "huggingface": "ir.trace.huggingface",
    "inplace": "ir.trace.inplace",
    "models": "ir.faithful.models",
    "parametrized": "ir.faithful.parametrized",
    "replaced": "ir.faithful.replaced",
    "same_function": "ir.faithful.same_function",
    "signatures": "ir.trace.signatures",
    "state": "ir.faithful.state",
    "surroundings": "ir.faithful.surroundings",
    "tracer": "ir.trace.tracer",
}
"""Former name in this package -> present name in ``mase_hw``."""

former_modules(__name__, MOVED)
