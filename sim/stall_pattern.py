"""Deterministic stall patterns.

The generator is a 64-bit linear congruential one (Knuth's MMIX constants, upper 32 bits used), seeded with a hash of
the run's seed and the stream's name. It is spelled out here, rather than taken from ``random``, so that another engine
in another language can produce the same pattern from the same seed.
"""

from __future__ import annotations

from typing import Any

_MASK64 = (1 << 64) - 1


def stream_seed(seed: int, name: str) -> int:
    """Mix the run's seed and a name into 64 bits (FNV-1a)."""
    state = 0xCBF29CE484222325
    for byte in f"{seed}:{name}".encode():
        state = ((state ^ byte) * 0x100000001B3) & _MASK64
    return state


class StallPattern:
    """Says for every opportunity whether to stall.

    Args:
        probability: Chance of a stall at each opportunity, 0 to just below 1.
        burst: ``(go, stop)``: after every ``go`` opportunities, ``stop`` stalls in a row; ``(0, 0)`` for none.
        seed: The run's seed.
        name: The stream's name.
    """

    def __init__(self, probability: float, burst: tuple[int, int], seed: int, name: str) -> None:
        self._threshold = int(probability * (1 << 32))
        self._go, self._period = burst[0], burst[0] + burst[1]
        self._count = 0
        self._state = stream_seed(seed, name)
        self.free = not self._threshold and not self._period
        """Whether this pattern never stalls."""

    @classmethod
    def of(cls, plan: dict[str, Any], seed: int, name: str) -> StallPattern:
        """Read a pattern from its entry in the plan."""
        return cls(float(plan["probability"]), (int(plan["burst"][0]), int(plan["burst"][1])), seed, name)

    def stall(self) -> bool:
        """Draw the next decision."""
        if self._period:
            position = self._count % self._period
            self._count += 1
            if position >= self._go:
                return True
        if not self._threshold:
            return False
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & _MASK64
        return (self._state >> 32) < self._threshold
