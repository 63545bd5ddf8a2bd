"""Which sources a module has, and a digest of them."""

from __future__ import annotations

import functools
import hashlib
import re

from mase_hw.catalogue import default_catalogue
from mase_hw.hardware.library import source, with_dependences
from mase_hw.host.resources import rtl_root
from mase_hw.opdef import SUPPORT


@functools.cache
def files_of(module: str) -> tuple[str, ...]:
    """The files of a module below ``rtl_templates``, dependencies first."""
    for op in default_catalogue():
        if op.hardware is not None and op.hardware.module == module:
            return op.hardware.files
    return with_dependences((*SUPPORT, f"lib/{module}.sv"))


@functools.cache
def digest_of(module: str) -> str:
    """A digest of its sources, blind to comments and white space."""
    digest = hashlib.sha256()
    for file in sorted(files_of(module)):
        text = source(rtl_root() / file)
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
        digest.update(f"{file}\0{' '.join(text.split())}\0".encode())
    return digest.hexdigest()[:12]
