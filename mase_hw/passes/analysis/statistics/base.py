"""What all statistics share: options, how a tensor becomes rows of values, and the refusal of NaN.

A statistic sees one tensor after the other and can be asked for its result at any time. Activations come in
batches: their first dimension counts samples, which are always reduced. A weight is one sample.

The record: every value, kept.

Data sets as batches that fit the inputs of a graph.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, field_validator
from torch import Tensor, fx

from mase_hw.errors import ConfigError, FormatError
from mase_hw.host.user_code import user_code
from mase_hw.ir.graph import MaseGraph
from mase_hw.ir.inputs import as_tensor, check_inputs, input_dtype


def batches(
    graph: MaseGraph, data: Any, field: str = "data", subject: str = "calibration data", *, needed: bool = True
) -> Iterator[tuple[int, dict[str, object]]]:
    """Every batch as a dict by input, checked against the shapes the metadata was made with.

    Args:
        graph: A graph with common metadata.
        data: An iterable of batches: a tensor, a tuple in the order of the inputs, or a dict; a numpy array does
            for a tensor.
        field: Name of the argument, for errors.
        subject: What the data is, for errors.
        needed: Whether there has to be a batch.

    Raises:
        ConfigError: If it is no such iterable or an empty one, or a batch does not fit the inputs.
    """
    if isinstance(data, Tensor | np.ndarray | Mapping | str) or not hasattr(data, "__iter__"):
        raise ConfigError(
            f"{subject} is not an iterable of batches",
            field=field,
            got=type(data).__name__,
            remedy="pass a list of batches or a data loader; wrap a single batch as [batch]",
        )
    places = [n for n in graph.nodes if n.op == "placeholder"]
    names = [str(n.target) for n in places if not str(n.target).startswith("*")]
    dtypes = {name: input_dtype(graph, n) for n in places for name in (str(n.target), n.name)}
    for index, batch in _each(data, field, subject):
        needed = False
        what = f"{field}[{index}]"
        if isinstance(batch, Tensor | np.ndarray):
            batch = (batch,)
        if isinstance(batch, list | tuple):
            if len(batch) > len(names):
                raise ConfigError(
                    "a batch has more tensors than the model has inputs",
                    field=what,
                    got=len(batch),
                    expected=", ".join(names),
                    remedy="yield only the inputs, without labels",
                )
            batch = dict(zip(names, batch, strict=False))
        if not isinstance(batch, Mapping):
            raise ConfigError("a batch is neither tensor, tuple nor dict", field=what, got=type(batch).__name__)
        batch = {n: as_tensor(v, graph.model, dtypes.get(n), f"{what}.{n}") for n, v in batch.items()}
        inputs = check_inputs(graph, batch, what)
        for node in places:
            _check_shape(graph, node, inputs[node.name], what)
        yield index, inputs
    if needed:
        raise ConfigError(
            f"there is no {subject}",
            field=field,
            got="an empty iterable",
            remedy="pass at least one batch; a generator that was used up once is empty",
        )


def _each(data: Any, field: str, subject: str) -> Iterator[tuple[int, Any]]:
    """What the user's iterable gives; what it raises, ``SystemExit`` included, names the user's line."""
    end, index, source = object(), 0, None
    while True:
        with user_code(f"{subject} cannot be read, at batch {index}", ConfigError, field=f"{field}[{index}]"):
            source = iter(data) if source is None else source
            batch = next(source, end)
        if batch is end:
            return
        yield index, batch
        index += 1


def _check_shape(graph: MaseGraph, node: fx.Node, value: Any, what: str) -> None:
    expected = graph.meta_of(node).common.results.tensors.get("data_out_0")
    if not isinstance(value, Tensor) or expected is None:
        return
    if len(value.shape) != len(expected.shape) or list(value.shape[1:]) != expected.shape[1:]:
        raise ConfigError(
            "a batch does not have the shape of dummy_in",
            field=f"{what}.{node.target}",
            got=list(value.shape),
            expected=["any", *expected.shape[1:]] if expected.shape else [],
        )


Dims = Literal["all"] | tuple[int, ...] | None


class Options(BaseModel):
    """Options of every statistic; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    device: str | None = Field(
        default=None, description="device that keeps and computes it; None for that of the tensor"
    )

    @field_validator("device")
    @classmethod
    def _device(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                torch.empty(0, device=value)
            except (RuntimeError, AssertionError) as error:  # torch's ways to say that there is no such device
                raise ValueError(f"no such device: {str(error).splitlines()[0]}") from error
            if torch.device(value).type == "meta":
                raise ValueError("the meta device holds no values")
        return value


class ReducingOptions(Options):
    """Options of a statistic that reduces dimensions.

    Of ``dims`` every tensor uses those that it has, so ``[2, 3]`` gives one number per channel of images as well as of
    vectors. Dimension 0 of an activation counts samples and is always reduced.
    """

    dims: Dims = Field(
        default="all",
        description='dimensions that are reduced: ``"all"`` gives one number, a list keeps the other dimensions, None '
        "keeps all",
    )

    @field_validator("dims", mode="plain")
    @classmethod
    def _dims(cls, value: Any) -> Dims:
        if value is None or value == "all":
            return "all" if value else None
        numbers = isinstance(value, list | tuple) and all(type(d) is int for d in value)
        if not numbers or len(set(value)) != len(value):
            raise ValueError("should be 'all', null or a list of different dimensions")
        return tuple(value)


class RangeOptions(ReducingOptions):
    """Options of a range."""

    abs: bool = Field(default=False, description="observe absolute values")


AnyOptions = TypeVar("AnyOptions", bound=Options)
AnyReducing = TypeVar("AnyReducing", bound=ReducingOptions)


class Statistic(ABC, Generic[AnyOptions]):
    """A statistic of one tensor over a data set.

    Args:
        options: Its options.
        batched: Dimension 0 of every tensor counts samples (an activation); otherwise each is one sample.
    """

    name: ClassVar[str]
    """Key in MASE's tree."""
    keys: ClassVar[tuple[str, ...]]
    """Keys of the result."""

    def __init__(self, options: AnyOptions, batched: bool = True) -> None:
        self.options = options
        self.batched = batched
        self.count = 0

    def update(self, tensor: Tensor, where: str) -> None:
        """Take in a tensor; an empty one changes nothing.

        Raises:
            ConfigError: If the options do not fit the tensor.
            FormatError: If a range meets NaN or infinity.
        """
        if tensor.numel() == 0 or tensor.is_complex():
            return
        tensor = tensor.detach()
        tensor = tensor.to(torch.uint8) if tensor.dtype is torch.bool else tensor
        self.take(tensor if self.options.device is None else tensor.to(self.options.device), where)

    @abstractmethod
    def take(self, tensor: Tensor, where: str) -> None:
        """Merge a tensor that has elements and is on the right device."""

    @abstractmethod
    def result(self) -> dict[str, object]:
        """The keys of MASE's tree with Python numbers, nested lists where dimensions are kept."""


class Reducing(Statistic[AnyReducing]):
    """A statistic of rows: one row for every combination of kept indices, its columns are what is reduced."""

    def __init__(self, options: AnyReducing, batched: bool = True) -> None:
        super().__init__(options, batched)
        self.kept: tuple[int, ...] | None = None
        """Sizes of the dimensions that are kept, once known."""

    def take(self, tensor: Tensor, where: str) -> None:
        """Merge the rows of a tensor."""
        rows, kept = rows_of(tensor, self.options.dims, self.batched)
        if self.kept is not None and kept != self.kept:
            raise ConfigError(
                f"a dimension that {self.name} keeps changes its size between batches",
                node=where,
                field=f"{self.name}.dims",
                got=list(kept),
                expected=list(self.kept),
                remedy="reduce it as well, for example with dims = 'all'",
            )
        self.kept = kept
        self.merge(rows, where)
        self.count += rows.shape[1]

    @abstractmethod
    def merge(self, rows: Tensor, where: str) -> None:
        """Merge ``rows`` of shape (kept, reduced), a view on what was observed; ``count`` is that before."""

    def listed(self, values: Tensor) -> Any:
        """One value for every row, as a float or as nested lists in the shape of the kept dimensions."""
        return values.double().reshape(self.kept or ()).tolist()


def rows_of(tensor: Tensor, dims: Dims, batched: bool) -> tuple[Tensor, tuple[int, ...]]:
    """A tensor as a matrix: kept dimensions along the rows, reduced ones along the columns, samples outermost.

    Returns:
        The matrix (a view where possible) and the sizes of the kept dimensions.
    """
    tensor = tensor if tensor.ndim else tensor.reshape(1)
    rank = tensor.ndim
    reduced = set(range(rank)) if dims == "all" else {d % rank for d in dims or () if has_dim(rank, d)}
    reduced |= {0} if batched else set()
    keep = [d for d in range(rank) if d not in reduced]
    kept = tuple(tensor.shape[d] for d in keep)
    return tensor.permute(*keep, *sorted(reduced)).reshape(math.prod(kept), -1), kept


def has_dim(rank: int, dim: int) -> bool:
    """Whether a tensor has a dimension, counted from the front or, if negative, from the back."""
    return -rank <= dim < rank


def check_bounds(low: Tensor, high: Tensor, where: str) -> None:
    """Refuse smallest and largest values that show NaN or infinity.

    Raises:
        FormatError: Naming the tensor.
    """
    if bool(torch.isfinite(low).all() & torch.isfinite(high).all()):
        return
    nan = bool(torch.isnan(low).any())
    raise FormatError(
        f"{where} has {'NaN' if nan else 'infinite'} values",
        node=where,
        got="NaN" if nan else f"range [{float(low.min())}, {float(high.max())}]",
        expected="finite numbers, which a fixed-point format can hold",
        remedy="clean the data, or look at the weights and the layers in front of this tensor",
    )


def check_finite(tensor: Tensor, where: str) -> None:
    """Refuse a tensor with NaN or infinite values; complex and empty ones pass, for nothing is observed of them."""
    if tensor.numel() and tensor.is_floating_point():
        check_bounds(*torch.aminmax(tensor.detach()), where)


def finite_batches(graph: MaseGraph, data: Any) -> Iterator[tuple[int, dict[str, object]]]:
    """As :func:`batches`, of which none has a NaN or an infinite number."""
    for index, inputs in batches(graph, data):
        for name, value in inputs.items():
            if isinstance(value, Tensor):
                check_finite(value, f"input {name} of batch {index}")
        yield index, inputs


class RecordOptions(Options):
    """Options of the record."""

    add_new_dim_before_concat: bool = Field(
        default=False, description="give every sample a dimension of its own in front of its others"
    )


class Record(Statistic[RecordOptions]):
    """All tensors, one after the other along dimension 0, in their own element type."""

    name = "record"
    keys = ("data", "count")

    def __init__(self, options: RecordOptions | None = None, batched: bool = True) -> None:
        super().__init__(options or RecordOptions(), batched)
        self._seen: list[Tensor] = []

    def take(self, tensor: Tensor, where: str) -> None:
        """Keep a copy, as later operations may write the tensor."""
        tensor = tensor if tensor.ndim else tensor.reshape(1)
        if self._seen and tensor.shape[1:] != self._seen[0].shape[1:]:
            raise ConfigError(
                "tensors of different shapes cannot be recorded together",
                node=where,
                field="record",
                got=list(tensor.shape),
                expected=["any", *self._seen[0].shape[1:]],
                remedy="pass batches of one shape, or leave this node out",
            )
        self._seen.append(tensor.clone())
        self.count += tensor.shape[0] if self.batched else 1

    def result(self) -> dict[str, object]:
        """``data``, a tensor, and ``count``, the samples in it."""
        self._seen = [torch.cat(self._seen)]
        data = self._seen[0]
        if self.options.add_new_dim_before_concat:
            data = data.unsqueeze(1 if self.batched else 0)
        return {"data": data, "count": self.count}
