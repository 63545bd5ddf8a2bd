"""The record: every value, kept."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from mase_hw.errors import ConfigError
from mase_hw.passes.analysis.statistics.base import Options, Statistic


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

    def result(self) -> dict[str, Any]:
        """``data``, a tensor, and ``count``, the samples in it."""
        self._seen = [torch.cat(self._seen)]
        data = self._seen[0]
        if self.options.add_new_dim_before_concat:
            data = data.unsqueeze(1 if self.batched else 0)
        return {"data": data, "count": self.count}
