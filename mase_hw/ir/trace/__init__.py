"""From a PyTorch module to an fx graph: the tracer, and what it knows of signatures, containers and writing ops."""
