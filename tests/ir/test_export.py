"""What ``torch.export`` makes of a model is a model: as the program, and as its module."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import GraphError, UnsupportedError
from mase_hw.ir import MaseGraph


class Images(nn.Module):
    """Layers of images, one of them twice, and functions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.up = nn.ConvTranspose2d(4, 4, 2, 2)
        self.group = nn.GroupNorm(2, 4)
        self.act = nn.PReLU()
        self.fc = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = self.act(self.norm(self.conv(x)))
        y = self.group(self.up(F.max_pool2d(y, 2)))
        y = F.hardswish(F.relu(y)).mean((2, 3))
        scores = self.fc(y.clamp(0, 3))
        return {"scores": scores, "parts": torch.cat([scores[:, 1:3], -scores[:, :1]], 1)}


class Sequence(nn.Module):
    """An encoder, with a stored token in front and positions."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(1, 1, 8))
        self.positions = nn.Embedding(5, 8)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1)
        x = x + self.positions(torch.arange(x.shape[1]))
        result: Tensor = self.out(self.encoder(x)[:, 0])
        return result


MLP = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 3))
MODELS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "mlp": (MLP, (6,)),
    "images": (Images(), (3, 8, 8)),
    "sequence": (Sequence(), (4, 8)),
}


def exported(name: str) -> tuple[nn.Module, Any, tuple[int, ...]]:
    torch.manual_seed(3)
    model, shape = MODELS[name]
    model.eval()
    return model, torch.export.export(model, (torch.randn(1, *shape),)), shape


def refusal(kind: type[Exception], model: Any) -> str:
    with pytest.raises(kind) as error:
        MaseGraph(model)
    return str(error.value)


@pytest.mark.parametrize("as_module", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_the_graph_of_a_program_gives_what_the_model_gives(name: str, as_module: bool) -> None:
    model, program, shape = exported(name)
    graph = MaseGraph(program.module() if as_module else program)
    frames = torch.randn(3, *shape)
    with torch.no_grad():
        torch.testing.assert_close(graph.model(frames), model(frames), rtol=1e-5, atol=1e-6)


def test_layers_have_the_paths_and_classes_of_the_model() -> None:
    model, program, _ = exported("images")
    graph = MaseGraph(program)
    found = {n.target: type(graph.model.get_submodule(str(n.target))) for n in graph.nodes if n.op == "call_module"}
    wanted = {name: type(module) for name, module in model.named_children() if name != "group"}
    assert found == wanted
    assert torch.equal(graph.model.get_parameter("conv.weight"), model.get_parameter("conv.weight"))


@pytest.mark.parametrize("as_module", [False, True])
def test_a_program_compiles_to_the_hardware_of_its_model(as_module: bool, tmp_path: Any) -> None:
    model, program, shape = exported("mlp")
    example = torch.randn(1, *shape)
    made = mase_hw.compile(program.module() if as_module else program, example, out=tmp_path / "program")
    plain = mase_hw.compile(model, example, out=tmp_path / "model")
    contents = [sorted(f.read_bytes() for f in (d.path / "mem").iterdir()) for d in (made, plain)]
    assert contents[0] == contents[1] and made.timing["interval"] == plain.timing["interval"]
    result = made.simulate(torch.randn(9, *shape), stalls=0.3, engine="batch")
    assert result.passed and result.frames == 9


def test_open_sizes_are_named_with_their_symbol() -> None:
    batch, length = torch.export.Dim("frames"), torch.export.Dim("tokens", min=2, max=64)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU())
    program = torch.export.export(model, (torch.randn(2, 4, 6),), dynamic_shapes=({0: batch, 1: length},))
    for given in (program, program.module()):
        with pytest.raises(UnsupportedError) as error:
            MaseGraph(given)
        text = str(error.value)
        assert "dimension 0 is s" not in text and "dimension 1 is s" in text and "padded and masked" in text
    assert "from 2 to 64" in refusal(UnsupportedError, program)


class Random(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.rfft(F.dropout(x, 0.5)).real + torch.linalg.det(x)


def test_everything_that_is_no_op_is_named_at_once() -> None:
    program = torch.export.export(Random().eval(), (torch.randn(1, 4, 4),))
    text = refusal(UnsupportedError, program)
    assert "dropout" in text and "training=self.training" in text and "det" in text


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


def test_a_program_that_writes_state_is_refused() -> None:
    program = torch.export.export(Counting(), (torch.randn(1, 4),))
    assert "calls" in refusal(UnsupportedError, program)


def test_a_graph_of_aten_without_shapes_is_refused() -> None:
    _, program, _ = exported("mlp")
    module = program.module()
    for node in module.graph.nodes:
        node.meta.pop("val", None)
    assert "pass the ExportedProgram" in refusal(GraphError, module)
