"""The statistics profiler: chosen statistics of chosen nodes over a data set."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

from pydantic import AliasChoices, ConfigDict, Field, field_validator
from torch import Tensor, fx

from mase_hw.errors import ConfigError, suggest
from mase_hw.host.documents import Json
from mase_hw.ir.annotate import named_results
from mase_hw.ir.evaluate import evaluate
from mase_hw.ir.graph import COMMON_PASS, MaseGraph
from mase_hw.ir.paths import attribute_at
from mase_hw.passes.analysis.add_software_metadata import statistics_of
from mase_hw.passes.analysis.statistics import Collection, StatisticsConfig
from mase_hw.passes.analysis.statistics.base import batches, has_dim
from mase_hw.passes.base import Info, PassArgs, graph_pass

PROFILE_PASS = "profile_statistics_analysis_pass"

Result = tuple[fx.Node, str]
"""A result of a node."""
Place = tuple[fx.Node, str, str]
"""Where statistics are written: node, branch (``args`` or ``results``) and name of the tensor."""


class ProfileArgs(PassArgs):
    """Arguments of :func:`profile_statistics_analysis_pass`."""

    model_config = ConfigDict(populate_by_name=True)

    by: Literal["type", "name", "regex_name"] = Field(
        default="type", description="what the targets are: a mase_op, a node name or a regular expression for one"
    )
    target_weight_nodes: list[str] = Field(default=[], description="nodes whose parameters are observed")
    target_activation_nodes: list[str] = Field(default=[], description="nodes whose inputs are observed")
    weight_statistics: StatisticsConfig = Field(default=StatisticsConfig(), description="for parameters")
    activation_statistics: StatisticsConfig = Field(default=StatisticsConfig(), description="for activations")
    profile_output_activation: bool = Field(default=False, description="observe the results of the nodes as well")
    input_generator: Any = Field(
        default=None,
        validation_alias=AliasChoices("input_generator", "data"),
        description="iterable of batches: a tensor, a tuple in the order of the inputs, or a dict",
    )
    num_samples: int | None = Field(
        default=None, ge=1, description="stop after the batch with which so many samples were seen; None for all"
    )
    progress: Callable[[int, int | None], Any] | None = Field(
        default=None, description="called after every batch with the number done and the total, if known"
    )

    @field_validator("target_weight_nodes", "target_activation_nodes", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value


@graph_pass(PROFILE_PASS, args=ProfileArgs, needs=(COMMON_PASS,))
def profile_statistics_analysis_pass(graph: MaseGraph, args: ProfileArgs) -> tuple[MaseGraph, Info]:
    """Run the model over data and fill the statistics of the chosen nodes.

    They are at ``meta["software"]["args"][name]["stat"]`` (and ``results``), under the names of
    :data:`~mase_hw.passes.analysis.statistics.STATISTICS`. Parameters are those of the node's module and the
    attributes of the model that a function reads as its parameter; every other tensor is an activation. One batch is
    in memory at a time, beside what ``record``, ``variance_precise`` and ``range_quantile`` keep.

    Returns:
        The graph, and the number of batches and samples, and the statistics of every node; of a record only shape
        and count.

    After an error the metadata is as it was before.

    Raises:
        ConfigError: If a target matches no tensor, statistics have no targets or targets no statistics, there is too
            little data, or a batch or an option does not fit.
        FormatError: If a tensor has NaN or infinite values; names it.
    """
    targets = _Targets(graph, args)
    found: dict[Place, Collection] = {}
    for (node, name), value in targets.weights.items():
        found[node, "args", name] = collection = Collection(args.weight_statistics, batched=False)
        collection.update(value, f"{node.name}.{name}")
    seen = {result: Collection(args.activation_statistics) for result in targets.activations.values()}
    done, samples = _run(graph, args, seen) if seen else (0, 0)
    found |= {place: seen[result] for place, result in targets.activations.items()}
    outcome = {id(c): c.results() for c in found.values()}  # one collection may serve several places
    nodes: Json = {}
    for (node, branch, name), collection in found.items():
        results = {k: dict(v) for k, v in outcome[id(collection)].items()}
        statistics_of(getattr(graph.meta_of(node).software, branch), name).update(results)
        nodes.setdefault(node.name, {}).setdefault(branch, {})[name] = {k: _shown(v) for k, v in results.items()}
    return graph, {"batches": done, "samples": samples, "nodes": nodes}


def _run(graph: MaseGraph, args: ProfileArgs, seen: dict[Result, Collection]) -> tuple[int, int]:
    """Show every batch to the statistics; the number of batches and samples."""
    wanted = {node for node, _ in seen}

    def on_node(node: fx.Node, value: Any) -> None:
        if node in wanted:
            for name, result in named_results(value):
                if (node, name) in seen and isinstance(result, Tensor):
                    seen[node, name].update(result, f"{node.name}.{name}")

    data, subject = args.input_generator, "data to profile"
    total = len(data) if hasattr(data, "__len__") else None
    done = samples = 0
    for _, inputs in batches(graph, data, "input_generator", subject):
        evaluate(graph.model, inputs, on_node)
        done += 1
        samples += next((len(v) for v in inputs.values() if isinstance(v, Tensor) and v.ndim), 1)
        if args.progress is not None:
            args.progress(done, total)
        if args.num_samples is not None and samples >= args.num_samples:
            break
    if samples < (args.num_samples or 0):
        raise ConfigError(
            "there is less data than num_samples",
            field="num_samples",
            got=f"{samples} samples",
            expected=args.num_samples,
            remedy="pass more data, or leave num_samples out to use all of it",
        )
    return done, samples


def _shown(statistic: Json) -> Json:
    return {k: {"shape": list(v.shape)} if isinstance(v, Tensor) else v for k, v in statistic.items()}


class _Targets:
    """The tensors to observe: parameters with their value, activations as results of the nodes that write them."""

    def __init__(self, graph: MaseGraph, args: ProfileArgs) -> None:
        self.graph = graph
        self.args = args
        self.weights: dict[Result, Tensor] = {}
        self.activations: dict[Place, Result] = {}
        self._problems: list[str] = []
        self._find("target_weight_nodes", "weight_statistics", self._weights_of)
        self._find("target_activation_nodes", "activation_statistics", self._activations_of)
        self._check_dims("weight_statistics", [t.dim() for t in self.weights.values()])
        shapes = [graph.tensor(*result).shape for result in self.activations.values()]
        self._check_dims("activation_statistics", [len(s) for s in shapes])
        if not self._problems and not self.weights and not self.activations:
            self._problems.append("target_weight_nodes, target_activation_nodes: both are empty")
        if self._problems:
            raise ConfigError(
                f"{len(self._problems)} problem(s) in the arguments of {PROFILE_PASS}:\n  "
                + "\n  ".join(self._problems),
                field=", ".join(dict.fromkeys(p.split(":")[0] for p in self._problems)),
                remedy="correct the keys above and run again",
            )

    def _find(self, targets: str, statistics: str, observe: Callable[[fx.Node], int]) -> None:
        keys: list[str] = getattr(self.args, targets)
        chosen = getattr(self.args, statistics).chosen()
        if bool(keys) != bool(chosen):
            missing, idle = (statistics, targets) if keys else (targets, statistics)
            self._problems.append(f"{missing}: nothing is chosen, so {idle} would do nothing")
        for key in keys:
            nodes = self._matching(targets, key)
            if nodes and not sum([observe(node) for node in nodes]):
                self._problems.append(
                    f"{targets}: nothing to observe at {key!r} (nodes {', '.join(n.name for n in nodes)})"
                )

    def _matching(self, targets: str, key: str) -> list[fx.Node]:
        nodes = {n: (n.name, self.graph.meta_of(n).common.mase_op) for n in self.graph.nodes}
        if self.args.by == "regex_name":
            try:
                pattern = re.compile(key)
            except re.error as error:
                self._problems.append(f"{targets}: {key!r} is no regular expression: {error}")
                return []
            found = [n for n, (name, _) in nodes.items() if pattern.fullmatch(name)]
        else:
            index = 1 if self.args.by == "type" else 0
            found = [n for n, labels in nodes.items() if labels[index] == key]
        if not found:
            known = {labels[1 if self.args.by == "type" else 0] for labels in nodes.values()}
            what = "node of this op" if self.args.by == "type" else "such node"
            self._problems.append(f"{targets}: no {what} in the graph: {key!r} ({suggest(key, known)})")
        return found

    def _check_dims(self, statistics: str, ranks: list[int]) -> None:
        for name, options in getattr(self.args, statistics).chosen().items():
            dims = getattr(options, "dims", None)
            for dim in dims if ranks and isinstance(dims, tuple) else ():
                if not any(has_dim(rank, dim) for rank in ranks):
                    most = max(ranks)
                    self._problems.append(f"{statistics}.{name}.dims: no tensor has {dim} (at most {most} dimensions)")

    def _weights_of(self, node: fx.Node) -> int:
        sources = self.graph.sources(node)
        names = [n for n in self.graph.meta_of(node).common.args.tensors if _is_weight(n, sources)]
        for name in names:
            root: Any = self.graph.meta_of(node).module
            path = name
            if name in sources:
                root, path = self.graph.model, str(sources[name][0].target)
            self.weights[node, name] = attribute_at(root, path)
        return len(names)

    def _activations_of(self, node: fx.Node) -> int:
        sources = self.graph.sources(node)
        found = {(node, "args", n): s for n, s in sources.items() if not _is_weight(n, sources)}
        if self.args.profile_output_activation:
            found |= {(node, "results", n): (node, n) for n in self.graph.meta_of(node).common.results.tensors}
        self.activations |= found
        return len(found)


def _is_weight(name: str, sources: dict[str, Result]) -> bool:
    """A tensor of the module itself, or a parameter of a function that is an attribute of the model."""
    return name not in sources or (not name.startswith("data_in_") and sources[name][0].op == "get_attr")
