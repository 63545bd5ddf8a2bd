"""A graph as an SVG picture: cards for the nodes, their order and layout, and the drawing itself."""

from mase_hw.ir.draw.picture import draw, render

__all__ = ["draw", "render"]
