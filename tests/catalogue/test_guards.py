"""Every check of parameters refuses what it says it refuses, and nothing that is legal."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from mase_hw.hardware.library import library_modules, with_dependences
from mase_hw.simulate.build.tools import BuildTools
from tests.rtl import LIBRARY

from .elaborate import elaborate
from .guards import GUARD, Guard, guards_of
from .harness import HARDWARE_OPS, hardware_of
from .headers import read_header
from .test_lint import verilate

FILES = sorted(LIBRARY.glob("*/*.sv"))
GUARDS = [guard for path in FILES for guard in guards_of(path)]
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)

# What no format, shape, rounding or overflow may be, by the parameter. Often it is a part of the module that refuses.
NEVER = {
    r"\w+_PRECISION_0": (0, -3),
    r"\w+_SIGNED": (2, -1),
    r"DATA_IN_0_(?:TENSOR_SIZE|PARALLELISM)_DIM_\d": (0,),
    r"DATA_OUT_0_(?:TENSOR_SIZE|PARALLELISM)_DIM_\d": (0,),
    "ROUNDING": (5, -1),
    "OVERFLOW": (2, -1),
}
# Parameters that mean nothing in the smallest design: of inputs that it does not have; of a cast that is in its table.
UNUSED = {"fixed_concat": r"DATA_IN_[23]_\w+", "fixed_function": "ROUNDING|OVERFLOW"}


@functools.cache
def paths(module: str) -> list[Path]:
    """The files of a module and its parts."""
    return [LIBRARY / file for file in with_dependences([library_modules()[module]])]


@every_file
def test_default_parameters_are_legal(path: Path) -> None:
    """They are the smallest ones of most modules: one lane, one element. What is refused differs from them."""
    assert elaborate(paths(path.stem), path.stem, {}, reached=False).accepted


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.id)
def test_guard(guard: Guard, tools: BuildTools) -> None:
    """Each set of parameters ends at this very ``$fatal``, in the words of its module; Verilator ends too."""
    files = paths(guard.module)
    for refused in guard.refused:
        fatal = elaborate(files, guard.module, refused, reached=False).fatal
        assert (own := guard.messages(files[-1], fatal)), f"{refused} is not refused; what is: {list(fatal.values())}"
        assert all(re.match(rf"{guard.part or guard.module}\b.*: ", message) for message in own)
    for taken in guard.taken:
        found = elaborate(files, guard.module, taken, reached=False)
        assert not guard.messages(files[-1], found.fatal) and not found.errors, f"{taken}: {found}"
    relative = with_dependences([library_modules()[guard.module]])
    code, output = verilate(tools, LIBRARY, guard.module, relative, guard.refused[0])
    # It may stop at a consequence before it comes to the guard.
    assert code != 0 and re.search(r"USERFATAL|^%Error", output, re.MULTILINE), output


@every_file
def test_every_fatal_is_a_guard_or_an_assertion(path: Path) -> None:
    """None is written in a way that these tests do not see; every module has guards."""
    outside = re.sub(r"`ifndef SYNTHESIS.*?`(?:else|endif)", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    own = [guard for guard in guards_of(path) if not guard.part]
    assert outside.count("$fatal") == len(GUARD.findall(outside)) == len(own)


@pytest.mark.parametrize("file", sorted({hardware_of(op).file for op in HARDWARE_OPS}))
def test_no_op_takes_what_cannot_be(file: str) -> None:
    module = Path(file).stem
    for parameter in read_header(LIBRARY / file).parameters:
        unused = re.fullmatch(UNUSED.get(module, "-"), parameter.name)
        for pattern, values in NEVER.items():
            if parameter.kind == "parameter" and re.fullmatch(pattern, parameter.name):
                given = [{parameter.name: value} for value in values]
                refused = [bool(elaborate(paths(module), module, one, reached=False).fatal) for one in given]
                assert all(refused) != bool(unused), f"{parameter.name} of {values}"
