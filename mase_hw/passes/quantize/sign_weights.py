"""The formats of binary and ternary weights, by the rules of the publications that introduced them.

Binary: the sign, times the mean magnitude, which has the least squared error (Rastegari et al., "XNOR-Net",
arXiv:1603.05279, formula 6). Ternary: 0 up to the threshold ``0.7 * mean|w|``, beyond it the sign times the mean of the
magnitudes beyond it (Li et al., "Ternary Weight Networks", arXiv:1605.04711, formulas 5 and 6). The scale is then
rounded to the power of two that is nearest in the logarithm, so that it is the binary point of fixed point. The
threshold stays: it is below 0.7 times the scale, which is below the rounded one.
"""

from __future__ import annotations

import math

from torch import Tensor

from mase_hw.errors import ConfigError, FormatError, UnsupportedError
from mase_hw.formats import SignFormat
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.passes.quantize.config import NodeConfig, QuantizeArgs
from mase_hw.passes.quantize.formats import refuse_other

SHARE = 0.7
"""Threshold of ternary weights, as a share of their mean magnitude."""


def means(weight: Tensor, kind: str) -> tuple[float, float]:
    """The scale before it is rounded, and the threshold.

    Args:
        weight: Any shape, finite.
        kind: ``"binary"`` or ``"ternary"``.

    Returns:
        Scale and threshold; both 0 of weights that are all 0.
    """
    sizes = weight.detach().abs().double().flatten().cpu()
    mean = _mean(sizes)
    if kind == "binary":
        return mean, 0.0
    threshold = SHARE * mean
    return _mean(sizes[sizes > threshold]), threshold


def _mean(values: Tensor) -> float:
    """Rounded once, so that it is the same on every machine."""
    return math.fsum(values.tolist()) / values.numel() if values.numel() else 0.0


def rounded(scale: float) -> int:
    """The fraction width whose step is nearest to a scale, in the logarithm."""
    return -round(math.log2(scale))


def weight_format(
    node: str, weight: Tensor, kind: str, frac: int | None, given_threshold: float | None = None
) -> tuple[SignFormat, str]:
    """The format of the weights of a layer, and why.

    Args:
        node: For errors.
        weight: Any shape.
        kind: ``"binary"`` or ``"ternary"``.
        frac: Fraction width that was configured; None to take the scale from the weights.
        given_threshold: Threshold that was configured, of ternary weights.

    Raises:
        FormatError: A weight that is not finite.
        ConfigError: Weights that are all 0 and to be binary; a configured step below the threshold.
    """
    scale, threshold = means(weight, kind)
    if given_threshold is not None:
        sizes = weight.detach().abs().double().flatten().cpu()
        scale, threshold = _mean(sizes[sizes > given_threshold]), given_threshold
    if not math.isfinite(scale):
        raise FormatError("a weight is not finite", node=f"{node}.weight", expected="finite numbers")
    if scale == 0.0 and kind == "binary" and frac is None:
        raise ConfigError(
            "weights that are all 0 have no binary scale",
            node=node,
            field="quantize.*.config.weight_frac_width",
            expected="a fraction width, or weights other than 0",
            remedy="set weight_frac_width, train the layer first, or make it ternary",
        )
    if frac is None:
        frac = rounded(scale) if scale else 0
        reason = f"mean magnitude {scale:.6g}" + (f" above {threshold:.6g}" if kind == "ternary" else "")
    else:
        reason = "configured"
    if kind == "binary":
        return SignFormat.binary(frac), reason
    steps = math.ldexp(threshold, frac)
    if steps >= 1.0:
        raise ConfigError(
            "the configured step of ternary weights is below their threshold, so that it would become 0 itself",
            node=node,
            field="quantize.*.config.weight_frac_width",
            got=frac,
            expected=f"a step above the threshold of {threshold:.6g}",
            remedy="leave weight_frac_width and weight_scaling_factor out, so that the step is chosen",
        )
    return SignFormat.ternary(frac, steps), reason


def given(args: QuantizeArgs, node: str, op: str) -> Json:
    """What is configured of a node where it is said to be binary or ternary, and by stronger rules.

    Weaker ones speak of weights of another kind.
    """
    layers = [keys for _, keys in args.layers(node, op)]
    first = max(index for index, keys in enumerate(layers) if keys.get("name") is not None)
    return {key: value for keys in layers[first:] for key, value in keys.items()}


def checked(node: str, keys: Json, config: NodeConfig) -> tuple[int | None, float | None]:
    """The configured fraction width of binary or ternary weights, and the threshold; None of what is not there.

    Raises:
        ConfigError: Keys that such weights cannot have.
    """
    kind = config.signs
    width = 1 if kind == "binary" else 2
    wanted = {"weight_width": width, "weight_signed": True, "weight_granularity": "tensor", "weight_affine": False}
    # What MASE's quantisers draw, or multiply by a mean that is no power of two.
    wanted |= {"weight_stochastic": False, "weight_bipolar": True} if kind == "binary" else {}
    wanted |= {"weight_scaling_factor": False} if kind == "ternary" else {}
    bits = f"{width} bit{'s' if width > 1 else ''}"
    refuse_other(node, keys, wanted, f"{kind} weights are signs times one power of two, with {bits}")
    found: int | None = keys.get("weight_frac_width")
    if kind == "binary":
        return (0 if found is None and keys.get("weight_bipolar") else found), None
    if found is None and keys.get("weight_scaling_factor") is False:
        found = 0
        if config.threshold is None:
            raise ConfigError(
                "ternary weights without a scale need a threshold",
                node=node,
                field="quantize.*.config.weight_mean",
                expected="weight_mean, weight_max or weight_median",
                remedy="set one of them, or leave weight_scaling_factor out",
            )
    return found, config.threshold


def refuse(graph: MaseGraph, args: QuantizeArgs) -> None:
    """Refuse, all at once, the nodes that are to have binary, ternary or block weights and cannot.

    Raises:
        UnsupportedError: Naming every one, by op.
    """
    found: dict[str, list[str]] = {}
    kinds: set[str] = set()
    for node in graph.nodes:
        op = graph.op_of(node)
        if op is None or graph.is_implicit(node) or not graph.meta_of(node).common.results.tensors:
            continue
        config = args.config_for(node.name, op.name)[0]
        taken, kind = (op.blocks, config.name or "") if config.blocks else (op.ternary, config.signs)
        if kind and "weight" not in taken:
            found.setdefault(op.name, []).append(node.name)
            kinds.add(kind)
    if found:
        first = next(iter(found.values()))[0]
        raise UnsupportedError(
            f"{', '.join(map(repr, found))} cannot have {' or '.join(sorted(kinds))} weights",
            node="; ".join(f"{op}: {', '.join(names)}" for op, names in found.items()),
            field="quantize.*.config.name",
            got=", ".join(sorted(kinds)),
            expected="linear layers and convolutions",
            remedy='give these nodes name = "fixed", for example with '
            f'overrides.{first}.config.name = "fixed"; or name such layers in rules of their own',
        )
