"""Which functions of the package a piece of code runs, and how a mutated one takes the place of the original."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

from mase_hw.host.resources import PACKAGE

Name = tuple[str, str]
"""A file below the root of the repository, and the qualified name of a function outside others."""

FORMATS = tuple(f"formats/{name}.py" for name in ("fixed", "multipliers", "scaled"))
NUMBERS = (*FORMATS, *(f"numerics/{name}.py" for name in ("__init__", "exact_sums", "integer_cast")))
"""The arithmetic that every golden is made of."""
GOLDEN = [*(PACKAGE / name for name in NUMBERS), *sorted((PACKAGE / "ops").rglob("*.py"))]
"""Where bits are decided."""
_FILES = {str(path): path.relative_to(PACKAGE.parent).as_posix() for path in GOLDEN}


@contextmanager
def recorded() -> Iterator[set[Name]]:
    """Collect the golden functions that are called in the block."""
    seen: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if frame.f_code not in seen and frame.f_code.co_filename in _FILES:
            seen.add(frame.f_code)

    names: set[Name] = set()
    # Not a profile, which is told of every return and of every function in C as well.
    sys.settrace(note)
    try:
        yield names
    finally:
        sys.settrace(None)
        names |= {(_FILES[code.co_filename], code.co_qualname.split(".<locals>")[0]) for code in seen}


def decide_bits() -> set[Name]:
    """Every function that a golden runs on a case of the catalogue, or that makes the tables of its hardware."""
    import torch

    from mase_hw.numerics import as_carrier, carrier, magnitude
    from tests.catalogue.harness import ITEMS, stimulus

    asked = []
    for it in ITEMS:
        formats = {s.name: s.fmt for s in it.streams}
        tensors = {
            name: as_carrier(torch.from_numpy(tensor[0]), carrier(magnitude(formats[name])))
            for name, tensor in stimulus(it).items()
        }
        asked.append((it.op.golden, it.hardware.memories, it.arithmetic, tensors))
    clear_caches()
    with recorded() as names:
        for golden, memories, arithmetic, tensors in asked:
            assert golden is not None
            golden(arithmetic, tensors)
            memories(arithmetic)
    return names


def clear_caches() -> None:
    """Forget what golden functions have returned: a mutant must not live on what the original computed."""
    for cached in _cached():
        cached.cache_clear()


def _objects() -> list[Any]:
    """Every object, those as well that the tests took out of the search for garbage."""
    gc.unfreeze()
    return gc.get_objects()


def _cached() -> list[Any]:
    """The caches of golden functions; looking through all objects takes as long as many tests do."""
    return _cached_of(len(sys.modules))


@functools.cache
def _cached_of(modules: int) -> list[Any]:
    cached = [found for found in _objects() if type(found) is functools._lru_cache_wrapper]
    return [found for found in cached if _file(found.__wrapped__) in _FILES]


def _file(function: Any) -> str:
    return function.__code__.co_filename if type(function) is FunctionType else ""


class Patches:
    """The live functions of the golden files, by their code."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str, int], list[FunctionType]] = {}
        # By type, not by isinstance: that would wake objects that load modules when they are looked at.
        for found in _objects():
            if _file(found) in _FILES:
                self._functions.setdefault(_key(found.__code__), []).append(found)
        self._caches = _cached()

    def install(self, path: Path, original: str, mutated: str) -> None:
        """Give every live function of a file the code of a mutated source.

        Raises:
            ValueError: If a function would need other variables of the functions around it.
        """
        pairs = zip(_codes(_compiled(original, path)), _codes(_compiled(mutated, path)), strict=True)
        for old, new in pairs:
            if old.co_code != new.co_code or old.co_consts != new.co_consts or old.co_names != new.co_names:
                for function in self._functions.get(_key(old), []):
                    function.__code__ = new
        for cached in self._caches:
            cached.cache_clear()


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _compiled(text: str, path: Path) -> CodeType:
    return compile(text, str(path), "exec", dont_inherit=True)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)
