"""Passes that fill metadata, check it and report it; they never change the graph itself."""
