"""The example of a model that decodes: a prompt, as a whole sequence; models with caches of their own are refused.

A design keeps keys and values by itself, of a model of whole sequences. One that is written for a token at a time takes
what it keeps as inputs, or has it in attributes: it would become a frame for each token, or is none at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from mase_hw.emit.causality import WHOLE_SEQUENCES
from mase_hw.errors import ConfigError, GraphError
from mase_hw.ir.faithful.fingerprint import fingerprint
from mase_hw.ir.faithful.same_function import in_evaluation
from mase_hw.ir.trace.tracer import private_copy

_SHOWN = 3


def whole_sequence(prompt: Any, context: int) -> Any:
    """A prompt as a whole sequence: dimension 1 of every tensor, its tokens, over and over.

    Args:
        prompt: Tensors of at least two dimensions, in whatever containers.
        context: Tokens of the sequence.

    Raises:
        ConfigError: If it is longer, or its tensors have different numbers of tokens.
    """
    shapes = [list(value.shape) for value in pytree.tree_leaves(prompt) if isinstance(value, np.ndarray | Tensor)]
    if len({shape[1] for shape in shapes if len(shape) > 1}) > 1:
        raise ConfigError(
            "the inputs of a model that decodes have different numbers of tokens",
            field="example_inputs",
            got=f"tensors of shapes {', '.join(map(str, shapes))}",
            expected="the same number in dimension 1 of each: the tokens of a prompt, and no caches beside it",
            remedy=WHOLE_SEQUENCES,
        )

    def repeated(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            value = torch.from_numpy(value)
        if not isinstance(value, Tensor):
            return value
        if value.dim() < 2 or not 1 <= value.shape[1] <= context:
            raise ConfigError(
                "the prompt does not fit the context",
                field="example_inputs",
                got=f"a tensor of shape {list(value.shape)}",
                expected=f"1 to {context} tokens in dimension 1",
                remedy="give ids of shape (1, tokens), or a larger decode.context",
            )
        times = [1] * value.dim()
        times[1] = -(-context // value.shape[1])
        return value.repeat(times)[:, :context]

    return pytree.tree_map(repeated, prompt)


def refuse_caches(model: nn.Module, prompt: Any) -> None:
    """Refuse a model that is given what it keeps of earlier tokens, or keeps it in attributes, where that shows.

    Args:
        model: The model; a copy of it runs twice.
        prompt: Its inputs as they were given.

    Raises:
        GraphError: Names the inputs that come back as results, or what the second run changed.
    """
    if isinstance(model, fx.GraphModule):
        return
    twin = private_copy(model)
    found, states = None, []
    for _ in range(2):
        try:
            with in_evaluation(twin), torch.no_grad(), torch.random.fork_rng(devices=[]):
                found = _called(twin, prompt)
        except Exception:  # what it cannot be run on, tracing says, with the user's line
            return
        states.append(fingerprint(twin))
    changed = [path for path in sorted({*states[0], *states[1]}) if states[0].get(path) != states[1].get(path)]
    if changed:
        raise GraphError(
            "the model keeps something of a token for the next one",
            node=", ".join(changed[:_SHOWN]),
            field="decode",
            got=f"{len(changed)} values that a second run on the prompt changed",
            expected="a forward that leaves buffers, attributes and global variables as they are",
            remedy=WHOLE_SEQUENCES,
        )
    # Results may be of a class without paths, as those of Hugging Face are; theirs are not named.
    inputs, results = _shapes(prompt), [tuple(v.shape) for v in pytree.tree_leaves(found) if isinstance(v, Tensor)]
    if len(inputs) > 1 and all(len(shape) > 1 and shape[1] == 1 for _, shape in inputs):
        again = [f"{path} {list(shape)}" for path, shape in inputs if any(_grown(shape, other) for other in results)]
        if again:
            raise GraphError(
                "the model takes what it keeps of earlier tokens as an input, and gives it back",
                field="decode",
                got=f"inputs whose shapes results have: {', '.join(again)}",
                expected="results that are no caches; if they are none, a prompt of several tokens",
                remedy=WHOLE_SEQUENCES,
            )


def _called(model: nn.Module, prompt: Any) -> Any:
    """What a model gives for tensors by name or in order, whose containers stay as they are."""
    given = pytree.tree_map(lambda v: torch.from_numpy(v) if isinstance(v, np.ndarray) else v, prompt)
    if isinstance(given, Mapping):
        return model(**given)
    return model(*given) if isinstance(given, Sequence) else model(given)


def _shapes(values: Any) -> list[tuple[str, Sequence[int]]]:
    """Path and shape of all tensors in containers."""
    found, _ = pytree.tree_flatten_with_path(values)
    tensors = [(pytree.keystr(path), value) for path, value in found if isinstance(value, np.ndarray | Tensor)]
    return [(path, tuple(value.shape)) for path, value in tensors]


def _grown(shape: Sequence[int], other: Sequence[int]) -> bool:
    """Whether a result has the shape of an input of at least three dimensions, or is longer in one of them."""
    if len(shape) < 3 or len(shape) != len(other):
        return False
    longer = [b - a for a, b in zip(shape, other, strict=True) if a != b]
    return len(longer) <= 1 and all(difference > 0 for difference in longer)
