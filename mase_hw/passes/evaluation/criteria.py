"""Criteria: small streaming statistics that say how good a model's outputs are.

A criterion is fed batch by batch and never keeps the data, so a data set of any size fits. Sums are in float64.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from mase_hw.errors import ConfigError, refuse_unknown


@runtime_checkable
class Criterion(Protocol):
    """What an evaluation needs of a criterion; any object with these four is one.

    Attributes:
        name: What it is called in reports.
        higher_is_better: Whether a larger result is a better model.
    """

    name: str
    higher_is_better: bool

    def update(self, outputs: Any, targets: Any) -> None:
        """Take in one batch: what the model gave, and what the data has beside the inputs, on the same device."""

    def result(self) -> Any:
        """The statistic over everything taken in so far; a number where models are to be compared by it."""


class TopK:
    """Share of samples whose target is among the ``k`` largest scores.

    Of equal scores, which are frequent in fixed point, the one with the smaller index counts as the larger, as
    hardware that looks for the largest would take it; so the result does not depend on the device.

    Args:
        k: How many scores count.
        class_dim: Dimension of the classes.

    Shapes:
        Outputs ``(..., classes, ...)`` of any dtype; targets are class numbers, the same shape without ``class_dim``.
    """

    higher_is_better = True

    def __init__(self, k: int = 5, class_dim: int = -1) -> None:
        if k < 1:
            raise ConfigError("top_k needs at least one place", field="k", got=k, expected="1 or more")
        self.name = "accuracy" if k == 1 else f"top_{k}"
        self.k = k
        self.class_dim = class_dim
        self.hits = 0
        self.count = 0

    def update(self, outputs: Any, targets: Any) -> None:
        """Count the hits of one batch."""
        scores, labels = _classes(self.name, outputs, targets, self.class_dim)
        own = scores.gather(-1, labels.unsqueeze(-1))
        before = torch.arange(scores.shape[-1], device=scores.device) < labels.unsqueeze(-1)
        # NaN is neither smaller nor equal, so a score of NaN never counts as a hit.
        ahead = ~(scores <= own) | ((scores == own) & before)
        self.hits += int((ahead.sum(-1) < self.k).sum())
        self.count += labels.numel()

    def result(self) -> float:
        """A number in [0, 1]."""
        return self.hits / _seen(self.name, self.count)


class Mse:
    """Mean squared error over all elements; outputs and targets have the same shape."""

    name = "mse"
    higher_is_better = False

    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0

    def update(self, outputs: Any, targets: Any) -> None:
        """Add the squared errors of one batch."""
        out, want = _same_shape(self.name, outputs, targets)
        self.total += float((out - want).square().sum())
        self.count += want.numel()

    def result(self) -> float:
        """The mean, not negative."""
        return self.total / _seen(self.name, self.count)


class Sqnr:
    """Signal to quantisation noise ratio in dB: power of the targets over power of the difference.

    Infinite if there is no difference at all, and minus infinite if all targets are zero and some output is not.
    """

    name = "sqnr"
    higher_is_better = True

    def __init__(self) -> None:
        self.signal = 0.0
        self.noise = 0.0
        self.count = 0

    def update(self, outputs: Any, targets: Any) -> None:
        """Add the powers of one batch."""
        out, want = _same_shape(self.name, outputs, targets)
        self.signal += float(want.square().sum())
        self.noise += float((out - want).square().sum())
        self.count += want.numel()

    def result(self) -> float:
        """Decibels."""
        _seen(self.name, self.count)
        return decibels(self.signal, self.noise)


class Perplexity:
    """Exponential of the mean negative log-likelihood of the targets, the logits turned into probabilities by softmax.

    Args:
        ignore_index: Targets of this value count nothing (padding).
        class_dim: Dimension of the classes.

    Shapes:
        Outputs are logits ``(..., classes, ...)``; targets are class numbers, the same shape without ``class_dim``.
    """

    name = "perplexity"
    higher_is_better = False

    def __init__(self, ignore_index: int = -100, class_dim: int = -1) -> None:
        self.ignore_index = ignore_index
        self.class_dim = class_dim
        self.total = 0.0
        self.count = 0

    def update(self, outputs: Any, targets: Any) -> None:
        """Add the negative log-likelihoods of one batch."""
        ignored = targets == self.ignore_index if isinstance(targets, Tensor) else None
        kept = targets.masked_fill(ignored, 0) if ignored is not None else targets
        scores, labels = _classes(self.name, outputs, kept, self.class_dim)
        wide = scores.double()
        likelihood = wide.gather(-1, labels.unsqueeze(-1)).squeeze(-1) - torch.logsumexp(wide, -1)
        counted = ~ignored if ignored is not None else torch.ones_like(labels, dtype=torch.bool)
        self.total -= float(likelihood[counted].sum())
        self.count += int(counted.sum())

    def result(self) -> float:
        """At least 1; infinite if the mean is beyond what a float can take the exponential of."""
        mean = self.total / _seen(self.name, self.count)
        return math.exp(mean) if mean < 700 else math.inf


def decibels(signal: float, noise: float) -> float:
    """``10 log10(signal / noise)``; infinite without noise, minus infinite with noise alone."""
    if noise == 0.0:
        return math.inf
    if math.isnan(signal) or math.isnan(noise):
        return math.nan
    # Of the logarithms, since the quotient of very different powers may leave the range of a float.
    return 10.0 * (math.log10(signal) - math.log10(noise)) if signal > 0.0 else -math.inf


def _accuracy(**options: Any) -> Criterion:
    return TopK(1, **options)


CRITERIA: dict[str, Callable[..., Criterion]] = {
    "accuracy": _accuracy,
    "top_k": TopK,
    "mse": Mse,
    "sqnr": Sqnr,
    "perplexity": Perplexity,
}
"""What makes a criterion, by name; each takes the arguments of its class."""

CriterionLike = str | Mapping[str, object] | Criterion | Callable[[], Criterion] | Callable[[Any, Any], Any]
"""A name of :data:`CRITERIA`, ``{"name": ..., option: ...}``, a criterion, what makes one without arguments, or a
function of outputs and ground truth."""


class OfAll:
    """What a plain function gives for all outputs and all targets, each joined along the first dimension.

    Args:
        function: Called once as ``function(outputs, targets)``, with numpy arrays if the targets of the data are, else
            with tensors. A larger result is better, unless its attribute ``higher_is_better`` says otherwise.
    """

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self.higher_is_better = bool(getattr(function, "higher_is_better", True))
        self.arrays = False
        """Whether the data has arrays."""
        self.seen: list[tuple[Any, Any]] = []

    def update(self, outputs: Any, targets: Any) -> None:
        """Keep one batch."""
        self.seen.append((outputs, targets))

    def result(self) -> Any:
        """Whatever the function returns."""
        _seen(self.name, len(self.seen))
        both = joined(self.seen)
        if self.arrays:
            both = pytree.tree_map(lambda v: v.cpu().numpy() if isinstance(v, Tensor) else v, both)
        return self.function(*both)


def joined(parts: Sequence[Any]) -> Any:
    """Tensors of several batches, or frames, as those of one, in the containers of the first."""
    leaves, shapes = zip(*[pytree.tree_flatten(part) for part in parts], strict=True)
    columns = [list(column) for column in zip(*leaves, strict=True)]
    return pytree.tree_unflatten([_column(values) if len(parts) > 1 else values[0] for values in columns], shapes[0])


def _column(values: list[Any]) -> Any:
    if not isinstance(values[0], Tensor):
        return values[0]
    return torch.cat(values) if values[0].dim() else torch.stack(values)


def _of_two(criterion: Any) -> bool:
    """Whether something is a function of outputs and ground truth."""
    try:
        inspect.signature(criterion).bind(None, None)
    except (TypeError, ValueError):
        return False
    return not isinstance(criterion, type)


def make_criterion(criterion: CriterionLike) -> Criterion:
    """A fresh criterion; one that is given is copied, so that it can be given again.

    Raises:
        ConfigError: If the name or an option is unknown, or the object is no criterion.
    """
    if isinstance(criterion, str):
        criterion = {"name": criterion}
    if isinstance(criterion, Mapping):
        options = dict(criterion)
        name = options.pop("name", None)
        refuse_unknown(name, CRITERIA, "there is no such criterion", field="criterion")
        try:
            return CRITERIA[str(name)](**options)
        except TypeError as error:
            raise ConfigError(
                f"the options of criterion {name!r} are wrong", field="criterion", got=options, expected=str(error)
            ) from error
    if isinstance(criterion, type) or not isinstance(criterion, Criterion):
        made: Any = criterion
        if _of_two(made):
            return OfAll(made)
        made = made() if callable(made) else made
    else:
        made = copy.deepcopy(criterion)
    if isinstance(made, type) or not isinstance(made, Criterion):
        raise ConfigError(
            "this is no criterion",
            field="criterion",
            got=type(made).__name__,
            expected="update(outputs, targets), result(), name and higher_is_better",
            remedy=f"use one of {', '.join(CRITERIA)}, an object with these four, or a function of outputs and targets",
        )
    return made


def _seen(name: str, count: int) -> int:
    if not count:
        raise ConfigError(
            f"there is nothing to take the {name} of",
            field="data",
            got="no samples",
            remedy="pass at least one batch; a generator that was used up once is empty",
        )
    return count


def single(name: str, outputs: Any) -> Tensor:
    """The one tensor a model gave: itself, the only one of a tuple, or ``logits`` of a dict.

    Raises:
        ConfigError: If there is none, or more than one.
    """
    found = outputs
    if isinstance(found, Mapping):
        found = found["logits"] if "logits" in found else list(found.values())
    if isinstance(found, list | tuple) and len(found) == 1:
        found = found[0]
    if not isinstance(found, Tensor):
        raise ConfigError(
            f"{name} needs one tensor from the model",
            field="outputs",
            got=f"{type(outputs).__name__} of {len(outputs)}"
            if hasattr(outputs, "__len__")
            else type(outputs).__name__,
            expected="a tensor, a tuple of one, or a dict with logits",
            remedy="write a criterion of your own whose update() picks what it needs",
        )
    return found


def _targets(name: str, targets: Any) -> Tensor:
    if not isinstance(targets, Tensor):
        raise ConfigError(
            f"{name} needs a tensor of targets", field="targets", got=type(targets).__name__, expected="a tensor"
        )
    return targets


def _classes(name: str, outputs: Any, targets: Any, class_dim: int) -> tuple[Tensor, Tensor]:
    """Scores with the classes last, and the class numbers that belong to them."""
    scores, labels = single(name, outputs), _targets(name, targets)
    if not -scores.dim() <= class_dim < scores.dim():
        raise ConfigError(
            f"the outputs have no dimension {class_dim}", field="class_dim", got=list(scores.shape), node=name
        )
    scores = scores.movedim(class_dim, -1)
    if labels.dtype.is_floating_point or labels.dtype == torch.bool or labels.shape != scores.shape[:-1]:
        raise ConfigError(
            f"the targets of {name} do not fit the outputs",
            field="targets",
            got=f"{list(labels.shape)} of {labels.dtype}",
            expected=f"class numbers (integers) of shape {list(scores.shape[:-1])}",
            remedy="if the classes are not the last dimension of the outputs, set class_dim",
        )
    if labels.numel() and not (int(labels.min()) >= 0 and int(labels.max()) < scores.shape[-1]):
        raise ConfigError(
            f"a target of {name} is no class",
            field="targets",
            got=[int(labels.min()), int(labels.max())],
            expected=f"0 to {scores.shape[-1] - 1}",
        )
    return scores, labels.long()


def _same_shape(name: str, outputs: Any, targets: Any) -> tuple[Tensor, Tensor]:
    out, want = single(name, outputs), single(name, targets)
    if out.shape != want.shape:
        raise ConfigError(
            f"the targets of {name} do not have the shape of the outputs",
            field="targets",
            got=list(want.shape),
            expected=list(out.shape),
        )
    return out.double(), want.double()
