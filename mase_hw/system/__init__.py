"""Registers, bus master, C driver and self-test around a core."""

from mase_hw.system.frames import Frame
from mase_hw.system.make import make_system
from mase_hw.system.options import SystemOptions, system_options
from mase_hw.system.selftest import SelfTest, run_selftest

__all__ = ["Frame", "SelfTest", "SystemOptions", "make_system", "run_selftest", "system_options"]
