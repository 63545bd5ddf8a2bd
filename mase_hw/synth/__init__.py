"""Synthesis of a bundle with the open tools: checks, netlist simulation, place and route."""
