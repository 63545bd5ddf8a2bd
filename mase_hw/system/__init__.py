"""What software needs around a core: registers, a way to memory, an interrupt, a driver and a self-test."""

from mase_hw.system.frames import Frame
from mase_hw.system.make import make_system
from mase_hw.system.options import SystemOptions
from mase_hw.system.selftest import SelfTest, run_selftest

__all__ = ["Frame", "SelfTest", "SystemOptions", "make_system", "run_selftest"]
