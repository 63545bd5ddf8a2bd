"""The figures of a noise analysis: what quantisation costs at a node, and which node it costs most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from mase_hw.errors import ConfigError

Kind = Literal["local", "cumulative"]


@dataclass(frozen=True)
class Noise:
    """How far the results of a node are from those of the float network, over all elements of all data.

    Args:
        sqnr_db: Power of the float results over power of the difference, in dB; infinite without a difference.
        cosine: Cosine of the angle between the float and the quantised results; 1 for the same direction.
        mean_abs: Mean absolute difference.
        max_abs: Largest absolute difference.
        saturation: Share of results that stand at an end of the node's format while the float result lies more than
            half a step beyond that end (with wrapping overflow: whose float result lies there, whatever came out). 0 of
            a node in float.
        used_bits: Width of the narrowest format of the same step and sign that holds every result that occurred; None
            of a node in float.
    """

    sqnr_db: float
    cosine: float
    mean_abs: float
    max_abs: float
    saturation: float
    used_bits: int | None


@dataclass(frozen=True)
class NodeNoise:
    """Noise of one node.

    Args:
        op: Its ``mase_op``.
        format: Format of its result, as text; None of a node in float.
        width: Bits of that format.
        local: With the exact float inputs: what this node's quantisation (of inputs, parameters and result) does alone.
        cumulative: In the quantised network, with all that came before.
    """

    op: str
    format: str | None
    width: int | None
    local: Noise
    cumulative: Noise


def ranking(nodes: Mapping[str, NodeNoise], by: Kind = "local") -> list[str]:
    """Names of the quantised nodes from the smallest to the largest SQNR: the worst first.

    Equal ones are in order of execution.

    Raises:
        ConfigError: If ``by`` is neither ``local`` nor ``cumulative``.
    """
    if by not in ("local", "cumulative"):
        raise ConfigError("there is no such noise", field="by", got=by, expected="local or cumulative")
    quantised = [name for name, node in nodes.items() if node.format is not None]
    return sorted(quantised, key=lambda name: getattr(nodes[name], by).sqnr_db)
