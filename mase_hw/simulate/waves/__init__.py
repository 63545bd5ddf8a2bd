"""Waves for people: the lanes of every stream as fixed-point numbers, and save files of the viewers."""
