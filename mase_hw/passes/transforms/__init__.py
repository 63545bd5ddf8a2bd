"""Passes that change the graph."""
