"""Whether a traced graph can stand for its model: hooks, state that changes, and functions that differ are found."""
