"""The faults themselves: what is mutated, into what, and under which name."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping

import pytest

from mase_hw.host.resources import PACKAGE
from tests.catalogue.elaborate import elaborate
from tests.rtl import LIBRARY

from . import golden_edits, rtl_edits
from .mutant import Mutant, named, sample

MODULE = """\
module example #(
    parameter int N = 3,  // the default of a parameter is no hardware
    localparam int W = N + 1
) (
    input  logic         clk,
    input  logic         rst,
    input  logic [W-1:0] a,
    output logic [W-1:0] b
);
  if (N < 1) begin : g_bad
    $fatal(1, "example: N %0d", N);
  end
  always_ff @(posedge clk) begin
    if (rst) begin
      b <= '0;
    end else if (a[0] && !a[1]) begin
      b <= {a[1:0], 2'd1} >> 1;
    end
  end
`ifndef SYNTHESIS
  always_ff @(posedge clk) assert (a != 7);
`endif
  invariant #(.MESSAGE("both")) u_both (.clk(clk), .rst(rst), .broken(b[0] && b[1]));
  unread u_unread (.unused(&{1'b0, clk}));
endmodule
"""
RTL = {
    "arithmetic N + 1": ["N - 1"],
    "constant N + 1": ["N + 0", "N + 2"],
    "relational N < 1": ["N <= 1", "N >= 1"],
    "constant N < 1": ["N < 0", "N < 2"],
    "reset if (rst)": ["if (1'b0)"],
    "drop b <= '0;": [";"],
    "constant b <= '0": ["b <= '1"],
    "condition a[0] && !a[1]": ["!(a[0] && !a[1])"],
    "logical a[0] && !a[1]": ["a[0] || !a[1]"],
    "unary a[0] && !a[1]": ["a[0] && a[1]"],
    "constant a[0]": ["a[1]"],
    "constant !a[1]": ["!a[0]", "!a[2]"],
    "select a[1:0]": ["a[(1) + 1:(0) + 1]", "a[(1) - 1:(0) - 1]"],
    "swap {a[1:0], 2'd1}": ["{2'd1, a[1:0]}"],
    "constant 2'd1": ["2'd0", "2'd2"],
    "swap {a[1:0], 2'd1} >> 1": ["(1) >> ({a[1:0], 2'd1})"],
    "shift {a[1:0], 2'd1} >> 1": ["{a[1:0], 2'd1} << 1"],
    "constant >> 1;": [">> 0;", ">> 2;"],
    "drop b <= {a[1:0], 2'd1} >> 1;": [";"],
}


def changes(mutants: list[Mutant], text: str) -> Counter[tuple[str, str]]:
    """Kind and mutated text of every mutant."""
    return Counter((m.edit.operator, m.apply(text)) for m in mutants)


def stated(table: Mapping[str, list[str]], text: str) -> Counter[tuple[str, str]]:
    """Those of a table: by kind and text, what stands there instead."""
    expected: Counter[tuple[str, str]] = Counter()
    for key, replacements in table.items():
        kind, old = key.split(" ", 1)
        assert text.count(old) == 1, old
        expected += Counter((kind, text.replace(old, new)) for new in replacements)
    return expected


def test_every_fault_of_a_module() -> None:
    """All of them and no others: not in defaults, widths, messages, assertions or sinks of unused signals."""
    found = changes(named("example.sv", MODULE, rtl_edits.edits("example.sv", MODULE)), MODULE)
    assert found == stated(RTL, MODULE)


def test_guards_are_told_apart() -> None:
    mutants = named("example.sv", MODULE, rtl_edits.edits("example.sv", MODULE))
    assert {m.line for m in mutants if m.edit.guard} == {10}
    assert all(m.line != 10 for m in mutants if not m.edit.guard)


PYTHON = '''\
def given(x: int, y: int = 4) -> int:
    """The default and this 1 are no faults."""
    z = x - 2
    if x < y or not z:
        raise ValueError(f"{x} is below {1}")
    z = min(z, 3)
    return z if x & 1 else -x


def other() -> int:
    return 7
'''
GOLDEN = {
    "arithmetic x - 2": ["((x) + (2))"],
    "swap x - 2": ["((2) - (x))"],
    "constant x - 2": ["x - 3", "x - 1"],
    "condition x < y or not z": ["not (x < y or not z)"],
    "logical x < y or not z": ["((x < y) and (not z))"],
    "relational x < y": ["(x <= y)", "(x >= y)"],
    "unary not z": ["(z)"],
    "drop z = min(z, 3)": ["pass"],
    "constant z, 3": ["z, 4", "z, 2"],
    "condition x & 1": ["not (x & 1)"],
    "logical x & 1": ["((x) | (1))"],
    "constant x & 1": ["x & 2", "x & 0"],
    "unary -x": ["(x)"],
}


def test_every_fault_of_a_function() -> None:
    """All of them and no others: not in signatures, docstrings or what is raised, nor in other functions."""
    found = changes(named("given.py", PYTHON, golden_edits.edits(PYTHON, {"given"})), PYTHON)
    assert found == stated(GOLDEN, PYTHON)


def test_names_stay_when_other_lines_change() -> None:
    before = {m.id: m.change(MODULE) for m in named("m.sv", MODULE, rtl_edits.edits("m.sv", MODULE))}
    longer = MODULE.replace("  unread", "  // more\n  logic more;\n  assign more = a == 2;\n  unread")
    after = {m.id: m.change(longer) for m in named("m.sv", longer, rtl_edits.edits("m.sv", longer))}
    assert len(before) == len(set(before)) and before.items() <= after.items()
    assert len(after) > len(before)
    # Nor does the choice: what was chosen of the old ones still is, unless a new one takes its place.
    old, new = (sample(named("m.sv", t, rtl_edits.edits("m.sv", t)), 12, 3) for t in (MODULE, longer))
    assert {m.id for m in new} <= {m.id for m in old} | (set(after) - set(before))


def test_equal_lines_have_different_names() -> None:
    text = "module m (output logic a, output logic b);\n  assign a = 1'b0;\n  assign a = 1'b0;\nendmodule\n"
    assert len({m.id for m in named("m.sv", text, rtl_edits.edits("m.sv", text))}) == 2


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("lib/*.sv")), ids=lambda path: path.stem)
def test_mutants_of_modules_are_systemverilog(path: object) -> None:
    """Each can at least be parsed: what it means is another question."""
    text = path.read_text(encoding="utf-8")  # type: ignore[attr-defined]
    mutants = named(path.stem, text, rtl_edits.edits(path.stem, text))  # type: ignore[attr-defined]
    for mutant in sample(mutants, 12, 5):
        found = elaborate([("mutant.sv", mutant.apply(text))], path.stem, {})  # type: ignore[attr-defined]
        assert not [error for error in found.errors if "Expected" in error], mutant.change(text)


def test_mutants_of_goldens_are_python() -> None:
    for path in (PACKAGE / "numerics" / "integer_cast.py", PACKAGE / "ops" / "_piecewise.py"):
        text = path.read_text(encoding="utf-8")
        names = set(golden_edits.functions(ast.parse(text)))
        mutants = named(path.name, text, golden_edits.edits(text, names))
        assert len(mutants) > 100
        for mutant in sample(mutants, 60, 5):
            ast.parse(mutant.apply(text))
            assert golden_edits.function_at(text, mutant.line) in names
