"""Simulation of any module whose ports are streams: plan, build, run, judge, diagnose."""
