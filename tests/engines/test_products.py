"""Rows of products in generated C++: replaced where they are shown to be just that, and nowhere else."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import mase_hw
from mase_hw.resources import sim_root
from mase_hw.simulate.build.tools import BuildTools
from mase_hw.simulate.engines.batch.products import rewritten, vectorise


def operand(name: str, lane: int, width: int, signs: int) -> str:
    """A byte of a variable, as Verilator extends it to 16 bits."""
    if width > 64:
        value = f"(vlSelfRef.{name}[{lane // 4}U] \n >> 0x{lane % 4 * 8:08x}U)"
    elif width > 32:
        value = f"(IData)(\n (vlSelfRef.{name} >> {lane * 8}U))"
    else:
        value = f"(vlSelfRef.{name} >> {lane * 8}U)"
    return f"(0x0000ffffU & VL_EXTENDS_II(16,{signs}, (0x000000ffU & {value})))"


def product(lane: int, lanes: int, signs: tuple[int, int] = (9, 8)) -> str:
    left, right = (operand(name, lane, 8 * lanes, s) for name, s in zip("ab", signs, strict=True))
    return f"VL_MULS_III(16, {left}, {right})"


def words(lanes: int, signs: tuple[int, int] = (9, 8), to: str = "p") -> str:
    """The statements of a row, one for every 32 bits of an array."""
    text = "\n"
    for word in range((lanes + 1) // 2):
        value = f"(0x0000ffffU & {product(2 * word, lanes, signs)})"
        if 2 * word + 1 < lanes:
            value = f"(({product(2 * word + 1, lanes, signs)} << 0x00000010U) | {value})"
        text += f"    vlSelfRef.{to}[{word}U] = {value};\n"
    return text + "    more();\n"


def widths(lanes: int) -> dict[str, int]:
    return {"a": 8 * lanes, "b": 8 * lanes, "c": 8 * lanes, "p": 16 * lanes}


@pytest.mark.parametrize(("lanes", "held"), [(5, 6), (8, 8), (9, 10), (16, 16)])
@pytest.mark.parametrize("signs", [(8, 8), (9, 8), (8, 9), (9, 9)])
def test_a_row_becomes_a_call(lanes: int, held: int, signs: tuple[int, int]) -> None:
    text, rows = rewritten(words(lanes, signs), widths(lanes))
    flags = ", ".join("true" if s == 8 else "false" for s in signs)
    call = f"batch::products<{held}, {flags}>(&vlSelfRef.p, &vlSelfRef.a, &vlSelfRef.b);"
    assert (text, rows) == (f"\n    {call}\n    more();\n", 1)


def test_four_lanes_of_one_number_become_a_call() -> None:
    low, high = (f"(({product(i + 1, 4)} << 0x00000010U) | (0x0000ffffU & {product(i, 4)}))" for i in (0, 2))
    text = f"\n    vlSelfRef.p = (((QData)((IData)({high})) << 0x00000020U) | (QData)((IData)({low})));\n"
    assert rewritten(text, widths(4))[0].strip() == (
        "batch::products<4, false, true>(&vlSelfRef.p, &vlSelfRef.a, &vlSelfRef.b);"
    )


WRONG: dict[str, Callable[[str], str]] = {
    "another lane": lambda text: text.replace("vlSelfRef.a >> 8U", "vlSelfRef.a >> 16U", 1),
    "bits between lanes": lambda text: text.replace("vlSelfRef.b >> 8U", "vlSelfRef.b >> 9U", 1),
    "a narrower mask": lambda text: text.replace("0x000000ffU", "0x0000007fU", 1),
    "a result that is cut": lambda text: text.replace("(0x0000ffffU & VL_MULS", "(0x00007fffU & VL_MULS", 1),
    "another sign": lambda text: text.replace("VL_EXTENDS_II(16,9,", "VL_EXTENDS_II(16,8,", 1),
    "a sign in the middle": lambda text: text.replace("VL_EXTENDS_II(16,8,", "VL_EXTENDS_II(16,7,", 1),
    "another variable": lambda text: text.replace("vlSelfRef.a", "vlSelfRef.c", 1),
    "one variable twice": lambda text: text.replace("vlSelfRef.b", "vlSelfRef.a"),
    "its own result": lambda text: text.replace("vlSelfRef.b", "vlSelfRef.p"),
    "another width": lambda text: text.replace("VL_MULS_III(16,", "VL_MULS_III(15,", 1),
    "a sum": lambda text: text.replace(" << 0x00000010U) |", " << 0x00000010U) +", 1),
    "a shift too far": lambda text: text.replace(" << 0x00000010U) |", " << 0x0000000fU) |", 1),
    "an inversion": lambda text: text.replace("(0x000000ffU &", "(0x000000ffU & ~", 1),
    "a word that is missing": lambda text: text[: text.index("    vlSelfRef.p[3U]")],
    "words in another order": lambda text: text.replace("p[2U]", "p[9U]").replace("p[1U]", "p[2U]"),
    "something between": lambda text: text.replace("    vlSelfRef.p[2U]", "    vlSelfRef.a = 0U;\n    vlSelfRef.p[2U]"),
}


@pytest.mark.parametrize("change", WRONG)
def test_whatever_differs_stays(change: str) -> None:
    good = words(8)
    wrong = WRONG[change](good)
    assert wrong != good
    assert rewritten(wrong, widths(8)) == (wrong, 0)


@pytest.mark.parametrize("name", ["a", "b", "p"])
@pytest.mark.parametrize("by", [-1, 1, 8])
def test_storage_that_holds_more_or_less_stays(name: str, by: int) -> None:
    assert rewritten(words(9), {**widths(9), name: widths(9)[name] + by})[1] == 0


def test_a_name_that_classes_use_differently_is_left_alone(tmp_path: Path) -> None:
    declared = "        QData/*63:0*/ a;\n        QData/*63:0*/ b;\n        VlWide<4>/*127:0*/ p;\n"
    (tmp_path / "Vtop.cpp").write_text(words(8))
    (tmp_path / "Vtop.h").write_text(declared)
    (tmp_path / "Vtop_other.h").write_text("        QData/*62:0*/ a;\n")
    assert vectorise(tmp_path) == 0
    (tmp_path / "Vtop_other.h").write_text(declared)
    assert vectorise(tmp_path) == 1
    assert "batch::products<8" in (tmp_path / "Vtop.cpp").read_text()


def test_names_of_any_bytes_are_left_as_they_are(tmp_path: Path) -> None:
    """Netlists have such names."""
    (tmp_path / "Vtop.h").write_bytes(
        b"// \x83\n        QData/*63:0*/ a;\n        QData/*63:0*/ b;\n        VlWide<4>/*127:0*/ p;\n"
    )
    (tmp_path / "Vtop.cpp").write_bytes(b"// \x83\xff\n" + words(8).encode())
    assert vectorise(tmp_path) == 1
    made = (tmp_path / "Vtop.cpp").read_bytes()
    assert made.startswith(b"// \x83\xff\n") and b"batch::products<8" in made


CHECK = r"""
#include "products.h"
#include <cstdio>
static unsigned long wrong, tried, word = 1;
template <int LANES, bool LEFT, bool RIGHT> void check() {
  for (int round = 0; round < 2000; ++round, ++tried) {
    unsigned char a[LANES], b[LANES];
    uint16_t found[LANES + 1];
    for (int i = 0; i < LANES; ++i) {
      word = word * 6364136223846793005UL + 1442695040888963407UL;
      // Random bytes, and those around the ends of the range.
      a[i] = round % 4 ? word >> 40 : 0x7f + (word >> 40) % 3, b[i] = round % 3 ? word >> 50 : 0x7f + (word >> 50) % 3;
    }
    found[LANES] = 0xbeef;
    batch::products<LANES, LEFT, RIGHT>(found, a, b);
    for (int i = 0; i < LANES; ++i) {
      const int left = LEFT && a[i] > 127 ? a[i] - 256 : a[i], right = RIGHT && b[i] > 127 ? b[i] - 256 : b[i];
      wrong += found[i] != static_cast<uint16_t>(left * right);
    }
    wrong += found[LANES] != 0xbeef;
  }
}
template <int LANES> void all() {
  check<LANES, false, false>(), check<LANES, false, true>(), check<LANES, true, false>(), check<LANES, true, true>();
}
int main() {
  all<4>(), all<6>(), all<8>(), all<10>(), all<12>(), all<14>(), all<16>(), all<18>(), all<26>();
  std::printf("%lu of %lu", wrong, tried);
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_the_call_computes_products(tools: BuildTools, tmp_path: Path, level: str) -> None:
    source, program = tmp_path / "check.cpp", tmp_path / "check"
    source.write_text(CHECK)
    command = [*tools.compiler, level, f"-I{sim_root() / 'batch'}", str(source), "-o", str(program)]
    subprocess.run(command, check=True, env=dict(tools.env))
    assert subprocess.run([program], check=True, capture_output=True, text=True).stdout == "0 of 72000"


def test_a_linear_layer_is_simulated_with_rows(tmp_path: Path) -> None:
    """Eight lanes and nine, signed and not: every bit is compared with the quantised model."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(18, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    lanes = {"_0": {"data_in_0": 9}, "_2": {"data_in_0": 8}}
    config = {"hardware": {"max_parallelism": 8, "parallelism": lanes}, "vectors": {"frames": 2, "faults": 4}}
    design = mase_hw.compile(model, torch.randn(1, 18), config, out=tmp_path / "bundle")
    assert design.simulate(engine="batch", work_dir=tmp_path / "work", waves=False).passed
    text = "".join(path.read_text() for path in tmp_path.glob("work/**/model/*.cpp"))
    assert "batch::products<10, true, true>(" in text
    assert "batch::products<8, false, true>(" in text
