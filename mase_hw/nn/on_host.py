"""Nodes that hardware does not have, in a graph whose other nodes are quantised: the host runs them."""

from __future__ import annotations

from typing import Any

from torch import Tensor, fx, nn


class OnHost(nn.Module):
    """A node for the host, on values.

    Args:
        reason: Why hardware does not have it, and what the host computes.
    """

    mase_leaf = True

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason

    def extra_repr(self) -> str:
        """The reason, for ``print(model)``."""
        return self.reason


class HostGraph(OnHost):
    """A node of a float graph, as PyTorch computes it.

    Args:
        computed: What it computes of its inputs.
        reason: As of :class:`OnHost`.
    """

    def __init__(self, computed: fx.GraphModule, reason: str) -> None:
        super().__init__(reason)
        # Not a child: code that fx writes is taken for a replaced forward.
        self.__dict__["computed"] = computed
        for name, child in computed.named_children():
            self.add_module(name, child)

    def forward(self, *inputs: Tensor) -> Any:
        """The node's result, in float32: hardware gives wide sums in float64."""
        return self.__dict__["computed"](*(x.float() if x.is_floating_point() else x for x in inputs))
