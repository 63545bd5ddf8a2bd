"""Synthesis of a bundle with the open tools."""
