"""What test vectors show of faults, in words; neither torch nor a model is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def fault_coverage(faults: Mapping[str, Any]) -> str:
    """The share of faults that change an output, as ``fault coverage 69 % (177 of 256 sampled stuck bits)``.

    Only a coverage of all of them is called 100 %.

    Args:
        faults: ``vectors.faults`` of a manifest.
    """
    memory = faults["memory"]
    seen, tried = int(memory["seen"]), int(memory["tried"])
    if not tried:
        return "fault coverage not measured: no stuck bit was tried"
    sampled = "sampled " if tried < int(memory["bits"]) else ""
    return f"fault coverage {100 * seen // tried} % ({seen} of {tried} {sampled}stuck bits)"
