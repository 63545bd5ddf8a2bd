"""Simulation of any module with stream ports: plan, build, run, compare, diagnose."""
