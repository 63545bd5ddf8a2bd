"""Explains a failed simulation of a design: runs it again with probes and attaches what they show to the failure."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mase_hw.emit.reference import Inputs, Reference
from mase_hw.errors import MaseHwError
from mase_hw.ir import MaseGraph
from mase_hw.simulate.diagnose.diagnose import Diagnosable, diagnose
from mase_hw.simulate.result import SimResult
from mase_hw.streams import IntArray, Stream

FILE = "diagnosis.json"


def explain(
    design: Diagnosable, result: SimResult, inputs: Inputs | None, stimulus: Mapping[str, IntArray], **options: Any
) -> SimResult:
    """The same result with a diagnosis, which is also attached to the failure and written beside the records.

    Args:
        design: What was simulated; it has its graph.
        result: How it failed.
        inputs: What it was given; None for the bundle's own vectors.
        stimulus: The same as mantissas of shape ``(frames, *shape)`` by port.
        options: For :func:`mase_hw.simulate.diagnose.diagnose.diagnose`.

    A run with probes that fails by itself explains nothing and hides nothing: the failure says so in a note.
    """
    failure, graph = result.failure, design.graph
    assert failure is not None and graph is not None  # the caller looked
    try:
        if inputs is None:
            inputs = floats(graph, design.streams, stimulus)
        found = diagnose(design, inputs, **options)
        (result.run_dir / FILE).write_text(json.dumps(found.to_json(), indent=1) + "\n", encoding="utf-8")
    except (MaseHwError, OSError) as problem:
        failure.add_note(f"no diagnosis, the run with probes failed: {problem}")
        return result
    failure.diagnosis = found
    failure.add_note(found.report())
    return dataclasses.replace(result, diagnosis=found)


def floats(graph: MaseGraph, streams: Mapping[str, Stream], stimulus: Mapping[str, IntArray]) -> dict[str, Tensor]:
    """Inputs of the model whose mantissas are the given ones, by name of the model's input."""
    values = {}
    for port in Reference(graph).inputs:
        exact = streams[port.port].fmt.values(torch.from_numpy(np.asarray(stimulus[port.port]).astype(np.float64)))
        values[port.name] = exact.reshape(-1, *port.shape[1:])
    return values
