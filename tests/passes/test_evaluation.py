"""Criteria against numpy, and what an evaluation does with a model."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mase_hw.errors import ConfigError, GraphError
from mase_hw.passes.evaluation import CRITERIA, Criterion, against, evaluate_statistic, evaluation, make_criterion
from mase_hw.passes.evaluation.criteria import Mse, decibels
from mase_hw.passes.mixed_precision.candidates import CandidateScorer
from tests.ir.nets import ConvNet, untouched
from tests.unit.pipeline import EIGHT, MLP, Heads, annotated, coarse, inputs, quantised, rule, seeded, steps


def taken(criterion: Any, outputs: Tensor, targets: Tensor, size: int) -> float:
    made = make_criterion(criterion)
    for out, want in zip(outputs.split(size), targets.split(size), strict=True):
        made.update(out, want)
    return made.result()


def labels(count: int, classes: int) -> Tensor:
    return torch.randint(0, classes, (count,), generator=torch.Generator().manual_seed(2))


def numpy_top_k(scores: Any, targets: Any, k: int) -> float:
    """By a stable sort of the negated scores: of equal ones the first counts as larger."""
    order = np.argsort(-scores, axis=-1, kind="stable")
    return float((order[..., :k] == targets[..., None]).any(-1).mean())


def numpy_perplexity(logits: Any, targets: Any) -> float:
    exponent = np.exp(logits - logits.max(-1, keepdims=True))
    chance = exponent / exponent.sum(-1, keepdims=True)
    return float(np.exp(-np.log(np.take_along_axis(chance, targets[..., None], -1)).mean()))


@pytest.mark.parametrize("size", [1, 7, 50])
def test_criteria_equal_numpy_in_batches_of_any_size(size: int) -> None:
    # Rounded coarsely, so that many scores are equal.
    scores, targets = torch.round(inputs(50, 6) * 2) / 2, labels(50, 6)
    a, b = scores.numpy(), targets.numpy()
    assert taken("accuracy", scores, targets, size) == numpy_top_k(a, b, 1)
    for k in (1, 2, 5, 6, 9):
        assert taken({"name": "top_k", "k": k}, scores, targets, size) == numpy_top_k(a, b, k)
    assert math.isclose(taken("perplexity", scores, targets, size), numpy_perplexity(a.astype(float), b), rel_tol=1e-12)
    noisy = (scores + inputs(50, 6, seed=9) / 8).numpy().astype(float)
    found = taken("mse", torch.from_numpy(noisy), scores, size)
    assert math.isclose(found, float(np.square(noisy - a).mean()), rel_tol=1e-12)
    found = taken("sqnr", torch.from_numpy(noisy), scores, size)
    expected = 10 * math.log10(float(np.square(a.astype(float)).sum() / np.square(noisy - a).sum()))
    assert math.isclose(found, expected, rel_tol=1e-12)


def test_the_dimension_of_the_classes() -> None:
    scores = torch.round(inputs(4, 3, 5, 6))
    by_row = torch.randint(0, 6, (4, 3, 5), generator=torch.Generator().manual_seed(2))
    by_channel = torch.randint(0, 3, (4, 5, 6), generator=torch.Generator().manual_seed(2))
    assert taken("accuracy", scores, by_row, 2) == numpy_top_k(scores.numpy(), by_row.numpy(), 1)
    moved = np.moveaxis(scores.numpy(), 1, -1)
    accuracy = taken({"name": "accuracy", "class_dim": 1}, scores, by_channel, 2)
    assert accuracy == numpy_top_k(moved, by_channel.numpy(), 1)
    found = taken({"name": "perplexity", "class_dim": 1}, scores, by_channel, 4)
    assert math.isclose(found, numpy_perplexity(moved.astype(float), by_channel.numpy()), rel_tol=1e-12)


def test_ignored_targets() -> None:
    scores, targets = inputs(10, 6), labels(10, 6)
    targets[3:7] = -100
    kept = [0, 1, 2, 7, 8, 9]
    found = taken("perplexity", scores, targets, 4)
    assert math.isclose(found, numpy_perplexity(scores.double().numpy()[kept], targets.numpy()[kept]), rel_tol=1e-12)
    with pytest.raises(ConfigError, match="no samples"):
        taken("perplexity", scores[:1], torch.tensor([-100]), 1)


def test_extremes() -> None:
    nan = torch.tensor([[float("nan"), 1.0], [float("nan"), float("nan")], [0.0, float("nan")]])
    assert taken("accuracy", nan, torch.tensor([0, 0, 1]), 3) == 0.0, "NaN is no hit"
    zero, one = torch.zeros(3), torch.ones(3)
    assert taken("sqnr", one, one, 3) == math.inf and taken("sqnr", one, zero, 3) == -math.inf
    assert taken("mse", one, zero, 2) == 1.0
    assert taken("perplexity", torch.tensor([[0.0, 1e4]]), torch.tensor([0]), 1) == math.inf
    assert decibels(1e-300, 1e300) == -6000.0 and math.isnan(decibels(math.nan, 1.0))


def test_which_way_is_better() -> None:
    better = {name: make_criterion(name).higher_is_better for name in CRITERIA}
    assert better == {"accuracy": True, "top_k": True, "mse": False, "sqnr": True, "perplexity": False}
    assert [make_criterion(n).name for n in CRITERIA] == ["accuracy", "top_5", "mse", "sqnr", "perplexity"]


class Largest:
    """A criterion of a user."""

    name = "largest"
    higher_is_better = False

    def __init__(self) -> None:
        self.peak = 0.0

    def update(self, outputs: Any, targets: Any) -> None:
        self.peak = max(self.peak, float((outputs[0] - targets["a"]).abs().max()))

    def result(self) -> float:
        return self.peak


def test_a_criterion_of_ones_own_on_several_outputs() -> None:
    model, x = coarse(seeded(Heads)), steps(inputs(9, 6))
    with torch.no_grad():
        want = float((model(x)[0] - 1).abs().max())
    data = [(x, {"a": torch.ones(9, 4)})]
    used = Largest()
    for criterion in (used, Largest, lambda: Largest()):
        assert evaluate_statistic(model, data, criterion) == want
        assert evaluate_statistic(model, data, criterion, fast_mode=True) == want
    assert used.peak == 0.0, "what is given is copied"
    assert isinstance(used, Criterion)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_a_quantised_graph_and_its_float_model(fast_mode: bool) -> None:
    model, x, targets = coarse(seeded(MLP)), steps(inputs(60, 6)), labels(60, 3)
    graph, _ = quantised(model, x[:2])
    data = list(zip(x.split(17), targets.split(17), strict=True))
    with torch.no_grad():
        scores, quantised_scores = model(x).numpy(), graph.model(x).double().numpy()
    assert evaluate_statistic(model, data, "accuracy", fast_mode=fast_mode) == numpy_top_k(scores, targets.numpy(), 1)
    run = evaluation("accuracy", fast_mode)
    assert run(graph, data) == numpy_top_k(quantised_scores, targets.numpy(), 1)
    found = evaluate_statistic(graph, against(model, x.split(17)), "sqnr", fast_mode=fast_mode)
    noise = np.square(scores.astype(float) - quantised_scores).sum()
    assert math.isclose(found, 10 * math.log10(np.square(scores.astype(float)).sum() / noise), rel_tol=1e-9)


def test_frames_are_those_of_the_hardware() -> None:
    """A frame has the first dimension of the example: one image, or several rows."""
    seen: list[int] = []

    class Counts(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(len(x))
            return super().forward(x)

    evaluate_statistic(Counts(6, 3), [(inputs(5, 6), inputs(5, 3))], "mse")
    assert seen == [1] * 5
    graph, _ = quantised(seeded(MLP), inputs(2, 6))
    with_hook = []
    graph.modules["fc1"].register_forward_hook(lambda m, args, out: with_hook.append(len(args[0])))
    evaluate_statistic(graph, [(inputs(5, 6), inputs(5, 3))], "mse")
    assert with_hook == [2, 2, 1]
    with_hook.clear()
    evaluate_statistic(graph, [(inputs(5, 6), inputs(5, 3))], "mse", fast_mode=True)
    assert with_hook == [5, 2], "the batch, and its first frame alone for comparison"


class Mixes(nn.Module):
    """Frames of a batch meet each other: no hardware does that."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.relu = nn.Linear(6, 3), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.fc(x)) + x.mean()


class Confusion:
    """How often which class was taken for which."""

    name, higher_is_better = "confusion", True

    def __init__(self, shape: tuple[int, ...] = (3, 3)) -> None:
        self.counts = torch.zeros(shape, dtype=torch.int64)

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        for want, got in zip(targets.tolist(), outputs.argmax(-1).tolist(), strict=True):
            self.counts[min(want, len(self.counts) - 1), got % self.counts.shape[1]] += 1

    def result(self) -> Any:
        return {"matrix": self.counts} if len(self.counts) == 2 else self.counts


def test_a_criterion_may_give_anything() -> None:
    model, x = coarse(seeded(MLP)), steps(inputs(30, 6))
    with torch.no_grad():
        found = model(x).argmax(-1)
    data = [(x, labels(30, 3))]
    matrix = evaluate_statistic(model, data, Confusion)
    want = np.zeros((3, 3), dtype=int)
    np.add.at(want, (data[0][1].numpy(), found.numpy()), 1)
    assert matrix.tolist() == want.tolist()
    assert set(evaluation(lambda: Confusion((2, 3)))(model, data)) == {"matrix"}


def test_only_numbers_can_be_compared() -> None:
    model, x = seeded(MLP), inputs(30, 6)
    data = [(x, labels(30, 3))]
    graph = annotated(model, x[:1])
    assert CandidateScorer(graph, data, lambda: Confusion((1, 1)), True).score(graph) == 30.0
    for shape, got in (((3, 3), r"Tensor \[3, 3\]"), ((2, 3), "dict")):
        with pytest.raises(ConfigError, match="cannot be compared") as caught:
            CandidateScorer(graph, data, lambda s=shape: Confusion(s), True).score(graph)
        assert re.fullmatch(got, str(caught.value.got))


def test_fast_mode_never_gives_other_bits() -> None:
    config = {"default": {"config": {"name": None}}, "linear": {"config": {"name": "fixed", "data_in_width": 8}}}
    config["linear"]["config"] |= {"weight_width": 8, "bias_width": 8, "data_out_width": 8}
    graph, _ = quantised(seeded(Mixes), inputs(1, 6), config=config)
    data = [(inputs(5, 6), inputs(5, 3))]
    alone = evaluate_statistic(graph, data, "mse")
    assert alone > 0
    with pytest.raises(GraphError, match="other bits in a batch than alone"):
        evaluate_statistic(graph, data, "mse", fast_mode=True)


def test_a_layer_left_in_float_may_sum_in_another_order() -> None:
    """As it does on some CPUs when a batch is one row; here on all of them."""

    def other_order(_: nn.Module, args: Any, out: Tensor) -> Tensor:
        return out if len(args[0]) > 1 else torch.nextafter(out, out + 1)

    config = {"by": "name", "default": EIGHT["default"], "fc2": rule(name=None)}
    data = [(inputs(5, 6), inputs(5, 3))]
    graph, _ = quantised(seeded(MLP), inputs(1, 6), config=config)
    graph.modules["fc2"].register_forward_hook(other_order)
    alone, together = (evaluate_statistic(graph, data, "mse", fast_mode=fast) for fast in (False, True))
    assert math.isclose(alone, together, rel_tol=1e-6)


def test_the_model_is_not_disturbed() -> None:
    model = seeded(ConvNet).train()
    x = inputs(4, 3, 8, 8)
    graph = annotated(copy.deepcopy(model), x)
    graph.model.train()
    with untouched(model), untouched(graph.model):
        a = evaluate_statistic(model, [(x, labels(4, 5))], "perplexity")
        b = evaluate_statistic(graph, [(x, labels(4, 5))], "perplexity", fast_mode=True)
    assert math.isclose(a, b, rel_tol=1e-5), "dropout and batch statistics are those of evaluation mode"


def test_every_kind_of_input_and_progress() -> None:
    class Two(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x + 2 * y

    x, y, want = inputs(5, 3), inputs(5, 3, seed=7), torch.zeros(5, 3)
    seen: list[Any] = []
    data: list[Any] = [((x, y), want), ({"y": y, "x": x}, want), [[x, y], want]]
    found = evaluate_statistic(Two(), data, "mse", progress=lambda *done: seen.append(done))
    assert math.isclose(found, float(((x + 2 * y).double() ** 2).mean()), rel_tol=1e-6)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=2)
    assert math.isclose(
        evaluate_statistic(nn.Identity(), loader, "mse"), float(((x.double() - y.double()) ** 2).mean())
    )


def test_a_device_of_ones_own() -> None:
    model, data = seeded(MLP), [(inputs(4, 6), labels(4, 3))]
    assert evaluate_statistic(model, data, "accuracy", device="cpu") == evaluate_statistic(model, data, "accuracy")
    with pytest.raises(ConfigError, match="cannot be used"):
        evaluate_statistic(model, data, "accuracy", device="nowhere")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_same_bits_on_a_gpu() -> None:
    model, x = seeded(MLP), inputs(60, 6)
    graph, _ = quantised(model, x[:1])
    data = list(against(model, x.split(20)))
    here, there = (evaluate_statistic(graph, data, "mse", device=d, fast_mode=True) for d in ("cpu", "cuda"))
    assert math.isclose(here, there, rel_tol=1e-12) and next(graph.model.parameters()).device.type == "cpu"


def refused(run: Callable[[], Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        run()
    return str(caught.value)


def test_what_does_not_fit_is_refused() -> None:
    model, x, targets = seeded(MLP), inputs(4, 6), labels(4, 3)
    score: Any = evaluate_statistic

    def run(data: Any, criterion: Any = "accuracy") -> str:
        return refused(lambda: score(model, data, criterion))

    assert "did you mean 'accuracy'?" in run([], "accuracies")
    assert "unexpected keyword argument 'depth'" in run([], {"name": "top_k", "depth": 3})
    assert "at least one place" in run([], {"name": "top_k", "k": 0})
    assert "this is no criterion" in run([], nn.Identity) and "this is no criterion" in run([], 3)
    assert "no samples" in run([])
    assert "[(inputs, targets)]" in run(x)
    assert "expected: (inputs, targets)" in run([x])
    assert "data[1]" in run([(x, targets), (x, targets, targets)])
    assert "data[0].targets" in run([(x, targets[:2])])
    assert "0 to 2" in run([(x, targets + 5)])
    assert "class numbers (integers)" in run([(x, targets.float())])
    assert "set class_dim" in run([(x, x)])
    assert "shape of the outputs" in run([(x, x)], "mse")
    assert "one tensor from the model" in refused(lambda: score(seeded(Heads), [(x, targets)], "accuracy"))
    assert "only a graph or a module" in refused(lambda: score(lambda x: x, [(x, targets)], "accuracy"))
    assert "cannot be cut into frames" in run([((x, x[:2]), targets)])
    assert refused(lambda: evaluation("mean"))


def test_a_criterion_can_be_given_again() -> None:
    model, data = seeded(MLP), [(inputs(4, 6), inputs(4, 3))]
    criterion = Mse()
    assert evaluate_statistic(model, data, criterion) == evaluate_statistic(model, data, criterion)
