"""Exactly the declared files pass Verilator, Verible, slang and Yosys, with the parameters of every case."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from mase_hw.catalogue import OpDef, verilog_params
from mase_hw.hardware.library import with_dependences
from mase_hw.host.lint import lint
from mase_hw.host.locks import locked
from mase_hw.simulate.build.simulator import FLAGS
from mase_hw.simulate.build.tools import BuildTools, run_tool
from mase_hw.simulate.dut import Dut
from tests.rtl import LIBRARY

from .conftest import Yosys, chosen_groups
from .groups import group_dut, groups
from .harness import HARDWARE_OPS, ITEMS, Item, files_of, hardware_of
from .headers import without_comments
from .memories import file_of
from .often import OFTEN, every_case

every_op = pytest.mark.parametrize("op", HARDWARE_OPS, ids=lambda op: op.name)

# Verilator and slang write the values of parameters, and everything else, differently.
VERILATOR = ("--lint-only", "-Wall", "--assert")


def verilate(
    tools: BuildTools,
    root: Path,
    top: str,
    files: Sequence[str | Path],
    parameters: Mapping[str, int | str],
    *flags: str,
) -> tuple[int, str]:
    """Elaborate a module in Verilator; return the exit code and what it printed, the statistics aside."""
    command = [*tools.verilate, *VERILATOR, "--quiet", *flags, "--top-module", top]
    for name, value in parameters.items():
        literal = f'"{value}"' if isinstance(value, str) else f"32'sh{value & 0xFFFFFFFF:08x}"
        command.append(f"-G{name}={literal}")
    done = run_tool([*command, *(str(root / file) for file in files)], tools.env)
    return done.returncode, done.stdout


@pytest.fixture(scope="session")
def said(request: pytest.FixtureRequest, tools: BuildTools, shared: Path) -> Callable[[Item], tuple[int, str]]:
    """Exit code and complaints about a case; those that come from none of several cases are looked for once."""
    found, made = chosen_groups(request), dict[str, Dut]()

    def complaints(it: Item) -> tuple[int, str]:
        group = found[it.id]
        if group[0].id not in made:  # writing its memories takes longer than all the rest
            made[group[0].id] = group_dut(group, shared / "groups")
        dut = made[group[0].id]
        verdict = shared / "groups" / f"{dut.top}.silent"
        with locked(shared / f"{dut.top}.lint.lock", "the lint"):
            if not verdict.exists():
                verdict.write_text(str(verilate(tools, LIBRARY, dut.top, dut.sources, {}, "-DSYNTHESIS") == (0, "")))
        if verdict.read_text() == "True":
            return 0, ""
        return verilate(
            tools, LIBRARY, it.hardware.module, files_of(it.op), verilog_params(it.case.params), "-DSYNTHESIS"
        )

    return complaints


@every_case
def test_verilator(it: Item, said: Callable[[Item], tuple[int, str]]) -> None:
    """Silent as synthesised: without the assertions, which use signals too.

    As simulated every case is built in ``test_simulation.py``, where no warning is switched off.
    """
    assert said(it) == (0, "")


def test_a_complaint_about_one_of_several_is_seen(tools: BuildTools, shared: Path, tmp_path: Path) -> None:
    group = groups(ITEMS)[0]
    dut = group_dut(group, shared / "groups")
    assert verilate(tools, LIBRARY, dut.top, dut.sources, {}, "-DSYNTHESIS") == (0, "")
    copy = tmp_path / f"{group[0].hardware.module}.sv"
    text = (LIBRARY / group[0].hardware.file).read_text()
    copy.write_text(text.replace("endmodule", "  logic nobody;\n  assign nobody = rst;\nendmodule"))
    sources = [copy if file.name == copy.name else file for file in dut.sources]
    code, log = verilate(tools, LIBRARY, dut.top, sources, {}, "-DSYNTHESIS")
    assert code and "UNUSEDSIGNAL" in log and "nobody" in log


def test_no_warning_is_switched_off_where_cases_are_built() -> None:
    assert {"-Wall", "--assert"} <= set(FLAGS)
    assert not [flag for flag in FLAGS if flag.startswith("-Wno")]


@functools.cache
def complaints_about(file: Path) -> tuple[str, ...]:
    """What Verible says of a file; most belong to many ops."""
    return tuple(lint([file]))


@every_op
def test_verible(op: OpDef) -> None:
    complaints = [line for file in files_of(op) for line in complaints_about(LIBRARY / file)]
    assert not complaints, "\n".join(complaints)


def read_slang(it: Item) -> str:
    """The Yosys command that reads one case from exactly its declared files."""
    values = " ".join(f"-G{name}={value}" for name, value in verilog_params(it.case.params).items())
    if (folder := it.memory_folder) is not None:
        # Unlike simulators, synthesis reads the memories.
        folder = folder.relative_to(LIBRARY.parent)
        values += "".join(f' -G{n}="{folder / file_of(n)}"' for n in it.hardware.memories(it.arithmetic))
    files = " ".join(f"{LIBRARY.name}/{file}" for file in files_of(it.op))
    return f"read_slang -j 1 --ignore-assertions --top {it.hardware.module} {values} {files}"


def yosys_script(items: Sequence[Item], commands: str) -> str:
    """Read each case afresh and run commands on it; a failure is preceded by the name of its case."""
    return "; ".join(f"design -reset; log ==== {it.id} ====; {read_slang(it)}; {commands}" for it in items)


NO_LATCH = "select -assert-none t:$*latch* t:$sr t:$_SR_* t:$_DLATCH*"
# With every register and memory taken out, what an input still reaches is combinational.
CUT = "delete t:$*ff* t:$mem*; select -assert-none t:$*ff* t:$mem*"


OPS_A_RUN = 8
"""Yosys takes a third of a second to start."""


@pytest.fixture(scope="session")
def read(request: pytest.FixtureRequest, yosys: Yosys, shared: Path) -> Callable[[str, OpDef], tuple[int, str]]:
    """Exit code and log of commands on the cases of an op; several ops share a run, unless it fails."""
    given = (getattr(test, "callspec", None) for test in request.session.items)
    chosen = {spec.params["op"].name for spec in given if spec and isinstance(spec.params.get("op"), OpDef)}
    smallest = [it.op for it in SMALLEST.values()]
    others = [op for op in HARDWARE_OPS if _cases(op, False)]
    each = {"slang": HARDWARE_OPS, "others": others, "gates": smallest, "abc": smallest}

    def run(kind: str, op: OpDef) -> tuple[int, str]:
        script, ops = SCRIPTS[kind], [op for op in each[kind] if op.name in chosen]
        begin = ops.index(op) // OPS_A_RUN * OPS_A_RUN
        together = ops[begin : begin + OPS_A_RUN]
        log = shared / f"yosys-{kind}-{begin}.log"
        with locked(shared / f"yosys-{kind}-{begin}.lock", "the lint"):
            if not log.exists():
                code, text = yosys("; ".join(f"{script(other)}; log ==== end" for other in together))
                log.write_text(f"{code}\n{text}")
        code, _, text = log.read_text().partition("\n")
        if code != "0":
            return yosys(script(op))
        return 0, text

    return run


def _cases(op: OpDef, often: bool) -> list[Item]:
    return [it for it in ITEMS if it.op is op and (it.id in OFTEN) == often]


def _every_case(op: OpDef, often: bool = True) -> str:
    commands = f"proc; flatten; opt_clean; check -assert; {NO_LATCH}; {CUT}; "
    commands += "select -assert-none i:*ready %co* o:*valid %i"
    return yosys_script(_cases(op, often), commands)


def _to_gates(op: OpDef, flag: str = " -noabc") -> str:
    smallest = SMALLEST[hardware_of(op).module]
    # Nothing but gates is left, flip-flops among them.
    checks = f"check -assert; {NO_LATCH}; select -assert-any t:$_*DFF*; select -assert-none t:* t:$_* %d"
    return yosys_script([smallest], f"synth{flag} -top {smallest.hardware.module}; {checks}")


def _size(it: Item) -> int:
    """What a case is likely to take: bits that move, and those of its memories."""
    memories = it.hardware.memories(it.arithmetic).values()
    return math.prod(s.bits for s in it.streams) + sum(len(m.words) * m.bits for m in memories)


SMALLEST = {it.hardware.module: it for it in sorted(ITEMS, key=_size, reverse=True)}
"""The smallest case of every module."""
SCRIPTS = {
    "slang": _every_case,
    "others": functools.partial(_every_case, often=False),
    "gates": _to_gates,
    "abc": functools.partial(_to_gates, flag=""),
}


def accepted(op: OpDef, often: bool, read: Callable[[str, OpDef], tuple[int, str]]) -> None:
    """Cases of an op: no complaint, no latch, no combinational loop, and valid never waits for ready."""
    code, log = read("slang" if often else "others", op)
    assert code == 0, log[-3000:]
    for it in _cases(op, often):
        _, _, own = log.partition(f"==== {it.id} ====\n")
        own = own.partition("\n====")[0]
        for line in ("Build succeeded: 0 errors, 0 warnings", "Found and reported 0 problems."):
            assert own.count(line) == 1, re.findall(r"(?i)^.*warning.*$", own, re.MULTILINE)


@every_op
def test_slang(op: OpDef, read: Callable[[str, OpDef], tuple[int, str]]) -> None:
    """The cases of every run."""
    accepted(op, True, read)


@pytest.mark.slow
@pytest.mark.parametrize("op", [op for op in HARDWARE_OPS if _cases(op, False)], ids=lambda op: op.name)
def test_slang_of_the_other_cases(op: OpDef, read: Callable[[str, OpDef], tuple[int, str]]) -> None:
    """The others."""
    accepted(op, False, read)


every_module = pytest.mark.parametrize("op", [it.op for it in SMALLEST.values()], ids=lambda op: hardware_of(op).module)
TO_GATES = ("fixed_linear", "fixed_max_pool2d", "fixed_softmax", "stream_reorder")
"""Modules that every run takes down to gates: one with multipliers, one with windows, a row, and a memory."""
some_modules = pytest.mark.parametrize(
    "op",
    [
        pytest.param(it.op, marks=[pytest.mark.slow] * (module not in TO_GATES), id=module)
        for module, it in SMALLEST.items()
    ],
)


@some_modules
def test_synthesis(op: OpDef, read: Callable[[str, OpDef], tuple[int, str]]) -> None:
    """The smallest case of every module, down to gates.

    Without ABC, which makes fewer gates of them, knows nothing of what was written, and takes three quarters of the
    time; ``tests/synth`` goes through it with whole designs.
    """
    code, log = read("gates", op)
    assert code == 0, log[-3000:]
    _, _, own = log.partition(f"==== {SMALLEST[hardware_of(op).module].id} ====\n")
    own = own.partition("\n==== end")[0]
    # Twice in ``synth``, once as one of the checks.
    assert own.count("Executing CHECK pass") == 3 and "Executing TECHMAP pass" in own, own[-3000:]
    assert own.count("Found and reported 0 problems.") == 3, own[-3000:]


@pytest.mark.slow
@every_module
def test_synthesis_with_abc(op: OpDef, read: Callable[[str, OpDef], tuple[int, str]]) -> None:
    """The same with ABC."""
    code, log = read("abc", op)
    # What Yosys prints after ABC is lost; its exit code is not.
    assert code == 0 and "Executing ABC pass" in log, log[-3000:]


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("*/*.sv")), ids=lambda path: path.stem)
def test_every_module_by_itself(path: Path, tools: BuildTools) -> None:
    """With its default parameters, the smallest ones of most; test_guards.py refuses everything else around them."""
    files = with_dependences([path.relative_to(LIBRARY).as_posix()])
    for flags in ((), ("-DSYNTHESIS",)):
        assert verilate(tools, LIBRARY, path.stem, files, {}, *flags) == (0, "")


FUNCTION = re.compile(r"\bfunction\s+automatic\b[^;(]*?(\w+)\s*\(")


def functions(file: Path) -> set[str]:
    """Names of the functions of a module."""
    return set(FUNCTION.findall(without_comments(file.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("path", [p for p in sorted(LIBRARY.glob("*/*.sv")) if functions(p)], ids=lambda p: p.stem)
def test_functions_hide_none_of_the_modules_below(path: Path) -> None:
    """In large designs Verilator finds the function of an outer module instead, and warns with VARHIDDEN."""
    *below, _ = with_dependences([path.relative_to(LIBRARY).as_posix()])
    assert not {name for file in below for name in functions(LIBRARY / file)} & functions(path)
