"""What is changed in generated C++ for long runs: only what means the same, and the models say and do the same."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mase_hw.resources import sim_root
from mase_hw.simulate.build.tools import BuildTools
from mase_hw.simulate.engines.batch.checks import rare_first
from mase_hw.simulate.engines.batch.copies import as_memory
from mase_hw.simulate.engines.batch.kept import kept
from mase_hw.simulate.engines.batch.shadows import in_place
from mase_hw.simulate.engines.batch.statements import Change, Function, edited, functions
from mase_hw.simulate.engines.batch.sums import Layout, levels


def function(body: str) -> str:
    return f"void Vtop___024root___nba_sequent__TOP__0(Vtop___024root* vlSelf) {{\n    // Body\n{body}}}\n"


def changed(body: str, change: Callable[[Function, str], list[Change]]) -> str:
    """The statements after a change, without blanks at the ends of lines and empty lines."""
    text = function(body)
    (found,) = functions(text)
    made = edited(text, change(found, text)).removeprefix(function("")[:-2]).removesuffix("}\n")
    return "".join(f"{line.rstrip()}\n" for line in made.splitlines() if line.strip())


# Registers in place.

COUNTER = """\
    __Vdly__n = vlSelfRef.n;
    if (vlSelfRef.rst) {
        __Vdly__n = 0U;
    } else if ((1U & vlSelfRef.n)) {
        __Vdly__n = (7U & ((IData)(1U) + (IData)(vlSelfRef.n)));
    }
    vlSelfRef.m = vlSelfRef.k;
    vlSelfRef.n = __Vdly__n;
    vlSelfRef.o = vlSelfRef.n;
"""


def in_their_place(found: Function, text: str) -> list[Change]:
    return in_place(found)


def test_a_counter_is_written_in_place() -> None:
    lines = [line for line in COUNTER.splitlines(keepends=True) if "__Vdly__n = vl" not in line]
    wanted = "".join(line for line in lines if "= __Vdly__n" not in line).replace("__Vdly__n", "vlSelfRef.n")
    assert changed(COUNTER, in_their_place) == wanted


READ = {
    "read after it was written": COUNTER.replace("vlSelfRef.k;", "vlSelfRef.n;"),
    "read under another object": COUNTER.replace("vlSelfRef.k;", "vlSymsp->TOP.n;"),
    "read by a call": COUNTER.replace("vlSelfRef.m = vlSelfRef.k;", "call(&vlSelfRef.n);"),
    "read in the branch that writes it": COUNTER.replace(
        "__Vdly__n = 0U;", "__Vdly__n = 0U;\n        vlSelfRef.p = vlSelfRef.n;"
    ),
    "the copy is read": COUNTER.replace("vlSelfRef.k;", "__Vdly__n;"),
    "written again": COUNTER + "    __Vdly__n = 1U;\n",
    "written otherwise": COUNTER + "    vlSelfRef.n = 1U;\n",
    "never put back": COUNTER.replace("    vlSelfRef.n = __Vdly__n;\n", ""),
    "put back in one case": COUNTER.replace(
        "    vlSelfRef.n = __Vdly__n;\n", "    if (vlSelfRef.k) {\n        vlSelfRef.n = __Vdly__n;\n    }\n"
    ),
    "written before": "    __Vdly__n = 3U;\n" + COUNTER,
    "a part of it": COUNTER.replace("__Vdly__n = vlSelfRef.n;\n", "__Vdly__n[0U] = vlSelfRef.n;\n", 1),
    "of another function": COUNTER.replace("__Vdly__n", "vlSelfRef.__Vdly__n"),
}


@pytest.mark.parametrize("case", READ)
def test_a_copy_that_can_be_told_from_its_register_stays(case: str) -> None:
    assert READ[case] != COUNTER
    assert changed(READ[case], in_their_place) == READ[case]


# Checks.

CHECK = """\
    if (VL_UNLIKELY(((((IData)(vlSelfRef.a__DOT__armed_q) & (~ (IData)(vlSelfRef.rst))) & (2U < vlSelfRef.n))))) {
        VL_STOP_MT("invariant.sv", 27, "", false);
    }
    vlSelfRef.a__DOT__armed_q = ((IData)(vlSelfRef.a__DOT__armed_q) | (IData)(vlSelfRef.rst));
    vlSelfRef.m = vlSelfRef.k;
"""


def test_a_check_looks_at_what_is_broken_first() -> None:
    assert (
        changed(CHECK, rare_first)
        == """\
    if (VL_UNLIKELY(((1U & (2U < vlSelfRef.n)))) && ((IData)(vlSelfRef.a__DOT__armed_q) & (~ (IData)(vlSelfRef.rst)))) {
        VL_STOP_MT("invariant.sv", 27, "", false);
    }
    vlSelfRef.m = vlSelfRef.k;
    if (vlSelfRef.rst) {
        vlSelfRef.a__DOT__armed_q = ((IData)(vlSelfRef.a__DOT__armed_q) | (IData)(vlSelfRef.rst));
    }
"""
    )


CONDITIONS = {
    "no flag": CHECK.replace("(IData)(vlSelfRef.a__DOT__armed_q) & ", "", 1),
    "not of reset": CHECK.replace("(~ (IData)(vlSelfRef.rst))) &", "((IData)(vlSelfRef.rst))) &", 1),
    "another operator": CHECK.replace(" & (2U <", " | (2U <"),
    "two operators": CHECK.replace("(2U < vlSelfRef.n)", "(2U < vlSelfRef.n) ^ (IData)(vlSelfRef.k)"),
    "an effect": CHECK.replace("(2U < vlSelfRef.n)", "(vlSelfRef.n = vlSelfRef.k)"),
}


@pytest.mark.parametrize("case", CONDITIONS)
def test_another_condition_stays(case: str) -> None:
    assert CONDITIONS[case] != CHECK
    first = CONDITIONS[case].splitlines()[0]
    assert changed(CONDITIONS[case], rare_first).splitlines()[0] == first


@pytest.mark.parametrize(
    "wrong",
    [
        CHECK.replace("vlSelfRef.k;", "vlSelfRef.a__DOT__armed_q;"),
        CHECK.replace("vlSelfRef.m =", "vlSelfRef.rst ="),
        CHECK.replace("= ((IData)(vlSelfRef.a__DOT__armed_q) |", "= ((IData)(vlSelfRef.b__DOT__armed_q) |"),
    ],
)
def test_a_flag_that_is_used_again_is_set_where_it_was(wrong: str) -> None:
    assert wrong.splitlines()[-2:] == changed(wrong, rare_first).splitlines()[-2:]


# Results that are kept.

CAST = "((0x000000ffU & ({0} >> 3U)) + ((0x000000ffU & ({0} >> 5U)) ^ (({0} << 1U) | (3U & ({0} - 2U)))))"
RESULTS = f"""\
    vlSelfRef.x = {CAST.format("vlSelfRef.data")};
    vlSelfRef.other = vlSelfRef.k;
    vlSelfRef.y = {CAST.format("vlSelfRef.data")};
    vlSelfRef.z = ({CAST.format("vlSelfRef.x")} + (IData)(vlSelfRef.y));
"""
SIZES = {"data": 16}


def guarded(body: str, sizes: dict[str, int] | None = None, elsewhere: Counter[str] | None = None) -> str:
    def change(found: Function, text: str) -> list[Change]:
        return [
            each
            for group in kept(found, text, SIZES if sizes is None else sizes, elsewhere or Counter())
            for each in group
        ]

    return changed(body, change)


def test_results_are_computed_if_what_they_follow_from_has_changed() -> None:
    text = guarded(RESULTS)
    assert text.startswith("    vlSelfRef.other = vlSelfRef.k;\n    {\n        static QData was_0 = ~0ULL;\n")
    assert "if ((is_0 ^ was_0)) {" in text and text.count("vlSelfRef.data;") == 1
    for line in RESULTS.splitlines():
        assert text.count(line.strip()) == 1
    assert "!known" in guarded(RESULTS, {"data": 64}), "any number of 64 bits may be the first"


def test_a_variable_of_the_function_is_restored() -> None:
    text = guarded(RESULTS.replace("vlSelfRef.y", "y") + "    if (y) {\n        vlSelfRef.w = 1U;\n    }\n")
    assert "static decltype(y) result_1;" in text and text.index("y = result_1;") < text.index("if (y) {")


UNSAFE = {
    "something writes what it reads": RESULTS.replace("vlSelfRef.other =", "vlSelfRef.data ="),
    "something reads the result before": RESULTS.replace(
        "vlSelfRef.other = vlSelfRef.k;", "if (vlSelfRef.x) {\n        vlSelfRef.other = 1U;\n    }"
    ),
    "a call may do either": RESULTS.replace("vlSelfRef.other = vlSelfRef.k;", "call(&vlSelfRef.data);"),
}


@pytest.mark.parametrize("case", UNSAFE)
def test_nothing_is_moved_past_what_it_has_to_do_with(case: str) -> None:
    """What comes after it may still be kept; the first result may not."""
    text = guarded(UNSAFE[case])
    assert UNSAFE[case] != RESULTS and text.startswith(UNSAFE[case].splitlines()[0])


@pytest.mark.parametrize(
    ("body", "elsewhere"),
    [
        (RESULTS, Counter(x=2, y=2, z=2)),
        (RESULTS + "".join(f"    vlSelfRef.{name} = 0U;\n" for name in "xyz"), Counter()),
        (RESULTS.replace("0x000000ffU &", "VL_RANDOM_I() &"), Counter()),
        (RESULTS.replace("3U & (", "vlSelfRef.k ? 3U : ("), Counter()),
        (RESULTS.replace("vlSelfRef.data", "vlSelfRef.x"), Counter()),
    ],
    ids=["written elsewhere", "written twice", "with an effect", "too little that is known", "of itself"],
)
def test_other_results_are_not_kept(body: str, elsewhere: Counter[str]) -> None:
    if "vlSelfRef.k ?" in body:
        body = body.replace("vlSelfRef.data", "vlSelfRef.data[vlSelfRef.n]")  # which may be read only if k is 1
    assert "static" not in guarded(body, elsewhere=elsewhere)


# Sums, and copies of wide registers.


def sums(count: int, bits: int = 17) -> str:
    mask = (2 << bits) - 1
    lines = []
    for i in range(count):
        if bits == 16:
            left, right = f"(0x0000ffffU & vlSelfRef.p[{i}U])", f"(vlSelfRef.p[{i}U] >> 0x00000010U)"
        else:
            left, right = f"vlSelfRef.a{2 * i}", f"vlSelfRef.a{2 * i + 1}"
        sides = [f"VL_EXTENDS_II({bits + 1},{bits}, {side})" for side in (left, right)]
        lines.append(f"    vlSelfRef.s{i} = (0x{mask:08x}U & ({sides[0]} + {sides[1]}));\n")
    return "".join(lines)


def layout(folder: Path, change: Callable[[str], str] = lambda text: text) -> Layout:
    names = [*(f"a{i}" for i in range(8)), *(f"s{i}" for i in range(4))]
    text = "".join(f"    IData/*17:0*/ {name};\n" for name in names) + "    VlWide<4>/*127:0*/ p;\n"
    (folder / "Vtop.h").write_text(change(text))
    return Layout(folder)


def added(body: str, place: Layout) -> str:
    return changed(body, lambda found, text: levels(found, text, place))


def test_a_level_of_a_tree_becomes_a_call(tmp_path: Path) -> None:
    place = layout(tmp_path)
    assert added(sums(4), place) == "    batch::sums<4, 17>(&vlSelfRef.s0, &vlSelfRef.a0);\n"
    assert added(sums(3, 16), place) == "    batch::sums_of_16<3>(&vlSelfRef.s0, &vlSelfRef.p);\n"
    assert added(sums(1), place) == sums(1)


SUMS: dict[str, Callable[[str], str]] = {
    "another mask": lambda text: text.replace("0x0003ffffU", "0x0001ffffU"),
    "another width": lambda text: text.replace("(18,17,", "(18,16,"),
    "a difference": lambda text: text.replace(" + ", " - "),
    "another operand": lambda text: text.replace("a3)", "a5)"),
    "operands in another order": lambda text: text.replace("a0", "x").replace("a1", "a0").replace("x", "a1"),
}


@pytest.mark.parametrize("change", SUMS)
def test_other_sums_stay(tmp_path: Path, change: str) -> None:
    wrong = SUMS[change](sums(2))
    assert wrong != sums(2) and added(wrong, layout(tmp_path)) == wrong


@pytest.mark.parametrize("name", ["a1", "s1"])
def test_variables_that_lie_elsewhere_stay(tmp_path: Path, name: str) -> None:
    line = f"    IData/*17:0*/ {name};\n"
    for new in (f"    CData/*7:0*/ more;\n{line}", line.replace("IData", "SData"), f"  }};\n  struct {{\n{line}"):
        assert added(sums(2), layout(tmp_path, lambda text, new=new: text.replace(line, new))) == sums(2)
    layout(tmp_path)
    (tmp_path / "Vtop_other.h").write_text(f"    IData/*17:0*/ {name[0]}0;\n    IData/*17:0*/ b;\n")
    assert added(sums(2), Layout(tmp_path)) == sums(2), "a class that has them otherwise"


SUMMED = r"""
#include "products.h"
#include <cstdio>
static unsigned long wrong, tried, word = 1;
static int64_t number(uint32_t value, int bits) {
  const int64_t whole = int64_t(1) << bits, low = value & (whole - 1);
  return low >= whole / 2 ? low - whole : low;
}
static uint32_t next(int bits) {
  word = word * 6364136223846793005UL + 1442695040888963407UL;
  const uint32_t most = (1U << bits) - 1, value = word >> 24;
  // Random numbers, and those around the ends of the range.
  return (value & 3 ? value >> 3 : (1U << (bits - 1)) - 1 + (value >> 8) % 3) & most;
}
template <int COUNT, int BITS> void check() {
  for (int round = 0; round < 2000; ++round, ++tried) {
    uint32_t from[2 * COUNT], found[COUNT + 1];
    uint16_t halves[2 * COUNT];
    for (int i = 0; i < 2 * COUNT; ++i) from[i] = next(BITS), halves[i] = from[i];
    found[COUNT] = 0xdeadbeef;
    if (BITS == 16) batch::sums_of_16<COUNT>(found, halves);
    else batch::sums<COUNT, BITS>(found, from);
    for (int i = 0; i < COUNT; ++i) {
      const int64_t sum = number(from[2 * i], BITS) + number(from[2 * i + 1], BITS);
      wrong += found[i] != (static_cast<uint64_t>(sum) & ((uint64_t(2) << BITS) - 1));
    }
    wrong += found[COUNT] != 0xdeadbeef;
  }
}
template <int COUNT> void all() { check<COUNT, 16>(), check<COUNT, 17>(), check<COUNT, 20>(), check<COUNT, 29>(); }
int main() {
  all<1>(), all<2>(), all<3>(), all<4>(), all<5>(), all<6>(), all<7>(), all<8>(), all<11>();
  std::printf("%lu of %lu", wrong, tried);
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_the_call_computes_sums(tools: BuildTools, tmp_path: Path, level: str) -> None:
    source, program = tmp_path / "check.cpp", tmp_path / "check"
    source.write_text(SUMMED)
    command = [*tools.compiler, level, "-std=gnu++14", f"-I{sim_root() / 'batch'}", str(source), "-o", str(program)]
    subprocess.run(command, check=True, env=dict(tools.env))
    assert subprocess.run([program], check=True, capture_output=True, text=True).stdout == "0 of 72000"


LOOP = """
    __Vilp3 = 0U;
    while ((__Vilp3 <= 0x0000003fU)) {
        vlSelfRef.net[__Vilp3]
            = vlSelfRef.mem[vlSelfRef.count_q]
            [__Vilp3];
        __Vilp3 = ((IData)(1U) + __Vilp3);
    }
"""
WORDS = "".join(f"\n    vlSelfRef.b_q[{i}U] = vlSymsp->TOP.weight[{40 + i}U];" for i in range(4)) + "\n"


def test_words_are_copied_as_memory() -> None:
    copy = "__Vilp3 = 64U;\n    std::memcpy(&vlSelfRef.net[0U], &vlSelfRef.mem[vlSelfRef.count_q][0U], 256U);"
    assert as_memory(LOOP) == f"\n    {copy}\n"
    assert as_memory(WORDS) == "\n    std::memcpy(&vlSelfRef.b_q[0U], &vlSymsp->TOP.weight[40U], 16U);\n"


@pytest.mark.parametrize(
    "wrong",
    [
        LOOP.replace("(1U)", "(2U)"),
        LOOP.replace("vlSelfRef.mem[vlSelfRef.count_q]", "vlSelfRef.net"),
        LOOP.replace("count_q]", "count_q + __Vilp3]"),
        LOOP.replace("            = v", "            = ~ v"),
        LOOP.replace("        __Vilp3 = ((", "        vlSelfRef.m = 0U;\n        __Vilp3 = (("),
        WORDS.replace("42U", "43U"),
        WORDS.replace("b_q[2U]", "b_q[3U]"),
        WORDS.replace("TOP.weight", "TOP.b_q"),
        WORDS.replace("[41U];", "[41U] + 1U;"),
        WORDS.replace("\n    vlSelfRef.b_q[3U]", "\n    vlSelfRef.m = 0U;\n    vlSelfRef.b_q[3U]"),
    ],
)
def test_other_words_stay(wrong: str) -> None:
    assert wrong not in (LOOP, WORDS) and as_memory(wrong) == wrong
