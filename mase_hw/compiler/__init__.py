"""From a PyTorch model to a design: the configuration, and the passes in order."""
