"""What compiles small benches fast."""

from tests.handoff.conftest import tiny as tiny
