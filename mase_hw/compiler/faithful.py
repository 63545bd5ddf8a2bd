"""The steps of ``compile`` that hold what is made of a model against the model itself, and where they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from mase_hw.compiler.exact import Exact
from mase_hw.compiler.original import Original
from mase_hw.compiler.sequences import OriginalOfStream
from mase_hw.compiler.stages import CALIBRATE, COMMON, QUANTIZE, ROUNDING
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import Values, rows_of
from mase_hw.ir.faithful.same_function import check_trace, run
from mase_hw.ir.faithful.state import check_stateless
from mase_hw.ir.inputs import check_inputs
from mase_hw.passes.base import Info
from mase_hw.passes.lower.streaming import STREAMING
from mase_hw.passes.pipeline import Pipeline, Step
from mase_hw.passes.quantize.quantisation_summary import SUMMARY, Seen, Summarising

_UNCHANGED: Info = {"modified": False}


def beside_model(pipeline: Pipeline, model: nn.Module, example: Values) -> Pipeline:
    """Steps of ``compile``, with comparisons between them.

    As soon as the graph can be run: the model leaves itself as it is, and its trace gives what it gives. While value
    ranges are observed: it gives what the simplified graph gives, batch by batch. Once the graph is quantised: every
    node computes what its float node did.

    Args:
        pipeline: Steps that trace and observe, and may quantise.
        model: The model as it was given.
        example: Its inputs by name.
    """
    beside = _Beside(model, example)
    observed = pipeline[CALIBRATE].args
    assert isinstance(observed, Mapping)  # as the stages make it
    made = pipeline.replaced(CALIBRATE, {**observed, "watch": beside.observe})
    made = made.inserted(Step("trace", beside.traced), after=COMMON)
    made = made.inserted(Step("model", beside.simplified), before=CALIBRATE)
    made = made.inserted(Step("same", beside.observed), after=CALIBRATE)
    if QUANTIZE not in made.names:  # as far as the calibration only
        return made
    made = made.inserted(Step("exact", beside.quantised), after=QUANTIZE)
    # What the quantisation cost is said of the weights that go into hardware.
    return made.inserted(Step("summary", beside.summarised), after=ROUNDING) if ROUNDING in made.names else made


class _Beside:
    """What is kept from one comparison to the next."""

    def __init__(self, model: nn.Module, example: Values) -> None:
        self.model = model
        self.example = example
        self._batches = self._rows = 0
        self._calibrated = False

    def traced(self, graph: MaseGraph, _: Any) -> tuple[MaseGraph, Info]:
        check_stateless(self.model, self.example)
        check_trace(self.model, graph.model, self.example)
        return graph, _UNCHANGED

    def simplified(self, graph: MaseGraph, _: Any) -> tuple[MaseGraph, Info]:
        example = check_inputs(graph, self.example)
        if STREAMING in graph.meta:
            stream = OriginalOfStream(self.model, graph)
            stream.check_hops(example)
            self._original: Original = stream
        else:
            self._original = Original(self.model, graph)
        self.watch(example, run(graph.model, self.example))
        return graph, _UNCHANGED

    def observe(self, inputs: Values, found: Any) -> None:
        """Take in a batch of the calibration."""
        self._batches += 1
        self._rows += rows_of(inputs)
        given = {id(value) for value in self.example.values()}
        self._calibrated |= any(isinstance(value, Tensor) and id(value) not in given for value in inputs.values())
        self.watch(inputs, found)

    def watch(self, inputs: Values, found: Any) -> None:
        self._original.watch(inputs, found)

    def observed(self, graph: MaseGraph, _: Any) -> tuple[MaseGraph, Info]:
        self._original.check()
        self._exact = Exact(graph)
        # The first batch is the example.
        kept = self._original.batches
        self._summarising = Summarising(graph, kept[1:] if self._calibrated else kept[:1])
        return graph, _UNCHANGED

    def quantised(self, graph: MaseGraph, _: Any) -> tuple[MaseGraph, Info]:
        seen = self._exact.check(graph, self._original.batches)
        return self._summarised(graph, seen)

    def summarised(self, graph: MaseGraph, _: Any) -> tuple[MaseGraph, Info]:
        return self._summarised(graph, ())

    def _summarised(self, graph: MaseGraph, seen: Sequence[Seen]) -> tuple[MaseGraph, Info]:
        summary = self._summarising.of(graph, self._calibrated, self._batches, self._rows, seen)
        graph.meta[SUMMARY] = summary
        return graph, {**_UNCHANGED, **summary.to_dict()}
