"""What a simulation of a design plays and what must come out: frames of every port, and the vectors of a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mase_hw.emit.read_bundle import read_file
from mase_hw.errors import ConfigError, ResultsError
from mase_hw.hardware.beats import from_words
from mase_hw.hardware.manifest import Manifest
from mase_hw.streams import IntArray, Stream

Sides = tuple[dict[str, IntArray], dict[str, IntArray]]
"""Mantissas of shape ``(frames, *tensor_shape)`` by port: stimulus of the inputs, what is expected of the outputs."""


def bundle_vectors(folder: Path, manifest: Manifest, streams: Mapping[str, Stream], *, verify: bool = True) -> Sides:
    """Read the bundle's own vectors.

    Args:
        folder: The bundle.
        manifest: Its manifest.
        streams: Its ports by name.
        verify: The files must be what the manifest says.

    Raises:
        ConfigError: If the bundle has none.
        EmitError: If a file was changed or is missing.
        ResultsError: If a file is not what vectors are, or the number of frames is not that of the manifest.
    """
    if manifest.vectors is None:
        raise ConfigError("the bundle has no vectors", node=str(folder), remedy="pass inputs, or emit it with vectors")
    files, frames = manifest.vectors.files, manifest.vectors.frames
    if set(files) != set(streams):
        raise ResultsError(
            "the vectors are not those of the ports", node=str(folder), got=sorted(files), expected=sorted(streams)
        )
    sides: Sides = ({}, {})
    for name, stream in streams.items():
        content = read_file(folder, manifest.files, files[name]) if verify else None
        values = read_vectors(folder / files[name], stream, content)
        sides[0 if stream.direction == "in" else 1][name] = values
    found = {name: len(values) for side in sides for name, values in side.items()}
    if set(found.values()) != {frames}:
        raise ResultsError(
            "the vectors do not hold as many frames as the manifest says, so not all of them would be compared",
            node=str(folder),
            field="vectors.frames",
            got=", ".join(f"{name}: {count}" for name, count in found.items()),
            expected=f"{frames} frames of every port",
            remedy="emit the bundle again; do not edit generated files",
        )
    return sides


def read_vectors(path: Path, stream: Stream, content: bytes | None = None) -> IntArray:
    """Read a vector file back into tensors of shape ``(frames, *tensor_shape)``.

    Args:
        path: The file.
        stream: What it holds.
        content: Its content, if it was read already.

    Raises:
        ResultsError: If the file is empty, holds something else than whole frames of hexadecimal words, or a pad lane
            that is not 0.
    """
    try:
        beats = from_words(stream, (path.read_bytes() if content is None else content).decode("ascii"))
    except (OSError, ValueError) as error:
        raise ResultsError("a vector file cannot be read", node=str(path), got=str(error)) from error
    if not len(beats) or len(beats) % stream.beats:
        raise ResultsError(
            "a vector file does not hold whole frames",
            node=str(path),
            got=f"{len(beats)} beats",
            expected=f"a multiple of {stream.beats}, at least one frame",
        )
    values = stream.unpack(beats)
    padded = np.flatnonzero(np.asarray(stream.pack(values) != beats).any(axis=1))
    if len(padded):
        raise ResultsError(
            "a vector file has something in a pad lane, which would not be compared",
            node=str(path),
            got=f"line {int(padded[0]) + 1}: {beats[int(padded[0])].tolist()}",
            expected="0 in every lane that is not an element",
        )
    return values


@dataclass(frozen=True)
class Played:
    """Frames of every port.

    Args:
        stimulus: Mantissas of shape ``(frames, *tensor_shape)`` by input.
        beats_in: The same as beats.
        beats_out: What is expected of the outputs, as beats.
        frames: How many.
    """

    stimulus: Mapping[str, IntArray]
    beats_in: Mapping[str, IntArray]
    beats_out: Mapping[str, IntArray]
    frames: int

    @classmethod
    def of(
        cls, stimulus: Mapping[str, IntArray], expected: Mapping[str, IntArray], streams: Mapping[str, Stream]
    ) -> Played:
        """Cut frames of mantissas ``(frames, *tensor_shape)`` into beats."""
        return cls(
            stimulus,
            {name: streams[name].pack(values) for name, values in stimulus.items()},
            {name: streams[name].pack(values) for name, values in expected.items()},
            len(next(iter(stimulus.values()))),
        )
