"""Labelled data from a NumPy archive, as pairs of inputs and targets."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from mase_hw.errors import ConfigError

TARGETS = "targets"
"""Name of the array of targets; all others are inputs."""
BATCH = 64
"""Frames of a batch."""


def labelled_file(path: Path, batch: int = BATCH) -> list[tuple[Any, Tensor]]:
    """Read an archive of ``numpy.savez`` with an array ``targets`` and the inputs of a model.

    Args:
        path: The file. One other array is the input; several are the inputs by name. All have as many rows.
        batch: Rows of a batch.

    Returns:
        Pairs of inputs and targets, as :func:`~mase_hw.passes.evaluation.evaluate_statistic` takes them.

    Raises:
        ConfigError: If the file cannot be read, has other arrays, or arrays of different lengths.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: np.asarray(file[name]) for name in file.files}
    except (OSError, ValueError, KeyError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise ConfigError(
            "the labelled data cannot be read",
            node=str(path),
            got=f"{error}",
            expected="an .npz of numpy.savez, without objects",
        ) from error
    targets = arrays.pop(TARGETS, None)
    rows = {name: (len(array) if array.ndim else 0) for name, array in arrays.items()}
    if targets is None or not arrays or not targets.ndim or set(rows.values()) != {len(targets)} or not len(targets):
        shapes = {name: list(array.shape) for name, array in arrays.items()}
        raise ConfigError(
            "the labelled data has not the arrays that it needs",
            node=str(path),
            got=f"inputs {shapes or 'none'}, targets {None if targets is None else list(targets.shape)}",
            expected=f"an array {TARGETS!r} and one array of inputs or several by name, all with as many rows",
        )
    names = list(arrays)

    def cut(start: int) -> tuple[Any, Tensor]:
        part = {name: torch.from_numpy(array[start : start + batch]) for name, array in arrays.items()}
        assert targets is not None
        return (part[names[0]] if len(names) == 1 else part), torch.from_numpy(targets[start : start + batch])

    return [cut(start) for start in range(0, len(targets), batch)]


def data_digest(data: Iterable[Any]) -> str:
    """SHA-256 of every tensor of labelled data, in order, however it is cut into batches of equal kind."""
    found: dict[int, Any] = {}
    for pair in data:
        for place, leaf in enumerate(pytree.tree_leaves(pair)):
            value = leaf.detach().cpu().numpy() if isinstance(leaf, Tensor) else np.asarray(leaf)
            part = found.setdefault(place, hashlib.sha256(f"{value.dtype} {list(value.shape[1:])}".encode()))
            part.update(np.ascontiguousarray(value).tobytes())
    return hashlib.sha256("".join(part.hexdigest() for part in found.values()).encode()).hexdigest()
