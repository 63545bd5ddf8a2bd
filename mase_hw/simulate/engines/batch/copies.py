"""Copies of wide registers, word by word in the C++ that Verilator wrote, as copies of memory.

Words of a wide register are copied by a loop, or by a statement each, five or two instructions a word, since the
compiler does not know that source and target are apart. Weights of a layer are hundreds of bits.
"""

from __future__ import annotations

import re

from mase_hw.simulate.engines.batch.statements import last_part

LEAST = 4
"""Words from which a copy of memory is worth it."""

_VARIABLE = r"(?:vlSelfRef\.|vlSymsp->(?:\w+\.)+)?\w+"
_LOOP = re.compile(
    rf"(?P<i>__Vilp\d+) = 0U;\s*while \(\((?P=i) <= (?P<last>\w+)U\)\) \{{"
    rf"\s*(?P<to>{_VARIABLE})\s*\[(?P=i)\]\s*=\s*(?P<source>{_VARIABLE})(?P<at>(?:\s*\[[^\[\]=;]+\])?)\s*\[(?P=i)\];"
    r"\s*(?P=i) = \(\(IData\)\(1U\) \+ (?P=i)\);\s*\}"
)
_WORD = re.compile(
    rf"\n +(?P<to>{_VARIABLE})\s*\[(?P<number>\w+)U\]\s*=\s*"
    rf"(?P<source>{_VARIABLE})(?P<at>(?:\s*\[[^\[\]=;]+\])?)\s*\[(?P<word>\w+)U\];"
)


def as_memory(text: str) -> str:
    """The same C++ with copies of memory in place of words that are copied one by one, from one variable to another."""
    return _words(_LOOP.sub(_loop, text))


def _loop(found: re.Match[str]) -> str:
    """The copy that a loop over all words is."""
    to, source, last = found["to"], found["source"], int(found["last"], 0)
    # The number of the word must say nothing but the word.
    if last_part(to) == last_part(source) or re.search(rf"\b{found['i']}\b", found["at"]):
        return found[0]
    return f"{found['i']} = {last + 1}U;\n    {_copy(to, 0, source + found['at'], 0, last + 1)}"


def _words(text: str) -> str:
    """The copies that statements of a word each are, where they follow each other."""
    parts, done = [], 0
    run: list[re.Match[str]] = []
    for found in (*_WORD.finditer(text), None):
        if found is not None and run and _continues(run, found):
            run.append(found)
            continue
        if len(run) >= LEAST:
            first = run[0]
            number, word = int(first["number"], 0), int(first["word"], 0)
            copy = _copy(first["to"], number, first["source"] + first["at"], word, len(run))
            parts += [text[done : first.start()], f"\n    {copy}"]
            done = run[-1].end()
        run = [] if found is None or last_part(found["to"]) == last_part(found["source"]) else [found]
    return "".join([*parts, text[done:]])


def _continues(run: list[re.Match[str]], found: re.Match[str]) -> bool:
    last = run[-1]
    same = all(last[key] == found[key] for key in ("to", "source", "at")) and last.end() == found.start()
    return same and all(int(found[key], 0) == int(last[key], 0) + 1 for key in ("number", "word"))


def _copy(to: str, number: int, source: str, word: int, count: int) -> str:
    return f"std::memcpy(&{to}[{number}U], &{source}[{word}U], {4 * count}U);"
