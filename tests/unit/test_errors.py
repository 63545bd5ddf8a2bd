"""Errors say where, what, what else and what to do, and can be caught by kind."""

from __future__ import annotations

import pickle

import pytest

from mase_hw import errors
from mase_hw.errors import MaseHwError, suggest

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MaseHwError)]


def test_text_has_every_part_that_is_known() -> None:
    error = MaseHwError("it is wrong", node="fc1", field="a.b", got=[1, 2], expected="one", remedy="do this")
    assert str(error).splitlines() == [
        "it is wrong",
        "  where: fc1",
        "  field: a.b",
        "  got: [1, 2]",
        "  expected: one",
        "  what to do: do this",
    ]
    assert str(MaseHwError("it is wrong")) == "it is wrong"


def test_a_falsy_value_is_a_value() -> None:
    assert "got: 0" in str(MaseHwError("x", got=0)) and "got: []" in str(MaseHwError("x", got=[]))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(kind: type[MaseHwError]) -> None:
    """Every kind is documented, caught as MaseHwError, and shows its text (a KeyError would show its repr)."""
    error = kind("two\nlines", node="n", got="g")
    assert kind.__doc__ and isinstance(error, MaseHwError)
    assert str(error) == "two\nlines\n  where: n\n  got: g"
    assert (error.message, error.node, error.field, error.got, error.expected, error.remedy) == (
        "two\nlines", "n", None, "g", None, None,
    )  # fmt: skip


def test_builtin_bases() -> None:
    """What a Python programmer would catch."""
    for kind in (errors.FormatError, errors.ConfigError, errors.GraphError):
        assert issubclass(kind, ValueError)
    assert issubclass(errors.MetadataKeyError, KeyError)
    for kind in (errors.MismatchError, errors.HangError, errors.ResultsError):
        assert issubclass(kind, errors.SimulationError)


def test_errors_cross_processes() -> None:
    """Test runners and pools send exceptions from process to process."""
    error = errors.MismatchError("m", node="data_out_0", got="g")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is errors.MismatchError and str(copy) == str(error) and copy.node == "data_out_0"


@pytest.mark.parametrize(
    ("word", "known", "text"),
    [
        ("linaer", ["linear", "relu"], "did you mean 'linear'?"),
        ("zzz", ["relu", "linear"], "known: linear, relu"),
        ("zzz", [], None),
        ("zzz", iter(["b", "a", "b"]), "known: a, b"),
    ],
)
def test_suggestions(word: str, known: object, text: str | None) -> None:
    assert suggest(word, known) == text  # type: ignore[arg-type]
