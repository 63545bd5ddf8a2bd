"""Counts the instructions of a freestanding RV32IM program: an interpreter of its image, loaded at address 0."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable

STACK = 1 << 20
"""Bytes of memory; the stack begins at its end."""
DEVICE = 0xF0000000
"""From here on, words are read and written by functions."""
FIELDS = ((0, 127), (7, 31), (12, 7), (15, 31), (20, 31), (25, 127))
"""Lowest bit and mask of opcode, rd, funct3, rs1, rs2 and funct7."""
MARK = 0xF0001000
"""What is written here names what follows; 0 ends the program."""


def run(image: bytes, read: Callable[[int], int]) -> Counter[int]:
    """Instructions by the mark under which they were executed.

    Args:
        image: The program, which begins with its first instruction.
        read: The word at an offset of the device.

    Raises:
        ValueError: At an instruction that is none of RV32IM, or an address without memory.
    """
    memory = bytearray(image.ljust(STACK, b"\0"))
    x = [0] * 32
    x[2] = STACK - 16
    pc, mark = 0, 1
    counts: Counter[int] = Counter()
    while mark:
        (word,) = struct.unpack_from("<I", memory, pc)
        counts[mark] += 1
        opcode, rd, f3, a, b, f7 = (
            word >> i & m for i, m in ((0, 127), (7, 31), (12, 7), (15, 31), (20, 31), (25, 127))
        )
        p, q, immediate = x[a], x[b], signed(word) >> 20
        after, value = pc + 4, None
        if opcode == 0x13:
            value = alu(f3, p, immediate, f7 & 32 if f3 == 5 else 0)
        elif opcode == 0x33:
            value = multiply(f3, p, q) if f7 == 1 else alu(f3, p, signed(q), f7 & 32)
        elif opcode == 0x03:
            at = p + immediate & 0xFFFFFFFF
            if at >= DEVICE:
                value = read(at - DEVICE)
            else:
                (value,) = struct.unpack_from("<" + "bhi?BH"[f3], memory, at)
        elif opcode == 0x23:
            at = p + (immediate & ~31 | rd) & 0xFFFFFFFF
            if at == MARK:
                mark = q
            elif at < DEVICE:
                size = 1 << f3
                memory[at : at + size] = (q & (1 << 8 * size) - 1).to_bytes(size, "little")
        elif opcode == 0x63:
            less = (p < q) if f3 & 2 else (signed(p) < signed(q))
            if (less if f3 & 4 else p == q) != bool(f3 & 1):
                offset = (signed(word) >> 31) << 12 | (rd & 1) << 11 | (f7 & 63) << 5 | rd & 30
                after = pc + offset
        elif opcode == 0x6F:
            offset = (signed(word) >> 31) << 20 | word & 0xFF000 | (word >> 20 & 1) << 11 | word >> 20 & 0x7FE
            value, after = pc + 4, pc + offset
        elif opcode == 0x67:
            value, after = pc + 4, p + immediate & ~1
        elif opcode in (0x37, 0x17):
            value = (word & ~0xFFF) + (pc if opcode == 0x17 else 0)
        elif opcode != 0x0F:  # a fence has nothing to do here
            raise ValueError(f"no instruction of RV32IM at {pc:#x}: {word:#010x}")
        if value is not None and rd:
            x[rd] = value & 0xFFFFFFFF
        pc = after & 0xFFFFFFFF
    return counts


def signed(word: int) -> int:
    """A word of 32 bits as an integer with a sign."""
    return (word & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def alu(f3: int, p: int, q: int, other: int) -> int:
    """The operations of OP and OP-IMM; the second operand has a sign, the first has none."""
    low = q & 31
    if f3 == 0:
        return p - q if other else p + q
    if f3 == 1:
        return p << low
    if f3 == 2:
        return signed(p) < q
    if f3 == 3:
        return p < q & 0xFFFFFFFF
    if f3 == 5:
        return signed(p) >> low if other else p >> low
    return p ^ q if f3 == 4 else p | q if f3 == 6 else p & q


def multiply(f3: int, p: int, q: int) -> int:
    """The operations of M."""
    if f3 < 4:
        return (p if f3 == 3 else signed(p)) * (q if f3 > 1 else signed(q)) >> (32 if f3 else 0)
    s, t = (p, q) if f3 & 1 else (signed(p), signed(q))
    if t == 0:
        return -1 if f3 < 6 else s
    quotient = abs(s) // abs(t) * (1 if (s < 0) == (t < 0) else -1)
    return quotient if f3 < 6 else s - quotient * t
