"""Which calls of a model are random: dropout that is left on in evaluation, and random numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

from mase_hw.host.user_code import place_of_call
from mase_hw.ir.evaluate import Values
from mase_hw.ir.faithful.same_function import call
from mase_hw.ops.reshape import DROPOUTS

_DRAWN = frozenset(
    [
        "bernoulli",
        "bernoulli_",
        "rand",
        "rand_like",
        "randn",
        "randn_like",
        "randint",
        "normal",
        "normal_",
        "multinomial",
    ]
)


def random_calls(model: nn.Module, inputs: Values) -> list[str]:
    """The user's lines that draw random numbers, each with what is left on there.

    Args:
        model: A model in evaluation mode; it runs once.
        inputs: By name.
    """
    found = _Recorded()
    with torch.random.fork_rng(devices=[]), found:
        call(model, inputs)
    return list(dict.fromkeys(found.lines))


class _Recorded(TorchFunctionMode):
    """Looks at every call of PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Values | None = None
    ) -> Any:
        """Run it, and note what is random about it."""
        given = dict(kwargs or {})
        what = _what(func, args, given)
        if what is not None and (line := place_of_call(sys._getframe(1))) is not None:
            self.lines.append(f"{line} ({what})")
        return func(*args, **given)


def _what(func: Callable[..., Any], args: tuple[Any, ...], given: Values) -> str | None:
    name = getattr(func, "__name__", "")
    if func in DROPOUTS or func is torch.dropout:
        share, training = (
            given.get(key, args[place] if len(args) > place else default)
            for key, place, default in (("p", 1, 0.5), ("training", 2, True))
        )
        return f"{name} with p = {share}" if training and share else None
    if func is F.scaled_dot_product_attention:
        share = given.get("dropout_p", args[4] if len(args) > 4 else 0.0)
        return f"dropout_p = {share}" if share else None
    return name if name in _DRAWN else None
