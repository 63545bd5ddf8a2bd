"""Counts against published figures, closed forms, and PyTorch's own counter of floating-point operations."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from mase_hw.errors import ConfigError, PassOrderError
from mase_hw.ir import MaseGraph
from mase_hw.passes import (
    add_common_metadata_analysis_pass,
    add_hardware_metadata_analysis_pass,
    calibrate_analysis_pass,
    count_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)
from mase_hw.passes.analysis.count import RULES, WITHOUT_MACS, Operands, Products
from tests.ir.nets import MLP, ConvNet, annotated, assert_json, catalogue
from tests.ir.networks import VGG, InvertedResidual, LeNet5, MobileNetV2, ResNet18

QUIET = {"show": False}


def counts(model: nn.Module, *shape: int, **args: Any) -> dict[str, Any]:
    """Counts of a model for one image, from shapes alone."""
    _, info = count_analysis_pass(
        annotated(model, {_input(model): torch.empty(shape)}, force_device_meta=True), args | QUIET
    )
    assert_json(info)
    return info


def _input(model: nn.Module) -> str:
    return "input" if isinstance(model, nn.Sequential) else "x"


def vgg16() -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for width, repeats in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(repeats):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2, 2))
    head = [nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers, nn.Flatten(), *head)


def mobilenet_v2() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
    channels = 32
    for expansion, width, repeats, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for index in range(repeats):
            layers.append(InvertedResidual(channels, width, stride if index == 0 else 1, expansion))
            channels = width
    layers += [nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 1000))


@pytest.mark.parametrize(
    ("make", "shape", "parameters", "macs"),
    [
        # LeNet-5: 6*25*28*28 + 16*150*10*10 + 120*400 + 84*120 + 10*84, its C3 fully connected.
        (LeNet5, (1, 1, 32, 32), 61_706, 416_520),
        # torchvision's tables: 11.69 M and 1.81 G, 3.50 M and 0.30 G, 138.36 M and 15.47 G.
        (lambda: ResNet18(64, 1000), (1, 3, 224, 224), 11_689_512, 1_814_073_344),
        (mobilenet_v2, (1, 3, 224, 224), 3_504_872, 300_774_272),
        (vgg16, (1, 3, 224, 224), 138_357_544, 15_470_264_320),
    ],
    ids=["lenet5", "resnet18", "mobilenet_v2", "vgg16"],
)
def test_published_figures(make: Any, shape: tuple[int, ...], parameters: int, macs: int) -> None:
    with torch.device("meta"):
        model = make()
    info = counts(model, *shape)
    assert info["not_counted"] == {}
    assert info["totals"]["parameters"] == parameters == sum(p.numel() for p in model.parameters())
    assert info["totals"]["macs"] == macs
    assert info["totals"]["bit_operations"] == macs * 32 * 32
    trained_and_statistics = parameters + sum(
        2 * m.num_features for m in model.modules() if isinstance(m, nn.BatchNorm2d)
    )
    assert info["totals"]["memory_bits"] == 32 * trained_and_statistics


class Attention(nn.Module):
    """Every kind of matrix product; grouped queries have no counter in PyTorch, so they are apart."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(12, 12), nn.Linear(12, 12, bias=False), nn.Linear(12, 8)
        self.weight, self.bias = nn.Parameter(torch.randn(8, 5)), nn.Parameter(torch.randn(5))

    def forward(self, x: Tensor) -> Tensor:
        q, k = (p(x).view(2, 7, 2, 6).transpose(1, 2) for p in (self.q, self.k))
        v = self.v(x).view(2, 7, 2, 4).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(14, 8)
        scores = torch.softmax(q @ k.transpose(-2, -1), -1).view(4, 7, 7)
        z = torch.bmm(scores, v.reshape(4, 7, 4))
        z = torch.baddbmm(z, scores, v.reshape(4, 7, 4))
        e = torch.einsum("bhqd,bhkd->bhqk", q, k)
        return torch.addmm(self.bias, y, self.weight).sum() + z.sum() + e.matmul(v).sum()


class Convolutions(nn.Module):
    """Strides, dilation, groups, one and three dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(4, 6, (3, 5), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)
        self.b, self.c = nn.Conv1d(6, 4, 3, padding=1), nn.Conv3d(4, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        return self.b(x.flatten(2)).sum() + self.c(torch.stack([x, x], 1)[:, :, :4].transpose(1, 2)).sum()


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (LeNet5, (3, 1, 32, 32)),
        (VGG, (2, 3, 32, 32)),
        (ResNet18, (2, 3, 64, 64)),
        (MobileNetV2, (1, 3, 64, 64)),
        (ConvNet, (2, 3, 9, 11)),
        (MLP, (4, 28, 28)),
        (Attention, (2, 7, 12)),
        (Convolutions, (2, 4, 12, 16)),
    ],
)
def test_pytorch_counts_the_same(make: type[nn.Module], shape: tuple[int, ...]) -> None:
    """The counter of PyTorch sees the real operations, and counts two for each MAC."""
    model, x = make().eval(), torch.randn(shape)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(x)
    graph = annotated(model, {"x": x})
    _, info = count_analysis_pass(graph, QUIET)
    assert info["not_counted"] == {}
    assert 2 * info["totals"]["macs"] == counter.get_total_flops()
    assert info["totals"]["parameters"] == sum(p.numel() for p in model.parameters())


def test_transposed_convolution() -> None:
    layer = nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2)
    found = RULES["conv_transpose2d"](Operands({"data_in_0": (1, 4, 5, 5), "weight": (4, 3, 3, 3)}, {}, {}))
    with FlopCounterMode(display=False) as counter:
        layer(torch.randn(1, 4, 5, 5))
    assert found == [Products(counter.get_total_flops() // 2, "data_in_0", "weight")]


@pytest.mark.parametrize(
    ("equation", "shapes", "macs"),
    [
        ("ij,jk->ik", [(2, 3), (3, 5)], 30),
        ("bhqd, bhkd -> bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)], 2 * 3 * 4 * 6 * 5),
        ("i,j", [(4,), (5,)], 20),
        ("ij->ji", [(2, 3)], None),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], None),
        ("...i,ij->...j", [(7, 3), (3, 4)], None),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]], macs: int | None) -> None:
    args = {f"data_in_{i}": shape for i, shape in enumerate(shapes)}
    found = RULES["einsum"](Operands(args, {}, {"args": (equation, *args)}))
    assert (found and found[0].macs) == macs


def test_grouped_queries() -> None:
    """Eight query heads on two heads of keys and values cost as much as on eight."""
    shapes = {"data_in_0": (1, 8, 5, 4), "data_in_1": (1, 2, 7, 4), "data_in_2": (1, 2, 7, 6)}
    found = RULES["scaled_dot_product_attention"](Operands(shapes, {"data_out_0": (1, 8, 5, 6)}, {}))
    assert found is not None and [p.macs for p in found] == [8 * 5 * 7 * 4, 8 * 5 * 7 * 6]


def test_per_node() -> None:
    _, info = count_analysis_pass(annotated(MLP(16), {"x": torch.ones(2, 28, 28)}), QUIET)
    assert_json(info)
    images = 2 * 784 * 32
    zero = {"parameters": 0, "macs": 0, "bit_operations": 0, "memory_bits": 0, "activation_bits": 0}
    assert info["nodes"] == {
        "x": {"op": "placeholder", **zero, "activation_bits": images},
        "flatten": {"op": "flatten", **zero},
        "fc1": {
            "op": "linear",
            "parameters": 784 * 16 + 16,
            "macs": 2 * 784 * 16,
            "bit_operations": 2 * 784 * 16 * 1024,
            "memory_bits": 32 * (784 * 16 + 16),
            "activation_bits": 2 * 16 * 32,
        },
        "relu": {"op": "relu", **zero, "activation_bits": 2 * 16 * 32},
        "fc2": {
            "op": "linear",
            "parameters": 160,
            "macs": 320,
            "bit_operations": 320 * 1024,
            "memory_bits": 32 * 160,
            "activation_bits": 2 * 10 * 32,
        },
        "output": {"op": "output", **zero},
    }
    total = {key: sum(entry[key] for entry in info["nodes"].values()) for key in zero}
    assert info["totals"] == total


def test_formats_and_hardware() -> None:
    """After quantisation: operand widths of the formats, and the MACs of the hardware itself."""
    x = torch.randn(3, 28, 28)
    graph = annotated(MLP(16), {"x": x})
    calibrate_analysis_pass(graph, {"data": [x]})
    widths = {"data_in_width": 6, "weight_width": 4, "bias_width": 9, "data_out_width": 7}
    quantize_transform_pass(graph, {"default": {"config": {"name": "fixed", **widths}}})
    add_hardware_metadata_analysis_pass(graph)
    _, info = count_analysis_pass(graph, QUIET)
    first = info["nodes"]["fc1"]
    assert first["macs"] == 3 * 784 * 16 and first["bit_operations"] == first["macs"] * 6 * 4
    assert first["memory_bits"] == 784 * 16 * 4 + 16 * 9 and first["activation_bits"] == 3 * 16 * 7
    assert info["nodes"]["relu"]["activation_bits"] == 3 * 16 * 6, "what it gets, without the sign"
    assert info["nodes"]["x_quantize"]["op"] == "quantize" and info["totals"]["parameters"] == 784 * 16 + 16 + 160
    for name in ("fc1", "fc2"):
        facets = graph.catalogue["linear"].hardware
        assert facets is not None
        params = facets.record(graph.meta_of(graph.node(name)).hardware.verilog_param)
        assert facets.work(params) == info["nodes"][name]["macs"]


class Shared(nn.Module):
    """One layer twice, one parameter under two names, a parameter of a function, a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.fc, self.head = nn.Embedding(10, 4), nn.Linear(4, 4), nn.Linear(4, 10, bias=False)
        self.head.weight = self.embed.weight
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("offset", torch.ones(4, dtype=torch.float16))

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc(self.fc(self.embed(x))) * self.scale + self.offset
        return self.head(x)


def test_shared_tensors_count_once_in_the_total() -> None:
    _, info = count_analysis_pass(annotated(Shared(), {"x": torch.tensor([[1, 2, 3]])}), QUIET)
    nodes = info["nodes"]
    assert [nodes[n]["parameters"] for n in ("embed", "fc", "fc_1", "head", "scale", "offset")] == [
        40,
        20,
        20,
        40,
        4,
        0,
    ]
    assert nodes["offset"]["memory_bits"] == 64
    assert info["totals"]["parameters"] == 64 and info["totals"]["memory_bits"] == 64 * 32 + 64
    assert info["totals"]["macs"] == 3 * (16 + 16 + 40)


class Odd(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.odd = nn.Linear(4, 4), nn.Bilinear(4, 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.odd(self.fc(x), x)


def odd() -> MaseGraph:
    graph, _ = init_metadata_analysis_pass(MaseGraph(Odd()))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": torch.ones(3, 4)}})
    return graph


def test_unknown_ops_are_listed_not_zero(capsys: pytest.CaptureFixture[str]) -> None:
    _, info = count_analysis_pass(odd())
    assert_json(info)
    assert info["not_counted"] == {"odd": "bilinear"}
    assert info["nodes"]["odd"]["macs"] is None and info["nodes"]["odd"]["bit_operations"] is None
    assert info["nodes"]["odd"]["parameters"] == 34 and info["totals"]["macs"] == 48
    shown = capsys.readouterr().out
    assert "MACs not counted, so not in the total: odd (bilinear)" in shown and shown.count("not counted") == 3


def test_own_rules() -> None:
    def bilinear(o: Operands) -> list[Products]:
        rows, width = o.args["data_in_0"]
        out, left, right = o.args["weight"]
        assert o.out == (rows, out) and width == left
        return [
            Products(rows * out * left * right, "data_in_1", "weight"),
            Products(rows * out * left, "data_in_0", "weight"),
        ]

    _, info = count_analysis_pass(odd(), {"rules": {"bilinear": bilinear}, "show": False})
    assert info["not_counted"] == {} and info["nodes"]["odd"]["macs"] == 3 * 2 * 16 + 3 * 2 * 4
    assert info["nodes"]["odd"]["bit_operations"] == info["nodes"]["odd"]["macs"] * 1024
    with pytest.raises(ConfigError, match="did you mean 'bilinear'"):
        count_analysis_pass(odd(), {"rules": {"bilinaer": bilinear}})


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    count_analysis_pass(annotated(MLP(16), {"x": torch.ones(2, 28, 28)}))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["fc1", "linear", "12,560", "25,088", "25,690,112", "401,920", "1,024"] in lines
    assert ["relu", "relu", "-", "-", "-", "-", "1,024"] in lines
    assert ["total", "12,720", "25,408", "26,017,792", "407,040", "52,864"] in lines


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_bert_has_its_closed_form(attention: str) -> None:
    """Per layer four projections, two products of the attention and a fourfold expansion; one pooler."""
    transformers = pytest.importorskip("transformers")
    width, layers, length = 32, 2, 10
    config = transformers.BertConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * width,
        vocab_size=50,
        max_position_embeddings=16,
        attn_implementation=attention,
    )
    model = transformers.BertModel(config).eval()
    graph = MaseGraph(model, hf_input_names=["input_ids"])
    graph, _ = init_metadata_analysis_pass(graph)
    tokens = torch.zeros(1, length, dtype=torch.long)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"input_ids": tokens}, "add_value": False})
    _, info = count_analysis_pass(graph, QUIET)
    assert info["not_counted"] == {}
    expected = layers * (12 * length * width**2 + 2 * length**2 * width) + width**2
    assert info["totals"]["macs"] == expected
    assert info["totals"]["parameters"] == model.num_parameters()


def test_tables_are_disjoint_and_order_is_checked() -> None:
    assert not WITHOUT_MACS & RULES.keys()
    with pytest.raises(PassOrderError, match="add_common_metadata_analysis_pass"):
        count_analysis_pass(MaseGraph(MLP(4), catalogue=catalogue()))
