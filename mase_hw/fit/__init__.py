"""The smallest design that meets a target: candidates of every layer, and the choice among them."""
