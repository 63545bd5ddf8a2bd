"""Counts of modules that Yosys has mapped, kept in a cache folder so that each is mapped once.

::

    <cache>/counts-<key>/about.json           family and tool version
    <cache>/counts-<key>/<identity>.json      counts of one module, with a digest of them

The key is a hash of all that decides how any module is mapped and counted: the script, the cells that count, the
version of Yosys. The identity is one of all that makes the module. A file is written beside its place and renamed, so
that there is no half of one, also where several processes write the same; what is damaged, or of something else, is
measured again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from mase_hw.cost.devices import Resources
from mase_hw.errors import EmitError
from mase_hw.host.disk import write_whole, writing
from mase_hw.host.documents import Json, parse_json
from mase_hw.simulate.build.cache import ABOUT, COUNTS, Cache
from mase_hw.simulate.build.runtime_cache import VARIABLE


class KeptCounts:
    """The counts of one family, script and tool version in a cache folder; nothing is written before they are kept.

    Args:
        place: The cache folder.
        key: Of 20 hexadecimal digits.
        about: What the counts are of, for people.
    """

    def __init__(self, place: Path, key: str, about: Mapping[str, str]) -> None:
        self.cache, self.key, self.about = Cache(place), key, dict(about)
        self.folder = place / f"{COUNTS}{key}"

    def check(self) -> None:
        """Refuse a folder that cannot be written, before Yosys works for minutes.

        Raises:
            EmitError: If it cannot.
        """
        near = next(folder for folder in (self.folder, *self.folder.parents) if folder.exists())
        if not (near.is_dir() and os.access(near, os.W_OK | os.X_OK)):
            raise EmitError(
                "counts cannot be kept",
                node=str(self.folder),
                got=f"{near} is not a folder one may write to",
                remedy=f"set {VARIABLE} to a folder that can be written",
            )

    def found(self, identities: Iterable[str]) -> dict[str, Resources]:
        """Counts of those of some modules that are kept, by identity."""
        with suppress(OSError):
            os.utime(self.folder)  # the time of last use, for pruning
        read = {identity: self._read(identity) for identity in set(identities)}
        return {identity: counts for identity, counts in read.items() if counts is not None}

    def keep(self, counts: Mapping[str, tuple[str, Resources]]) -> None:
        """Keep counts.

        Args:
            counts: Name of the module and what it takes, by identity.

        Raises:
            EmitError: If the cache cannot be written; what is kept already stays.
        """
        with self.cache.using(self.key), writing("the cache of counts", self.folder):
            write_whole(self.folder / ABOUT, json.dumps(self.about, sort_keys=True) + "\n")
            for identity, (module, found) in counts.items():
                entry: Json = {"identity": identity, "module": module, "counts": found.as_dict()}
                text = json.dumps({**entry, "digest": _digest(entry)}, sort_keys=True)
                write_whole(self.folder / f"{identity}.json", f"{text}\n")

    def _read(self, identity: str) -> Resources | None:
        """The counts of a module; None if they are not kept, or not as they were written."""
        try:
            entry: Json = parse_json((self.folder / f"{identity}.json").read_text(encoding="utf-8"))
            digest = entry.pop("digest")
            if entry["identity"] != identity or digest != _digest(entry):
                return None
            return Resources.of(entry["counts"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None


def _digest(entry: Json) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()
