"""Whether a model becomes hardware, and what it would cost: nothing is written."""
