"""A float model's outputs as targets, for criteria that compare two models (MSE, SQNR)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn

from mase_hw.ir import MaseGraph
from mase_hw.passes.evaluation.criteria import single
from mase_hw.passes.evaluation.evaluate import evaluating, run_batch


class against:
    """Data whose targets are what a reference gives: an iterable of ``(inputs, reference(inputs))``.

    Can be iterated as often as ``inputs`` can; the reference runs in evaluation mode, whole batches at a time.

    Args:
        reference: A graph or module, usually the float one.
        inputs: Iterable of inputs: a tensor, a tuple in order, or a dict by name.
    """

    def __init__(self, reference: MaseGraph | nn.Module, inputs: Iterable[Any]) -> None:
        self.model = reference.model if isinstance(reference, MaseGraph) else reference
        self.inputs = inputs

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        for batch in self.inputs:
            with evaluating(self.model):
                targets = single("a reference", run_batch(self.model, batch))
            yield batch, targets
