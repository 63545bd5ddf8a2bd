"""What a quantisation cost, in ten lines: noise at the outputs, where it comes from, what is clipped and what is lost.

The float graph and the quantised graph run on the same frames, and every node that both have is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.formats import FixedFormat, Overflow, steps_of
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import Values, every_value, rows_of
from mase_hw.ir.trace.containers import contents
from mase_hw.nn import Quantized
from mase_hw.numerics import dequantize
from mase_hw.ops.arithmetic.where import beyond, some_beyond
from mase_hw.passes.evaluation.criteria import Perplexity, decibels

SUMMARY = "quantisation_summary"
"""Key of ``graph.meta``: the :class:`Summary` of the quantised graph."""
MOST_ELEMENTS = 1 << 23
"""Frames are looked at as long as all activations together have no more elements; at least one is."""
REACH_ONE = ("sigmoid", "hardsigmoid", "tanh", "erf", "softmax", "softmin", "masked_softmax", "recurrence")
"""Ops whose results come as close to 1 as their inputs allow, whatever was observed."""
NAMED = 3
"""Nodes, outputs and warnings that are named."""


@dataclass(frozen=True)
class NodeNoise:
    """What one node adds to the noise.

    Args:
        node: Its name.
        snr: Signal-to-noise ratio of its result in decibels, with all noise that reached it.
        added: Share of noise power in its result that its inputs did not have.
        clipped: Share of its float results beyond the range of its format.
        zeros: Share of its results that became zero.
        remedy: What causes most of its noise, and the key that would help.
    """

    node: str
    snr: float
    added: float
    clipped: float
    zeros: float
    remedy: str


@dataclass(frozen=True)
class NextTokens:
    """How well scores tell the token that comes next, of a graph of ids ``(rows, tokens)`` to scores.

    Args:
        tokens: That have one behind them, in all rows.
        float_model: Perplexity of the float graph, per token.
        quantised: That of the quantised graph.
        agree: Share of the tokens for which both give the highest score to the same one.
    """

    tokens: int
    float_model: float
    quantised: float
    agree: float

    def text(self) -> str:
        """In one line."""
        return (
            f"next of {self.tokens:,} tokens: perplexity {self.float_model:.4g} in float, {self.quantised:.4g} "
            f"quantised; the same one is most likely for {self.agree:.1%}"
        )


@dataclass(frozen=True)
class Summary:
    """What a quantisation cost.

    Args:
        calibrated: Whether there was calibration data; else value ranges are those of the example.
        batches: Batches that were observed.
        rows: Rows of the first dimension in all of them.
        frames: Rows from which the figures below were measured.
        outputs: Signal-to-noise ratio in decibels of every result of the model.
        nodes: All nodes in fixed point, in order of execution.
        clipped: Share of all results of nodes that were clipped.
        zeros: Share of them that became zero.
        parameters_clipped: Share of all parameters that were clipped.
        parameters_zero: Share of them that became zero.
        warnings: What is most likely a mistake, with the remedy.
        next_tokens: Of ids to scores, what they say of the next id; it means something of a language model alone.
    """

    calibrated: bool
    batches: int
    rows: int
    frames: int
    outputs: tuple[float, ...]
    nodes: tuple[NodeNoise, ...]
    clipped: float
    zeros: float
    parameters_clipped: float
    parameters_zero: float
    warnings: tuple[str, ...]
    next_tokens: NextTokens | None = None

    def worst(self) -> list[NodeNoise]:
        """The three nodes that add most noise for their signal, the worst first."""
        return sorted((n for n in self.nodes if n.added > 0), key=lambda n: -n.added)[:NAMED]

    def to_dict(self) -> Json:
        """All of it as plain values."""
        return asdict(self)

    def lines(self) -> list[str]:
        """At most ten lines of text, and as many warnings as are named."""
        seen = f"{_many(self.batches, 'batch', 'es')}, {_many(self.rows, 'row')}"
        data = seen if self.calibrated else "the example: give calibration data"
        found = [f"quantised {_many(len(self.nodes), 'node')}; value ranges from {data}"]
        ratios = ", ".join(_decibels(ratio) for ratio in self.outputs[:NAMED])
        more = f" and {len(self.outputs) - NAMED} more" if len(self.outputs) > NAMED else ""
        found.append(f"signal-to-noise ratio at the output: {ratios}{more} ({self.frames} rows)")
        found += [f"  lost at {n.node}: {_decibels(n.snr)}, by {n.remedy}" for n in self.worst()]
        found.append(f"of results {self.clipped:.2%} are clipped and {self.zeros:.2%} became zero")
        lost = f"{self.parameters_clipped:.2%} are clipped and {self.parameters_zero:.2%} became zero"
        found.append(f"of parameters {lost}")
        found += [f"warning: {text}" for text in self.warnings[:NAMED]]
        rest = len(self.warnings) - NAMED
        return [*found, f"warning: and {rest} more of the kind"] if rest > 0 else found


def _many(number: int, what: str, ending: str = "s") -> str:
    return f"{number} {what}{'' if number == 1 else ending}"


def _decibels(ratio: float) -> str:
    return "no noise" if ratio == math.inf else f"{ratio:.1f} dB"


Seen = tuple[Values, Values]
"""Inputs of a graph by name, and the value of every node for them."""


class Summarising:
    """Takes in the float graph before it is quantised, and compares afterwards.

    Args:
        graph: The float graph, with common metadata; may be quantised in place afterwards.
        batches: Inputs by name of the graph's input.
    """

    def __init__(self, graph: MaseGraph, batches: Sequence[Values]) -> None:
        elements = 1
        for node in graph.nodes:
            elements += sum(math.prod(t.shape) for t in graph.meta_of(node).common.results.tensors.values())
        self._inputs = list(_some(graph, batches, max(1, MOST_ELEMENTS // elements)))
        self._wanted = [every_value(graph.model, inputs) for inputs in self._inputs]

    def of(self, graph: MaseGraph, calibrated: bool, batches: int, rows: int, seen: Sequence[Seen] = ()) -> Summary:
        """Compare the quantised graph.

        Args:
            graph: The quantised graph.
            calibrated: As in :class:`Summary`, as are the others.
            batches: How many were observed.
            rows: In all of them.
            seen: What the quantised graph is known to give, so that it need not run again.
        """
        sums: dict[str, _Sums] = {}
        outputs: list[_Sums] = []
        scores = _Scores()
        for inputs, wanted in zip(self._inputs, self._wanted, strict=True):
            known = (values for given, values in seen if _same(given, inputs))
            found = next(known, None) or every_value(graph.model, inputs)
            for node in graph.nodes:
                self._add(graph, node, found[node.name], wanted, sums, outputs)
                if node.op == "output":
                    scores.add(inputs, wanted[node.name], found[node.name])
        parameters = _Parameters(graph)
        total = sum(s.count for s in sums.values()) or 1
        return Summary(
            calibrated,
            batches,
            rows,
            sum(rows_of(inputs) for inputs in self._inputs),
            tuple(decibels(s.signal, s.noise) for s in outputs),
            tuple(_noise(graph, name, each, sums, parameters) for name, each in sums.items()),
            sum(s.clipped for s in sums.values()) / total,
            sum(s.zeros for s in sums.values()) / total,
            parameters.clipped / (parameters.count or 1),
            parameters.zeros / (parameters.count or 1),
            (*parameters.warnings, *_wrapping(graph, sums)),
            scores.result(),
        )

    def _add(
        self,
        graph: MaseGraph,
        node: fx.Node,
        value: Any,
        wanted: Values,
        sums: dict[str, _Sums],
        outputs: list[_Sums],
    ) -> None:
        name = node.name
        if node.op == "output":
            pairs = zip(contents(wanted[name]), contents(value), strict=True)
            both = [(a, b) for a, b in pairs if isinstance(a, Tensor) and isinstance(b, Tensor)]
            outputs += [_Sums() for _ in both[len(outputs) :]]
            for each, (a, b) in zip(outputs, both, strict=True):
                each.add(a, b, None)
        module = graph.meta_of(node).module
        before = wanted.get(name)
        if isinstance(module, Quantized) and isinstance(before, Tensor):
            sums.setdefault(name, _Sums()).add(before, value, module.arithmetic.formats["data_out_0"])


@dataclass
class _Sums:
    """Over one tensor: counts, and sums of squares."""

    count: int = 0
    signal: float = 0.0
    noise: float = 0.0
    clipping: float = 0.0
    clipped: int = 0
    zeros: int = 0

    def add(self, wanted: Tensor, found: Tensor, fmt: FixedFormat | None) -> None:
        if some_beyond(wanted):
            keep = ~beyond(wanted)
            wanted, found = wanted[keep], found[keep]
        a, b = wanted.double(), found.double()
        self.count += a.numel()
        self.signal += float(a.square().sum())
        self.noise += float((a - b).square().sum())
        if fmt is None:
            return
        over = a - a.clamp(fmt.min_value - fmt.scale / 2, fmt.max_value + fmt.scale / 2)
        self.clipped += int(torch.count_nonzero(over))
        self.clipping += float(over.square_().sum())
        self.zeros += int(torch.count_nonzero((b == 0) & (a != 0)))


class _Scores:
    """Scores of tokens beside the tokens that come next."""

    def __init__(self) -> None:
        self._judges = Perplexity(), Perplexity()
        self._agree = 0

    def add(self, inputs: Values, wanted: Any, found: Any) -> None:
        """Take in a batch, if it is one of ids and scores."""
        ids = [value for value in inputs.values() if isinstance(value, Tensor)]
        both = [next((v for v in contents(result) if isinstance(v, Tensor)), None) for result in (wanted, found)]
        if len(ids) != 1 or ids[0].dim() != 2 or ids[0].is_floating_point() or ids[0].shape[1] < 2:
            return
        scores = [v for v in both if v is not None and v.is_floating_point() and v.shape[:-1] == ids[0].shape]
        if len(scores) != len(both) or int(ids[0].max()) >= scores[0].shape[-1]:
            return
        for judge, each in zip(self._judges, scores, strict=True):
            judge.update(each[:, :-1], ids[0][:, 1:])
        likeliest = [each[:, :-1].argmax(-1) for each in scores]
        self._agree += int((likeliest[0] == likeliest[1]).sum())

    def result(self) -> NextTokens | None:
        """None if there was no such batch."""
        tokens = self._judges[0].count
        if not tokens:
            return None
        return NextTokens(tokens, self._judges[0].result(), self._judges[1].result(), self._agree / tokens)


class _Parameters:
    """What became of the parameters of all nodes."""

    def __init__(self, graph: MaseGraph) -> None:
        self.count = self.clipped = self.zeros = 0
        self.warnings: list[str] = []
        self.lost: dict[str, tuple[float, str]] = {}
        """By node: noise power over signal power of its worst floating parameter, and the parameter."""
        for node in graph.nodes:
            module = graph.meta_of(node).module
            if isinstance(module, Quantized):
                for name in module.parameter_names:
                    value = getattr(module, name).detach()
                    if value.dtype.is_floating_point and value.numel():
                        grid = _on_grid(module, name)
                        value = torch.where(beyond(value), grid, value) if some_beyond(value) else value
                        self._add(node.name, name, value.double(), grid, module)

    def _add(self, node: str, name: str, value: Tensor, found: Tensor, module: Quantized) -> None:
        fmt = module.arithmetic.formats[name]
        self.count += value.numel()
        self.zeros += int(torch.count_nonzero((found == 0) & (value != 0)))
        error = value - found
        if max(map(abs, _ends(error))) > fmt.scale:
            low, high = _ends(found)
            ends = (found <= low) | (found >= high)
            self.clipped += int(torch.count_nonzero(ends & (error.abs() > fmt.scale)))
        signal, noise = float(value.square().sum()), float(error.square_().sum())
        if name == "weight" and signal:
            self.lost[node] = (noise / signal, name)
        key = f"{'weight' if name == 'constant' else name}_width"
        if bool(value.any()) and not bool(found.any()):
            self.warnings.append(
                f"{name} of {node} became all zero in {fmt}; give it more bits (overrides.{node}.config.{key}), or "
                "leave its fraction width out so that it is chosen"
            )
        elif fmt.width == 1 and bool(value.any()):
            numbers = f"{fmt.min_value:g} and {fmt.max_value:g}"
            self.warnings.append(
                f"{name} of {node} has one bit, so that it is {numbers} only; give it two or more "
                f"(overrides.{node}.config.{key} = 2)"
            )


def _ends(values: Tensor) -> tuple[float, float]:
    """The least and the largest number of a tensor."""
    low, high = torch.aminmax(values)
    return float(low), float(high)


def _on_grid(module: Quantized, name: str) -> Tensor:
    """The values of a parameter that the hardware has."""
    fmt = module.arithmetic.formats[name]
    value = dequantize(module.mantissa(name), fmt).double()
    if name == "weight" and "weight_shift" in module.parameter_names:
        # The step of a channel or a block is so many times coarser.
        factor = fmt.factors(module.get_buffer("weight_shift")).double()
        value = value * fmt.spread(factor, value.shape)
    return value


def _wrapping(graph: MaseGraph, sums: Mapping[str, _Sums]) -> Iterator[str]:
    """What is said of nodes whose results wrap: those that did, and the 1 that would."""
    for name, each in sums.items():
        module = graph.meta_of(graph.node(name)).module
        if not isinstance(module, Quantized) or module.arithmetic.overflow is not Overflow.WRAP:
            continue
        fmt, what = module.arithmetic.formats["data_out_0"], ""
        if each.clipped:
            what = f"{each.clipped / each.count:.2%} of the results of {name} wrap in {fmt}"
        elif module.op.name in REACH_ONE and fmt.max_value < 1:
            one = round(math.ldexp(1.0, fmt.frac_width))
            becomes = ((one - fmt.min_mantissa) % 2**fmt.width + fmt.min_mantissa) * fmt.scale
            what = f"{name} can give 1, which wraps to {becomes:g} in {fmt}"
        if what:
            yield f'{what}; let it saturate (overrides.{name}.config.overflow = "saturate")'


def _noise(graph: MaseGraph, name: str, sums: _Sums, others: Mapping[str, _Sums], parameters: _Parameters) -> NodeNoise:
    ratio = _share(sums.noise, sums.signal)
    inputs = [_share(s.noise, s.signal) for s in _sources(graph, graph.node(name), others)]
    added = max(0.0, ratio - max(inputs, default=0.0))
    count = sums.count or 1
    remedy = _remedy(graph, name, sums, parameters)
    return NodeNoise(name, decibels(sums.signal, sums.noise), added, sums.clipped / count, sums.zeros / count, remedy)


def _sources(graph: MaseGraph, node: fx.Node, sums: Mapping[str, _Sums]) -> list[_Sums]:
    """What is known of the inputs of a node, through casts and nodes that only give another shape."""
    found: list[_Sums] = []
    for source in node.all_input_nodes:
        found += [sums[source.name]] if source.name in sums else _sources(graph, source, sums)
    return found


def _remedy(graph: MaseGraph, name: str, sums: _Sums, parameters: _Parameters) -> str:
    """What takes away the largest part of the noise that a node makes itself."""
    module = graph.meta_of(graph.node(name)).module
    assert isinstance(module, Quantized)
    fmt = module.arithmetic.formats["data_out_0"]
    rounding = _share(sums.count * fmt.scale**2 / 12, sums.signal)
    causes = {"result": rounding, "range": _share(sums.clipping, sums.signal)}
    if name in parameters.lost:
        causes["weight"] = parameters.lost[name][0]
    cause = max(causes, key=lambda key: causes[key])
    if cause == "weight":
        width = module.arithmetic.formats["weight"].width
        finer = " (or per channel)" if _for_the_tensor(module) else ""
        return f"its weights: weight_width = {width + 1}{finer}"
    if cause == "range":
        return f"clipping {sums.clipped / (sums.count or 1):.2%}: data_out_width = {fmt.width + 1} (or min_max)"
    return f"rounding: data_out_width = {fmt.width + 1}"


def _for_the_tensor(module: Quantized) -> bool:
    """Whether the weights have one step."""
    return "weight_shift" not in module.parameter_names and len(steps_of(module.arithmetic.formats["weight"])) == 1


def _share(noise: float, signal: float) -> float:
    return noise / signal if signal else (math.inf if noise else 0.0)


def _same(given: Values, inputs: Values) -> bool:
    return given.keys() == inputs.keys() and all(given[name] is value for name, value in inputs.items())


def _some(graph: MaseGraph, batches: Sequence[Values], frames: int) -> Iterator[dict[str, object]]:
    """So many frames of the first batches, each cut at a whole frame."""
    shapes = [t.shape for n in graph.nodes if n.op == "placeholder" for t in _tensors(graph, n) if t.shape]
    frame = max([shape[0] for shape in shapes], default=1)
    for batch in batches:
        have = rows_of(batch)
        take = min(have, frames * frame)
        if take > 0:
            cut = take < have
            yield {k: v[:take] if cut and isinstance(v, Tensor) and v.dim() else v for k, v in batch.items()}
        frames -= -(-take // frame)
        if frames <= 0:
            return


def _tensors(graph: MaseGraph, node: fx.Node) -> list[Any]:
    return list(graph.meta_of(node).common.results.tensors.values())
