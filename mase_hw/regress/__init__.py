"""Regressions: a matrix of jobs, their results, the baseline, and reports."""
