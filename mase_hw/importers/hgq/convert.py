"""``from_hgq``: from a live Keras model of HGQ2 to a quantised ``MaseGraph``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from mase_hw.errors import ConfigError
from mase_hw.formats import FixedFormat, ScaledFormat
from mase_hw.importers.entries import enter
from mase_hw.importers.graph import NodesRefused, Problems, Ref, Refused, Writer
from mase_hw.importers.hgq.grids import Grids
from mase_hw.importers.hgq.layers import LAYERS, Call
from mase_hw.importers.settle import settle
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotated import SOURCE_NAMES, SOURCE_OUTPUTS


def from_hgq(model: Any, *, inputs: Mapping[str, FixedFormat] | None = None) -> MaseGraph:
    """A model of HGQ2 (0.2), quantised as it is: every bit of its result is that of the model.

    Weights are the numbers that its quantisers give. A quantiser of data whose elements differ becomes a cast with a
    format for every element, for ``hardware.unroll = "frame"``; one whose elements are alike is as any other cast.
    Frames are as in Keras, channels last.

    Args:
        model: A ``Sequential`` or functional model of Keras, built, trained and traced
            (``hgq.utils.trace_minmax``). Only its attributes are read, so that any backend will do.
        inputs: Formats in which inputs come, by name of their layer. The quantiser behind an input then rounds and
            wraps in hardware. Without it, an input comes in the format that holds all numbers of that quantiser: the
            host rounds half to even and saturates, which is the same for numbers of this quantiser.

    Raises:
        ConfigError: If this is no built model, or has no such input.
        UnsupportedError: For layers, activations and quantisers that have no place here; names every one.
    """
    if not getattr(model, "outputs", None) or not hasattr(model.outputs[0], "_keras_history"):
        raise ConfigError(
            "not a model that can be imported",
            field="model",
            got=type(model).__name__,
            expected="a built Sequential or functional model of Keras",
            remedy="call it once, or give it an Input",
        )
    return _Import(model, dict(inputs or {})).run()


class _Import:
    def __init__(self, model: Any, inputs: dict[str, FixedFormat]) -> None:
        self.model, self.inputs = model, inputs
        self.writer = Writer("Imported")
        self.grids = Grids(self.writer)
        self.problems = Problems("model of HGQ2")
        self.values: dict[int, Ref] = {}
        """Of tensors of Keras; None behind a layer that is refused."""

    def run(self) -> MaseGraph:
        """The graph."""
        for tensor in self.model.inputs:
            self._value(tensor)
        outputs = [self._value(tensor) for tensor in self.model.outputs]
        self.problems.refuse()
        names = [tensor._keras_history.operation.name for tensor in self.model.outputs]
        module = self.writer.finished(outputs, names)
        example = self.writer.examples()
        enter(module, self.writer, self.inputs)
        graph = MaseGraph(module, share_weights=True)
        graph = settle(graph, example, self.writer.markers, self.writer.weights, self.writer.sources)
        graph.meta |= {SOURCE_NAMES: dict(self.writer.sources), SOURCE_OUTPUTS: names}
        graph.example = example
        return graph

    def _value(self, tensor: Any) -> Ref:
        """What a tensor of Keras is in the graph; layers in front of it are written first."""
        if id(tensor) in self.values:
            return self.values[id(tensor)]
        layer, index, _ = tensor._keras_history
        call = layer._inbound_nodes[index]
        given = [self._value(t) for t in call.input_tensors]
        made = None
        if None not in given:
            kind = type(layer).__name__
            try:
                made = self._written(layer, kind, given, tensor)
            except NodesRefused:
                raise
            except Exception as error:  # what a damaged model makes torch say is told as such
                self.problems.add(layer.name, kind, error)
        self.values[id(tensor)] = made
        return made

    def _written(self, layer: Any, kind: str, given: list[Ref], tensor: Any) -> Ref:
        self.writer.source = layer.name
        if kind == "InputLayer":
            return self._entered(layer.name, tensor.shape)
        rule = LAYERS.get(kind)
        if rule is None:
            raise Refused("no such layer is known", f"build the model of {', '.join(sorted(LAYERS))}")
        return rule(Call(self.writer, self.grids, layer, given))

    def _entered(self, name: str, shape: tuple[int | None, ...]) -> Ref:
        if None in shape[1:]:
            raise Refused(f"an input of the shape {list(shape)}", "give it an Input with a known shape")
        fmt = self.inputs.get(name)
        if isinstance(fmt, ScaledFormat):
            raise Refused("an input of scaled integers", "give it a FixedFormat")
        made = self.writer.input(name, (1, *(int(n) for n in shape[1:] if n is not None)), torch.float32)
        self.grids.entered(made, fmt)
        return made
