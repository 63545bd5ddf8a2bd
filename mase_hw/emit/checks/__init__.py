"""Whether what is emitted, or what a bundle says, fits together."""
