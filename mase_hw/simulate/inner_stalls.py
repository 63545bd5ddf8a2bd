"""How unwilling the edges inside a design are, in the words of the connectors that stand on them."""

from __future__ import annotations

from dataclasses import dataclass

from mase_hw.errors import ConfigError

_SLOWER = 4
"""A run may take so many times as long as the share of open cycles alone would make it."""


@dataclass(frozen=True)
class InnerStalls:
    """Stalls inside a design, which must have been built with connectors.

    Args:
        probability: In each cycle, for each edge that is open and holds no offered beat back, to close. Of the cycles
            in which edges are closed for long, there is one at a time on average.
        interval: Cycles per frame; no long stall is longer than about that.

    Raises:
        ConfigError: If an edge would be closed always, or never could.
    """

    probability: float
    interval: int

    def __post_init__(self) -> None:
        if not 0.0 <= self.probability < 1.0 or self.interval < 1:
            raise ConfigError(
                "stalls inside a design need a probability, and an interval",
                field="inner_stalls",
                got=f"{self.probability}, interval {self.interval}",
                expected="a probability from 0 to below 1, and at least one cycle",
            )

    @property
    def slowdown(self) -> float:
        """How many times as long a run may take."""
        return _SLOWER / (1 - self.probability)

    def plusargs(self, seed: int) -> tuple[str, ...]:
        """What the connectors read when the simulator starts; see ``sim/exercise/exercise_stall.sv``."""
        numbers = {
            "seed": seed % (1 << 64),
            "closes": int(self.probability * (1 << 32)),
            "share": int((1 << 32) / self.probability) if self.probability else 0,
            "interval": self.interval,
        }
        return tuple(f"+inner_{name}={number:x}" for name, number in numbers.items())
