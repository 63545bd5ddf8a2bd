"""Memories of a netlist that streams and modules share: caches outside the chip, FIFOs of slots."""
