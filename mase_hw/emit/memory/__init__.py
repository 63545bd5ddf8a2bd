"""What a netlist keeps in memory outside the chip."""
