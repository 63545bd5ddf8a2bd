"""Trying configurations on one calibrated float graph."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor

from mase_hw.errors import ConfigError
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ir.copies import copy_graph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.passes.evaluation import CriterionLike, evaluate_statistic, make_criterion
from mase_hw.passes.evaluation.evaluate import check_repeatable
from mase_hw.passes.quantize.calibration.state import weights_digest
from mase_hw.passes.quantize.quantize import quantize_transform_pass


class CandidateScorer:
    """Quantises copies of a graph and scores them.

    Args:
        graph: A float graph with common metadata, calibrated unless every fraction width is configured; it is not
            changed, and its weights are shared with the copies.
        data: Iterable of ``(inputs, targets)``; it is gone through many times.
        criterion: As :func:`~mase_hw.passes.evaluation.evaluate_statistic` takes it.
        fast_mode: As there: whole batches at once instead of frame by frame; the same bits.

    Raises:
        ConfigError: If the data can be iterated only once, or the criterion is none.
        PassOrderError: If the graph has no common metadata.
    """

    def __init__(self, graph: MaseGraph, data: Iterable[Any], criterion: CriterionLike, fast_mode: bool) -> None:
        check_repeatable(data, "data")
        made = make_criterion(criterion)
        self.graph = graph
        self.data = data
        self.criterion = criterion
        self.name = made.name
        self.higher_is_better = made.higher_is_better
        self.fast_mode = fast_mode

    def quantised(self, quantize: Json) -> MaseGraph:
        """A quantised copy of the graph."""
        made, _ = quantize_transform_pass(copy_graph(self.graph), quantize)
        return made

    def score(self, graph: MaseGraph) -> float:
        """The criterion of a graph over the data.

        Raises:
            ConfigError: If it gives anything but a number, by which alone graphs can be compared.
        """
        found = evaluate_statistic(graph, self.data, self.criterion, fast_mode=self.fast_mode)
        return number(found, self.name)

    def meets(self, score: float, target: float) -> bool:
        """Whether a score is as good as a target; NaN never is."""
        return score >= target if self.higher_is_better else score <= target

    def fingerprint(self, *more: Any) -> str:
        """A hash of the network, its weights and the ranges its formats come from, and of anything that is JSON."""
        digest = hashlib.sha256(weights_digest(self.graph.model).encode())
        for node in self.graph.nodes:
            software = self.graph.meta_of(node).software
            ranges = {k: v for part in (software.args, software.results) for k, v in part.items()}
            digest.update(repr((node.name, node.op, str(node.target), ranges)).encode())
        digest.update(json.dumps(more, sort_keys=True, default=repr).encode())
        return digest.hexdigest()


def number(found: Any, name: str) -> float:
    """A statistic as a number.

    Raises:
        ConfigError: If it is none; a tensor or array of one element is.
    """
    value = found.item() if isinstance(found, Tensor | np.ndarray | np.generic) and _alone(found) else found
    if isinstance(value, bool) or not isinstance(value, int | float):
        shape = f" {list(found.shape)}" if hasattr(found, "shape") else ""
        raise ConfigError(
            f"graphs cannot be compared by what {name} gives",
            field="criterion",
            got=f"{type(found).__name__}{shape}",
            expected="a number",
            remedy="give a criterion whose result() is one number, such as the mean of a matrix's diagonal",
        )
    return float(value)


def _alone(found: Any) -> bool:
    return bool(math.prod(found.shape) == 1)


def check_graph(graph: MaseGraph, where: str) -> None:
    """Refuse what is no float graph with metadata.

    Raises:
        ConfigError: If it is no graph, or quantised already, or has no common metadata.
    """
    if not isinstance(graph, MaseGraph):
        raise ConfigError(f"{where} works on a MaseGraph", field="graph", got=type(graph).__name__)
    if "quantize_transform_pass" in graph.completed or COMMON_PASS not in graph.completed:
        raise ConfigError(
            f"{where} works on a float graph with metadata",
            field="graph",
            got=f"passes run so far: {', '.join(graph.completed) or 'none'}",
            expected="init, common metadata and calibration, no quantisation",
            remedy="start from MaseGraph(model) and run these passes",
        )
