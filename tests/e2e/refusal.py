"""How the tests of bad input call compile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mase_hw
from mase_hw.errors import MaseHwError
from tests.unit.pipeline import inputs

X = inputs(1, 6)


def refused(out: Path, kind: type[MaseHwError], texts: list[str], model: Any, given: Any, config: Any = None) -> None:
    with pytest.raises(MaseHwError) as caught:
        mase_hw.compile(model, given, config, out=out)
    assert type(caught.value) is kind, caught.value
    for text in texts:
        assert text in str(caught.value), str(caught.value)
