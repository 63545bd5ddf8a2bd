"""Whether a model becomes hardware, and what it would cost, before anything is written."""
