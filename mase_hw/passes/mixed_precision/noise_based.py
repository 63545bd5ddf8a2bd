"""Mixed precision by noise, as AFE documents it: everything low, then raise what hurts most until it is good enough.

What hurts is what the network loses at its outputs by a group of nodes alone, and what counts is the loss for the price
of raising it. The prefix of that ranking is pruned afterwards: what costs most is lowered again, one after the other,
wherever the target holds; and what is left of the iterations goes into other sets that cost less.

Looking for a cheaper set than pruning left, by the losses of the groups.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mase_hw.errors import ConfigError, SearchError
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ir.copies import copy_graph
from mase_hw.ir.module_paths import translations
from mase_hw.passes.base import validate
from mase_hw.passes.evaluation import CriterionLike
from mase_hw.passes.evaluation.evaluate import check_repeatable, pairs_of
from mase_hw.passes.mixed_precision.candidates import CandidateScorer, check_graph
from mase_hw.passes.mixed_precision.cost import CostModel, cost_model
from mase_hw.passes.mixed_precision.groups import check_keys, groups_of
from mase_hw.passes.mixed_precision.plan import Fact, Plan, Settings, complete, compose, settings_of
from mase_hw.passes.mixed_precision.prune import Pruned, Trials, lower_again
from mase_hw.passes.mixed_precision.rank import Ranked, rank
from mase_hw.passes.mixed_precision.search import MIXED_PRECISION_SEARCH_LIMIT, Tell, binary_search
from mase_hw.passes.quantize.calibrate import CALIBRATE_PASS, calibrate_analysis_pass
from mase_hw.passes.quantize.config import NodeConfig, QuantizeArgs, known_tensors
from mase_hw.passes.quantize.paths import with_node_names

ALL_SETS = 12
"""Groups up to which every set is considered; above, only those that differ from the best in a few groups."""

Key = frozenset[tuple[str, ...]]


def exchange(
    found: Pruned, rules: Trials, ranking: Sequence[Ranked], *, scores: dict[Key, float], trials: int
) -> Pruned:
    """Try sets that cost less than the best, those first that are expected to lose least.

    Pruning only ever lowers, so that it ends with whatever the ranking raised first. What a set is expected to lose is
    the sum of what the network loses by its groups one at a time, and what it is expected to cost the sum of their
    prices; the score decides, and the cost of the graph.

    Args:
        found: What pruning left.
        rules: How sets are made and judged.
        ranking: All groups.
        scores: Scores that are known, by raised groups; filled.
        trials: Graphs to score at most.

    Returns:
        The best set; ``complete`` if every set that was considered and costs less is known to be too bad.
    """
    made, cost, complete = rules.made, rules.cost, found.complete
    best, price = list(found.groups), cost(made(found.groups))
    reached = found.score
    while True:
        untried = (s for s in _sets(ranking, best) if _key(s) not in scores)
        cheaper = [s for s in untried if _price(s) < _price(best)]
        cheaper.sort(key=lambda s: (_loss(ranking, s), _price(s)))
        improved = False
        for groups in cheaper:
            candidate = made(groups)
            amount = cost(candidate)
            if not amount < price:
                continue
            if trials == 0:
                return Pruned(best, reached, False)
            trials -= 1
            value = scores[_key(groups)] = rules.score(candidate)
            enough = rules.good_enough(value)
            names = ", ".join(name for group in groups for name in group.nodes) or "nothing"
            rules.tell(f"raising {names} instead: {'good enough and cheaper' if enough else 'not good enough'}")
            if enough:
                best, price, reached, improved = groups, amount, value, True
                break
        if not improved:
            return Pruned(best, reached, complete)


def _sets(ranking: Sequence[Ranked], best: Sequence[Ranked]) -> Iterator[list[Ranked]]:
    """Sets to consider, in the order of the ranking."""
    if len(ranking) <= ALL_SETS:
        for picked in itertools.product((False, True), repeat=len(ranking)):
            yield [group for group, one in zip(ranking, picked, strict=True) if one]
        return
    # One or two groups out, none or one in.
    inside, outside = set(best), [group for group in ranking if group not in best]
    for count in (1, 2):
        for out in itertools.combinations(best, count):
            for extra in [[], *([group] for group in outside)]:
                kept = (inside - set(out)) | set(extra)
                yield [group for group in ranking if group in kept]


def _price(groups: Sequence[Ranked]) -> float:
    return sum(group.price for group in groups)


def _loss(ranking: Sequence[Ranked], raised: Sequence[Ranked]) -> float:
    return sum(group.loss for group in ranking) - sum(group.saved for group in raised)


def _key(groups: Sequence[Ranked]) -> Key:
    return frozenset(group.nodes for group in groups)


class MixedPrecisionConfig(BaseModel):
    """The two precisions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    low: int | Json | QuantizeArgs = Field(
        default=8,
        description="what every node has at first: a width, or arguments of ``quantize_transform_pass`` with all "
        "widths",
    )
    high: int | Json | QuantizeArgs = Field(default=16, description="what a raised node has, in the same form")


@dataclass(frozen=True)
class MixedPrecision:
    """What :func:`noise_based_mixed_precision_quantization` found.

    Args:
        graph: The quantised graph.
        plan: Its configuration, to be saved or compiled.
        raised: The raised nodes.
        ranking: All groups, those most worth raising first; those raised by the search are the first ones.
        lowered: The nodes of that prefix that are low in the end.
        score: The criterion of the graph.
        scores: The criterion by the number of raised groups, for every number that the search tried.
        cost: Cost of the graph, of the whole prefix, and of everything low and everything high: ``mixed``, ``prefix``,
            ``low``, ``high``.
        proven: Search, pruning and exchange ran to their end; False if ``max_iterations`` stopped one of them.
    """

    graph: MaseGraph
    plan: Plan
    raised: tuple[str, ...]
    ranking: tuple[Ranked, ...]
    lowered: tuple[str, ...]
    score: float
    scores: dict[int, float]
    cost: dict[str, float]
    proven: bool


def noise_based_mixed_precision_quantization(
    graph: MaseGraph,
    quantization_config: MixedPrecisionConfig | Mapping[str, object] | None,
    criterion: CriterionLike,
    target_accuracy: float,
    *,
    data: Iterable[Any],
    noise_data: Iterable[Any] | None = None,
    custom_quantization_configs: Mapping[str, Mapping[str, object]] | None = None,
    max_iterations: int = MIXED_PRECISION_SEARCH_LIMIT,
    fast_mode: bool = True,
    cost: str | CostModel = "bit_operations",
    prune: bool = True,
    rank_by: Literal["outputs", "node"] = "outputs",
    progress: Tell | None = None,
) -> MixedPrecision:
    """Find a small set of nodes to raise from low to high precision so that a target is met.

    Groups of nodes are ranked by what the network loses at its outputs when they alone are low and everything else is
    in float, less what it loses when they are high, for what raising them costs; and
    :func:`~mase_hw.passes.mixed_precision.search.binary_search` finds the shortest prefix of the ranking that meets the
    target when it is raised. Nodes that take their format from their input are raised with the node before them. With
    all nodes raised, the result is that of ``high`` alone, bit for bit. The search assumes that raising more is never
    worse; where that is not so the target is still met, but a shorter prefix may exist.

    Then, with ``prune``, each raised group is lowered again if that costs less and the target still holds, the one that
    saves most first; and the iterations that are left go into other sets that cost less, those first that are expected
    to lose least. With up to 12 groups every set is considered. The cost is never above that of the prefix.

    Args:
        graph: A float graph with common metadata. It is not changed; where it is not calibrated, a copy is, by the
            inputs of ``data``.
        quantization_config: ``low`` and ``high``: a width each, or arguments of ``quantize_transform_pass``; 8 and 16
            bits if None.
        criterion: A name, options, a criterion or what makes one; see
            :func:`~mase_hw.passes.evaluation.evaluate_statistic`.
        target_accuracy: The result of the criterion to reach: at least, or at most if lower is better.
        data: Iterable of ``(inputs, targets)``, gone through several times.
        noise_data: Iterable of inputs for the ranking; the inputs of ``data`` if None.
        custom_quantization_configs: Keys of :class:`NodeConfig` by node, which hold for that node in both precisions;
            it is never raised.
        max_iterations: Halvings of the search and sets that are tried after it at most, together; what is tried without
            either, everything low and everything high, is not counted.
        fast_mode: Evaluate whole batches at once instead of frame by frame.
        cost: A name of :data:`~mase_hw.passes.mixed_precision.cost.COSTS` or a function, for pruning and the report.
        prune: Look for something cheaper than the prefix; without it the result is the prefix.
        rank_by: What a group loses: at the network's outputs, or at its own nodes as ``noise_analysis_pass`` has it
            (``local``), the worst first and without regard to the price, as AFE does.
        progress: Told what was tried.

    Returns:
        The quantised graph, its plan, and how it was found.

    Raises:
        SearchError: If the target is not met with everything raised; has the score that was reached.
        ConfigError: If any setting is wrong, has no effect, or names nothing.
    """
    where = "noise_based_mixed_precision_quantization"
    check_graph(graph, where)
    if CALIBRATE_PASS not in graph.completed:
        check_repeatable(data, "data")
        graph, _ = calibrate_analysis_pass(copy_graph(graph), {"data": [inputs for inputs, _ in pairs_of(data)]})
    config = validate(where, MixedPrecisionConfig, quantization_config)
    if max_iterations < 0:
        raise ConfigError("the number of iterations is negative", field="max_iterations", got=max_iterations)
    if math.isnan(target_accuracy):
        raise ConfigError("the target is not a number", field="target_accuracy", got=target_accuracy)
    scorer = CandidateScorer(graph, data, criterion, fast_mode)
    cost_name, cost_of = cost_model(cost)
    if noise_data is not None:
        check_repeatable(noise_data, "noise_data")
    paths = translations(graph, custom_quantization_configs or {})
    custom = {n: keys for name, keys in (custom_quantization_configs or {}).items() for n in paths.get(name, [name])}
    low, high, fixed = _settings(graph, config, custom)
    scores: dict[int, float] = {}

    def configured(raised: set[str]) -> dict[str, object]:
        return compose(graph, {name: (high if name in raised else low)[name] for name in low})

    def quantize(groups: Sequence[Ranked]) -> dict[str, object]:
        return configured({name for group in groups for name in group.nodes})

    found = groups_of(graph, low, fixed)
    ranking = rank(
        graph,
        lambda names: scorer.quantised(configured({node for name in names for node in found[name]})),
        found,
        [inputs for inputs, _ in pairs_of(data)] if noise_data is None else noise_data,
        cost_of,
        at_nodes=rank_by == "node",
    )

    def meets(count: int) -> tuple[bool, int]:
        scores[count] = scorer.score(scorer.quantised(quantize(ranking[:count])))
        return scorer.meets(scores[count], target_accuracy), count

    count = binary_search(meets, 0, len(ranking), max_iterations, "raised nodes", progress=progress or (lambda _: None))
    if count is None:
        raise SearchError(
            "the target cannot be met: it is missed with every node raised",
            node=scorer.name,
            field="target_accuracy",
            got=f"{scores[len(ranking)]:.6g}",
            expected=f"{'at least' if scorer.higher_is_better else 'at most'} {target_accuracy:.6g}",
            remedy="raise the high precision, lower the target, or train the quantised network",
        )
    prefix, proven = ranking[:count], count == 0 or count - 1 in scores
    kept = Pruned(prefix, scores[count], True)
    if prune:
        left = max_iterations - max(0, len(scores) - 2)  # without the two ends, all are halvings
        rules = Trials(
            made=lambda groups: scorer.quantised(quantize(groups)),
            cost=cost_of,
            score=scorer.score,
            good_enough=lambda score: scorer.meets(score, target_accuracy),
            tell=progress or (lambda _: None),
        )
        known = {tuple(ranking[:n]): score for n, score in scores.items()}
        kept = lower_again(prefix, rules, scores=known, trials=left)
        tried = {frozenset(group.nodes for group in groups): score for groups, score in kept.scores.items()}
        kept = exchange(kept, rules, ranking, scores=tried, trials=left - kept.trials)
    made = scorer.quantised(quantize(kept.groups))
    others = {"prefix": prefix, "low": [], "high": ranking}
    costs = {"mixed": cost_of(made)} | {k: cost_of(scorer.quantised(quantize(g))) for k, g in others.items()}
    raised = {name for group in kept.groups for name in group.nodes}
    lowered = {name for group in prefix for name in group.nodes} - raised
    facts: dict[str, Fact] = {
        "found by": where,
        scorer.name: kept.score,
        "target": target_accuracy,
        "raised": ", ".join(name for name in low if name in raised) or "nothing",
        cost_name: f"{costs['mixed']:.9g} (low {costs['low']:.9g}, high {costs['high']:.9g})",
    }
    return MixedPrecision(
        graph=made,
        plan=Plan(quantize(kept.groups), facts),
        raised=tuple(name for name in low if name in raised),
        ranking=tuple(ranking),
        lowered=tuple(name for name in low if name in lowered),
        score=kept.score,
        scores=dict(sorted(scores.items())),
        cost=costs,
        proven=proven and kept.complete,
    )


def _settings(
    graph: MaseGraph, config: MixedPrecisionConfig, custom: Mapping[str, Mapping[str, object]]
) -> tuple[dict[str, Settings], dict[str, Settings], set[str]]:
    """Settings of every node low and high, and the nodes that stay as they are."""
    found: list[dict[str, Settings]] = []
    for name, given in (("low", config.low), ("high", config.high)):
        args, _ = with_node_names(graph, complete(name, given))
        args.check(
            {n.name: op.name for n in graph.nodes if (op := graph.op_of(n)) is not None},
            known_tensors(graph.catalogue),
        )
        settings = settings_of(graph, args)
        for node, keys in custom.items():
            check_keys(graph, node, keys, "custom_quantization_configs")
            own = validate(f"custom_quantization_configs.{node}", NodeConfig, keys)
            base, _ = args.config_for(node, _op(graph, node))
            both = {k: getattr(c, k) for c in (base, own) for k in c.model_fields_set}
            rule = {"config": NodeConfig(**both)}
            merged = QuantizeArgs.model_validate({"by": "name", "overrides": {node: rule}})
            specific = settings[node].specific | frozenset(own.model_fields_set)
            settings[node] = Settings(settings_of(graph, merged)[node].values, specific)
        found.append(settings)
    low, high = found
    for node, each in low.items():
        if each.values["name"] != high[node].values["name"]:
            raise ConfigError(
                "a node is quantised in one precision only",
                node=node,
                field="quantization_config",
                got=f"low {each.values['name']}, high {high[node].values['name']}",
                remedy="leave it in float (name = 'NA') in both, or in none",
            )
    fixed = {name for name in low if name in custom or low[name] == high[name]}
    if custom and set(custom) >= {n for n, s in low.items() if s.values.get("name") != "NA"}:
        raise ConfigError(
            "every node has a configuration of its own, so there is nothing to raise",
            field="custom_quantization_configs",
            remedy="quantize with quantize_transform_pass instead",
        )
    if fixed >= set(low):
        raise ConfigError(
            "low and high are the same for every node",
            field="quantization_config",
            remedy="give high more bits than low",
        )
    return low, high, fixed


def _op(graph: MaseGraph, node: str) -> str:
    op = graph.op_of(graph.node(node))
    return op.name if op is not None else ""
