"""Typed records of the hardware."""
