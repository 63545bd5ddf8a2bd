"""How the format of one tensor is decided: what is configured, what was observed, and what that gives."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import ConfigError
from mase_hw.formats import MINIFLOATS, BlockFormat, FixedFormat
from mase_hw.host.documents import Json
from mase_hw.numerics import quantize
from mase_hw.passes.quantize.calibration import Choice, Points, choose_format
from mase_hw.passes.quantize.config import NodeConfig, group_of

MAX_SHIFT = 15
"""Most a channel's step may be coarser than the finest one, in powers of two; every accumulator grows by as much."""


@dataclass(frozen=True)
class Decision:
    """Why a tensor has its format.

    Args:
        fmt: The format.
        reason: In a few words.
        choice: The choice among candidates, if one was made.
        method: Calibration method, if the choice rests on one.
        channels: With a format per output channel: the fraction width of each.
    """

    fmt: FixedFormat
    reason: str
    choice: Choice | None = None
    method: str | None = None
    channels: tuple[int, ...] = field(default=())


def from_statistics(node: str, tensor: str, config: NodeConfig, width: int, statistics: Json) -> Decision:
    """Choose a format from what calibration recorded.

    Raises:
        ConfigError: If the tensor is configured as unsigned but had negative values.
    """
    signed = config.of(tensor)[2]
    low, high = float(statistics["min"]), float(statistics["max"])
    _check_sign(node, tensor, low, signed)
    choice = choose_format(statistics, width, signed)
    method = statistics.get("method", "min_max")
    reason = f"observed [{low:.6g}, {high:.6g}]"
    if method != "min_max":
        reason += f", {method}"
        if (choice.low, choice.high) != (low, high):
            reason += f" [{choice.low:.6g}, {choice.high:.6g}]"
    if choice.note:
        reason += f", {choice.note}"
    return Decision(choice.fmt, reason, choice, method)


def _check_sign(node: str, tensor: str, low: float, signed: bool | None) -> None:
    if low < 0 and signed is False:
        key = group_of(tensor)
        raise ConfigError(
            f"{tensor} is configured as unsigned, but negative values were observed",
            node=node,
            field=f"quantize.*.config.{key}_signed",
            got=low,
            remedy="make it signed, or give its fraction width to accept clipping at 0",
        )


def per_channel(
    node: str, weight: Tensor, config: NodeConfig, width: int, method: str
) -> tuple[Decision, Tensor | None]:
    """Formats of weights, one for every index of their first dimension, as one format and shifts.

    The format has the finest fraction width any channel chooses (or the configured one), but at most
    :data:`MAX_SHIFT` finer than the coarsest channel's. A channel's weights are multiples of ``2**(shift - frac)``.

    Returns:
        The decision, and the shifts as integers of shape ``(channels,)``; None if all are 0.

    Raises:
        ConfigError: If the method looks at more than the weights, or a channel would need a larger shift.
    """
    check_weight_method(node, method)
    criterion = "range" if method == "min_max" else "mse"
    _, given, signed = config.of("weight")
    rows = weight.detach().reshape(weight.shape[0], -1).double().cpu().numpy()
    _check_sign(node, "weight", float(rows.min()) if rows.size else 0.0, signed)
    choices = [choose_format(Points.exact(row), width, signed, criterion) if np.any(row) else None for row in rows]
    fracs = [choice.fmt.frac_width for choice in choices if choice is not None]
    coarsest = min(fracs, default=width - 1)
    finest = given if given is not None else min(max(fracs, default=coarsest), coarsest + MAX_SHIFT)
    wanted = [finest if choice is None else min(finest, choice.fmt.frac_width) for choice in choices]
    shifts = [finest - frac for frac in wanted]
    if max(shifts, default=0) > MAX_SHIFT:
        raise ConfigError(
            "the configured fraction width is too fine for a channel's weights",
            node=node,
            field="quantize.*.config.weight_frac_width",
            got=finest,
            expected=f"at most {coarsest + MAX_SHIFT}",
            remedy="leave it out, so that it is chosen",
        )
    reason = f"per output channel by {method}, fraction widths {min(wanted, default=finest)} to {finest}"
    fmt = FixedFormat(width, finest, signed is not False)
    decision = Decision(fmt, reason, method=method, channels=tuple(wanted))
    return decision, torch.tensor(shifts, dtype=torch.int64) if any(shifts) else None


def block_weights(node: str, weight: Tensor, config: NodeConfig, given: Json) -> tuple[BlockFormat, Tensor]:
    """The format of weights in block floating point, and the shift of every block, ``(outputs, blocks)``.

    Args:
        node: For errors.
        weight: ``(outputs, inputs)`` or ``(outputs, channels, ...)``; see :meth:`BlockFormat.spread`.
        config: What is configured.
        given: What is configured where the node is said to be so, and by stronger rules.

    Raises:
        ConfigError: No width, one that no mantissa has, or a key that such weights cannot have.
        FormatError: A weight that is not finite.
    """
    element = config.weight_element if config.name in ("mxfp", "minifloat") else ""
    width = width_in_blocks(node, config, given, element)
    rows = weight.detach().double().cpu().movedim(1, -1).flatten(1)
    exponent_width = 0 if config.name == "minifloat" else config.weight_exponent_width
    parts = torch.split(rows, config.block_size, 1)
    peaks = torch.stack([part.abs().amax(1) for part in parts], 1)
    if config.weight_block_exponent == "least_error" and exponent_width and bool(torch.isfinite(peaks).all()):
        element_format = BlockFormat(width, width - 2, element=element)
        peaks = peaks * torch.stack([_least_error(part, element_format) for part in parts], 1)
    fmt, shifts = BlockFormat.shared(peaks.flatten().tolist(), width, config.block_size, exponent_width, element)
    return fmt, torch.tensor(shifts, dtype=torch.int64).reshape(peaks.shape)


def _least_error(block: Tensor, fmt: BlockFormat) -> Tensor:
    """As what the largest magnitude of each row is to be taken: 1/2, 1 or 2 of it, the nearest of equal errors."""
    exponents = torch.frexp(block.abs().amax(1, keepdim=True)).exponent - 1
    factors, errors = (0, -1, 1), []
    for more in factors:
        scaled = torch.ldexp(block, -(exponents + more))
        rounded = quantize(scaled, fmt).double() * 2.0**-fmt.frac_width
        errors.append((rounded - scaled).square().sum(1) * 4.0**more)
    return 2.0 ** torch.tensor(factors, dtype=torch.float64)[torch.stack(errors).argmin(0)]


def width_in_blocks(node: str, config: NodeConfig, given: Json, element: str = "") -> int:
    """Bits of a mantissa; see the callers.

    Raises:
        ConfigError: As the callers.
    """
    width = MINIFLOATS[element].top + 2 if element else config.weight_width
    if width is None or not (element or 2 <= width <= 12):
        raise ConfigError(
            f"{config.name} weights have mantissas of 2 to 12 bits",
            node=node,
            field="quantize.*.config.weight_width",
            got=width,
            expected="2 to 12",
        )
    wanted: Json = {"weight_frac_width": None, "weight_signed": True}
    wanted |= {"weight_granularity": "tensor", "weight_affine": False}
    if element:
        wanted["weight_width"] = MINIFLOATS[element].bits
    refuse_other(node, given, wanted, f"{config.name} weights have a sign, and what they share with their block")
    return width


def refuse_other(node: str, given: Json, wanted: Json, why: str) -> None:
    """Refuse keys of a node that say something else than its kind of weights has.

    Raises:
        ConfigError: If there is one.
    """
    for key, value in wanted.items():
        if given.get(key) not in (None, value):
            raise ConfigError(
                why,
                node=node,
                field=f"quantize.*.config.{key}",
                got=given[key],
                expected=value,
                remedy=f"leave {key} out",
            )


def check_weight_method(node: str, method: str) -> None:
    """Refuse what looks at more than the weights, where each channel or all of them have a scale.

    Raises:
        ConfigError: If it is such a method.
    """
    if method not in ("min_max", "mse"):
        raise ConfigError(
            "these weights cannot be calibrated by this method",
            node=node,
            field="calibrate.weight_method",
            got=method,
            expected="min_max | mse",
        )


def shift_decision(shift: Tensor) -> Decision:
    """The format of the shifts themselves: just wide enough."""
    most = int(shift.max())
    return Decision(FixedFormat(most.bit_length(), 0, signed=False), f"shifts of 0 to {most}")
