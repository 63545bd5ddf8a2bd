"""The signals of the design under test, as fast as cocotb can touch them.

``handle.value`` builds a ``LogicArray`` for every read and checks ranges for every write; at one read of a wide bus a
cycle that is most of the run time. The two classes here call the simulator handle below it. They are the only place
that does, and they rely on three things that hold for Verilator: signals are two-state, reads return strings of
``0`` and ``1`` with the most significant bit first, and ``DEPOSIT`` (action 0) is an inertial write.

Sampling semantics (cocotb 2.1 with Verilator, ``COCOTB_TRUST_INERTIAL_WRITES=1``; held by ``tests/sim``): cocotb is
woken by the value change of the clock *before* the model evaluates the edge. What is read right after
``await clk.rising_edge`` is therefore what every flip-flop samples at this edge, and what is written there is applied
after the flip-flops have updated, and settles before the next edge. One coroutine that reads, then writes, once a
cycle sees exactly what a synchronous neighbour of the design would see.
"""

from __future__ import annotations

from typing import Any

_DEPOSIT = 0


class Bit:
    """A one-bit port."""

    def __init__(self, handle: Any) -> None:
        self.read = handle._handle.get_signal_val_long
        """Return 0 or 1."""
        self._set = handle._handle.set_signal_val_int

    def write(self, value: int) -> None:
        """Drive 0 or 1."""
        self._set(_DEPOSIT, value)


class Bus:
    """A packed data port, read and written as a string of ``0`` and ``1``, most significant bit first."""

    def __init__(self, handle: Any, bits: int) -> None:
        found = len(handle)
        if found != bits:
            raise ValueError(f"port {handle._name} is {found} bits wide, the plan says {bits}")
        self.bits = bits
        self.read = handle._handle.get_signal_val_binstr
        """Return the bits."""
        self._set = handle._handle.set_signal_val_binstr

    def write(self, value: str) -> None:
        """Drive the bits."""
        self._set(_DEPOSIT, value)
