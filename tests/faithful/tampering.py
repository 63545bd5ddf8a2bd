"""Ways to make a model compute something else than it seems to, and the network they are tried on."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from tests.unit.pipeline import WIDTHS, inputs, rule

X = inputs(1, 1, 6, 6)
DATA = inputs(24, 1, 6, 6, seed=2)


class Net(nn.Module):
    """A layer of every kind: convolution, folded normalisation, functions, pooling, no hardware, linear."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.relu, self.pool = nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2)
        self.flatten, self.drop, self.fc1 = nn.Flatten(), nn.Dropout(), nn.Linear(12, 6)
        self.sigmoid, self.fc2 = nn.Sigmoid(), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.relu(self.norm(self.conv(x))))
        return self.fc2(self.sigmoid(self.fc1(self.drop(self.flatten(x)))))


def net(kind: type[Net] = Net) -> Net:
    """The network, in evaluation mode, with statistics."""
    torch.manual_seed(3)
    made = kind().eval()
    made.norm.running_mean.uniform_(-1, 1)  # type: ignore[union-attr,operator]
    made.norm.running_var.uniform_(0.3, 2)  # type: ignore[union-attr,operator]
    return made


def bits(width: int) -> dict[str, Any]:
    """A configuration with so many bits everywhere."""
    return {"quantize": {"default": rule(**dict.fromkeys(WIDTHS, width))}}


Tampering = Callable[[Net], contextlib.AbstractContextManager[object] | None]
"""Changes a model; what it changes elsewhere is undone at the end of the context."""


def forward_of(path: str, change: Callable[[Tensor], Tensor]) -> Tampering:
    """The forward of an instance, wrapped."""

    def tamper(model: Net) -> None:
        layer = model.get_submodule(path)
        plain = layer.forward
        layer.forward = lambda x: change(plain(x))

    return tamper


def bound(model: Net) -> None:
    """A method of another class, bound to a layer."""
    model.fc1.forward = _Doubled.forward.__get__(model.fc1)  # type: ignore[method-assign]


class _Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight * 2, self.bias)


def called(model: Net) -> None:
    """What PyTorch runs between the call and the forward, on the instance."""
    plain = model.fc2._call_impl
    model.fc2._call_impl = lambda *args: plain(*args) * 1.5  # type: ignore[method-assign]


def inner(model: Net) -> None:
    """What the forward of a convolution calls, on the instance."""
    plain = model.conv._conv_forward
    model.conv._conv_forward = lambda *args: plain(*args).flip(1)  # type: ignore[method-assign]


def hook(model: Net) -> None:
    model.fc1.register_forward_hook(lambda module, given, result: result * 2)


def pre_hook(model: Net) -> None:
    model.fc1.register_forward_pre_hook(lambda module, given: (given[0] * 2,))


@contextlib.contextmanager
def global_hook(model: Net) -> Iterator[None]:
    handle = nn.modules.module.register_module_forward_hook(lambda m, _, y: y * 2 if isinstance(m, nn.Linear) else None)
    try:
        yield
    finally:
        handle.remove()


def of_class(cls: type[nn.Module], name: str, change: Callable[[Any], Any], forged: bool = False) -> Tampering:
    """A class patched in place; ``forged``: so that nobody can tell from the function."""

    @contextlib.contextmanager
    def tamper(model: Net) -> Iterator[None]:
        plain: Any = getattr(cls, name)

        def patched(self: Any, *args: Any) -> Any:
            return change(plain(self, *args))

        if forged:
            patched = functools.wraps(plain)(patched)
            code = plain.__code__
            names = {"co_qualname": code.co_qualname, "co_filename": code.co_filename, "co_name": code.co_name}
            patched.__code__ = patched.__code__.replace(**names)
        setattr(cls, name, patched)
        try:
            yield
        finally:
            setattr(cls, name, plain)

    return tamper


@contextlib.contextmanager
def code(model: Net) -> Iterator[None]:
    """The code of a method of PyTorch exchanged, the function being the same."""
    plain = nn.Linear.forward.__code__
    nn.Linear.forward.__code__ = (lambda self, input: input @ self.weight.t()).__code__
    try:
        yield
    finally:
        nn.Linear.forward.__code__ = plain


def of_functional(name: str, change: Callable[[Tensor], Tensor]) -> Tampering:
    """A function that layers call, exchanged in PyTorch."""

    @contextlib.contextmanager
    def tamper(model: Net) -> Iterator[None]:
        plain = getattr(F, name)
        setattr(F, name, lambda *args, **kwargs: change(plain(*args, **kwargs)))
        try:
            yield
        finally:
            setattr(F, name, plain)

    return tamper


def layer(cls: type[nn.Linear]) -> Tampering:
    """A layer of a class derived from its own."""

    def tamper(model: Net) -> None:
        model.fc1.__class__ = cls

    return tamper


class Called(nn.Linear):
    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return super()._call_impl(*args, **kwargs) - 1


class CallOperator(nn.Linear):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs) - 1


class OtherWeights(nn.Linear):
    """Gives its forward other weights than anybody else."""

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        return value * 2 if name == "weight" and sys._getframe(1).f_code.co_name == "forward" else value


class Copies(nn.Linear):
    """A copy that is another layer."""

    def __deepcopy__(self, memo: Any) -> nn.Linear:
        made = nn.Linear(self.in_features, self.out_features)
        made.load_state_dict({name: value * 2 for name, value in self.state_dict().items()})
        return made


class Weight(nn.Parameter):
    """A weight that decides what a linear layer gives."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            result = function(*args, **(kwargs or {}))
        return result * 3 if function is F.linear else result


def own_weight(model: Net) -> None:
    model.fc1._parameters["weight"] = model.fc1.weight.detach().as_subclass(Weight)


class Root(Net):
    """A model that is called in a way of its own."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs) * 2


class WhileTraced(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y if isinstance(y, fx.Proxy) else y * 3


class WithGradient(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y * 2 if torch.is_grad_enabled() else y


class OnEval(Net):
    """A model that changes its weights when it is brought into evaluation mode."""

    def train(self, mode: bool = True) -> Any:
        self.fc1.weight.data.mul_(1.0 if mode else 2.0)
        return super().train(mode)


class Mixed(Net):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(x).float()


class Liar(Tensor):
    """A result that says it is equal to everything."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            return True if function is torch.allclose else function(*args, **(kwargs or {}))


class Lies(Net):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y if isinstance(y, fx.Proxy) else (y * 3).as_subclass(Liar)


SEEN: dict[str, tuple[Tampering, str]] = {
    "instance": (forward_of("fc1", lambda y: y * 2), "fc1"),
    "function": (forward_of("sigmoid", lambda y: y * y), "sigmoid"),
    "no hardware": (forward_of("flatten", lambda y: y * 2), "flatten"),
    "dropout": (forward_of("drop", lambda y: y + 1), "drop"),
    "normalisation": (forward_of("norm", lambda y: y * 2), "norm"),
    "whole": (forward_of("", lambda y: y * 2), "Net"),
    "bound method": (bound, "fc1"),
    "call of an instance": (called, "fc2"),
    "inner function": (inner, "conv"),
    "hook": (hook, "fc1"),
    "hook before": (pre_hook, "fc1"),
    "hook on everything": (global_hook, "_global_forward_hooks"),
    "class": (of_class(nn.Linear, "forward", lambda y: y * 2), "fc1"),
    "class of a function": (of_class(nn.ReLU, "forward", lambda y: y * 1.1), "relu"),
    "every module": (of_class(nn.Module, "_call_impl", lambda y: y * 2), "Net"),
    "code": (code, "fc1"),
    "derived class": (layer(Called), "fc1"),
    "call operator": (layer(CallOperator), "fc1"),
    "weight": (own_weight, "fc1.weight"),
}
"""What is seen by looking at the model: how it is done, and where it must be said to be."""
HIDDEN: dict[str, tuple[Tampering, str]] = {
    "forged class": (of_class(nn.Linear, "forward", lambda y: y * 2, forged=True), "fc1"),
    "forged pooling": (of_class(nn.MaxPool2d, "forward", lambda y: -y, forged=True), "pool"),
    "forged flatten": (of_class(nn.Flatten, "forward", lambda y: y * 2, forged=True), "flatten"),
    "forged convolution": (of_class(nn.Conv2d, "forward", lambda y: y.flip(1), forged=True), "conv"),
    "forged by two percent": (of_class(nn.Sigmoid, "forward", lambda y: y * 1.02, forged=True), "sigmoid"),
    "function of PyTorch": (of_functional("relu", lambda y: y * 1.1), "relu"),
    "product of PyTorch": (of_functional("linear", lambda y: y * 2), "fc1"),
    "other weights": (layer(OtherWeights), "fc1"),
    "copy": (layer(Copies), ""),
}
"""What is found only by comparing what is computed."""
MODELS: dict[str, type[Net]] = {
    "call": Root,
    "traced": WhileTraced,
    "gradient": WithGradient,
    "evaluation": OnEval,
    "autocast": Mixed,
    "liar": Lies,
}
"""Models that are something else when they are traced or copied."""
