"""A quantised graph's program gives the bits of the goldens, and steps aside whenever it cannot vouch for them."""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from mase_hw.catalogue import Arithmetic
from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.ir.program import Program
from mase_hw.nn import Quantized, QuantizeInput
from mase_hw.nn.change_detector import forget
from mase_hw.numerics import dequantize, quantize
from mase_hw.passes import (
    add_common_metadata_analysis_pass,
    calibrate_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)

KEYS = ("data_in", "weight", "bias", "data_out")


class Joined(nn.Module):
    """A branch, a table, a product by a constant, shapes computed on the way, two results."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        first = self.a(x)
        y = torch.relu(first)
        z = torch.sigmoid(self.b(y)) + y
        return z.view(z.size(0), -1) * 0.5, {"before": y.flatten(1), "relu": torch.relu(z), "first": first}


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Dropout(), nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 3))


def cnn() -> nn.Module:
    layers = (nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 5, 2), nn.ReLU(), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(20, 3))


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (6,)),
    "cnn": (cnn, (2, 6, 6)),
    "joined": (Joined, (3, 6)),
}


def quantised(name: str, seed: int = 0, widths: tuple[int, ...] = (8,)) -> tuple[MaseGraph, Tensor]:
    """A network of random widths, and inputs some of which saturate."""
    torch.manual_seed(seed)
    rng, (make, shape) = random.Random(f"{name} {seed}"), NETS[name]
    x = torch.randn(5, *shape)
    graph, _ = init_metadata_analysis_pass(MaseGraph(make().eval()))
    graph, _ = add_common_metadata_analysis_pass(
        graph, {"dummy_in": {str(graph.nodes[0].target): x[:1]}, "add_value": False}
    )
    graph, _ = calibrate_analysis_pass(graph, {"data": [x]})
    rules = {
        node.name: {"config": {f"{key}_width": rng.choice(widths) for key in KEYS[::3]}}
        for node in graph.nodes
        if (op := graph.op_of(node)) is not None and op.hardware is not None and rng.random() < 0.5
    }
    default = {"config": {"name": "fixed", **{f"{key}_width": rng.choice(widths) for key in KEYS}}}
    graph, _ = quantize_transform_pass(graph, {"by": "type", "default": default, "overrides": rules})
    graph.model.eval()
    return graph, x * 1.5


class Definition(fx.Interpreter):
    """Node by node with the goldens, on mantissas in int64."""

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        module = self.fetch_attr(target)
        if isinstance(module, QuantizeInput):
            fmt = module.arithmetic.formats["data_out_0"]
            return dequantize(quantize(args[0], fmt), fmt)
        if not isinstance(module, Quantized):
            return super().call_module(target, args, kwargs)
        formats, op = module.arithmetic.formats, module.op
        t = {f"data_in_{i}": quantize(x, formats[f"data_in_{i}"]).to(torch.int64) for i, x in enumerate(args)}
        t |= {name: module.mantissa(name).to(torch.int64) for name in module.parameter_names}
        assert op.golden is not None
        return dequantize(op.golden(module.arithmetic, t)["data_out_0"], formats["data_out_0"])


def definition(graph: MaseGraph, *inputs: Tensor) -> Any:
    with torch.no_grad():
        return Definition(graph.model).run(*inputs)


def bits(value: Any) -> Any:
    """Bytes of every tensor, with its dtype and shape; zeros have no sign."""
    return fx.node.map_aggregate(
        value, lambda t: (t.dtype, t.shape, t.detach().numpy().tobytes()) if isinstance(t, Tensor) else t
    )


@pytest.fixture
def modules_called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Gets the label of every quantised module that is called as a module."""
    called: list[str] = []
    forward = Quantized.forward
    monkeypatch.setattr(Quantized, "forward", lambda self, *inputs: called.append(self.label) or forward(self, *inputs))
    return called


@pytest.mark.parametrize("name", NETS)
def test_the_bits_of_the_goldens(name: str, modules_called: list[str]) -> None:
    """Widths for which float32 is exact, and others; by position and by name; both ways of leaving gradients out."""
    for seed, widths in enumerate([(8,), (8,), (4, 8), (2, 8, 16), (8, 12, 16), (8, 16, 24), (16, 24, 28), (28,)]):
        graph, x = quantised(name, seed, widths)
        want = bits(definition(graph, x))
        key = str(graph.nodes[0].target)
        for context in (torch.no_grad, torch.inference_mode):
            with context():
                assert bits(graph.model(x)) == want, (seed, context)
                assert bits(graph.model(**{key: x})) == want
        assert not modules_called, seed
        assert bits(graph.model(x)) == want  # with gradients: module by module
        assert modules_called
        modules_called.clear()


def test_steps_that_are_merged() -> None:
    """A ReLU is done by the cast before it, unless another node reads that or it changes the step."""
    graph, x = quantised("mlp")
    program = Program(graph)
    with torch.no_grad():
        assert program(graph.model, (x,), {}) is not None
    assert program._prepared is not None
    lows = [s.on_values.cast.low for s in program._prepared[1] if s.on_values is not None and s.on_values.cast]
    assert len(lows) == 3 and lows[:2] == [0.0, 0.0] and lows[2] < 0


def test_results_are_the_callers() -> None:
    """What no_grad gives can be written and trained on; nothing of the program is in the model's state."""
    graph, x = quantised("mlp")
    before = set(graph.model.__dict__)
    with torch.no_grad():
        y = graph.model(x)
    assert not y.is_inference() and set(graph.model.__dict__) == before
    y.add_(1.0)
    scale = torch.ones(3, requires_grad=True)
    (y * scale).sum().backward()
    with torch.no_grad():
        assert bits(graph.model(x)) == bits(definition(graph, x))


def _set_data(p: nn.Parameter) -> None:
    p.data.mul_(0.5)


CHANGES: dict[str, Callable[[nn.Parameter], object]] = {
    "in place": lambda p: p.mul_(0.5),
    "through .data": _set_data,
    "through numpy": lambda p: p.detach().numpy().fill(0.3),
    "other .data": lambda p: setattr(p, "data", p.data * 0.5),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["mlp", "joined"])
def test_new_parameters_are_used(name: str, change: str) -> None:
    graph, x = quantised(name)
    with torch.no_grad():
        before = bits(graph.model(x))
        for parameter in list(graph.model.parameters())[:2]:
            CHANGES[change](parameter)
            after = bits(graph.model(x))
            assert after == bits(definition(graph, x)) and after != before
            before = after


@pytest.mark.parametrize("program", [True, False])
def test_large_parameters_are_not_read_in_every_call(program: bool) -> None:
    """Every write is seen but one: a few elements of a large tensor, past PyTorch's counters. ``forget`` sees it."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3)).eval()
    x = torch.randn(4, 128)
    graph, _ = init_metadata_analysis_pass(MaseGraph(net))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"input": x[:1]}, "add_value": False})
    graph, _ = calibrate_analysis_pass(graph, {"data": [x]})
    default = {"config": {"name": "fixed", **{f"{key}_width": 8 for key in KEYS}}}
    graph, _ = quantize_transform_pass(graph, {"default": default})
    graph.model.eval()
    weight = _first(graph).get_parameter("weight")
    given = x if program else x.double()  # in double precision: module by module, in mantissas
    with torch.no_grad():
        graph.model(given)
        for change in CHANGES.values():
            change(weight)
            assert bits(graph.model(given)) == bits(definition(graph, x))
        weight.copy_(torch.randn(128, 128) / 16)
        before = bits(graph.model(given))
        weight.detach().numpy()[5:20, 3] = 1.0
        forget(graph.model)
        after = bits(graph.model(given))
        assert after == bits(definition(graph, x)) != before


def test_loaded_replaced_and_retrained() -> None:
    graph, x = quantised("mlp")
    other, _ = quantised("mlp", seed=1)
    state = {k: v for k, v in other.model.state_dict().items()}
    layer = next(m for m in graph.model.modules() if isinstance(m, Quantized))
    with torch.no_grad():
        before = bits(graph.model(x))
        graph.model.load_state_dict(state)
        loaded = bits(graph.model(x))
        assert loaded == bits(definition(graph, x)) != before
        layer.weight = nn.Parameter(layer.weight * 0.5)
        assert bits(graph.model(x)) == bits(definition(graph, x)) != loaded
        # A mapping of formats may be changed under the frozen arithmetic.
        formats = dict(layer.arithmetic.formats)
        layer.arithmetic = Arithmetic(formats)
        assert bits(graph.model(x)) == bits(definition(graph, x))
        formats["weight"] = FixedFormat(4, 4)
        narrow = bits(graph.model(x))
        assert narrow == bits(definition(graph, x)) != loaded
        formats["data_in_0"] = FixedFormat(4, 1)  # not as the step before gives it
        assert bits(graph.model(x)) == bits(definition(graph, x)) != narrow
    optimiser = torch.optim.SGD(graph.model.parameters(), lr=0.5)
    for parameter in graph.model.parameters():
        parameter.requires_grad_(True)
    graph.model(x).square().sum().backward()
    optimiser.step()
    with torch.no_grad():
        assert bits(graph.model(x)) == bits(definition(graph, x)) != narrow


def test_nan_is_refused_by_name() -> None:
    graph, x = quantised("mlp")
    with torch.no_grad():
        graph.model(x)
        with pytest.raises(FormatError, match="input"):
            graph.model(torch.full_like(x, float("nan")))
        layer = next(m for m in graph.model.modules() if isinstance(m, Quantized))
        layer.weight[0, 0] = float("nan")
        with pytest.raises(FormatError, match=rf"{layer.label}\.weight"):
            graph.model(x)


def _hook(*_: Any) -> None:
    """Only listens."""


def _first(graph: MaseGraph) -> Quantized:
    return next(m for m in graph.model.modules() if isinstance(m, Quantized))


def _replace(graph: MaseGraph) -> None:
    target = next(str(n.target) for n in graph.nodes if n.op == "call_module" and n.target != "input_1_quantize")
    graph.model._modules[target] = copy.deepcopy(graph.model._modules[target])


REASONS: dict[str, Callable[[MaseGraph], object]] = {
    "training": lambda g: g.model.train(),
    "training, its modules not": lambda g: setattr(g.model, "training", True),
    "dropout in training": lambda g: next(m for m in g.model.modules() if isinstance(m, nn.Dropout)).train(),
    "hook": lambda g: _first(g).register_forward_hook(_hook),
    "pre-hook": lambda g: _first(g).register_forward_pre_hook(_hook),
    "other forward": lambda g: setattr(_first(g), "forward", functools.partial(Quantized.forward, _first(g))),
    "other module": _replace,
    "reduced precision": lambda g: torch.set_float32_matmul_precision("high"),
    "global hook": lambda g: nn.modules.module.register_module_forward_hook(_hook),
}


@pytest.mark.parametrize("reason", REASONS)
def test_it_steps_aside(reason: str, modules_called: list[str]) -> None:
    """A program that ran before does not when a hook listens, or something else is asked for."""
    graph, x = quantised("mlp")
    undo = None
    try:
        with torch.no_grad():
            want = bits(graph.model(x))
            assert not modules_called
            undo = REASONS[reason](graph)
            found = bits(graph.model(x))
        assert len(modules_called) == 5 and (found == want or "training" in reason)
    finally:
        torch.set_float32_matmul_precision("highest")
        if isinstance(undo, torch.utils.hooks.RemovableHandle):
            undo.remove()


def _programs(graph: MaseGraph) -> list[Program]:
    cells = type(graph.model).forward.__closure__ or ()
    return [c.cell_contents for c in cells if isinstance(c.cell_contents, Program)]


def test_inputs_it_does_not_take(modules_called: list[str]) -> None:
    graph, x = quantised("mlp")
    want = bits(definition(graph, x))
    with torch.no_grad():
        for other in (x.double(), x.clone().requires_grad_(), nn.Parameter(x)):
            modules_called.clear()
            assert bits(graph.model(other)) == want and modules_called
        with torch.autocast("cpu", dtype=torch.bfloat16):
            modules_called.clear()
            assert bits(graph.model(x)) == want and modules_called
        with pytest.raises(TypeError):
            graph.model(x, x)


def test_who_has_one(tmp_path: Any) -> None:
    """Copies and loaded checkpoints have their own; a graph edited and recompiled, or partly in float, has none."""
    graph, x = quantised("mlp")
    assert len(_programs(graph)) == 1
    graph.export(tmp_path / "net")
    loaded = MaseGraph.from_checkpoint(tmp_path / "net")
    assert len(_programs(loaded)) == 1 and _programs(loaded) != _programs(graph)
    with torch.no_grad():
        assert bits(loaded.model(x)) == bits(graph.model(x))
    graph.model.recompile()
    assert not _programs(graph)
    graph.refresh()
    graph.refresh()
    assert len(_programs(graph)) == 1
    assert not _programs(MaseGraph(mlp()))
