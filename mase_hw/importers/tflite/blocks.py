"""Dilated convolutions that a file has as ``SPACE_TO_BATCH_ND``, a convolution of each part, ``BATCH_TO_SPACE_ND``.

The parts are frames of their own; together they are one convolution whose dilation is the size of the blocks.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

from mase_hw.importers.tflite.source import Operator, Source
from mase_hw.importers.tflite.windows import VALID

_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")


def joined(source: Source) -> Source:
    """The same with one convolution for every such three operations of which nothing else reads a tensor."""
    makers = {index: op for op in source.operators for index in op.outputs}
    reads = Counter([*source.outputs, *(i for op in source.operators for i in op.inputs)])
    gone, made = set[int](), dict[int, Operator]()
    for last in source.operators:
        inner = makers.get(last.inputs[0]) if last.inputs else None
        first = makers.get(inner.inputs[0]) if inner is not None and inner.inputs else None
        if inner is None or first is None:
            continue
        kinds = first.operation, inner.operation, last.operation
        if kinds[::2] != ("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND") or kinds[1] not in _CONVOLUTIONS:
            continue
        if all(reads[op.outputs[0]] == 1 for op in (first, inner)) and (one := _one(source, first, inner, last)):
            gone |= {id(first), id(inner)}
            made[id(last)] = one
    left = tuple(made.get(id(op), op) for op in source.operators if id(op) not in gone)
    return dataclasses.replace(source, operators=left)


def _one(source: Source, first: Operator, inner: Operator, last: Operator) -> Operator | None:
    """The convolution of three operations; None of one that is no dilated convolution of stride 1."""
    blocks, pads = _numbers(source, first)
    same, crops = _numbers(source, last)
    between, result = (source.tensors[op.outputs[0]] for op in (inner, last))
    options = dict(inner.options or {})
    settings = [options.get(name) for name in ("StrideH", "StrideW", "DilationHFactor", "DilationWFactor")]
    if settings != [1] * 4 or options.get("Padding") != VALID or same != blocks or len(blocks) != 2:
        return None
    if (between.scales, between.zeros) != (result.scales, result.zeros) or len(pads) != 4 or len(crops) != 4:
        return None
    around = [a - b for a, b in zip(pads, crops, strict=True)]
    if min(around) < 0:
        return None
    options |= dict(zip(("DilationHFactor", "DilationWFactor"), blocks, strict=True))
    inputs = (first.inputs[0], *inner.inputs[1:])
    rows, columns = (around[0], around[1]), (around[2], around[3])
    return dataclasses.replace(last, operation=inner.operation, inputs=inputs, options=options, pads=(rows, columns))


def _numbers(source: Source, op: Operator) -> list[list[int]]:
    """The stored sizes of the blocks, and what is padded or cut off; empty if they are not stored."""
    found = [source.tensors[i].stored for i in op.inputs[1:3]]
    return [[] if v is None else v.reshape(-1).tolist() for v in (*found, None, None)[:2]]
