"""Regions of a network: what depends on itself is solved together, and before all that only follows from it."""

from __future__ import annotations

from collections.abc import Sequence


def regions(readers: Sequence[Sequence[int]]) -> list[int]:
    """Divide the nodes of a directed graph into its strongly connected components.

    (R. Tarjan, "Depth-first search and linear graph algorithms", SIAM Journal on Computing 1972.)

    Args:
        readers: Of every node, the nodes that depend on it.

    Returns:
        Of every node, the number of its component; none depends on one of a higher number.
    """
    count = len(readers)
    order, lowest, found = [0] * count, [0] * count, [0] * count
    seen = components = 0
    path: list[int] = []
    for root in range(count):
        todo = [] if order[root] else [(root, 0)]
        while todo:
            node, at = todo.pop()
            if not at:
                seen += 1
                order[node] = lowest[node] = seen
                path.append(node)
            for place in range(at, len(readers[node])):
                other = readers[node][place]
                if not order[other]:
                    todo += [(node, place + 1), (other, 0)]
                    break
                if not found[other]:
                    lowest[node] = min(lowest[node], order[other])
            else:
                if lowest[node] == order[node]:
                    components += 1
                    while not found[node]:
                        found[path.pop()] = components
                if todo:
                    above = todo[-1][0]
                    lowest[above] = min(lowest[above], lowest[node])
    return [components - number for number in found]
