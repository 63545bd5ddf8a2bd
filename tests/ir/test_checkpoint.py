"""Checkpoints: what comes back is the same graph, to the last bit, and writing it again gives the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mase_hw.ir import MaseGraph
from mase_hw.ir.records import same
from mase_hw.nn import Quantized, QuantizeInput
from mase_hw.passes import calibrate_analysis_pass, verify_analysis_pass
from mase_hw.passes.mapping.add_hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.quantize.quantize import quantize_transform_pass
from mase_hw.streams import Stream
from tests.ir.checkpoints import Small, batch, document_of, files_of, graph, quantised
from tests.ir.networks import VGG, LeNet5, MobileNetV2, ResNet18


def round_trip(made: MaseGraph, folder: Path, **args: Any) -> MaseGraph:
    """Export, load, export: the second pair of files has the bytes of the first."""
    made.export(folder / "first")
    again = MaseGraph.from_checkpoint(folder / "first", **args)
    again.export(folder / "second")
    assert files_of(folder / "first") == files_of(folder / "second")
    for old, new in zip(made.nodes, again.nodes, strict=True):
        assert (old.name, old.op, old.target) == (new.name, new.op, new.target)
        assert repr((old.args, old.kwargs)) == repr((new.args, new.kwargs))
    return again


def trees(made: MaseGraph) -> dict[str, Any]:
    return {"graph": made.metadata.to_dict(), **{n.name: n.meta["mase"].to_dict() for n in made.nodes}}


def test_float_graph(tmp_path: Path) -> None:
    made = graph()
    again = round_trip(made, tmp_path)
    assert torch.equal(again.model(batch(5)), made.model(batch(5)))
    assert again.completed == made.completed
    assert not again.model.training and type(again.model).__name__ == "Small"
    before, after = trees(made), trees(again)
    nodes = {key: [n.name for n in before["graph"]["common"].pop(key)] for key in ("nodes_in", "nodes_out")}
    assert {key: [n.name for n in after["graph"]["common"].pop(key)] for key in nodes} == nodes
    assert same(before, after)
    verify_analysis_pass(again)


def test_quantised_graph_is_bit_identical(tmp_path: Path) -> None:
    made = quantised()
    made, _ = add_hardware_metadata_analysis_pass(made, {"max_parallelism": 2})
    again = round_trip(made, tmp_path)
    many = torch.cat([batch(seed) for seed in range(20)]) * 3
    assert torch.equal(again.model(many), made.model(many))
    kinds = {path: type(module) for path, module in again.modules.items()}
    assert kinds["inner.0"] is Quantized and QuantizeInput in kinds.values()
    assert again.modules["inner.0"].arithmetic == made.modules["inner.0"].arithmetic
    verify_analysis_pass(again)
    # What follows works on it as on the original.
    again, info = add_hardware_metadata_analysis_pass(again, {"max_parallelism": 2})
    assert info == add_hardware_metadata_analysis_pass(made, {"max_parallelism": 2})[1]


class Shifted(nn.Module):
    """Weights with a format per output channel, a number and a stored tensor as operands."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(12, 8)
        self.register_buffer("offset", torch.linspace(-1, 1, 8))

    def forward(self, x: Tensor) -> Tensor:
        return (self.fc(x.flatten(1)) + self.offset) * 0.75


def test_channel_shifts_and_constants(tmp_path: Path) -> None:
    """Integers that are no parameters, and operands that became one, come back with their formats."""
    torch.manual_seed(0)
    net = Shifted().eval()
    with torch.no_grad():
        net.fc.weight.mul_(torch.tensor([1.0, 0.5, 0.25, 0.1, 2.0, 1.0, 0.03, 1.0])[:, None])
    made = MaseGraph(net, add_metadata_args={"dummy_in": {"x": batch()}})
    made, _ = calibrate_analysis_pass(made, {"data": [batch(1), batch(2)]})
    widths = {key: 8 for key in ("data_in_width", "weight_width", "bias_width", "data_out_width")}
    config = {"name": "fixed", **widths, "weight_granularity": "channel"}
    made, _ = quantize_transform_pass(made, {"default": {"config": config}})
    many = torch.cat([batch(seed) for seed in range(20)]) * 3
    want = made.model(many)
    again = round_trip(made, tmp_path)
    fc, old = again.modules["fc"], made.modules["fc"]
    assert fc.weight_shift.max() >= 3 and torch.equal(fc.weight_shift, old.weight_shift)
    assert fc.arithmetic == old.arithmetic and "weight_shift" in fc.arithmetic.formats
    held = [m for m in again.modules.values() if isinstance(m, Quantized) and "constant" in m.parameter_names]
    assert len(held) == 2
    for context in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with context():
            assert torch.equal(again.model(many), want)
    verify_analysis_pass(again)


def test_a_loaded_graph_trains(tmp_path: Path) -> None:
    again = round_trip(quantised(), tmp_path)
    again.model(batch()).sum().backward()
    grads = {name: p.grad for name, p in again.model.named_parameters()}
    assert grads and all(
        g is not None and g.shape == dict(again.model.named_parameters())[n].shape for n, g in grads.items()
    )


@pytest.mark.parametrize("net", [LeNet5, VGG, ResNet18, MobileNetV2])
def test_networks(net: type[nn.Module], tmp_path: Path) -> None:
    x = torch.randn(2, 1 if net is LeNet5 else 3, 32, 32)
    made = MaseGraph(net().eval(), add_metadata_args={"dummy_in": {"x": x}})
    again = round_trip(made, tmp_path)
    assert torch.equal(again.model(x), made.model(x))


class Called(nn.Module):
    """Calls a layer with as many inputs as it takes."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        takes_two = isinstance(self.layer, nn.Transformer | nn.TransformerDecoder | nn.TransformerDecoderLayer)
        return self.layer(x, x) if takes_two else self.layer(x)


@pytest.mark.parametrize("changes", [{}, {"activation": "gelu", "norm_first": True, "bias": False, "dropout": 0.3}])
def test_layers_of_transformers(changes: dict[str, Any], tmp_path: Path) -> None:
    """What their constructors take is found in their parts, for they do not keep it."""
    sizes = {"d_model": 8, "nhead": 2, "dim_feedforward": 12, "layer_norm_eps": 1e-3, "batch_first": True, **changes}
    layer, other = nn.TransformerEncoderLayer(**sizes), nn.TransformerDecoderLayer(**sizes)
    encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8), enable_nested_tensor=False)
    whole = [] if changes else [nn.Transformer(num_encoder_layers=2, num_decoder_layers=1, **sizes)]
    for one in (layer, other, encoder, nn.TransformerDecoder(other, 2), *whole):
        model, x = Called(one).eval(), torch.rand(2, 5, 8)
        assert torch.equal(round_trip(MaseGraph(model), tmp_path).model(x), model(x)), one


class Odd(nn.Module):
    """Tied weights, a module under two names, lasting and transient buffers, other types and memory formats."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4)
        self.b.weight = self.a.weight
        self.norm = nn.BatchNorm1d(4, affine=False)
        self.conv = nn.Conv2d(3, 4, 3, padding="same").to(memory_format=torch.channels_last)
        self.coarse = nn.Parameter(torch.randn(4).to(torch.bfloat16), requires_grad=False)
        self.register_buffer("kept", torch.randn(2, 8)[:, ::2])
        self.register_buffer("passing", torch.tensor([True, False, True, True]), persistent=False)
        self.register_buffer("empty", torch.zeros(0, 3))

    def forward(self, x: Tensor, image: Tensor) -> Any:
        x = self.norm(self.b(self.a(x))) * self.passing + self.kept + self.coarse
        return self.a(x), self.conv(image), self.empty


def test_state_of_every_kind(tmp_path: Path) -> None:
    model = Odd()
    made = MaseGraph(model.train())
    inputs = (torch.randn(2, 4), torch.randn(1, 3, 5, 5))
    again = round_trip(made, tmp_path)
    made.model.eval(), again.model.eval()
    for old, new in zip(made.model(*inputs), again.model(*inputs), strict=True):
        assert torch.equal(old, new)
    state = dict(again.model.named_parameters(remove_duplicate=False))
    assert state["b.weight"] is state["a.weight"]
    assert state["coarse"].dtype is torch.bfloat16 and not state["coarse"].requires_grad
    assert state["conv.weight"].stride() == model.conv.weight.stride()
    assert set(again.model.state_dict()) == set(made.model.state_dict())
    assert "passing" in dict(again.model.named_buffers())
    first = MaseGraph.from_checkpoint(tmp_path / "first")
    assert {p for p, m in first.modules.items() if m.training} == {p for p, m in MaseGraph(model).modules.items()}


def test_the_tensors_are_an_ordinary_file(tmp_path: Path) -> None:
    made = graph(add_value=False)
    made.export(tmp_path / "net")
    found = torch.load(tmp_path / "net.pt", weights_only=True)
    state = made.model.state_dict()
    assert found.keys() == state.keys() and all(torch.equal(found[k], state[k]) for k in state)


def test_values_that_are_parameters_share_their_memory(tmp_path: Path) -> None:
    again = round_trip(graph(), tmp_path)
    layer = again.modules["inner.0"]
    value = again.node("inner_0").meta["mase"]["common"]["args"]["weight"]["value"]
    assert value.data_ptr() == layer.weight.data_ptr() and not isinstance(value, nn.Parameter)  # type: ignore[union-attr]


def test_values_of_every_kind(tmp_path: Path) -> None:
    kinds: dict[str, Any] = {
        "numbers": [1, -2.5, float("inf"), float("-inf"), -0.0, 1e-320, 2**70, True, None, 1 + 2j],
        "texts": ["", 'quote " and \\ and \n', "$tuple", "ä"],
        "tuple": (1, (2, [3, ()])),
        "size": torch.Size([2, 3]),
        "torch": [torch.int8, torch.device("cpu"), torch.channels_last, torch.strided],
        "more": [slice(1, None, 2), range(3), Ellipsis, int],
        "dict": {"$a": 1, 2: {"b": ()}, (3, 4): None},
        "array": np.arange(6, dtype=np.int16).reshape(2, 3).T,
        "scalar": np.float32(0.1),
        "tensor": torch.tensor([[float("nan"), 1.0]]).T,
        "zero": torch.tensor(3),
        "stream": [Stream("x", "in", (1,), quantised().modules["inner.0"].arithmetic.formats["weight"]).fmt],  # type: ignore[union-attr]
    }
    made = graph()
    made.node("relu").meta["mase"]["software"]["args"]["data_in_0"] = {"stat": kinds}
    made.cf_args["scale"] = (1, 2.0)
    again = round_trip(made, tmp_path)
    found = again.node("relu").meta["mase"]["software"]["args"]["data_in_0"]["stat"].to_dict()
    assert again.cf_args == {"scale": (1, 2.0)}
    assert list(found) == list(kinds)
    for key in kinds:
        assert type(found[key]) is type(kinds[key]), key
        if key not in ("array", "scalar", "tensor"):
            assert repr(found[key]) == repr(kinds[key]), key
    assert found["array"].dtype == np.int16 and (found["array"] == kinds["array"]).all()
    assert torch.equal(found["tensor"], kinds["tensor"]) or found["tensor"].isnan().any()


def test_graph_without_metadata(tmp_path: Path) -> None:
    again = round_trip(MaseGraph(Small().eval(), skip_init_metadata=True), tmp_path)
    assert "mase" not in again.node("relu").meta and again.completed == ()


def test_meta_device(tmp_path: Path) -> None:
    with torch.device("meta"):
        model = Small().eval()
    made = MaseGraph(
        model, add_metadata_args={"dummy_in": {"x": torch.empty(3, 3, 4, device="meta")}, "force_device_meta": True}
    )
    again = round_trip(made, tmp_path)
    assert all(p.is_meta for p in again.model.parameters())


def test_what_emission_made_is_left_out(tmp_path: Path) -> None:
    made = quantised()
    made.meta["passes"].append("emit_verilog_top_transform_pass")
    made.meta["bundle"] = object()
    made.export(tmp_path / "net")
    assert MaseGraph.from_checkpoint(tmp_path / "net").completed == made.completed[:-1]


def test_both_names_mean_the_pair(tmp_path: Path) -> None:
    made = graph()
    made.export(tmp_path / "new" / "net.mz")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["net.mz", "net.pt"]
    for name in ("net", "net.mz", "net.pt"):
        assert len(MaseGraph.from_checkpoint(str(tmp_path / "new" / name)).nodes) == len(made.nodes)


def test_modules_that_no_node_calls_are_left_out(tmp_path: Path) -> None:
    made = graph()
    made.model.add_submodule("spare", nn.Linear(1000, 1000))
    made.export(tmp_path / "net")
    assert not [s.name for s in document_of(tmp_path / "net").state if s.name.startswith("spare")]
