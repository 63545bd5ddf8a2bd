"""From statistics to a format: one function, every method's optimum stated.

The width is given, so what is chosen is the fraction width (and the sign, if that is left open). Each method minimises
an error over all fraction widths:

- ``range``: the worst rounding error inside the range, ``step / 2``, of the formats that clip nothing of it. That is
  the finest step that holds both ends, rounded half-even.
- ``mse``: the mean squared error, rounding and clipping together.
- ``entropy``: the divergence of what a threshold leaves of the distribution, by the published algorithm (see
  below); then the finest step whose format holds the threshold. That
  algorithm knows of no distances, so there is a guard: the step is doubled until the mean squared error is no larger
  than that of the format that ``range`` takes. Outliers that are far enough are kept by it.

Of equal errors the smaller mean squared error wins, then the finer step that clips nothing, then the finer step.

The threshold that loses least information: TensorRT's entropy calibration.

S. Migacz, "8-bit Inference with TensorRT", GTC 2017, as ONNX Runtime implements it (``get_entropy_threshold`` of
``onnxruntime.quantization.calibrate``, itself after Apache MXNet): for every threshold, the part of a symmetric
histogram within it, with the counts outside added to its two end bins, is a distribution ``p``. Without these counts,
and with its bins merged into as many as there are levels and each spread again over the bins that are occupied, it is
``q``. The threshold is taken for which ``p`` diverges least from ``q`` (Kullback and Leibler). Counting the outside
in ``p`` alone is what makes clipping expensive.

What a mask leaves out is no data: formats are chosen from the others, and what is left out becomes their end.
"""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import torch
from torch import Tensor, fx

from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.formats import MAX_FRAC, FixedFormat
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ops.arithmetic.where import FAR, beyond, some_beyond, stood_for
from mase_hw.passes.quantize.calibration.observers import Counts, Floats, Histogram, Points, exponent_for

BINS = 2048
"""Bins at most, as in the publication."""

SMOOTHING = 1e-4
"""Count that an empty bin gets in ``p`` and ``q``, taken evenly off the others."""


@dataclass(frozen=True)
class Symmetric:
    """A histogram with as many bins below zero as above it.

    Args:
        counts: By bin, from minus to plus the largest magnitude; zeros are in the bin that begins there.
        width: Width of a bin.
    """

    counts: Counts
    width: float

    @property
    def half(self) -> int:
        """Bins on each side."""
        return self.counts.size // 2

    @classmethod
    def of(cls, points: Points) -> Symmetric:
        """The histogram of a distribution, with at most :data:`BINS` bins: neighbours are merged until it has."""
        width = points.spread
        if not width:
            width = math.ldexp(1.0, exponent_for(float(points.values.min()), float(points.values.max())))
        at = np.floor(points.values / width).astype(np.int64)
        while max(int(at.max()) + 1, -int(at.min())) > BINS // 2:
            at, width = at // 2, 2 * width
        half = max(int(at.max()) + 1, -int(at.min()), 1)
        return cls(np.bincount(at + half, weights=points.counts, minlength=2 * half).astype(np.int64), width)

    def threshold(self, levels: int) -> float:
        """The threshold for a format that has ``levels`` numbers between minus and plus the threshold.

        All of the range if there are no more bins than levels: then merging them loses nothing, and the histogram does
        not show what clipping would gain.
        """
        reaches = range(levels // 2, self.half + 1)
        return self.width * min(reaches, key=lambda reach: divergence(self.counts, reach, levels), default=self.half)

    def divergence(self, threshold: float, levels: int) -> float:
        """The divergence for a threshold, which is brought to the nearest that is looked at; NaN if none is."""
        if levels // 2 > self.half:
            return math.nan
        reach = min(max(math.ceil(threshold / self.width), levels // 2), self.half)
        return divergence(self.counts, reach, levels)


def divergence(counts: Counts, reach: int, levels: int) -> float:
    """Kullback-Leibler divergence in nats of ``p`` from ``q`` for one threshold; see the module.

    Args:
        counts: A symmetric histogram.
        reach: The threshold in bins.
        levels: Bins into which those within the threshold are merged.
    """
    half = counts.size // 2
    first, last = half - reach, min(half + reach + 1, counts.size)
    inside = counts[first:last]
    p = inside.copy()
    p[0] += counts[:first].sum()
    p[-1] += counts[last:].sum()
    merged = inside.size // levels
    starts = np.arange(levels) * merged
    sums = np.add.reduceat(inside, starts)  # the last level takes the bins that are left over
    occupied = np.add.reduceat((p[: levels * merged] != 0).astype(np.int64), starts)
    # Whole counts, as there: a level's share of a bin is rounded down.
    shares = np.where(occupied > 0, sums // np.maximum(occupied, 1), 0)
    q = np.zeros_like(p)
    q[: levels * merged] = np.repeat(shares, merged)
    if not p.any() or not q.any():
        return math.inf
    given, left = _smoothed(p), _smoothed(q)
    return float((given * np.log(given / left)).sum())


def _smoothed(counts: Counts) -> Floats:
    """Shares of the bins, where every empty one gets a little at the others' expense, so that logarithms exist."""
    empty = counts == 0
    taken = SMOOTHING * empty.sum() / (~empty).sum()
    smoothed: Floats = counts.astype(np.float64) + np.where(empty, SMOOTHING, -taken)
    smoothed /= smoothed.sum()
    return smoothed


_MARGIN = 12.0
"""How far below the others it is where its distance counts: exp(-12) is 0 to 16 bits."""
_ORDER = frozenset(
    {"where", "choose", "select", "masked_fill", "amax", "amin", "max", "min", "maximum", "minimum", "argmax", "argmin"}
    | {"relu", "relu6", "max_pool1d", "max_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d", "topk", "sort"}
    | {"add", "sub", "mul", "div", "neg", "clamp", "pad", "slice", "concat", "cat", "permute", "stack", "getitem"}
)
"""Ops that need no more of it than that it is beyond the others."""
_SUMS = frozenset(
    {"sum", "mean", "mean_over", "cumsum", "linear", "matmul", "grouped_matmul", "bmm", "conv1d", "conv2d"}
    | {"avg_pool1d", "avg_pool2d", "layer_norm", "rms_norm", "var", "std", "norm"}
)
"""Ops whose results mean nothing with it."""


class Masked:
    """Where in a graph there may be elements that a mask leaves out.

    Args:
        graph: A float graph with common metadata.

    Attributes:
        constants: Stored tensors that leave elements out, and the node whose format they have.

    Raises:
        UnsupportedError: If one is compared with the number that the model has for what is left out.
    """

    def __init__(self, graph: MaseGraph) -> None:
        self._graph = graph
        self.constants: dict[fx.Node, fx.Node] = {}
        self._reached: set[fx.Node] = set()
        self._summed: dict[fx.Node, str] = {}
        self._margins: dict[fx.Node, float] = {}
        ops = {node: "" if (op := graph.op_of(node)) is None else op.name for node in graph.nodes}
        for node in graph.nodes:
            if node.op == "get_attr":
                value: object = attrgetter(str(node.target))(graph.model)
                if not isinstance(value, Tensor) or not some_beyond(value):
                    continue
                if len(node.users) == 1:
                    self.constants[node] = next(iter(node.users))
            elif self._reached.isdisjoint(node.all_input_nodes):
                continue
            self._reached.add(node)
            if ops[node].endswith("_number") and abs(float(graph.meta_of(node).common.args["number"])) >= -FAR:
                raise UnsupportedError(
                    "a comparison with what a mask puts in the place of data, which hardware has as the least value",
                    node=node.name,
                    got=graph.meta_of(node).common.args["number"],
                    expected="a choice by the mask itself",
                    remedy="compare, or choose, by the mask instead of by the number that it left",
                )
        for node in reversed(graph.nodes):
            if node in self._reached:
                implicit = ops[node] in _ORDER or graph.is_implicit(node) or node.op in ("get_attr", "output")
                margin = self._margin(node) if implicit else _MARGIN
                if margin and ops[node] != "argmax":
                    self._margins[node] = margin
                if ops[node] in _SUMS:
                    self._summed[node] = ops[node]

    def others(self, node: fx.Node, value: Tensor, where: str) -> Tensor:
        """A node's result without what is left out, or with it as far from the others as its readers need.

        Raises:
            FormatError: If it is the sum of what is left out, or data come near to the number that stands there.
        """
        if node not in self._reached or not some_beyond(value):
            return value
        out = beyond(value)
        if node in self._summed:
            raise FormatError(
                "elements that a mask leaves out are summed",
                node=where,
                got=f"{self._summed[node]} of numbers beyond all others",
                expected="a maximum, a softmax or another choice behind such a mask",
                remedy="fill with 0 in front of a sum",
            )
        rest = value[~out]
        number = float(stood_for(value[out]).abs().min())
        largest = float(rest.abs().max()) if rest.numel() else 0.0
        if largest * 2 > number:
            raise FormatError(
                "data come near to the number that a mask puts in their place",
                node=where,
                got=f"data up to {largest:.6g} and a number of {number:.6g}",
                expected="a number at least twice as large as all data, which then means the least or largest value",
                remedy="fill with -inf; if it is a number like the others, divide data and number by the same factor, "
                f"so that it is above {FAR:g}",
            )
        margin = self._margin(node)
        if margin and rest.numel():
            low, high = (float(end) for end in torch.aminmax(rest))
            return value.clamp(min(low, 0.0) - margin, max(high, 0.0) + margin)
        return rest

    def _margin(self, node: fx.Node) -> float:
        """How far from all others its readers need what is left out of a node's result."""
        readers = [user for user in node.users if user in self._margins]
        return max([self._margins[user] / _factor(self._graph, user) for user in readers], default=0.0)


def _factor(graph: MaseGraph, node: fx.Node) -> float:
    """What a node multiplies differences of its input with, at least, if that is a number or a stored tensor."""
    op = graph.op_of(node)
    if op is None or op.name not in ("mul", "div"):
        return 1.0
    numbers = [1.0]
    for given in node.args:
        if isinstance(given, fx.Node) and given.op == "get_attr":
            given = attrgetter(str(given.target))(graph.model)
        if isinstance(given, Tensor | int | float):
            sizes = torch.as_tensor(given).detach().double().abs()
            sizes = sizes[(sizes > 0) & ~beyond(sizes)]
            if sizes.numel():
                numbers.append(float(sizes.min()) if op.name == "mul" else 1 / float(sizes.max()))
    return min(numbers)


CRITERIA = ("range", "mse", "entropy")


@dataclass(frozen=True)
class Candidate:
    """A format that was considered.

    Args:
        fmt: The format.
        error: What the method minimises; infinite for a format that ``range`` must not take.
        mse: Mean squared error; NaN if no distribution was observed.
        clipped: Share of the values beyond the format's range; NaN likewise.
    """

    fmt: FixedFormat
    error: float
    mse: float
    clipped: float


@dataclass(frozen=True)
class Choice:
    """A chosen format and why.

    Args:
        fmt: The format.
        criterion: What was minimised.
        low: Lower end of the range that was used.
        high: Upper end of the range that was used; of ``entropy``, of what its threshold leaves.
        candidates: Formats of the chosen sign around the chosen one, coarsest first.
        note: What else decided, if anything did.
    """

    fmt: FixedFormat
    criterion: str
    low: float
    high: float
    candidates: tuple[Candidate, ...]
    note: str = ""


def choose_format(
    statistics: Json | Points, width: int, signed: bool | None = True, criterion: str | None = None
) -> Choice:
    """Choose the format of ``width`` bits that minimises an error on what was observed.

    Args:
        statistics: What calibration recorded of a tensor (``low``, ``high`` or else ``min``, ``max``, and perhaps
            ``criterion`` and ``histogram``), or the values themselves.
        width: Bits.
        signed: Whether the format has a sign; None to leave it out where nothing negative was observed and that makes
            the error smaller.
        criterion: ``range``, ``mse`` or ``entropy``; None for that of the statistics, else ``range``.

    Raises:
        FormatError: If an unsigned format is to hold negative values, the range is not finite, or a criterion needs a
            histogram that was not observed.
    """
    if isinstance(statistics, Points):
        points: Points | None = statistics
        low, high = (float(f(statistics.values)) if statistics.values.size else 0.0 for f in (np.min, np.max))
        smallest = low
    else:
        histogram = statistics.get("histogram")
        points = Histogram.from_state(histogram).points() if histogram is not None else None
        low, high = (float(statistics[k if k in statistics else o]) for k, o in (("low", "min"), ("high", "max")))
        smallest = float(statistics["min"])
        criterion = criterion or statistics.get("criterion")
    criterion = criterion or "range"
    if criterion not in CRITERIA or (criterion != "range" and points is None):
        raise FormatError(
            "the format cannot be chosen by this criterion",
            field="criterion",
            got=criterion,
            expected=" | ".join(CRITERIA if points is not None else CRITERIA[:1]),
            remedy="calibrate with method mse or entropy, which observe a histogram",
        )
    if signed is None and smallest >= 0:
        return _of_either_sign(points, low, high, width, criterion)
    return _best(_Seen.of(points), low, high, width, signed is not False, criterion)


def _of_either_sign(points: Points | None, low: float, high: float, width: int, criterion: str) -> Choice:
    """Without a sign if that errs less; what was observed has no negative values.

    Of the same width and step, a format without a sign has every number that is not negative of the one with a sign,
    and others, so its error is never larger. A divergence says nothing about numbers that are the same but for a sign
    bit; with ``entropy`` the squared errors at the step of the format without a sign are compared.
    """
    plain, plus = (_best(_Seen.of(points), low, high, width, sign, criterion) for sign in (False, True))
    if criterion == "entropy" and points is not None and points.values.size:
        same = FixedFormat(width, plain.fmt.frac_width, signed=True)
        better = mean_squared_error(points, plain.fmt)[0] < mean_squared_error(points, same)[0]
        return plain if better or plus.fmt != same else plus
    errors = [next(c.error for c in choice.candidates if c.fmt == choice.fmt) for choice in (plain, plus)]
    return plain if errors[0] < errors[1] else plus


class _Seen:
    """Points that are equal to others of the same numbers, for remembering what was chosen for them.

    Searches quantise one graph many times at a few widths, from the same statistics every time.
    """

    def __init__(self, points: Points) -> None:
        self.points = points
        numbers = (points.values, points.counts, np.float64(points.spread))
        self._digest = b"".join(hashlib.sha256(part.tobytes()).digest() for part in numbers)

    @classmethod
    def of(cls, points: Points | None) -> _Seen | None:
        return None if points is None else cls(points)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Seen) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)


@functools.lru_cache(maxsize=512)
def _best(seen: _Seen | None, low: float, high: float, width: int, signed: bool, criterion: str) -> Choice:
    points = None if seen is None else seen.points
    cover = FixedFormat.covering(low, high, width, signed)
    if criterion == "range" or points is None or not points.values.size or low == high == 0:
        fracs = range(cover.frac_width - 2, cover.frac_width + 4)
        found = [_candidate(points, FixedFormat(width, f, signed), low, high, "range") for f in fracs if _allowed(f)]
        return Choice(cover, criterion, low, high, tuple(found))
    if criterion == "entropy":
        return _by_entropy(points, low, high, cover)
    fracs = range(cover.frac_width - width - 1, cover.frac_width + width + 9)
    found = [_candidate(points, FixedFormat(width, f, signed), low, high, criterion) for f in fracs if _allowed(f)]
    best = min(found, key=lambda c: (c.error, c.mse, c.clipped > 0, -c.fmt.frac_width))
    near = tuple(c for c in found if abs(c.fmt.frac_width - best.fmt.frac_width) <= 3)
    return Choice(best.fmt, criterion, low, high, near)


def _by_entropy(points: Points, low: float, high: float, cover: FixedFormat) -> Choice:
    """The finest format that holds the threshold, made coarser until it errs no more than the one of all values."""
    histogram, width, signed = Symmetric.of(points), cover.width, cover.signed
    levels = 2 ** (width if signed else width + 1)
    threshold = histogram.threshold(levels)
    low, high = (min(max(end, -threshold), threshold) for end in (low, high))
    first = chosen = FixedFormat.covering(low, high, width, signed)
    limit = mean_squared_error(points, cover)[0]
    while chosen.frac_width > cover.frac_width and mean_squared_error(points, chosen)[0] > limit:
        chosen = FixedFormat(width, chosen.frac_width - 1, signed)
    near = range(chosen.frac_width - 3, max(chosen.frac_width, first.frac_width) + 4)
    found = []
    for fmt in (FixedFormat(width, frac, signed) for frac in near if _allowed(frac)):
        error = histogram.divergence(-fmt.min_value if signed else fmt.max_value, levels)
        found.append(Candidate(fmt, error, *mean_squared_error(points, fmt)))
    note = "" if chosen == first else f"coarser than {first}, whose squared error is above that of {cover}"
    return Choice(chosen, "entropy", low, high, tuple(found), note)


def _allowed(frac: int) -> bool:
    return abs(frac) <= MAX_FRAC


def _candidate(points: Points | None, fmt: FixedFormat, low: float, high: float, criterion: str) -> Candidate:
    mse, clipped = math.nan, math.nan
    if points is not None and points.values.size:
        mse, clipped = mean_squared_error(points, fmt)
    if criterion == "mse":
        return Candidate(fmt, mse, mse, clipped)
    fits = fmt.min_mantissa <= round(math.ldexp(low, fmt.frac_width)) and (
        round(math.ldexp(high, fmt.frac_width)) <= fmt.max_mantissa
    )
    return Candidate(fmt, fmt.scale / 2 if fits else math.inf, mse, clipped)


def mean_squared_error(points: Points, fmt: FixedFormat) -> tuple[float, float]:
    """Mean squared error of a format on a distribution, and the share of values it clips.

    A histogram does not show where in its bin a value lies: for steps no wider than a bin, rounding errors are taken
    as uniform, ``step**2 / 12``.
    """
    steps = points.values * math.ldexp(1.0, fmt.frac_width)
    rounded = np.rint(steps)
    codes = np.clip(rounded, fmt.min_mantissa, fmt.max_mantissa)
    errors, clipped = (steps - codes) ** 2, codes != rounded
    if points.spread and fmt.scale <= points.spread:
        errors[~clipped & (points.values != 0)] = 1 / 12
    total = points.counts.sum()
    mean = float((errors * points.counts).sum() / total)
    return mean * fmt.scale**2, float(points.counts[clipped].sum() / total)
