"""Every pass that a test of passes runs is followed by verification."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.passes.verified import verified_passes


@pytest.fixture(autouse=True)
def verify_after_every_pass() -> Iterator[list[str]]:
    with verified_passes() as checked:
        yield checked
