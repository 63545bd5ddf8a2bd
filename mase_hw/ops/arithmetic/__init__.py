"""Conversions, selections and quotients."""
