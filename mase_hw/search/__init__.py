"""Searching widths, formats, folding and implementation together."""
