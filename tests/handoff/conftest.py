"""One bundle for the tests of this folder that only look at it."""

from __future__ import annotations

import pytest

import mase_hw
from tests.handoff.designs import emit


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    return emit(tmp_path_factory.mktemp("handoff") / "pair")
