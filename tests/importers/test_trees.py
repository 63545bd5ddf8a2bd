"""Forests of scikit-learn and XGBoost: leaves that samples reach, sums of leaves, and designs, against their own."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn import ensemble, tree
from sklearn.linear_model import LinearRegression
from torch import nn

import mase_hw
from mase_hw.catalogue import default_catalogue
from mase_hw.errors import ConfigError, GraphError, UnsupportedError
from mase_hw.nn.tables import Forest, Tree
from mase_hw.opdef import Arithmetic

FRAC = 3
QUANTIZE = {
    "default": {"config": {"data_in_width": 6, "data_in_frac_width": FRAC, "data_in_signed": True, "data_out_width": 8}}
}
Data = npt.NDArray[np.float64]


def data(classes: int) -> tuple[Data, Data, Data]:
    """Samples for a training, their targets (classes if there are any), and samples on a grid of 1/8."""
    draw = np.random.default_rng(1)
    x, grid = draw.normal(size=(240, 5)), draw.integers(-32, 32, (90, 5)) / 2**FRAC
    score = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) - 0.3 * x[:, 3]
    return x, np.digitize(score, np.linspace(-1, 1, classes - 1)) if classes else score, grid


def fitted(kind: str, classes: int, **how: Any) -> tuple[Any, Data]:
    x, y, grid = data(classes)
    place = ensemble if hasattr(ensemble, kind) else tree
    return getattr(place, kind)(random_state=0, **how).fit(x, y), grid


def sums(model: Any, grid: Data, frac: int) -> Data:
    """What scikit-learn's own leaves add, each as a whole number of steps."""
    kinds = hasattr(model, "classes_")
    boosted = hasattr(model, "learning_rate")
    trees = np.ravel(model.estimators_) if hasattr(model, "estimators_") else np.array([model])
    columns = trees[0].tree_.value.shape[2] if not boosted else np.atleast_2d(model.estimators_).shape[1]
    total = np.zeros((len(grid), columns))
    for number, each in enumerate(trees):
        value = each.tree_.value[each.apply(grid), 0]
        if boosted:
            total[:, number % columns] += np.rint(model.learning_rate * value[:, 0] * 2**frac)
        else:
            value = value / value.sum(1, keepdims=True) if kinds else value / len(trees)
            total += np.rint(value * 2**frac)
    if boosted:
        total += np.rint(model._raw_predict_init(grid[:1].astype(np.float32)) * 2**frac)
    return total / 2**frac


FORESTS = [
    ("DecisionTreeClassifier", 3, {"max_depth": 7}),
    ("DecisionTreeRegressor", 0, {}),
    ("RandomForestClassifier", 4, {"n_estimators": 6, "max_depth": 5}),
    ("RandomForestRegressor", 0, {"n_estimators": 5, "max_depth": 6}),
    ("ExtraTreesClassifier", 2, {"n_estimators": 3}),
    ("GradientBoostingClassifier", 3, {"n_estimators": 4}),
    ("GradientBoostingClassifier", 2, {"n_estimators": 7, "max_depth": 2}),
    ("GradientBoostingRegressor", 0, {"n_estimators": 9}),
]


@pytest.mark.parametrize(("kind", "classes", "how"), FORESTS)
def test_a_forest(kind: str, classes: int, how: dict[str, Any], tmp_path: Path) -> None:
    """The leaves that scikit-learn finds, and a design that adds these: for every sample, with stalls, in time."""
    model, grid = fitted(kind, classes, **how)
    net, frames = mase_hw.from_trees(model, leaf_bits=6), torch.tensor(grid, dtype=torch.float32)
    wanted = sums(model, grid, net.leaf_frac)
    assert (net(frames).numpy() == wanted).all()
    config = {"hardware": {"unroll_levels": 2}, "quantize": QUANTIZE}
    design = mase_hw.compile(net, frames[:1], config, out=tmp_path / "b", vectors=frames)
    assert (design.graph.model(frames).numpy() == wanted).all()
    assert design.manifest["timing"]["interval"] == 1 and not design.manifest["memories"]
    for result in (design.simulate(engine="batch"), design.simulate(stalls=0.4, engine="batch")):
        assert result.passed, result


def test_the_largest_column(tmp_path: Path) -> None:
    """With leaves of many bits classes are scikit-learn's, and so are votes."""
    model, grid = fitted("RandomForestClassifier", 4, n_estimators=9, max_depth=6)
    frames = torch.tensor(grid, dtype=torch.float64)
    found = mase_hw.from_trees(model, leaf_bits=24)(frames).numpy()
    assert np.allclose(found / 9, model.predict_proba(grid), atol=2.0**-22)  # half a step
    two = np.sort(model.predict_proba(grid), 1)[:, -2:]
    clear = two[:, 1] - two[:, 0] > 2.0**-20  # else scikit-learn's own rounding decides
    assert (model.classes_[found.argmax(1)] == model.predict(grid))[clear].all() and clear.mean() > 0.9
    votes = np.zeros((len(grid), 4))
    for each in model.estimators_:
        votes[np.arange(len(grid)), each.predict(grid).astype(int)] += 1
    assert (mase_hw.from_trees(model, votes=True)(frames).numpy() == votes).all()


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_histograms(classes: int, tmp_path: Path) -> None:
    """A boosting on histograms: values of every tree as its own predictor finds them, and a design."""
    kind = "HistGradientBoostingClassifier" if classes else "HistGradientBoostingRegressor"
    model, grid = fitted(kind, classes, max_iter=5, max_leaf_nodes=9, min_samples_leaf=5)
    net = mase_hw.from_trees(model, leaf_bits=7)
    step, columns = 2.0**-net.leaf_frac, len(net.base_leaf)
    wanted = np.rint(np.broadcast_to(np.ravel(model._baseline_prediction), (len(grid), columns)) / step)
    known, places = model._bin_mapper.make_known_categories_bitsets()
    for round_ in model._predictors:
        for column, each in enumerate(round_):
            value = each.predict(np.ascontiguousarray(grid), known_cat_bitsets=known, f_idx_map=places, n_threads=1)
            wanted[:, column] += np.rint(value / step)
    frames = torch.tensor(grid, dtype=torch.float32)
    design = mase_hw.compile(net, frames[:1], {"quantize": QUANTIZE}, out=tmp_path / "b", vectors=frames)
    assert (design.graph.model(frames).double().numpy() == wanted * step).all()
    assert design.simulate(engine="batch").passed


def test_thresholds_are_rounded_down() -> None:
    """On the grid, just beside it, and beyond all numbers: as a comparison in float64."""
    op = default_catalogue()["forest"]
    codes = torch.arange(-32, 32)
    grid = codes.double().numpy() / 2**FRAC
    for threshold in (0.25, np.nextafter(0.25, 1), np.nextafter(0.25, 0), -0.25, -4.0, -4.01, 3.875, 1e300, -1e300):
        stump = Tree((0, -1, -1), (threshold, 0, 0), (1, 1, 2), (2, 1, 2), ((0,), (1,), (2,)))
        a = Arithmetic.read(f"s6.{FRAC} u2.0", attributes={"trees": (stump,), "base_leaf": (0,), "leaf_frac": 0})
        assert op.golden is not None
        made = op.golden(a, {"data_in_0": codes[:, None]})["data_out_0"]
        assert (made[:, 0].numpy() == np.where(grid <= threshold, 1, 2)).all(), threshold


def test_in_a_network(tmp_path: Path) -> None:
    """Trees behind a layer, in one frame per beat."""
    torch.manual_seed(0)
    model, grid = fitted("DecisionTreeClassifier", 3, max_depth=4)
    net = nn.Sequential(nn.Linear(5, 5), mase_hw.from_trees(model, leaf_bits=4))
    frames = torch.tensor(grid, dtype=torch.float32)
    config = {"hardware": {"unroll": "frame"}, "quantize": QUANTIZE}
    design = mase_hw.compile(net, frames[:1], config, out=tmp_path / "b", vectors=frames)
    assert [entry["module"] for entry in design.manifest["instances"]] == ["fixed_frame_frame"]
    assert design.simulate(engine="batch").passed


def written(path: Path, **changes: Any) -> Path:
    """A file as XGBoost writes it: two trees, the second one a leaf."""
    trees = [
        {
            "left_children": [1, -1, 3, -1, -1],
            "right_children": [2, -1, 4, -1, -1],
            "split_indices": [0, 0, 1, 0, 0],
            "split_conditions": [0.5, -0.25, 1.0, 0.5, 0.75],
            "split_type": [0, 0, 0, 0, 0],
            "categories": [],
        },
        {"left_children": [-1], "right_children": [-1], "split_indices": [0], "split_conditions": [0.125]},
    ]
    booster = {"name": "gbtree", "model": {"trees": trees, "tree_info": [0, 0]}} | changes.pop("booster", {})
    learner = {
        "gradient_booster": booster,
        "learner_model_param": {"base_score": "5E-1", "num_class": "0", "num_feature": "2", "num_target": "1"},
        "objective": {"name": "binary:logistic"},
    }
    path.write_text(json.dumps({"learner": learner | changes}))
    return path


def test_a_file_of_xgboost(tmp_path: Path) -> None:
    """What is less than a threshold goes to the left, and what equals it to the right; the base score is a logit."""
    net = mase_hw.from_trees(written(tmp_path / "m.json"), leaf_bits=8)
    x = torch.tensor([[0.25, 9], [0.5, 0.75], [0.5, 1.0], [2.0, -3.0]])
    assert net(x)[:, 0].tolist() == [-0.125, 0.625, 0.875, 0.625]
    model = {"base_score": "[2E-1]", "num_class": "0", "num_feature": "2"}
    other = mase_hw.from_trees(written(tmp_path / "n.json", learner_model_param=model), leaf_bits=12)
    assert abs(other.base_leaf[0] * 2.0**-other.leaf_frac - math.log(0.25)) <= 2.0 ** -(other.leaf_frac + 1)


def test_refused(tmp_path: Path) -> None:
    """What is no forest, not trained, of categories or of several targets."""
    x, y, _ = data(0)
    with pytest.raises(ConfigError, match="not trained"):
        mase_hw.from_trees(tree.DecisionTreeRegressor())
    with pytest.raises(ConfigError, match="no forest") as caught:
        mase_hw.from_trees(LinearRegression())
    assert "LinearRegression" in str(caught.value.got)
    with pytest.raises(UnsupportedError, match="one target"):
        mase_hw.from_trees(tree.DecisionTreeRegressor().fit(x, np.stack([y, y], 1)))
    with pytest.raises(UnsupportedError, match="begins with constants"):
        mase_hw.from_trees(
            ensemble.GradientBoostingRegressor(n_estimators=1, init=tree.DecisionTreeRegressor(max_depth=1)).fit(x, y)
        )
    boosted = ensemble.HistGradientBoostingRegressor(max_iter=2, categorical_features=[0])
    with pytest.raises(UnsupportedError, match="category"):
        mase_hw.from_trees(boosted.fit(np.concatenate([np.round(x[:, :1] * 2 + 9), x[:, 1:]], 1), np.round(x[:, 0])))
    with pytest.raises(ConfigError, match="number of bits"):
        mase_hw.from_trees(tree.DecisionTreeRegressor().fit(x, y), leaf_bits=1)
    with pytest.raises(ConfigError, match="vote"):
        mase_hw.from_trees(tree.DecisionTreeRegressor().fit(x, y), votes=True)
    with pytest.raises(ConfigError, match="XGBoost"):
        mase_hw.from_trees(tmp_path / "missing.json")
    with pytest.raises(UnsupportedError, match="plain trees"):
        mase_hw.from_trees(written(tmp_path / "d.json", booster={"name": "dart"}))
    with pytest.raises(GraphError, match="as many results"):
        Forest([Tree((-1,), (0.0,), (0,), (0,), ((1, 2),))], (0,), 0, 1)
