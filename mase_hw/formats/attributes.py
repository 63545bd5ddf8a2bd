"""Attributes: the arguments of ops that are no tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast

from mase_hw.formats.fixed import FixedFormat

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Sizes = Any
"""One number for all dimensions, or one for each."""


class Attributes(TypedDict, total=False):
    """What an op of the catalogue reads of a call, under PyTorch's names; a user's own op has any.

    Those behind ``order`` are of this package: a pass, an importer or a parameter record writes them.
    """

    alpha: float
    approximate: str
    base: float
    exponent: float
    offset: float
    n: int
    align_corners: bool | None
    antialias: bool
    bias: bool
    ceil_mode: bool
    correction: int | None
    count_include_pad: bool
    decimals: int
    destination: Sizes
    source: Sizes
    dilation: Sizes
    dim: Any  # one, several or none
    dims: Sequence[int]
    divisor_override: int | None
    downscale_factor: int
    dtype: torch.dtype | None
    eps: float
    groups: int
    keepdim: bool
    kernel_size: Sizes
    largest: bool
    lower: float
    max_norm: float | None
    max: float | None
    max_val: float
    min: float | None
    min_val: float
    k: float
    beta: float
    norm: float
    mode: str
    norm_type: float
    normalized_shape: Sizes
    num_groups: int
    num_classes: int
    ord: Any
    output_size: Sizes
    p: Any
    pad: Sizes
    padding: Any  # "same" and "valid" as well
    padding_idx: int | None
    padding_mode: str
    recompute_scale_factor: bool | None
    return_indices: bool
    rounding_mode: str | None
    scale: float
    scale_factor: Sizes
    size: Sizes
    stride: Sizes
    train: bool
    training: bool
    unbiased: bool
    upper: float
    upscale_factor: int
    use_input_stats: bool
    value: float | None
    order: Sequence[int]
    allowed: Sequence[str]
    causal: bool
    cells: int
    codes: Sequence[int]
    count: int
    drops: Sequence[int] | None
    elements: Sequence[Sequence[int]] | None
    first: int
    formats: Mapping[str, FixedFormat]
    hold: int
    kind: str
    begin: int
    length: int
    step: int
    block: int
    top: int
    digits: int
    most: int
    passes: int
    program: Any
    run: int
    seed: int
    slots: int
    multipliers: Sequence[int]
    number: int
    out_shape: Sequence[int]
    queries: int
    repeats: int
    reversed: bool
    sequence: Any
    shape: Sequence[int]
    shapes: Mapping[str, tuple[int, ...]]
    layouts: Mapping[str, Any]
    parallelism: Mapping[str, tuple[int, ...]]
    parameters: Mapping[str, Tensor]
    shift: int
    split: list[int]
    starts: Sequence[int]
    streaming: bool
    table: tuple[int, int]
    table_sources: tuple[tuple[int, ...], ...]
    table_words: tuple[tuple[int, ...], ...]
    trees: Sequence[Any]
    base_leaf: Sequence[int]
    leaf_frac: int
    transposed: bool


def attributes_of(given: Mapping[str, object]) -> Attributes:
    """The attributes of a call, or of a file, by name."""
    return cast(Attributes, dict(given))
