"""What a bundle has for people and other tools: wrapper, testbenches, scripts, constraints and a README."""

from mase_hw.emit.handoff.handoff import HandoffArgs, Top, add_handoff, emit_handoff_transform_pass

__all__ = ["HandoffArgs", "Top", "add_handoff", "emit_handoff_transform_pass"]
