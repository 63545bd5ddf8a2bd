"""Every statistic against numpy on the whole data, however the data is cut into batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from mase_hw.errors import ConfigError, FormatError
from mase_hw.passes.analysis.statistics import STATISTICS, Collection, Statistic, StatisticsConfig
from tests.ir.nets import assert_json

DIMS: list[Any] = ["all", None, [0, 2, 3], [2, 3], [-1], [1, 2]]
KEPT = {
    "all": (0, 1, 2, 3),
    "None": (0,),
    "[0, 2, 3]": (0, 2, 3),
    "[2, 3]": (0, 2, 3),
    "[-1]": (0, 3),
    "[1, 2]": (0, 1, 2),
}
EXACT = ["record", "variance_precise", "range_quantile", "range_min_max"]


def made(name: str, batched: bool = True, **options: Any) -> Statistic[Any]:
    config = StatisticsConfig.model_validate({name: options})
    return STATISTICS[name](config.chosen()[name], batched)


def over(name: str, chunks: list[Tensor], batched: bool = True, **options: Any) -> dict[str, Any]:
    statistic = made(name, batched, **options)
    for chunk in chunks:
        statistic.update(chunk, "x")
        chunk.fill_(7)  # what a later in-place operation may do
    return statistic.result()


def data(offset: float = 0.0, shape: tuple[int, ...] = (12, 3, 5, 4)) -> np.ndarray:
    return (np.random.default_rng(0).standard_normal(shape) + offset).astype(np.float32)


def cut(values: np.ndarray, *sizes: int) -> list[Tensor]:
    return [part.clone() for part in torch.from_numpy(values).split(list(sizes) or [len(values)])]


CUTS = [(12,), (1,) * 12, (5, 1, 6), (2, 10)]


@pytest.mark.parametrize("sizes", CUTS)
@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("correction", [0, 1])
def test_variance(sizes: tuple[int, ...], dims: Any, correction: int) -> None:
    values = data(offset=3.0)
    axis = KEPT[str(dims)]
    wide = values.astype(np.float64)
    variance, mean = wide.var(axis=axis, ddof=correction), wide.mean(axis=axis)
    for name, tolerance in (("variance_online", 1e-13), ("variance_precise", 1e-14)):
        found = over(name, cut(values, *sizes), dims=dims, correction=correction)
        assert list(found) == ["variance", "mean", "count"]
        assert found["count"] == values.size // variance.size and np.shape(found["variance"]) == variance.shape
        np.testing.assert_allclose(found["variance"], variance, rtol=tolerance)
        np.testing.assert_allclose(found["mean"], mean, rtol=tolerance)


@pytest.mark.parametrize("sizes", CUTS)
@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("absolute", [False, True])
def test_min_max(sizes: tuple[int, ...], dims: Any, absolute: bool) -> None:
    values, axis = data(), KEPT[str(dims)]
    seen = np.abs(values) if absolute else values
    found = over("range_min_max", cut(values, *sizes), dims=dims, abs=absolute)
    low, high = seen.min(axis=axis), seen.max(axis=axis)
    assert found == {"min": low.tolist(), "max": high.tolist(), "count": values.size // low.size}


@pytest.mark.parametrize("sizes", CUTS)
@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("quantile", [0.5, 0.975, 0.9, 1.0])
def test_quantile(sizes: tuple[int, ...], dims: Any, quantile: float) -> None:
    values, axis = data(), KEPT[str(dims)]
    found = over("range_quantile", cut(values, *sizes), dims=dims, quantile=quantile)
    wide = values.astype(np.float64)
    low, high = np.quantile(wide, 1 - quantile, axis=axis), np.quantile(wide, quantile, axis=axis)
    assert found == {"min": low.tolist(), "max": high.tolist(), "count": values.size // low.size}


def test_quantile_is_that_of_the_sorted_values() -> None:
    values = torch.tensor([9.0, 1.0, 5.0, 3.0, 7.0])
    assert over("range_quantile", [values], quantile=0.75) == {"min": 3.0, "max": 7.0, "count": 5}
    signed = torch.tensor([-4.0, 1.0, 2.0])
    assert over("range_quantile", [signed], quantile=0.75, abs=True) == {"min": 1.5, "max": 3.0, "count": 3}


@pytest.mark.parametrize("mode", ["online", "precise"])
@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("absolute", [False, True])
def test_n_sigma(mode: str, dims: Any, absolute: bool) -> None:
    values, axis = data(offset=1.0), KEPT[str(dims)]
    wide = np.abs(values.astype(np.float64)) if absolute else values.astype(np.float64)
    found = over("range_n_sigma", cut(values, 3, 9), dims=dims, var_mode=mode, num_sigma=2.5, abs=absolute)
    np.testing.assert_allclose(found["min"], wide.mean(axis=axis) - 2.5 * wide.std(axis=axis), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(found["max"], wide.mean(axis=axis) + 2.5 * wide.std(axis=axis), rtol=1e-12)
    assert found["count"] == values.size // wide.mean(axis=axis).size
    again = over("range_n_sigma", cut(values, 3, 9), dims=dims, var_mode=mode, n_sigma=2.5, abs=absolute)
    assert again == found


def test_record() -> None:
    values = data()
    found = over("record", cut(values, 5, 1, 6))
    assert list(found) == ["data", "count"] and found["count"] == 12
    assert np.array_equal(found["data"].numpy(), values) and found["data"].dtype == torch.float32
    weight = torch.ones(3, 4)
    found = over("record", [weight], batched=False, add_new_dim_before_concat=True)
    assert found["count"] == 1 and found["data"].shape == (1, 3, 4) and (found["data"] == 1).all()
    assert over("record", cut(values, 5, 7), add_new_dim_before_concat=True)["data"].shape == (12, 1, 3, 5, 4)


def test_a_weight_is_one_sample() -> None:
    weight = torch.arange(6.0).reshape(2, 3)
    assert over("range_min_max", [weight.clone()], False, dims=[1]) == {
        "min": [0.0, 3.0],
        "max": [2.0, 5.0],
        "count": 3,
    }
    each = over("variance_precise", [weight.clone()], False, dims=None)
    assert each == {"variance": [[0.0] * 3] * 2, "mean": weight.tolist(), "count": 1}
    whole = over("variance_online", [weight.clone()], False)
    assert whole == {"variance": pytest.approx(35 / 12, rel=1e-15), "mean": 2.5, "count": 6}


def test_too_few_values_are_not_available() -> None:
    one = torch.tensor([[4.0]])
    assert over("variance_online", [one.clone()], correction=1) == {"variance": "NA", "mean": "NA", "count": 1}
    assert over("range_n_sigma", [one.clone()], correction=1) == {"min": "NA", "max": "NA", "count": 1}


@settings(max_examples=60)
@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=40),
    st.lists(st.integers(1, 9), min_size=1, max_size=40),
    st.sampled_from(DIMS[:2]),
)
def test_chunking_changes_nothing(values: list[float], sizes: list[int], dims: Any) -> None:
    whole = torch.tensor(values).reshape(-1, 1)
    parts, rest = [], whole
    for size in sizes:
        parts.append(rest[:size].clone())
        rest = rest[size:]
    parts.append(rest.clone())  # may be empty, as a last batch is
    for name in EXACT:
        options = {} if name == "record" else {"dims": dims}
        once = over(name, [whole.clone()], **options)
        again = over(name, [p.clone() for p in parts], **options)
        assert {k: v.tolist() if isinstance(v, Tensor) else v for k, v in once.items()} == {
            k: v.tolist() if isinstance(v, Tensor) else v for k, v in again.items()
        }
    online = over("variance_online", [p.clone() for p in parts], dims=dims)
    wide = np.array(values, dtype=np.float32).astype(np.float64)
    scale = max(wide.var(), np.abs(wide).max() * 1e-9)
    assert np.ravel(online["variance"]) == pytest.approx(wide.var(), rel=1e-9, abs=1e-9 * scale)


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("shape", [(12, 3, 5, 4), (12, 7), (12, 1000, 3)])
def test_exact_methods_give_the_same_bits(dims: Any, shape: tuple[int, ...]) -> None:
    values = data(0.1, shape)
    for name in ("variance_precise", "range_quantile", "range_min_max"):
        first, *others = (over(name, cut(values, *sizes), dims=dims) for sizes in CUTS)
        assert all(other == first for other in others)


def test_no_cancellation_far_from_zero() -> None:
    """The textbook's sum of squares loses every digit here; both algorithms keep all but the last few."""
    values = np.random.default_rng(1).standard_normal(100_000) + 1e9
    tensor = torch.from_numpy(values)
    true = np.var(values - 1e9)
    naive = (values**2).mean() - values.mean() ** 2
    assert abs(naive - true) > 1
    for name in ("variance_online", "variance_precise"):
        chunks = [c.clone() for c in tensor.reshape(-1, 1).split(777)]
        assert over(name, chunks)["variance"] == pytest.approx(true, rel=1e-7)


def test_blocks_of_large_tensors() -> None:
    values = np.random.default_rng(2).random((3, 1_300_000)).astype(np.float32)
    found = over("variance_precise", [torch.from_numpy(values.copy())], batched=False, dims=[1])
    np.testing.assert_allclose(found["variance"], values.astype(np.float64).var(axis=1), rtol=1e-13)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64])
def test_every_element_type(dtype: torch.dtype) -> None:
    values = torch.tensor([[0, 1], [1, 1]]).to(dtype)
    assert over("range_min_max", [values.clone()]) == {"min": 0.0, "max": 1.0, "count": 4}
    assert over("variance_online", [values.clone()]) == {"variance": 0.1875, "mean": 0.75, "count": 4}
    assert over("range_quantile", [values.clone()], quantile=1) == {"min": 0.0, "max": 1.0, "count": 4}
    assert type(over("range_min_max", [values.clone()])["min"]) is float


def test_scalars_and_empty_tensors() -> None:
    assert over("range_min_max", [torch.tensor(2.0), torch.tensor(3.0)]) == {"min": 2.0, "max": 3.0, "count": 2}
    collection = Collection(StatisticsConfig.model_validate({name: {} for name in STATISTICS}))
    collection.update(torch.empty(0, 3), "x")
    assert collection.results() == {}
    collection.update(torch.tensor([1.0, 3.0]), "x")
    results = collection.results()
    assert list(results) == [
        "record",
        "variance_online",
        "variance_precise",
        "range_n_sigma",
        "range_quantile",
        "range_min_max",
    ]
    results["record"].pop("data")
    assert_json(results)


@pytest.mark.parametrize(("bad", "word"), [(float("nan"), "NaN"), (float("inf"), "infinite")])
@pytest.mark.parametrize("name", STATISTICS)
def test_nan_and_infinity_are_refused(name: str, bad: float, word: str) -> None:
    collection = Collection(StatisticsConfig.model_validate({name: {}}))
    with pytest.raises(FormatError, match=f"fc.weight has {word}"):
        collection.update(torch.tensor([1.0, bad]), "fc.weight")


def test_only_dimensions_that_a_tensor_has_are_reduced() -> None:
    """One list serves weights and biases, images and vectors: here, one number per channel."""
    weight, bias = torch.arange(6.0).reshape(2, 3), torch.tensor([1.0, 2.0])
    assert over("range_min_max", [weight], False, dims=[1])["max"] == [2.0, 5.0]
    assert over("range_min_max", [bias], False, dims=[1]) == {"min": [1.0, 2.0], "max": [1.0, 2.0], "count": 1}
    for shape in ((4, 3, 2, 2), (4, 3)):
        assert np.shape(over("variance_online", [torch.ones(shape)], dims=[2, 3])["mean"]) == (3,)


def test_kept_dimensions_cannot_change() -> None:
    for name, options in (("range_min_max", {"dims": None}), ("record", {})):
        statistic = made(name, **options)
        statistic.update(torch.ones(2, 3), "x")
        with pytest.raises(ConfigError, match="x"):
            statistic.update(torch.ones(2, 4), "x")


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("variance_online", {"dims": "some"}, "'all', null or a list"),
        ("variance_online", {"dims": [0, 0]}, "different"),
        ("variance_precise", {"correction": -1}, "greater"),
        ("range_quantile", {"quantile": 0.3}, "greater"),
        ("range_quantile", {"quantile": 1.1}, "less"),
        ("range_n_sigma", {"num_sigma": -1}, "greater"),
        ("range_n_sigma", {"var_mode": "fast"}, "precise"),
        ("range_min_max", {"device": "gpu"}, "no such device"),
        ("range_min_max", {"device": "meta"}, "no values"),
        ("record", {"dims": "all"}, "extra"),
    ],
)
def test_options_are_checked(name: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        made(name, **options)
