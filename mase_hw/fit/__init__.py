"""The smallest design that meets a target, by solver."""
