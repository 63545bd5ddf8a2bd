"""Finds out where a failing design goes wrong."""
