"""Errors say where, what, what else and what to do, and can be caught by kind."""

from __future__ import annotations

import copy
import copyreg
import pickle
from typing import Any

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
    other = pickle.loads(pickle.dumps(error))
    assert type(other) is errors.MismatchError and str(other) == str(error) and other.node == "data_out_0"


def test_a_copy_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a package has its own way of pickling every exception, as tblib, which comes with distributed."""

    def shared(error: Exception) -> tuple[Any, ...]:
        return _with_attributes, (type(error), error.args, error.__dict__)

    monkeypatch.setitem(copyreg.dispatch_table, errors.FormatError, shared)
    error = errors.FormatError("m", node="data_out_0", got=[1])
    other = copy.copy(error)
    assert type(other) is errors.FormatError and other.args == error.args and str(other) == str(error)
    other.node = "here"
    assert error.node == "data_out_0"


def _with_attributes(kind: type[Exception], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> Exception:
    error = kind.__new__(kind)
    error.args = arguments
    error.__dict__ = attributes
    return error


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
