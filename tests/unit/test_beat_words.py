"""Words of memory files against plain integers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from mase_hw.errors import ConfigError
from mase_hw.formats import FixedFormat
from mase_hw.hardware.beats import count_words, encode, from_words, to_words
from mase_hw.streams import Stream, to_bits

FORMATS = [(8, 8, True), (5, 3, True), (7, 1, False), (40, 2, True), (70, 2, True), (1, 1, False), (3, 4, True)]


@pytest.mark.parametrize(("width", "lanes", "signed"), FORMATS)
def test_words(width: int, lanes: int, signed: bool) -> None:
    fmt = FixedFormat(width, 0, signed)
    stream = Stream("data_in_0", "in", (8 * lanes,), fmt, (lanes,))
    numbers = random.Random(width)
    ends = [fmt.min_mantissa, fmt.max_mantissa]
    rows = [[numbers.choice([*ends, numbers.randint(*ends)]) for _ in range(lanes)] for _ in range(40)]
    beats = np.array(rows, dtype=object if width > 63 else np.int64)
    text = to_words(stream, beats)
    digits = -(-width * lanes // 4)
    assert text == "".join(f"{to_bits(row, width):0{digits}x}\n" for row in rows)
    assert np.array_equal(from_words(stream, text), beats)
    # Zeros in front may be missing or added by hand, and capitals be used.
    assert np.array_equal(from_words(stream, "\n".join(f"{int(word, 16):X}" for word in text.split())), beats)
    assert len(from_words(stream, "")) == 0 and to_words(stream, beats[:0]) == ""


def test_refused() -> None:
    stream = Stream("data_in_0", "in", (6,), FixedFormat(5, 0), (2,))
    for text in ("3g", "-1", "0x1", "1_0", "400", "12345"):
        with pytest.raises(ValueError, match=r"hexadecimal|more than 10 bits"):
            from_words(stream, text)
    with pytest.raises(ConfigError, match="does not fit"):
        to_words(stream, np.array([[16, 0]]))


@pytest.mark.parametrize("width", [5, 12, 16, 20])
def test_the_order_in_memory_does_not_matter(width: int) -> None:
    """Beats that are a transposed view, as some layouts make them, are the same bytes."""
    stream = Stream("data_in_0", "in", (8,), FixedFormat(width, 0), (4,))
    turned = np.random.default_rng(width).integers(-16, 16, (4, 30)).T
    rows = [
        sum((value & (1 << width) - 1) << width * lane for lane, value in enumerate(row)) for row in turned.tolist()
    ]
    size = (4 * width + 7) // 8
    assert encode(stream, turned) == b"".join(row.to_bytes(size, "little") for row in rows)


def test_words_are_counted_as_python_splits_them() -> None:
    numbers = random.Random(0)
    texts = [bytes(numbers.choices(b"0a \n\t\r\v\f", k=length)) for length in range(40) for _ in range(10)]
    assert [count_words(text) for text in texts] == [len(text.split()) for text in texts]
    assert count_words(bytes(range(256))) == len(bytes(range(256)).split())
