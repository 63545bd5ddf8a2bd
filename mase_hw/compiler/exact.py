"""Every quantised node beside the float node it was made of; what differs is named at the first node.

Each node gets what flows in the quantised graph, whatever happened before it, and then any values of its input
formats: a fault behind a ReLU that happens to give zeros, or for numbers that the data does not have, would be a fault
of the hardware all the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, fx

from mase_hw.compiler.ample_bits import Kept, compare, known
from mase_hw.compiler.float_nodes import FloatNode, first_tensor
from mase_hw.errors import GraphError, MaseHwError
from mase_hw.formats import FixedFormat
from mase_hw.host.user_code import user_code
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import Values, every_value, has_rows
from mase_hw.nn import Quantized
from mase_hw.numerics import dequantize, quantize
from mase_hw.passes.quantize.quantisation_summary import Seen

MOST_ELEMENTS = 1 << 24
MOST_FRAMES = 8
"""Frames that are looked at, as long as all activations together have no more elements."""
MOST_ROWS = 12
"""Rows and columns of a picture, or rows of a sequence, of any values."""


class Exact:
    """Compares a quantised graph with the float graph it was made of, node by node.

    Args:
        graph: The float graph, with common metadata; may be quantised in place afterwards.
    """

    def __init__(self, graph: MaseGraph) -> None:
        self.nodes = [FloatNode.of(graph, node) for node in graph.nodes if node.op not in ("placeholder", "output")]
        self._names = {node.name for node in graph.nodes}
        tensors = {n: list(graph.meta_of(n).common.results.tensors.values()) for n in graph.nodes}
        inputs = [t.shape for n in graph.nodes if n.op == "placeholder" for t in tensors[n] if t.shape]
        self._frame = max([shape[0] for shape in inputs], default=1)
        elements = max(1, sum(math.prod(t.shape) for found in tensors.values() for t in found))
        self._frames = max(1, min(MOST_FRAMES, MOST_ELEMENTS // elements))

    def check(self, graph: MaseGraph, batches: Sequence[Values]) -> list[Seen]:
        """Compare the quantised graph with the float nodes.

        Args:
            graph: The quantised graph.
            batches: Inputs by name of the graph's input; the first rows of each are used.

        Returns:
            The inputs, and what every node of the quantised graph gave for them.

        Raises:
            GraphError: Names the first node that computes something else than the float node did.
        """
        found = {node.name: node for node in graph.nodes}
        seen: list[Seen] = []
        for inputs in self._some(_different(batches)):
            values = every_value(graph.model, inputs)
            for each in self.nodes:
                self._check(graph, each, found.get(each.name), values)
            seen.append((inputs, values))
        return seen

    def _some(self, batches: Sequence[Values]) -> Iterator[dict[str, object]]:
        """The first frames of all batches together; one batch after the other if none has more frames than the example.

        A model may have the size of its example written in it. One that has taken more frames has not.
        """
        rows = [min((len(v) for v in batch.values() if has_rows(v)), default=self._frame) for batch in batches]
        if max(rows) <= self._frame:
            yield from map(dict, batches[: self._frames])
            return
        most = max(1, self._frames // len(batches)) * self._frame
        yield {
            name: torch.cat([v[:most] for b in batches if has_rows(v := b[name])]) if has_rows(value) else value
            for name, value in batches[0].items()
        }

    def _check(self, graph: MaseGraph, each: FloatNode, node: fx.Node | None, values: dict[str, object]) -> None:
        if node is None:  # it only made a constant, which another node holds now
            values[each.name] = each.run(values)
            return
        module = graph.meta_of(node).module
        if isinstance(module, Quantized):
            sources = [arg for arg in node.args if isinstance(arg, fx.Node)]
            given = [value for s in sources if isinstance(value := values[s.name], Tensor)]
            kept: Kept = {}
            self._alike(each, module, sources, given, values, kept)
            if known(module):
                formats = [module.arithmetic.formats[f"data_in_{index}"] for index in range(len(sources))]
                generator = torch.Generator().manual_seed(0)
                shapes = {source: value.shape for source, value in zip(sources, given, strict=True)}
                small = {source: _corner(shape) for source, shape in shapes.items()}
                for sizes in (small, shapes) if small != shapes else (shapes,):
                    drawn = {
                        s: _anything(like, sizes[s], fmt, generator)
                        for s, like, fmt in zip(sources, given, formats, strict=True)
                    }
                    try:
                        self._alike(each, module, sources, [drawn[source] for source in sources], values, kept)
                        break
                    except (MaseHwError, RuntimeError, ValueError, TypeError, IndexError):
                        if sizes is shapes:
                            raise
        elif node.op not in ("get_attr", "placeholder") and graph.is_implicit(node):
            _check_order(graph, node, values)

    def _alike(
        self,
        each: FloatNode,
        module: Quantized,
        sources: Sequence[fx.Node],
        given: Sequence[Tensor],
        values: Values,
        kept: Kept,
    ) -> None:
        """Compare a node for certain inputs."""
        # What comes from a node that was left in float is on no grid yet.
        formats = [module.arithmetic.formats[f"data_in_{index}"] for index in range(len(given))]
        inputs = [dequantize(quantize(value, fmt), fmt) for value, fmt in zip(given, formats, strict=True)]
        count = places(module)
        if count is not None:  # what is no place is an error of the float layer
            inputs = [value.clamp(0, count - 1) for value in inputs]
        values_read = inputs if count is None else [value.long() for value in inputs]
        read = {self._origin(source): value for source, value in zip(sources, values_read, strict=True)}
        with user_code("a layer of the model cannot be run on values of its input format", node=each.name):
            wanted = first_tensor(each.run({**values, **read}))
        if wanted is not None:
            compare(each.name, module, wanted, inputs, kept)

    def _origin(self, node: fx.Node) -> str:
        """The float node whose value a node stands for: quantisation puts casts and entries between nodes."""
        while node.name not in self._names:
            node = node.all_input_nodes[0]
        return node.name


def places(module: Quantized) -> int | None:
    """Of a layer that reads a table: how many places it has."""
    shapes = {name: tuple(getattr(module, name).shape) for name in module.parameter_names}
    return None if module.op.places is None else module.op.places(shapes, module.arithmetic.attributes)


def _corner(shape: torch.Size) -> torch.Size:
    """A smaller picture of as many frames and channels, or fewer rows of a sequence; all else stays as it is.

    Layers that work on pictures and sequences do the same at every place, so that any values in a few rows and columns
    say what any values in all of them say. Not all do: what a smaller one does not bear out is decided by the whole.
    """
    places = {4: (2, 3), 3: (1,)}.get(len(shape), ())
    return torch.Size([min(size, MOST_ROWS) if dim in places else size for dim, size in enumerate(shape)])


def _anything(like: Tensor, shape: torch.Size, fmt: FixedFormat, generator: torch.Generator) -> Tensor:
    """Any values of a format, on the device of a tensor."""
    drawn = torch.randint(fmt.min_mantissa, fmt.max_mantissa + 1, shape, generator=generator)
    values: Tensor = fmt.values(drawn.double())
    return values.to(like.device)


def _different(batches: Sequence[Values]) -> list[Values]:
    """Each batch once: without calibration data the example is what was observed."""
    by_tensors = {tuple((name, id(value)) for name, value in batch.items()): batch for batch in batches}
    return list(by_tensors.values())


def _check_order(graph: MaseGraph, node: fx.Node, values: Values) -> None:
    """Refuse a node without hardware that changes numbers: all it may do is to put them in another order."""
    sources = [n for n in node.all_input_nodes if isinstance(values.get(n.name), Tensor)]
    before, after = values[sources[0].name] if sources else None, first_tensor(values[node.name])
    if not isinstance(before, Tensor) or after is None:
        return
    a, b = (value.flatten().double().cpu() for value in (before, after))
    # Most only have another shape; NumPy sorts the numbers of the others many times faster than torch.
    if not torch.equal(a, b) and not np.array_equal(np.sort(a.numpy()), np.sort(b.numpy())):
        raise GraphError(
            "a node that has no hardware changes the numbers that pass through it",
            node=node.name,
            got=f"{graph.meta_of(node).common.mase_op}, which gives other numbers than it gets",
            expected="the same numbers, in another shape or order",
            remedy="look at what this layer of the model really computes",
        )
