"""What happens around a design: tools, simulation, reports."""
