"""A network as a listing of steps: it runs, it is traced, and it prints itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True)
class Step:
    """One step: what it is, the values it reads, and the call that makes the next value from them."""

    kind: str
    reads: tuple[int, ...]
    call: Callable[..., Tensor]
    text: str


class RandomNet(nn.Module):
    """A listing of steps that runs; value ``i`` is an input of the model or the result of a step."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict()
        self.steps: list[Step] = []
        self.results: list[int] = []

    def run(self, values: list[Tensor]) -> Any:
        """The results for the inputs of the model."""
        for step in self.steps:
            values.append(step.call(*(values[i] for i in step.reads)))
        results = tuple(values[i] for i in self.results)
        return results if len(results) > 1 else results[0]

    def listing(self, inputs: int) -> str:
        """The network for people."""
        lines = [f"v{inputs + i} = {step.text} of {list(step.reads)}" for i, step in enumerate(self.steps)]
        return "\n".join([*lines, f"return {self.results}"])


class OneInput(RandomNet):
    """A network of one image."""

    def forward(self, x: Tensor) -> Any:
        """The results."""
        return self.run([x])


class TwoInputs(RandomNet):
    """A network of two images."""

    def forward(self, x: Tensor, y: Tensor) -> Any:
        """The results."""
        return self.run([x, y])


class Constant(nn.Module):
    """A stored tensor beside the data."""

    def __init__(self, operation: Callable[[Tensor, Tensor], Tensor], value: Tensor) -> None:
        super().__init__()
        self.operation = operation
        self.register_buffer("value", value)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` of any shape that the constant broadcasts to."""
        return self.operation(x, self.value)


class Shared:
    """Calls a module that belongs to another step."""

    def __init__(self, module: Callable[..., Any]) -> None:
        self.module = module

    def __call__(self, x: Tensor) -> Any:
        """The module's result."""
        return self.module(x)
