"""The one place where the version stands."""

__version__ = "0.1.0"
"""The version of the package, as the changelog has it."""
