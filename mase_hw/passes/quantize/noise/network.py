"""What the network loses by the quantisation of single nodes: noise where it counts, at the outputs.

Noise of a node at its own result says little about the network: what follows may damp it or amplify it. Here every
group of nodes is quantised alone, everything else stays in float, and the error is taken at the outputs.

- *Measured*: the network is run once for every group.
- *Estimated*: one run forwards and one backwards for all groups. With ``J`` the derivative of the outputs by a result
  and ``e`` the error that the group's quantisation makes there, the power of the error at the outputs is close to
  ``|J e|**2``, which is the mean of ``(v J e)**2`` over vectors ``v`` of random signs (M. F. Hutchinson, 1990); ``v J``
  is one backward pass, and every frame has signs of its own.

Streaming sums behind one :class:`~mase_hw.passes.quantize.noise.report.Noise`.

Which nodes of a quantised graph stand for which of the float graph it was made of.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from mase_hw.catalogue import Arithmetic
from mase_hw.errors import ConfigError, FormatError, GraphError
from mase_hw.formats import FixedFormat, Overflow, any_scaled
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ir.copies import copy_graph
from mase_hw.ir.evaluate import Values, evaluate
from mase_hw.nn import Quantized
from mase_hw.numerics import quantize
from mase_hw.passes.analysis.statistics.base import batches
from mase_hw.passes.evaluation.criteria import decibels
from mase_hw.passes.quantize.noise.record import Noise


@dataclass
class NoiseSums:
    """Sums in float64 over the elements seen; one batch is in memory at a time.

    Args:
        fmt: Format of the results; None of a node in float.
        overflow: What the node does beyond its format.
    """

    fmt: FixedFormat | None = None
    overflow: Overflow = Overflow.SATURATE
    count: int = 0
    signal: float = 0.0
    noise: float = 0.0
    power: float = 0.0
    product: float = 0.0
    absolute: float = 0.0
    worst: float = 0.0
    saturated: int = 0
    low: int = 0
    high: int = 0

    @classmethod
    def of(cls, arithmetic: Arithmetic | None) -> NoiseSums:
        """Sums for the results of a node."""
        if arithmetic is None:
            return cls()
        return cls(arithmetic.formats["data_out_0"], arithmetic.overflow)

    def update(self, exact: Tensor, found: Tensor, name: str) -> None:
        """Take in a batch of float results and of quantised ones; same shape.

        Raises:
            FormatError: If the float result is NaN or infinite.
        """
        want, got = exact.detach().double(), found.detach().double()
        if want.numel() == 0:
            return
        if not bool(want.isfinite().all()):
            raise FormatError(
                "the float network gives a value that is not finite",
                node=name,
                remedy="look for NaN or infinity in the data or the weights",
            )
        error = (got - want).abs()
        self.count += want.numel()
        self.signal += float(want.square().sum())
        self.power += float(got.square().sum())
        self.noise += float(error.square().sum())
        self.product += float((want * got).sum())
        self.absolute += float(error.sum())
        self.worst = max(self.worst, float(error.max()))
        if self.fmt is not None:
            self._format(self.fmt, want, got)

    def _format(self, fmt: FixedFormat, want: Tensor, got: Tensor) -> None:
        over = want > fmt.max_value + fmt.scale / 2
        under = want < fmt.min_value - fmt.scale / 2
        mantissas = quantize(got, fmt)
        if self.overflow is Overflow.SATURATE:
            over, under = over & (mantissas == fmt.max_mantissa), under & (mantissas == fmt.min_mantissa)
        self.saturated += int((over | under).sum())
        self.low = min(self.low, int(mantissas.min()) - fmt.zero_point)
        self.high = max(self.high, int(mantissas.max()) - fmt.zero_point)

    def result(self) -> Noise:
        """The figures of everything taken in."""
        if self.power == self.signal == 0.0:
            cosine = 1.0
        elif 0.0 in (self.power, self.signal):
            cosine = 0.0
        else:
            cosine = self.product / math.sqrt(self.signal) / math.sqrt(self.power)
        count = max(1, self.count)
        return Noise(
            sqnr_db=decibels(self.signal, self.noise),
            cosine=max(-1.0, min(1.0, cosine)),
            mean_abs=self.absolute / count,
            max_abs=self.worst,
            saturation=self.saturated / count,
            used_bits=self._used_bits(),
        )

    def _used_bits(self) -> int | None:
        if self.fmt is None:
            return None
        if self.fmt.zero_point:  # which another format may put elsewhere, so that all codes count
            return max(1, (self.high - self.low).bit_length())
        bits = max(self.high.bit_length(), (-self.low - 1).bit_length() if self.low < 0 else 0)
        return max(1, bits + int(self.fmt.signed))


OWN = frozenset({"data_in_0", "data_out_0", "multiplier", "multiplier_shift"})
"""Tensors of a cast or a requantisation."""


def arithmetic_of(graph: MaseGraph, node: fx.Node) -> Arithmetic | None:
    """The arithmetic of a quantised node; None of a node in float."""
    found = getattr(graph.meta_of(node).module, "arithmetic", None)
    return found if isinstance(found, Arithmetic) else None


def origins(exact: MaseGraph, quantised: MaseGraph) -> dict[str, str]:
    """Node of the quantised graph -> node of the float graph whose value it stands for.

    Nodes keep their names. What quantisation inserted (casts, requantisations, inputs of the hardware) stands for the
    tensor that enters it.

    Raises:
        GraphError: If the float graph is quantised, the other is not, or the two do not belong together; names the
            node.
    """
    found = {node.name: node.name for node in exact.nodes}
    for node in quantised.nodes:
        if node.name in found:
            continue
        arithmetic = arithmetic_of(quantised, node)
        before = [n for n in node.all_input_nodes if n.name in found]
        if arithmetic is None or set(arithmetic.formats) - OWN or len(before) != 1:
            raise stranger(node)
        found[node.name] = found[before[0].name]
    if all(arithmetic_of(quantised, node) is None for node in quantised.nodes):
        raise GraphError(
            "the graph is not quantised, so there is no noise to analyse",
            node="quantised_graph",
            remedy="run quantize_transform_pass on it; give the float graph first and the quantised one second",
        )
    for node in exact.nodes:
        module = exact.model.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(getattr(module, "arithmetic", None), Arithmetic):
            raise GraphError(
                "the float graph is quantised itself",
                node=node.name,
                remedy="quantisation changes a graph in place: make a second MaseGraph of the float model",
            )
    return found


def stranger(node: fx.Node, got: Any = None, expected: Any = None) -> GraphError:
    """The error for a node that shows that two graphs do not belong together."""
    return GraphError(
        "the two graphs do not belong together",
        node=node.name,
        got=got or "no node of that name in the float graph",
        expected=expected,
        remedy="give the float graph from which the quantised one was made, with the same folding and simplifications",
    )


Method = Literal["measured", "estimated"]


@dataclass(frozen=True)
class NetworkNoise:
    """Noise at the outputs by every group alone.

    Args:
        signal: Sum of the squares of the float outputs, over all outputs, elements and data.
        noise: By group, the sum of the squares of the error.
        method: ``measured`` or ``estimated``.
    """

    signal: float
    noise: Mapping[str, float]
    method: Method

    def sqnr_db(self, group: str) -> float:
        """Power of the outputs over that of the error by one group, in dB."""
        return decibels(self.signal, self.noise[group])

    def ranking(self) -> list[str]:
        """The groups, that by which most is lost first; equal ones in order of execution."""
        return sorted(self.noise, key=lambda name: -self.noise[name])

    def to_dict(self) -> Json:
        """Plain values; an infinite ratio is a text, since JSON has none."""
        ratios = {name: self.sqnr_db(name) for name in self.noise}
        return {"method": self.method, "sqnr_db": {k: v if math.isfinite(v) else str(v) for k, v in ratios.items()}}


def network_noise(
    float_graph: MaseGraph,
    quantised_graph: MaseGraph,
    data: Iterable[Any],
    *,
    groups: Mapping[str, Sequence[str]] | None = None,
    method: Method = "measured",
    seed: int = 0,
) -> NetworkNoise:
    """Error at the outputs by every node, or group of nodes, that is quantised alone.

    Args:
        float_graph: The graph before quantisation; nodes are found by name.
        quantised_graph: A graph after ``quantize_transform_pass``.
        data: Iterable of batches of inputs, as for calibration.
        groups: Nodes by name of a group; every quantised node by itself if None.
        method: ``measured``: one run for every group; ``estimated``: one run forwards and one backwards for all.
        seed: Of the random signs of an estimate.

    Raises:
        GraphError: If the two graphs do not belong together, or the second is not quantised.
        ConfigError: If there is no data, a batch does not fit, a group names a node that is not quantised, or there is
            no such method.
    """
    if method not in ("measured", "estimated"):
        raise ConfigError("there is no such method", field="method", got=method, expected="measured or estimated")
    origin = origins(float_graph, quantised_graph)
    alone = {n.name: [n.name] for n in quantised_graph.nodes if _replaces(quantised_graph, n, origin)}
    chosen = dict(alone if groups is None else groups)
    for group, members in chosen.items():
        for name in members:
            if name not in alone:
                raise ConfigError("this node is not quantised", field=f"groups.{group}", got=name, expected=list(alone))
    partial = {name: _partly(float_graph, quantised_graph, members, origin) for name, members in chosen.items()}
    signal, noise = 0.0, dict.fromkeys(chosen, 0.0)
    generator = torch.Generator().manual_seed(seed)
    for _, inputs in batches(quantised_graph, data, subject="data"):
        exact = _outputs(float_graph, inputs)
        signal += sum(float(t.square().sum()) for t in exact)
        if method == "measured":
            for name, made in partial.items():
                pairs = zip(exact, _outputs(made, inputs), strict=True)
                noise[name] += sum(float((want - got).square().sum()) for want, got in pairs)
            continue
        for name, power in _estimated(float_graph, partial, chosen, inputs, generator).items():
            noise[name] += power
    return NetworkNoise(signal, noise, method)


def _replaces(graph: MaseGraph, node: fx.Node, origin: Mapping[str, str]) -> bool:
    """Whether a node of the quantised graph does the work of one of the float graph."""
    return arithmetic_of(graph, node) is not None and origin.get(node.name) == node.name


def _partly(exact: MaseGraph, quantised: MaseGraph, members: Sequence[str], origin: Mapping[str, str]) -> MaseGraph:
    """A copy of the float graph in which some nodes are the quantised ones."""
    made = copy_graph(exact)
    here = {node.name: node for node in made.nodes}
    for name in members:
        node, theirs = here[name], quantised.node(name)
        made.model.add_submodule(f"quantised_{name}", _whole(quantised, theirs, here))
        node.op, node.target = "call_module", f"quantised_{name}"
        node.args, node.kwargs = fx.node.map_arg((theirs.args, theirs.kwargs), lambda n: here[origin[n.name]])
    made.model.recompile()
    return made


def _whole(graph: MaseGraph, node: fx.Node, known: Values) -> nn.Module:
    """The module of a node; of exact sums of scaled integers with the requantisation that was put behind them."""
    module: nn.Module = graph.model.get_submodule(str(node.target))
    if not isinstance(module, Quantized) or module.op.scaled is None or not any_scaled(module.arithmetic.formats):
        return module
    behind = next(iter(node.users), None)
    if behind is None or behind.name in known or not module.op.scaled.exact(module.arithmetic.attributes):
        return module
    return nn.Sequential(module, graph.model.get_submodule(str(behind.target)))


def _outputs(graph: MaseGraph, inputs: dict[str, object]) -> list[Tensor]:
    """The numbers that a graph gives, in float64."""
    found: list[Tensor] = []

    def keep(node: fx.Node, value: Any) -> None:
        if node.op == "output":
            found.extend(_numbers(value))

    evaluate(graph.model, inputs, keep)
    return [value.detach().double() for value in found]


def _numbers(value: Any) -> list[Tensor]:
    return [t for t in pytree.tree_leaves(value) if isinstance(t, Tensor) and t.dtype.is_floating_point]


def _estimated(
    exact: MaseGraph,
    partial: Mapping[str, MaseGraph],
    groups: Mapping[str, Sequence[str]],
    inputs: dict[str, object],
    generator: torch.Generator,
) -> dict[str, float]:
    """The estimate for one batch, by group."""
    ends = {name: _ends(exact, members) for name, members in groups.items()}
    wanted = {node for nodes in ends.values() for node in nodes}
    values, slopes = _slopes(exact, inputs, wanted, generator)
    frames = {len(v) for v in inputs.values() if isinstance(v, Tensor) and v.dim()}
    found = {}
    for name, nodes in ends.items():
        errors = _errors(partial[name], inputs, groups[name], nodes, values)
        total = torch.zeros((), dtype=torch.float64)
        for node in nodes:
            product = (slopes[node] * errors[node]).reshape(-1)
            # Frames do not meet in a network, so each is an estimate of its own.
            count = next((n for n in frames if len(frames) == 1 and slopes[node].shape[:1] == (n,)), 1)
            total = total + product.reshape(count, -1).sum(1)
        found[name] = float(total.square().sum())
    return found


def _ends(graph: MaseGraph, members: Sequence[str]) -> list[str]:
    """Nodes of a group whose results others read."""
    inside = set(members)
    return [name for name in members if any(user.name not in inside for user in graph.node(name).users)]


def _slopes(
    graph: MaseGraph, inputs: dict[str, object], wanted: set[str], generator: torch.Generator
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Results of nodes, and derivatives of the outputs, weighed by random signs, by these results."""
    probes: dict[str, Tensor] = {}
    values: dict[str, Tensor] = {}

    class Probed(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            value = super().run_node(n)
            if n.name not in wanted or not isinstance(value, Tensor):
                return value
            values[n.name] = value.detach().clone()
            probes[n.name] = torch.zeros_like(value, requires_grad=True)
            return value + probes[n.name]

    model = copy_graph(graph).model.eval()
    names = [n.name for n in model.graph.nodes if n.op == "placeholder"]
    with torch.enable_grad():
        result = Probed(model).run(*(inputs[name] for name in names))
        weighed = torch.zeros((), dtype=torch.float64)
        for value in _numbers(result):
            signs = torch.randint(0, 2, value.shape, generator=generator).to(value) * 2 - 1
            weighed = weighed + (signs * value).sum().double()
        found = torch.autograd.grad(weighed, list(probes.values()), allow_unused=True)
    given = zip(probes.items(), found, strict=True)
    return values, {name: (torch.zeros_like(p) if g is None else g).double() for (name, p), g in given}


def _errors(
    partial: MaseGraph, inputs: dict[str, object], members: Sequence[str], ends: list[str], exact: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """What quantising a group does to the results that others read."""
    found: dict[str, Tensor] = {}

    def keep(node: fx.Node, value: Any) -> None:
        if node.name in ends:
            found[node.name] = value.detach().double() - exact[node.name].double()

    evaluate(partial.model, inputs, keep)
    return found
