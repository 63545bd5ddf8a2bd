"""Whether a model changes itself when it runs: hardware does not, so it would be something else from the second frame.

A copy runs four times: on the example, on another input, and on the example twice more. What it gives for the example
must be the same each time, and so must everything that Python can reach from it: buffers and attributes of modules,
what is in them, attributes of the classes, the global variables that its functions use, and the settings of PyTorch.
What is stored once and stays (a table for a shape), or holds the last input only, is no state. A counter is, whatever
its period: it would have to be the same after two runs more and after one run more.

Which calls of a model are random: dropout that is left on in evaluation, and random numbers.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mase_hw.errors import GraphError, MaseHwError, UnsupportedError
from mase_hw.host.user_code import place_of_call, user_code
from mase_hw.ir.evaluate import Values, has_rows
from mase_hw.ir.faithful.fingerprint import fingerprint
from mase_hw.ir.faithful.same_function import call, describe, equal
from mase_hw.ir.faithful.surroundings import settings
from mase_hw.ir.trace.containers import contents
from mase_hw.ir.trace.tracer import private_copy
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


_SHOWN = 3
_LEFT_ON = (
    "a dropout that is left on drops in evaluation as well: write dropout(x, p, training=self.training) or use "
    "nn.Dropout, give attention dropout_p=self.p if self.training else 0.0; random numbers are inputs"
)


def check_stateless(model: nn.Module, example: Values) -> None:
    """Refuse a model that changes itself, or gives another result for the same input.

    Args:
        model: The model; a copy of it runs.
        example: Its inputs by name.

    Raises:
        GraphError: Names what changed, or the results that differ; if the model cannot be copied or run.
    """
    twin = private_copy(model)
    with user_code("the model cannot be brought into evaluation mode"):
        twin.eval()
    other = {name: value.flip(-1) if has_rows(value) else value for name, value in example.items()}
    results, states = [], []
    before = settings()
    # One state of the random numbers for all runs: what is drawn anew every time must show.
    with torch.random.fork_rng(devices=[]):
        for inputs in (example, other, example, example):
            if inputs is other:
                _try(twin, other)
                continue
            results.append([_kept(value) for value in contents(call(twin, inputs))])
            states.append({**settings(), **fingerprint(twin)})
    changed = {name: (was, states[0][name]) for name, was in before.items() if states[0][name] != was}
    changed |= {
        path: (first, last)
        for later in states[1:]
        for path in sorted({*states[0], *later})
        if (first := states[0].get(path, "nothing")) != (last := later.get(path, "nothing"))
    }
    if changed:
        raise _changes(changed)
    for later in results[1:]:
        if not equal(results[0], later):
            raise _random(type(model).__name__, random_calls(twin, example), describe(results[0]), describe(later))


def _random(model: str, calls: list[str], first: str, later: str) -> GraphError:
    """All calls at once that are random, if it is those."""
    remedy = "look for the time, for random numbers from elsewhere than PyTorch, and for what forward keeps "
    remedy += "from one call to the next"
    remedy = _LEFT_ON if calls else remedy
    return GraphError(
        "the model gives different results for the same input",
        node="; ".join([model, *calls]),
        got=f"{first}, then {later}",
        expected="the same result every time; that is all that hardware can give",
        remedy=remedy,
    )


def with_random(error: UnsupportedError, model: nn.Module, example: Values) -> UnsupportedError:
    """An error about nodes of a model that also names its lines that are random: both are mended at once.

    Args:
        error: What cannot become hardware.
        model: The model; a copy of it runs.
        example: Its inputs by name.
    """
    try:
        calls = random_calls(private_copy(model), example)
    except MaseHwError:  # that it cannot be run is said once there is nothing else to say
        return error
    if not calls:
        return error
    return UnsupportedError(
        f"{error.message}, and {len(calls)} line(s) are random",
        node="; ".join([error.node or "", *calls]),
        got=error.got,
        expected=error.expected,
        remedy=f"{error.remedy}; {_LEFT_ON}",
    )


def _changes(changed: Mapping[str, tuple[str, str]]) -> GraphError:
    shown = [f"{path}: {first}, later {last}" for path, (first, last) in list(changed.items())[:_SHOWN]]
    more = len(changed) - len(shown)
    return GraphError(
        "the model changes itself when it runs, so hardware would differ from the second frame on",
        node=", ".join(list(changed)[:_SHOWN]),
        got="; ".join(shown) + (f"; and {more} more" if more else ""),
        expected="a forward that leaves buffers, attributes and global variables as they are",
        remedy="make what is kept an input and an output of the model, or take it out of forward (a counter, a running "
        "mean); what is only needed in training belongs below `if self.training`",
    )


def _try(model: nn.Module, inputs: Values) -> None:
    """Run a model on inputs that it may refuse, since nobody promised them."""
    with contextlib.suppress(GraphError):
        call(model, inputs)


def _kept(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value
