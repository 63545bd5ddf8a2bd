"""Observed ranges against numpy on an independent run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mase_hw.errors import ConfigError, FormatError, GraphError
from mase_hw.ir import MaseGraph
from mase_hw.passes import calibrate_analysis_pass, profile_statistics_analysis_pass, quantize_transform_pass
from tests.ir.nets import MLP, ConvNet, annotated, assert_json, refusal, untouched


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.fc(x).relu() + y


def two() -> MaseGraph:
    return annotated(Two(), {"x": torch.ones(1, 4), "y": torch.ones(1, 3)})


def ranges(graph: MaseGraph, node: str, branch: str) -> dict[str, Any]:
    found = graph.node(node).meta["mase"]["software"][branch]
    return {name: dict(entry["stat"]["range_min_max"]) for name, entry in found.items()}


def numpy_range(values: list[np.ndarray]) -> dict[str, Any]:
    flat = np.concatenate([v.ravel() for v in values])
    return {"min": float(flat.min()), "max": float(flat.max()), "count": flat.size}


def test_ranges_equal_numpy() -> None:
    model = MLP(12)
    graph = annotated(model, {"x": torch.ones(1, 28, 28)})
    torch.manual_seed(0)
    batches = [torch.randn(n, 28, 28) for n in (5, 1, 8)]
    graph, info = calibrate_analysis_pass(graph, {"data": batches})
    assert_json(info)
    assert info["batches"] == 3
    hidden, out = [], []
    with torch.no_grad():
        for batch in batches:
            hidden.append(model.fc1(batch.flatten(1)).numpy())
            out.append(model.fc2(torch.from_numpy(np.maximum(hidden[-1], 0))).numpy())
    data = numpy_range([b.numpy() for b in batches])
    assert ranges(graph, "x", "results") == {"data_out_0": data}
    assert ranges(graph, "fc1", "args") == {
        "data_in_0": data,
        "weight": numpy_range([model.fc1.weight.detach().numpy()]),
        "bias": numpy_range([model.fc1.bias.detach().numpy()]),
    }
    assert ranges(graph, "fc1", "results") == {"data_out_0": numpy_range(hidden)}
    assert ranges(graph, "relu", "args") == {"data_in_0": numpy_range(hidden)}
    assert ranges(graph, "relu", "results") == {"data_out_0": numpy_range([np.maximum(h, 0) for h in hidden])}
    assert ranges(graph, "fc2", "results") == {"data_out_0": numpy_range(out)}
    low = graph.node("fc1").meta["mase"]["software"]["results"]["data_out_0"]["stat"]["range_min_max"]["min"]
    assert type(low) is float


def test_inplace_activation_does_not_hide_what_entered_it() -> None:
    graph = annotated(nn.Sequential(nn.ReLU(inplace=True)), {"input": torch.ones(1, 2)})
    data = torch.tensor([[-3.0, 2.0]])
    calibrate_analysis_pass(graph, {"data": [data]})
    assert ranges(graph, "_0", "args")["data_in_0"] == {"min": -3.0, "max": 2.0, "count": 2}
    assert ranges(graph, "_0", "results")["data_out_0"] == {"min": 0.0, "max": 2.0, "count": 2}
    assert data.tolist() == [[-3.0, 2.0]]


def test_every_kind_of_batch_and_of_iterable() -> None:
    # Few bits: floats add the products exactly, in whatever order a batch of this size is summed.
    x, y = torch.randint(-9, 10, (6, 4)) / 4, torch.randint(-9, 10, (6, 3)) / 4
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4)
    expected = None
    for data in ([(x, y)], [{"y": y, "x": x}], ((x[i : i + 1], y[i : i + 1]) for i in range(6)), loader):
        graph = two()
        torch.manual_seed(1)
        with torch.no_grad():
            graph.modules["fc"].weight.fill_(0.5)  # type: ignore[union-attr,operator]
            graph.modules["fc"].bias.zero_()  # type: ignore[union-attr,operator]
        calibrate_analysis_pass(graph, {"data": data})
        found = [ranges(graph, n, "results") for n in ("x", "y", "fc", "relu", "add")]
        expected = expected or found
        assert str(found) == str(expected)


def test_progress() -> None:
    seen: list[tuple[int, int | None]] = []
    batch = (torch.ones(1, 4), torch.ones(1, 3))
    calibrate_analysis_pass(two(), {"data": [batch] * 2, "progress": lambda *a: seen.append(a)})
    calibrate_analysis_pass(two(), {"data": iter([batch]), "progress": lambda *a: seen.append(a)})
    assert seen == [(1, 2), (2, 2), (1, None)]


def test_model_is_not_disturbed() -> None:
    graph = annotated(ConvNet(), {"x": torch.randn(1, 3, 8, 8)})
    graph.model.train()
    with untouched(graph.model):
        calibrate_analysis_pass(graph, {"data": [torch.ones(4, 3, 8, 8)]})


def refused(graph: MaseGraph, error: type[Exception], args: dict[str, Any]) -> str:
    return refusal(graph, error, lambda: calibrate_analysis_pass(graph, args))


def test_no_data() -> None:
    assert "no calibration data" in refused(two(), ConfigError, {"data": []})
    assert "data: missing" in refused(two(), ConfigError, {})
    assert "[batch]" in refused(two(), ConfigError, {"data": torch.ones(3, 4)})


def test_batches_that_do_not_fit() -> None:
    x, y = torch.ones(2, 4), torch.ones(2, 3)
    assert "without labels" in refused(two(), ConfigError, {"data": [(x, y, y)]})
    assert "data[1].y: missing" in refused(two(), ConfigError, {"data": [(x, y), (x,)]})
    assert "data[0].z: the model has no such input" in refused(two(), ConfigError, {"data": [{"x": x, "z": y}]})
    message = refused(two(), ConfigError, {"data": [(x, y), (x, torch.ones(2, 5))]})
    assert "data[1].y" in message and "[2, 5]" in message and "['any', 3]" in message


@pytest.mark.parametrize(("bad", "word"), [(float("nan"), "NaN"), (float("inf"), "infinite")])
def test_nan_and_infinity_name_the_tensor(bad: float, word: str) -> None:
    x, y = torch.ones(2, 4), torch.ones(2, 3)
    spoiled = x.clone()
    spoiled[1, 2] = bad
    message = refused(two(), FormatError, {"data": [(x, y), (spoiled, y)]})
    assert f"input x of batch 1 has {word} values" in message
    graph = two()
    with torch.no_grad():
        graph.modules["fc"].bias[1] = bad  # type: ignore[union-attr,index,operator]
    assert f"fc.bias has {word} values" in refused(graph, FormatError, {"data": [(x, y)]})


def test_overflowing_activation_is_named() -> None:
    graph = two()
    with torch.no_grad():
        graph.modules["fc"].weight.fill_(3e38)  # type: ignore[union-attr,operator]
    message = refused(graph, FormatError, {"data": [(torch.ones(1, 4), torch.ones(1, 3))]})
    assert "fc.data_out_0 has infinite values" in message


def test_other_statistics_do_not_change_the_formats() -> None:
    """A profile with absolute values, taken after calibration, must not hide that there were negative ones."""
    torch.manual_seed(3)
    data = [torch.randn(64, 6)]
    widths = {f"{tensor}_width": 8 for tensor in ("data_in", "weight", "bias", "data_out")}
    config = {"default": {"config": {"name": "fixed", **widths}}}
    formats = []
    for profiled in (False, True):
        torch.manual_seed(0)
        graph = annotated(nn.Sequential(nn.Linear(6, 4), nn.ReLU()), {"input": data[0][:1]})
        calibrate_analysis_pass(graph, {"data": data})
        if profiled:
            options = {"range_min_max": {"abs": True, "dims": None}}
            profile_statistics_analysis_pass(
                graph,
                {
                    "by": "type",
                    "target_weight_nodes": ["linear"],
                    "target_activation_nodes": ["linear"],
                    "weight_statistics": options,
                    "activation_statistics": options,
                    "data": data,
                },
            )
        _, info = quantize_transform_pass(graph, config)
        formats.append({name: node["formats"] for name, node in info["nodes"].items()})
    assert formats[0] == formats[1] and formats[0]


def test_weights_without_values_are_refused() -> None:
    graph = annotated(nn.Sequential(nn.Linear(6, 4)), {"input": torch.zeros(1, 6)})
    graph.model.to("meta")
    with pytest.raises(GraphError, match="meta device"):
        calibrate_analysis_pass(graph, {"data": [torch.zeros(2, 6)]})
