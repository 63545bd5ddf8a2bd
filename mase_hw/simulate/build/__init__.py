"""Builds simulators with Verilator and keeps them by content."""
