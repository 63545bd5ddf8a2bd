"""The cocotb engine: a Python driver that touches every port in every cycle."""
