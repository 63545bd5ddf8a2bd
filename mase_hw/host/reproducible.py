"""Folders that repeat a failure elsewhere: data that cannot run anything, and one script that uses it.

The idea is LibreLane's ``create_reproducible``: what failed, with the state it had and nothing else, so that anyone
without the project around it can look at it.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel
from torch import Tensor

from mase_hw._version import __version__
from mase_hw.errors import ConfigError
from mase_hw.host.disk import staged, writing

SCRIPT = "run.py"


class NotData(Exception):
    """A value that no file of data can hold; says which."""


def as_data(value: Any, where: str) -> Any:
    """A value as what ``torch.load(..., weights_only=True)`` reads: tensors, numbers, text; lists and dicts of them.

    Args:
        value: Anything; an iterable becomes a list.
        where: What it is called, for the error.

    Raises:
        NotData: If something in it is none of these, such as a function.
    """
    if isinstance(value, enum.Enum):
        return as_data(value.value, where)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.array(value, order="C"))
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, BaseModel):
        return {name: as_data(getattr(value, name), f"{where}.{name}") for name in sorted(value.model_fields_set)}
    if isinstance(value, Mapping):
        return {str(key): as_data(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, torch.nn.Module) or callable(value) or not isinstance(value, Iterable):
        raise NotData(f"{where} is a {type(value).__name__}")
    items = [as_data(item, f"{where}[{index}]") for index, item in enumerate(value)]
    return tuple(items) if isinstance(value, tuple) else items


@contextmanager
def reproducible(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder that is there whole or not at all; an older one of its kind is replaced.

    Raises:
        ConfigError: If there is something else.
        EmitError: If it cannot be written.
    """
    target = Path(folder).resolve()
    if target.exists() and not (target / SCRIPT).is_file() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(
            "the folder of a reproducer holds something else",
            node=str(target),
            expected=f"no such folder, an empty one, or one with {SCRIPT}",
            remedy="name another one",
        )
    with writing("the reproducer", target), staged(target) as partial:
        yield partial


def script(what: str, imports: Iterable[str], body: Iterable[str]) -> str:
    """The text of ``run.py``.

    Args:
        what: What it repeats.
        imports: Its import lines, besides that of ``pathlib``.
        body: Its lines; ``HERE`` is the folder.
    """
    lines = [
        f'"""Repeats {what}, as it was with mase_hw {__version__} and torch {torch.__version__}.',
        "",
        "Needs nothing but this folder and an installed mase_hw; fails as it did, or says that it did not.",
        '"""',
        "",
        "from pathlib import Path",
        "",
        *imports,
        "",
        "HERE = Path(__file__).resolve().parent",
        *body,
        'print("it did not fail")',
    ]
    return "\n".join(lines) + "\n"
