"""Ops of whole rows: what each element becomes depends on all elements of its row."""
