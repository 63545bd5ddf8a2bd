"""What is changed in generated C++ for long runs: only what means the same, and the models say and do the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from mase_hw.simulate.engines.batch.checks import rare_first
from mase_hw.simulate.engines.batch.copies import as_memory
from mase_hw.simulate.engines.batch.kept import kept
from mase_hw.simulate.engines.batch.shadows import in_place
from mase_hw.simulate.engines.batch.statements import Change, Function, edited, functions


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


# Copies of wide registers.

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
