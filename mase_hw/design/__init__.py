"""A compiled design: its bundle, and its simulation against the quantised model."""
