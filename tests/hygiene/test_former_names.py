"""The names that modules had before the package was divided into rooms still work, and say where to go."""

import importlib
import sys

import pytest

from mase_hw.flow import MOVED


@pytest.mark.parametrize("name", sorted(MOVED))
def test_a_former_name_leads_to_the_present_module(name: str) -> None:
    sys.modules.pop(f"mase_hw.flow.{name}", None)
    with pytest.warns(DeprecationWarning, match=f"mase_hw.{MOVED[name]}$"):
        former = importlib.import_module(f"mase_hw.flow.{name}")
    present = importlib.import_module(f"mase_hw.{MOVED[name]}")
    public = [key for key in vars(present) if not key.startswith("_")]
    assert public and all(getattr(former, key) is getattr(present, key) for key in public)


def test_other_names_are_no_modules() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("mase_hw.flow.nothing")
