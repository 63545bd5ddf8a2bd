"""What frames exercised of the casts of a model, as plain numbers: neither torch nor a model is needed to read them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from mase_hw.host.documents import Json


@dataclass(frozen=True)
class CastUse:
    """The casts of one node over some frames.

    Args:
        values: Numbers that were cast.
        negative: Of them, those below zero, unless all of these become 0.
        high: Those above the range of the format, which saturate or wrap.
        low: Those below it.
        ties_positive: Those exactly between two numbers of the format, above zero.
        ties_negative: Those exactly between two numbers of the format, below zero, unless these become 0.
        rounds: Whether bits are dropped and what lies exactly between goes to the nearest even, or up.
        grows: Whether sums or products are cast, which may leave any range.
    """

    values: int = 0
    negative: int = 0
    high: int = 0
    low: int = 0
    ties_positive: int = 0
    ties_negative: int = 0
    rounds: bool = False
    grows: bool = False

    @property
    def missing(self) -> tuple[str, ...]:
        """What no frame did, though a cast of this kind could meet it."""
        found = ["saturated"] if self.grows and not self.high + self.low else []
        if self.rounds and not self.ties_positive and self.values > self.negative:
            found.append("tie above zero")
        if self.rounds and not self.ties_negative and self.negative:
            found.append("tie below zero")
        return tuple(found)

    def to_json(self) -> dict[str, int | bool]:
        """The fields as JSON types."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, document: Json) -> CastUse:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: If a field is missing.
        """
        return cls(**{field.name: document[field.name] for field in dataclasses.fields(cls)})

    @classmethod
    def total(cls, uses: Iterable[CastUse]) -> CastUse:
        """All of them together."""
        of = list(uses)
        together = {f.name: any if isinstance(f.default, bool) else sum for f in dataclasses.fields(cls)}
        return cls(**{name: put(getattr(use, name) for use in of) for name, put in together.items()})


def fault_coverage(faults: Json) -> str:
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
