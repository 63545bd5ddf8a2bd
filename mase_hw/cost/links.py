"""What the two ends of a link between devices take: structure alone, compared with what Yosys maps on Xilinx 7."""

from __future__ import annotations

from math import ceil

from mase_hw.cost.casts import bits_of
from mase_hw.cost.devices import Resources
from mase_hw.cost.model import cost_of
from mase_hw.cost.primitives import counted_down


def sending(width: int, word: int, pace: int, credits: int) -> Resources:
    """A ``link_send``: a beat that shifts by words, a register for a word, and counters.

    Args:
        width: Bits of a beat.
        word: Bits of a word.
        pace: Cycles per word.
        credits: Words that the far side holds.
    """
    words = ceil(width / word)
    left, held, pause = bits_of(words + 1), bits_of(credits + 1), max(bits_of(pace), 1)
    shifted = max(width - word, 0)
    return Resources(shifted + 5 * held // 2 + 2 * left + pause + 2, width + min(width, word) + left + held + pause + 1)


def receiving(width: int, word: int, credits: int, family: str) -> Resources:
    """A ``link_receive``: its FIFO, and the words of a beat that wait for the last one.

    Args:
        width: Bits of a beat.
        word: Bits of a word.
        credits: Words that it holds.
        family: A family with a cost model.
    """
    words = ceil(width / word)
    counter = counted_down(words)
    more = Resources(1, 1) if words == 1 else Resources(3 + counter, 1 + (words - 1) * word + counter)
    # Of a word that holds more than the beat the other bits are not read.
    return cost_of("stream_fifo", {"WIDTH": min(word, width), "DEPTH": credits}, family) + more
