"""Test vectors: which frames show that a design is right, and what they exercise."""
