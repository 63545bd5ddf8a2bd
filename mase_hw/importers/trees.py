"""Forests of decision trees that were trained elsewhere: scikit-learn's estimators, and XGBoost's JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.nn.tables import LEAF, Forest, Tree

Rows = npt.NDArray[np.float64]
Numbers = npt.NDArray[Any]
MOST_LEAF_BITS = 24
"""Most bits of a leaf."""


@dataclass(frozen=True)
class _Given:
    """A tree as it was trained; see :class:`mase_hw.nn.tables.Tree`, whose leaves are values here."""

    feature: Numbers
    threshold: Numbers
    left: Numbers
    right: Numbers
    values: Rows


@dataclass(frozen=True)
class _Forest:
    trees: list[_Given]
    base: Rows
    features: int


def from_trees(model: Any, *, leaf_bits: int = 8, leaf_frac: int | None = None, votes: bool = False) -> Forest:
    """The module of a trained forest.

    What a leaf adds is rounded half to even to a multiple of ``2 ** -leaf_frac``; nothing else is approximated, and
    what the module gives is the exact sum of these. It is, of

    - a regressor, the prediction,
    - a boosted classifier, its decision function: one column of two classes, a column for every class of more,
    - any other classifier, the sum of the trees' probabilities, or with ``votes`` of their votes: the number of trees
      times ``predict_proba``.

    The class is the largest column, or whether the only one is positive. A threshold stays as it is; quantisation
    rounds it down to the grid of the input, so no comparison of quantised values changes.

    Args:
        model: ``DecisionTree``, ``ExtraTree``, ``RandomForest``, ``ExtraTrees``, ``GradientBoosting`` or
            ``HistGradientBoosting``, ``Classifier`` or ``Regressor``, of scikit-learn; or the file that
            ``save_model("name.json")`` of XGBoost wrote.
        leaf_bits: Bits with a sign of the largest leaf; they decide ``leaf_frac`` if that is not given.
        leaf_frac: Fraction width of the leaves.
        votes: Every tree adds 1 to the class that it finds most probable.

    Raises:
        ConfigError: If the model is none of these, or is not trained; or bits are out of range.
        UnsupportedError: Categorical splits, several targets, a boosting that does not begin with constants, dropout.
    """
    if not 2 <= leaf_bits <= MOST_LEAF_BITS:
        raise ConfigError(
            "leaves have another number of bits", field="leaf_bits", got=leaf_bits, expected=f"2 to {MOST_LEAF_BITS}"
        )
    found = _of_file(Path(model)) if isinstance(model, str | Path) else _of_estimator(model)
    if votes:
        found = _Forest([_voting(tree) for tree in found.trees], found.base, found.features)
    largest = max([float(np.abs(tree.values).max()) for tree in found.trees] + [0.0])
    if leaf_frac is None:
        leaf_frac = leaf_bits - 1 - math.frexp(largest)[1] if largest else 0
        if round(math.ldexp(largest, leaf_frac)) >= 1 << (leaf_bits - 1):
            leaf_frac -= 1
    step = math.ldexp(1.0, -leaf_frac)
    trees = [_tree(tree, step) for tree in found.trees]
    return Forest(trees, [round(value) for value in (found.base / step).tolist()], leaf_frac, found.features)


def _tree(tree: _Given, step: float) -> Tree:
    """With the leaves in steps, the root first and no node after its children."""
    order, left, right = [0], list[int](), list[int]()
    for place, node in enumerate(order):  # grows
        if tree.feature[node] == LEAF:
            left.append(place)
            right.append(place)
        else:
            left.append(len(order))
            right.append(len(order) + 1)
            order += [int(tree.left[node]), int(tree.right[node])]
    leaves = np.rint(tree.values / step).astype(np.int64).tolist()
    feature = tuple(int(tree.feature[node]) for node in order)
    return Tree(
        feature,
        tuple(0.0 if f == LEAF else float(tree.threshold[node]) for f, node in zip(feature, order, strict=True)),
        tuple(left),
        tuple(right),
        tuple(
            tuple(leaves[node]) if f == LEAF else (0,) * tree.values.shape[1]
            for f, node in zip(feature, order, strict=True)
        ),
    )


def _voting(tree: _Given) -> _Given:
    if tree.values.shape[1] < 2:
        raise ConfigError(
            "trees vote for classes", field="votes", got="one result", expected="a classifier whose trees have classes"
        )
    chosen = np.eye(tree.values.shape[1])[tree.values.argmax(1)]
    return _Given(tree.feature, tree.threshold, tree.left, tree.right, chosen)


# ---- scikit-learn


def _of_estimator(model: Any) -> _Forest:
    name = type(model).__name__
    read = next((read for part, read in _READERS if part in name), None)
    if read is None or not type(model).__module__.startswith("sklearn."):
        raise ConfigError(
            "this is no forest that can be read",
            field="model",
            got=f"{type(model).__module__}.{name}",
            expected="a forest of scikit-learn, or the path of a JSON file of XGBoost",
        )
    if not hasattr(model, "n_features_in_"):
        raise ConfigError("the forest is not trained", field="model", got=name, remedy="call its fit first")
    return read(model)


def _plain(tree: Any, values: Rows) -> _Given:
    """A tree of scikit-learn's ``Tree``."""
    inner = tree.children_left >= 0
    return _Given(np.where(inner, tree.feature, LEAF), tree.threshold, tree.children_left, tree.children_right, values)


def _averaged(model: Any) -> _Forest:
    """A tree, or a forest whose prediction is the mean: of probabilities the sum, of numbers the mean."""
    trees = [model] if hasattr(model, "tree_") else list(model.estimators_)
    if model.n_outputs_ != 1:
        raise UnsupportedError("a forest has one target", field="model", got=f"{model.n_outputs_} targets")
    found = []
    for tree in trees:
        values = tree.tree_.value[:, 0, :]
        classifies = hasattr(model, "classes_")
        values = values / values.sum(1, keepdims=True) if classifies else values / len(trees)
        found.append(_plain(tree.tree_, values))
    return _Forest(found, np.zeros(found[0].values.shape[1]), model.n_features_in_)


def _boosted(model: Any) -> _Forest:
    """A boosting of scikit-learn: what it begins with, and scaled trees, one for every column and round."""
    if model.init is not None and model.init != "zero":
        raise UnsupportedError(
            "a boosting begins with constants", field="model.init", got=repr(model.init), expected="None or 'zero'"
        )
    base = np.asarray(model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32)), np.float64)[0]
    found = []
    for round_ in model.estimators_:
        for column, tree in enumerate(round_):
            unit = np.eye(len(base))[column]
            found.append(_plain(tree.tree_, model.learning_rate * tree.tree_.value[:, 0, :] * unit))
    return _Forest(found, base, model.n_features_in_)


def _histograms(model: Any) -> _Forest:
    """A boosting on histograms."""
    base = np.asarray(model._baseline_prediction, np.float64).reshape(-1)
    found = []
    for round_ in model._predictors:
        for column, predictor in enumerate(round_):
            nodes = predictor.nodes
            if nodes["is_categorical"].any():
                raise UnsupportedError("splits by category are not comparisons", field="model.categorical_features")
            leaf = nodes["is_leaf"].astype(bool)
            feature = np.where(leaf, LEAF, nodes["feature_idx"])
            values = nodes["value"][:, None] * np.eye(len(base))[column]
            found.append(_Given(feature, nodes["num_threshold"], nodes["left"], nodes["right"], values))
    return _Forest(found, base, model.n_features_in_)


_READERS: tuple[tuple[str, Callable[[Any], _Forest]], ...] = (
    ("HistGradientBoosting", _histograms),
    ("GradientBoosting", _boosted),
    ("RandomForest", _averaged),
    ("ExtraTree", _averaged),
    ("DecisionTree", _averaged),
)
"""By a part of the name of the class; the first one counts."""


# ---- XGBoost


def _of_file(path: Path) -> _Forest:
    """A file of XGBoost: a value goes to the left if it is less than the threshold, both in float32."""
    try:
        learner = json.loads(path.read_text())["learner"]
        booster, how = learner["gradient_booster"], learner["learner_model_param"]
        name, model = booster["name"], booster.get("model")
        columns = max(int(how["num_class"]), 1)
        if name != "gbtree" or int(how.get("num_target", 1)) > 1:
            raise UnsupportedError("a forest of XGBoost has plain trees and one target", field=str(path), got=name)
        trees = []
        for tree, column in zip(model["trees"], model["tree_info"], strict=True):
            if any(tree.get("categories", ())) or any(map(int, tree.get("split_type", ()))):
                raise UnsupportedError("splits by category are not comparisons", field=str(path))
            left = np.array(tree["left_children"], dtype=np.int64)
            feature = np.where(left < 0, LEAF, np.array(tree["split_indices"], dtype=np.int64))
            conditions = np.array(tree["split_conditions"], dtype=np.float32).astype(np.float64)
            below = np.nextafter(conditions, -np.inf)  # less than it: at most the number before
            values = conditions[:, None] * np.eye(columns)[int(column)]
            trees.append(_Given(feature, below, left, np.array(tree["right_children"]), values))
        return _Forest(trees, _base_margin(learner, columns), int(how["num_feature"]))
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ConfigError(
            "this is no model of XGBoost",
            field="model",
            got=f"{path}: {type(error).__name__}: {error}",
            expected="the JSON that save_model wrote",
        ) from error


def _base_margin(learner: Any, columns: int) -> Rows:
    """What the sums begin with: the base score, as the objective takes it."""
    given = np.array(json.loads(str(learner["learner_model_param"]["base_score"])), dtype=np.float64).reshape(-1)
    if learner["objective"]["name"] in ("binary:logistic", "reg:logistic"):
        given = np.log(given / (1 - given))
    return np.broadcast_to(given, (columns,)).copy()
