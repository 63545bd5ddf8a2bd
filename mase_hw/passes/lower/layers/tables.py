"""Layers that read rows of a table: bags of embeddings, and ids as rows of ones and zeros."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from mase_hw.passes.lower.layers.call import Call, Line, parameter


def embedding_bag(call: Call) -> nn.Module | None:
    """Rows of a table for bags of one size, ids ``(N, size)``, and their sum, mean or maximum.

    A padding id counts as a row of zeros in a sum; of a mean and a maximum it would change how many rows there are.
    Ids with a weight for each sample have a sum only, as in PyTorch.
    """
    weight, mode = call.parameters.get("weight"), str(call.attributes.get("mode", "mean"))
    padding = call.attributes.get("padding_idx")
    # Ids that are one row are cut by offsets, which are data.
    if weight is None or len(call.shapes[0]) != 2 or call.attributes.get("max_norm") is not None:
        return None
    if len(call.inputs) > 2 or (len(call.inputs) == 2 and (mode != "sum" or call.shapes[1] != call.shapes[0])):
        return None
    if padding is not None and mode != "sum":
        return None
    table = nn.Embedding(*weight.shape)
    rows = weight.detach().clone()
    if padding is not None:
        rows[int(padding)] = 0
    table.weight = parameter(rows, weight)
    reduce: Any = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[mode]
    if len(call.inputs) == 2:
        return Line(lambda x, y: torch.sum(table(x) * y.unsqueeze(-1), 1), table=table)
    return Line(lambda x: reduce(table(x), 1), table=table)


def one_hot(call: Call) -> nn.Module | None:
    """The row of the unit matrix for every id; as numbers that are no integers of 64 bits any more."""
    classes = int(call.attributes.get("num_classes", -1))
    if classes < 1:  # as many as the largest id of the data asks for
        return None
    table = nn.Embedding(classes, classes)
    table.weight = nn.Parameter(torch.eye(classes), requires_grad=False)
    return Line(table.forward, table=table)
