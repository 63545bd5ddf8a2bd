"""Ops with a state: recurrent layers."""
