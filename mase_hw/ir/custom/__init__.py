"""Ops that a user brings: what an entry may say, its files, and the op that is made of it."""
