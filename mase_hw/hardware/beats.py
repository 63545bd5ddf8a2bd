"""Beats of mantissas to raw bytes or words of a memory file, and back.

The layout is the one of ``sim/beat_file.py``: ``ceil(bits / 8)`` bytes per beat, little-endian, lane 0 in the low bits.
"""

from __future__ import annotations

import numpy as np

from mase_hw.errors import ConfigError
from mase_hw.streams import IntArray, Stream, from_bits, to_bits

_CHUNK_BITS = 1 << 25
"""Bits expanded to bytes at a time; bounds the memory of the conversion."""


def beat_bytes(stream: Stream) -> int:
    """Bytes of one beat."""
    return (stream.bits + 7) // 8


def encode(stream: Stream, beats: IntArray) -> bytes:
    """Turn mantissas of shape ``(n, lanes)`` into raw beats.

    Raises:
        ConfigError: If the array has another shape or kind, or a mantissa does not fit the stream's format.
    """
    beats = np.asarray(beats)
    if beats.ndim != 2 or beats.shape[1] != stream.lanes:
        raise ConfigError(
            "beats do not fit their stream",
            node=stream.name,
            got=list(beats.shape),
            expected=["beats", stream.lanes],
            remedy="use Stream.pack to cut tensors into beats",
        )
    if beats.dtype != object and not np.issubdtype(beats.dtype, np.integer):
        raise ConfigError(
            "beats are not integers", node=stream.name, got=str(beats.dtype), expected="integer mantissas"
        )
    fmt = stream.fmt
    if beats.size:
        low, high = int(beats.min()), int(beats.max())
        # Lanes that are left over hold 0, also where scaled integers have a range without it.
        if low < min(fmt.min_mantissa, 0) or high > max(fmt.max_mantissa, 0):
            raise ConfigError(
                "a mantissa does not fit the format of its stream",
                node=stream.name,
                got=f"[{low}, {high}]",
                expected=f"[{fmt.min_mantissa}, {fmt.max_mantissa}] ({fmt})",
            )
    if fmt.bipolar:
        if (beats == 0).any():
            raise ConfigError(
                "a mantissa does not fit the format of its stream", node=stream.name, got=0, expected=f"-1 or 1 ({fmt})"
            )
        beats = (beats < 0).astype(np.int64)
    if beats.dtype == object or fmt.width > 63:
        size = beat_bytes(stream)
        return b"".join(to_bits(row, fmt.width).to_bytes(size, "little") for row in beats.tolist())
    # Codes in whole bytes, little-endian; those above the width are left out.
    size = next(size for size in (1, 2, 4, 8) if 8 * size >= fmt.width)
    step = max(1, _CHUNK_BITS // stream.bits)
    parts = []
    for start in range(0, beats.shape[0], step):
        codes = beats[start : start + step].astype(f"<u{size}", order="C")
        raw = codes.view(np.uint8).reshape(-1, stream.lanes, size)
        if fmt.width % 8:
            bits = np.unpackbits(raw, axis=2, count=fmt.width, bitorder="little")
            raw = np.packbits(bits.reshape(len(codes), -1), axis=1, bitorder="little")
        else:
            raw = raw[:, :, : fmt.width // 8]
        parts.append(raw.tobytes())
    return b"".join(parts)


def decode(stream: Stream, raw: bytes) -> IntArray:
    """Turn raw beats into mantissas of shape ``(n, lanes)``: ``int64``, or Python integers beyond 63 bits.

    Raises:
        ConfigError: If the bytes are not a whole number of beats.
    """
    size, width = beat_bytes(stream), stream.fmt.width
    if len(raw) % size:
        raise ConfigError(
            "raw beats are cut short",
            node=stream.name,
            got=f"{len(raw)} bytes",
            expected=f"a multiple of {size}",
        )
    count = len(raw) // size
    if width > 63:
        rows = [
            from_bits(
                int.from_bytes(raw[i * size : (i + 1) * size], "little"),
                width,
                stream.lanes,
                stream.fmt.signed,
            )
            for i in range(count)
        ]
        out = np.empty((count, stream.lanes), dtype=object)
        for i, row in enumerate(rows):
            out[i, :] = row
        return out
    result = np.empty((count, stream.lanes), dtype=np.int64)
    weights = np.int64(1) << np.arange(width, dtype=np.int64)
    if stream.fmt.signed:
        weights[-1] = -weights[-1]
    packed = np.frombuffer(raw, dtype=np.uint8).reshape(count, size)
    step = max(1, _CHUNK_BITS // stream.bits)
    for start in range(0, count, step):
        bits = np.unpackbits(packed[start : start + step], axis=1, count=stream.bits, bitorder="little")
        result[start : start + step] = bits.reshape(-1, stream.lanes, width).astype(np.int64) @ weights
    return 1 + 2 * result if stream.fmt.bipolar else result


def to_words(stream: Stream, beats: IntArray) -> str:
    """Write mantissas of shape ``(n, lanes)`` as ``$readmemh`` words, one beat per line, lane 0 in the low bits.

    Raises:
        ConfigError: As :func:`encode`.
    """
    size, digits = beat_bytes(stream), (stream.bits + 3) // 4
    raw = np.frombuffer(encode(stream, beats), dtype=np.uint8).reshape(-1, size)
    if digits == 2 * size:
        return raw[:, ::-1].tobytes().hex("\n", size) + "\n" if len(raw) else ""
    text = np.frombuffer(raw[:, ::-1].tobytes().hex().encode("ascii"), dtype=np.uint8).reshape(-1, 2 * size)
    lines = np.full((len(raw), digits + 1), ord("\n"), dtype=np.uint8)
    lines[:, :digits] = text[:, 2 * size - digits :]
    return lines.tobytes().decode("ascii")


def from_words(stream: Stream, text: str) -> IntArray:
    """Read words back; the inverse of :func:`to_words`.

    Raises:
        ValueError: If a word is no hexadecimal number or has more bits than a beat.
    """
    size = beat_bytes(stream)
    words = [word.zfill(2 * size) for word in text.split()]
    longest = max(words, key=len, default="")
    if len(longest) > 2 * size:
        raise ValueError(f"{longest} has more than {stream.bits} bits")
    raw = np.frombuffer(bytes.fromhex("".join(words)), dtype=np.uint8).reshape(-1, size)
    spare = raw[:, 0] >> (stream.bits - 8 * (size - 1)) if stream.bits % 8 else np.zeros(len(raw), np.uint8)
    if spare.any():
        raise ValueError(f"{words[int(spare.nonzero()[0][0])]} has more than {stream.bits} bits")
    return decode(stream, raw[:, ::-1].tobytes())


def count_words(text: bytes) -> int:
    """Words of a memory file; none of them is made, as a large layer has millions."""
    code = np.frombuffer(text, np.uint8)
    # A space, or one of the five from the tabulator on.
    blank = code - np.uint8(ord("\t")) < 5
    blank |= code == ord(" ")
    behind_blanks = int(np.count_nonzero(blank[:-1] > blank[1:]))
    return behind_blanks + int(len(blank) > 0 and not blank[0])


def beats_of(text: str, count: int, bits: int, file: str | None = None) -> list[int]:
    """The beats of a memory file.

    Raises:
        ConfigError: If there are more or fewer, or one has more bits.
    """
    beats = [int(line, 16) for line in text.split()]
    if len(beats) != count or any(beat >> bits for beat in beats):
        raise ConfigError(
            "a memory file does not fit its memory",
            node=file,
            got=f"{len(beats)} beats",
            expected=f"{count} beats of {bits} bits",
            remedy="take it from a bundle of the same design",
        )
    return beats
