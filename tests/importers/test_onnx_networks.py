"""Networks that torch exports to ONNX: as the evaluator of ONNX computes them, and in hardware bit for bit."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from onnxruntime import InferenceSession
from torch import Tensor, nn

import mase_hw
from mase_hw.cli import main
from tests.importers.graphs import exported, node, reference
from tests.importers.graphs import model as small_model

SIXTEEN_BITS = {
    "quantize": {"default": {"config": {f"{name}_width": 16 for name in ("data_in", "weight", "bias", "data_out")}}}
}


class Residual(nn.Module):
    """A residual block with strides, batch normalisations and a projection."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.b = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.project = nn.Conv2d(3, 4, 1, stride=2)
        self.out = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm(self.b(F.relu(self.a(x)))) + self.project(x))
        return self.out(y.mean((2, 3)))


class Separable(nn.Module):
    """Depthwise and pointwise convolutions, hard activations, an uneven border."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = nn.Conv2d(3, 6, (3, 2), groups=3, dilation=(2, 1))
        self.point = nn.Conv2d(6, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.hardswish(self.point(F.relu6(self.depth(F.pad(x, (0, 1, 2, 1))))))
        return F.adaptive_avg_pool2d(y, 1).flatten(1)


class Tokens(nn.Module):
    """Linear layers over tokens, a normalisation, attention written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.q, self.k, self.v = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.out = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        q, k, v = (f(y).reshape(-1, 5, 2, 3).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = torch.softmax(q @ k.transpose(2, 3) / 3**0.5, -1) @ v
        return self.out(torch.tanh(x + y.transpose(1, 2).reshape(-1, 5, 6)))


class Enlarge(nn.Module):
    """Down and up again, joined with what came before."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(2, 4, 3, stride=2, padding=1), nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.leaky_relu(self.down(x))
        return torch.cat([self.up(y), F.max_pool2d(x, 3, 1, 1)], 1)


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "residual": (Residual, (1, 3, 7, 9)),
    "separable": (Separable, (1, 3, 6, 7)),
    "tokens": (Tokens, (1, 5, 6)),
    "enlarge": (Enlarge, (1, 2, 7, 5)),
    "one_dimension": (
        lambda: nn.Sequential(nn.Conv1d(2, 3, 4, padding=2), nn.ELU(), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(18, 3)),
        (1, 2, 11),
    ),
    "perceptron": (lambda: nn.Sequential(nn.Linear(7, 5), nn.PReLU(), nn.Linear(5, 3), nn.Sigmoid()), (1, 7)),
}


def made(name: str) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    torch.manual_seed(20)
    make, shape = NETWORKS[name]
    return exported(make(), torch.randn(shape)), shape


@pytest.mark.parametrize("name", NETWORKS)
def test_as_the_evaluator_computes(name: str) -> None:
    model, shape = made(name)
    graph = mase_hw.import_model(model)
    x = torch.randn(3, *shape[1:], generator=torch.Generator().manual_seed(1))
    want = np.concatenate([reference(model, {model.graph.input[0].name: frame[None]})[0] for frame in x])
    np.testing.assert_allclose(graph.model(x).detach().numpy(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["residual", "tokens"])
def test_in_hardware(name: str, tmp_path: Path) -> None:
    """Quantised, emitted and simulated: every bit of every beat."""
    model, shape = made(name)
    graph = mase_hw.import_model(model)
    design = mase_hw.compile(graph, graph.example, out=tmp_path / "design")
    result = design.simulate(torch.randn(3, *shape[1:], generator=torch.Generator().manual_seed(2)), engine="batch")
    assert result.passed and result.result.mismatches == 0 and result.result.beats_compared > 0


@pytest.mark.parametrize("layer", [False, True])
def test_batch_normalisation_in_hardware(layer: bool, tmp_path: Path) -> None:
    """Alone, and behind a convolution; with 16 bits as close to ONNX Runtime as those allow."""
    r = np.random.default_rng(5)
    stored = {name: (np.abs(r.standard_normal(3)) + 0.3).astype(np.float32) for name in "sbmv"}
    nodes = [node("BatchNormalization", "c s b m v" if layer else "x s b m v", "d"), node("Relu", "d", "y")]
    if layer:
        stored["w"] = (r.standard_normal((3, 3, 3, 3)) / 5).astype(np.float32)
        nodes.insert(0, node("Conv", "x w", "c", pads=[1, 1, 1, 1]))
    model = small_model(nodes, {"x": (1, 3, 4, 4)}, stored)
    x = r.standard_normal((32, 3, 4, 4)).astype(np.float32)
    graph, data = mase_hw.import_model(model), torch.from_numpy(x)
    design = mase_hw.compile(graph, graph.example, SIXTEEN_BITS, out=tmp_path / "design", calibration=[data])
    result = design.simulate(data[:3], engine="batch")
    assert result.passed and result.result.mismatches == 0 and result.result.beats_compared > 0
    session = InferenceSession(model.SerializeToString())
    want = np.concatenate([session.run(None, {"x": frame[None]})[0] for frame in x[:3]])
    np.testing.assert_allclose(result.outputs["data_out_0"].numpy(), want, rtol=0, atol=np.abs(want).max() * 2**-10)
    assert want.max() > 1


def test_command_needs_no_python_of_the_user(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, _ = made("perceptron")
    file = tmp_path / "net.onnx"
    onnx.save(model, str(file))
    assert main(["compile", str(file), "--out", str(tmp_path / "design")]) == 0
    assert (tmp_path / "design" / "manifest.json").is_file(), capsys.readouterr()
    assert main(["check", str(file)]) == 0


def test_a_sum_behind_a_product_is_the_bias() -> None:
    """Exactly aligned in hardware, and cast once."""
    model, _ = made("tokens")
    assert {"MatMul", "Add"} <= {n.op_type for n in model.graph.node}
    layers = [m for m in mase_hw.import_model(model).model.modules() if isinstance(m, nn.Linear)]
    assert len(layers) == 4 and all(layer.bias is not None for layer in layers)


class Lines(nn.Module):
    """A model of one line."""

    def __init__(self, line: Callable[..., Tensor], **parts: nn.Module) -> None:
        super().__init__()
        self.line = line
        for name, part in parts.items():
            self.add_module(name, part)
        self.rows = nn.Parameter(torch.randn(1, 4, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.line(self, x)


LINES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "squeezed sum": (lambda: Lines(lambda self, x: F.adaptive_avg_pool2d(x, 1).squeeze() + x.amax((2, 3))), (4, 5, 5)),
    "squeezed norm": (
        lambda: Lines(lambda self, x: self.norm(x.mean((2, 3)).squeeze()), norm=nn.LayerNorm(4)), (4, 5, 5)
    ),
    "squeezed gate": (lambda: Lines(lambda self, x: x * x.mean((2, 3)).squeeze()[..., None, None]), (4, 5, 5)),
    "einsum of three": (lambda: Lines(lambda self, x: torch.einsum("nld,nmd,nl->nlm", x, x * 2, x.sum(-1))), (5, 3)),
    "stored sequence": (
        lambda: Lines(lambda self, x: self.rnn(self.rows.expand(x.shape[0], -1, -1), x[None])[0],
                      rnn=nn.GRU(3, 5, batch_first=True)),
        (5,),
    ),
    "stored sequence and two states": (
        lambda: Lines(lambda self, x: self.rnn(self.rows.expand(x.shape[0], -1, -1), (x[None], x.tanh()[None]))[0],
                      rnn=nn.LSTM(3, 5, batch_first=True)),
        (5,),
    ),
    "sequence of no data": (
        lambda: Lines(lambda self, x: self.rnn(self.rows)[0][:, -1] + x, rnn=nn.GRU(3, 5, batch_first=True)), (5,)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_frames_of_a_batch_are_those_of_a_file_for_one(name: str) -> None:
    torch.manual_seed(7)
    make, shape = LINES[name]
    network, x = make().eval(), torch.randn(3, *shape)
    with torch.no_grad():
        found = mase_hw.import_model(exported(network, x[:1])).model(x)
        torch.testing.assert_close(found, torch.cat([network(frame) for frame in x.split(1)]), rtol=1e-4, atol=1e-5)


def test_layers_have_the_names_of_the_file() -> None:
    model, _ = made("residual")
    graph = mase_hw.import_model(model)
    assert graph.meta["imported"]["b_conv"] == "/b/Conv"
    assert isinstance(graph.model.get_submodule("b_Conv"), nn.Conv2d)
