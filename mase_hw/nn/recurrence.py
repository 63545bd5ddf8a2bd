"""Recurrences in float: a linear one, and what is left of ``nn.RNN``, ``nn.GRU`` or ``nn.LSTM`` behind its input part.

The input part ``W_ih x + b`` does not depend on the state, so it is an ordinary linear layer before this one. Its
features stand unit by unit, the gates of a unit side by side in the order of PyTorch (feature ``unit * G + gate``).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "gru": 3, "lstm": 4}
"""Gates of a unit, by kind."""


class Recurrence(nn.Module):
    """States of a recurrent layer, from the input parts of its gates.

    Args:
        kind: A key of :data:`GATES`.
        weight: ``W_hh`` with rows unit by unit, ``(H * G, H)``.
        bias: Of a GRU: the part of the bias of ``n`` that its reset gate multiplies, ``(H,)``.
        streaming: A batch ``(N, T, H * G)`` is one sequence, hop after hop, and the state goes on.
        cells: Of an LSTM: give the cell states as well.

    Shapes:
        ``(..., T, H * G)`` -> ``(..., T, H)``, with ``cells`` ``(..., T, H * 2)``: the cell state of a unit beside its
        state. A sequence begins with the state ``(..., 1, H)``, and an LSTM with the cell state ``(..., 1, H)``, that
        it is given; else with 0. One that is given for a single sequence is that of all.
    """

    mase_leaf = True

    def __init__(
        self, kind: str, weight: Tensor, bias: Tensor | None = None, streaming: bool = False, cells: bool = False
    ) -> None:
        super().__init__()
        self.kind, self.streaming, self.cells = kind, streaming, cells
        self.weight = nn.Parameter(weight, requires_grad=weight.requires_grad)
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=bias.requires_grad)

    def forward(self, x: Tensor, h: Tensor | None = None, c: Tensor | None = None) -> Tensor:
        """The state after every step."""
        return self.inner(x, h, c)["data_out_0"]

    def inner(self, x: Tensor, h: Tensor | None = None, c: Tensor | None = None) -> dict[str, Tensor]:
        """The result, and by name what else has a format: ``gate``, what goes into tables, ``cell`` and ``state``."""
        if self.streaming:
            found = {name: v.reshape(*x.shape[:-1], -1) for name, v in self._steps(joined(x), h, c).items()}
        else:
            found = self._steps(x, h, c)
        if self.cells:
            found["state"] = found["data_out_0"]
            found["data_out_0"] = beside(found["state"], found["cell"])
        return found

    def _steps(self, x: Tensor, h: Tensor | None, c: Tensor | None) -> dict[str, Tensor]:
        step = {"gru": self._gru, "lstm": self._lstm}.get(self.kind, self._rnn)
        zero = x.new_zeros(*x.shape[:-2], self.weight.shape[1])
        h, c = (zero if given is None else given[..., 0, :].expand_as(zero) for given in (h, c))
        seen = list[dict[str, Tensor]]()
        for t in range(x.shape[-2]):
            found = step(x[..., t, :].reshape(*h.shape, GATES[self.kind]), h, c)
            h, c = found["data_out_0"], found.get("cell", c)
            seen.append(found)
        return {name: torch.stack([each[name] for each in seen], dim=-2) for name in seen[0]}

    def _sums(self, h: Tensor) -> Tensor:
        """``W_hh h``, ``(..., H, G)``."""
        return F.linear(h, self.weight).reshape(*h.shape, GATES[self.kind])

    def _rnn(self, x: Tensor, h: Tensor, c: Tensor) -> dict[str, Tensor]:
        gate = (x + self._sums(h))[..., 0]
        if self.kind == "rnn_relu":
            return {"data_out_0": torch.relu(gate)}
        return {"data_out_0": torch.tanh(gate), "gate": gate}

    def _gru(self, x: Tensor, h: Tensor, c: Tensor) -> dict[str, Tensor]:
        sums = self._sums(h)
        gates = x[..., :2] + sums[..., :2]
        r, z = torch.sigmoid(gates).unbind(-1)
        hidden = sums[..., 2] if self.bias is None else sums[..., 2] + self.bias
        new = x[..., 2] + r * hidden
        h = (1 - z) * torch.tanh(new) + z * h
        return {"data_out_0": h, "gate": torch.cat([gates.flatten(-2), new], dim=-1)}

    def _lstm(self, x: Tensor, h: Tensor, c: Tensor) -> dict[str, Tensor]:
        gates = x + self._sums(h)
        i, f, g, o = gates.unbind(-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return {"data_out_0": torch.sigmoid(o) * torch.tanh(c), "gate": gates.flatten(-2), "cell": c}

    def extra_repr(self) -> str:
        """Kind and sizes, for ``print(model)``."""
        return f"{self.kind}, {self.weight.shape[1]} units"


def linear_recurrence(x: Tensor, decay: Tensor | float) -> Tensor:
    """``h[t] = decay[t] * h[t-1] + x[t]``, element by element along dimension 1, from a state of zeros.

    The state of state-space models, of linear attention and of their relatives. A call is one op of the graph.

    Args:
        x: What is added in every time step, ``(N, T, ...)``.
        decay: What of the state before is kept: data, a tensor that the model stores or a number, of any shape that
            broadcasts to that of ``x``, such as ``(heads, 1, 1)``.

    Returns:
        The state after every time step, of the shape of ``x``.
    """
    if has_torch_function((x, decay)):
        found: Tensor = handle_torch_function(linear_recurrence, (x, decay), x, decay)
        return found
    decay = torch.as_tensor(decay, dtype=x.dtype)
    if torch.compiler.is_exporting():
        found = torch.ops.mase_hw.linear_recurrence(x, decay)
        return found
    decay = decay.expand(x.shape)
    states = [x[:, 0]]
    for step in range(1, x.shape[1]):
        states.append(decay[:, step] * states[-1] + x[:, step])
    return torch.stack(states, 1)


_EXPORTED = torch.library.custom_op(
    "mase_hw::linear_recurrence", linear_recurrence, mutates_args=(), schema="(Tensor x, Tensor decay) -> Tensor"
)
_EXPORTED.register_fake(lambda x, decay: torch.empty_like(x))


def joined(x: Tensor) -> Tensor:
    """Hops ``(..., T, F)`` as the one sequence ``(1, N * T, F)`` that they are."""
    return x.reshape(1, -1, x.shape[-1])


def beside(h: Tensor, c: Tensor) -> Tensor:
    """States ``(..., H)`` and cell states ``(..., H)`` unit by unit, ``(..., H * 2)``."""
    return torch.stack((h, c), -1).flatten(-2)


def inside(module: nn.Module | None, inputs: Sequence[Tensor]) -> dict[str, Tensor]:
    """What an observer must see of a :class:`Recurrence` beside its result: what it begins with has formats as well."""
    assert isinstance(module, Recurrence)  # the op has no other targets
    found = module.inner(*inputs)
    del found["data_out_0"]
    for name, given in zip(("state" if module.cells else "data_out_0", "cell"), inputs[1:], strict=False):
        found[name] = torch.cat((given.flatten(), found[name].flatten())) if name in found else given
    return found
