"""What PyTorch does for a whole process or block, and a model's arithmetic must not depend on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from mase_hw.errors import ConfigError, GraphError
from mase_hw.host.user_code import place, reason


@contextmanager
def ordinary() -> Iterator[None]:
    """Run a block in which PyTorch does what it does by default.

    Autocast is switched off, and modules that were compiled in place run as they are written. Neither belongs to the
    model, and both would change what is observed of it.

    Raises:
        GraphError: If the block ends with ``SystemExit``, wherever that came from.
        ConfigError: If a mode sees every call of PyTorch and may change it, or tensors are made without values.
    """
    modes = [m for m in _get_current_function_mode_stack() if not isinstance(m, DeviceContext)]  # type: ignore[no-untyped-call]
    modes += _get_current_dispatch_mode_stack()
    if modes:
        raise ConfigError(
            "a mode of PyTorch is active that sees every operation and may change it",
            got=", ".join(f"{type(m).__module__}.{type(m).__qualname__}" for m in modes),
            expected="no TorchFunctionMode and no TorchDispatchMode",
            remedy="call it outside the with block of the mode",
        )
    if torch.get_default_device().type == "meta":
        raise ConfigError(
            "the default device is one without values", got="meta", expected="cpu, or a device that computes",
            remedy="call it outside of torch.device('meta'), and load the weights first",
        )  # fmt: skip
    with ExitStack() as stack:
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        if "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance"):  # else nothing is compiled
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        try:
            yield
        except SystemExit as error:
            raise GraphError(
                "the program was asked to end while a model was being compiled", node=place(error), got=reason(error)
            ) from error


def settings() -> dict[str, str]:
    """What PyTorch is told to do in this thread, by name."""
    return {
        "torch.get_default_dtype()": str(torch.get_default_dtype()),
        "torch.get_default_device()": str(torch.get_default_device()),
        "torch.is_grad_enabled()": str(torch.is_grad_enabled()),
        "torch.is_autocast_enabled('cpu')": str(torch.is_autocast_enabled("cpu")),
        "torch.get_float32_matmul_precision()": _matmul_precision(),
        "torch.are_deterministic_algorithms_enabled()": str(torch.are_deterministic_algorithms_enabled()),
    }


def _matmul_precision() -> str:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # set through the per-backend API
        return "set per backend"
