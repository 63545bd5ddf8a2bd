"""From a graph with hardware metadata to a bundle: netlist, schedule, rendering, files."""
