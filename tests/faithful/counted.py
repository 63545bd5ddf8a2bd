"""A variable that a model changes."""

CALLS = 0
