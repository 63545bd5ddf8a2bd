"""Telling cheaply whether a tensor still holds what it held.

Comparing contents reads every weight in every call, which at batch 1 costs more than the arithmetic. So a change
detector looks at what changes with the contents: the object itself, PyTorch's version counter (every operation that
writes in place, optimisers and ``load_state_dict`` among them) and the memory it lies in (``p.data = ...``). Writes
through ``.data`` or numpy are seen by none of these, so a sample of the contents is compared as well, and tensors of up
to :data:`WHOLE` elements are compared whole. What is left is a write through ``.data`` or numpy to a few elements of a
larger tensor: :func:`forget` makes everything anew, and whatever computes a reference calls it first.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

WHOLE = 4096
"""Tensors of up to so many elements are compared whole."""
SAMPLES = 256
"""Least number of elements that are compared of a larger one."""
KEPT = ("_prepared", "_kept")
"""Attributes of modules that hold what was made from parameters; never part of a copy or a pickle."""


class ChangeDetector:
    """What a tensor was when something was made from it.

    Args:
        tensor: The tensor; its contents are not kept, but for the sample.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor
        self._counted = not tensor.is_inference()  # tensors of inference mode count no versions
        self._version = tensor._version if self._counted else 0
        self._place, self._dtype = tensor.data_ptr(), tensor.dtype
        with torch.inference_mode(False), torch.no_grad():
            # A view of what lies there, and what it was.
            self._seen = _sample(tensor)
            self._sample = self._seen.clone()

    def holds(self, tensor: Tensor) -> bool:
        """Whether ``tensor`` is that tensor, unchanged."""
        if tensor is not self._tensor or tensor.data_ptr() != self._place or tensor.dtype is not self._dtype:
            return False
        if self._counted and tensor._version != self._version:
            return False
        return torch.equal(self._seen, self._sample)


def _sample(tensor: Tensor) -> Tensor:
    flat = tensor.detach()
    if flat.numel() <= WHOLE or flat.is_inference() or not flat.is_contiguous():
        return flat
    # Strides of a prime number of elements meet every row and column of the usual sizes.
    step = _prime_below(flat.numel() // SAMPLES)
    return flat.view(-1)[::step]


def _prime_below(limit: int) -> int:
    """The largest of a few primes that is no more than ``limit``."""
    return max((p for p in _PRIMES if p <= limit), default=1)


_PRIMES = (2, 3, 5, 7, 11, 13, 17, 23, 31, 47, 61, 97, 127, 251, 509, 1021, 2039, 4093, 8191, 16381, 32749, 65521)


def forget(model: nn.Module) -> None:
    """Drop everything that was made from parameters, so that the next call looks at all of them.

    Args:
        model: A model; its modules are those that keep something, and its program, if it has one.
    """
    for module in model.modules():
        for name in KEPT:
            module.__dict__.pop(name, None)
    program = getattr(type(model).__dict__.get("forward"), "mase_program", None)
    if program is not None:
        program.forget()
