"""Layers that others express: a rule each, which says so in plain PyTorch."""
