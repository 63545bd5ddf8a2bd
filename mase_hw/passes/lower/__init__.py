"""Passes that lower a graph to what the catalogue has, and fold what is constant."""
