"""The batch engine: no Python in the loop, for whole data sets."""
