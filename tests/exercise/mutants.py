"""A design with faults in its library that are chosen when the simulation starts, so that one build serves all."""

from __future__ import annotations

import shutil
from pathlib import Path

import mase_hw

CHOICE = """
  int unsigned mutant[1];
  initial $readmemh("mem/mutant.mem", mutant);
  logic unused_mutant;
  assign unused_mutant = &{1'b0, mutant[0]};
"""
READY, FULL, TIE = 1, 2, 3
MUTANTS: dict[str, dict[int, tuple[str, str]]] = {
    # The skid buffer never says that it is not ready: a beat that comes then is lost.
    "skid_buffer": {READY: ("        in_ready <= 1'b0;\n", "        in_ready <= (mutant[0] == {n});\n")},
    # The FIFO takes a beat when it is full, and loses it.
    "stream_fifo": {
        FULL: (
            "  assign in_ready  = count != CountW'(DEPTH);\n  assign out_valid = count != '0;\n"
            "  assign push      = in_valid && in_ready;\n",
            "  assign in_ready  = count != CountW'(DEPTH) || mutant[0] == {n};\n  assign out_valid = count != '0;\n"
            "  assign push      = in_valid && count != CountW'(DEPTH);\n",
        )
    },
    # What lies between two numbers below zero goes to the upper one, be it odd.
    "fixed_mac_lane": {
        TIE: ("sum[Drop] && !tie}", "sum[Drop] && !(tie && !(mutant[0] == {n} && sum[ACC_WIDTH-1]))}}"),
    },
}


def with_mutants(design: mase_hw.Design, folder: Path) -> mase_hw.Design:
    """A copy of a bundle with all of them; none is chosen."""
    shutil.copytree(design.path, folder)
    for module, places in MUTANTS.items():
        file = folder / "rtl" / "lib" / f"{module}.sv"
        text = file.read_text()
        for number, (right, wrong) in places.items():
            assert text.count(right) == 1, f"{module}.sv has changed: {right}"
            text = text.replace(right, wrong.format(n=number))
        head, begin, body = text.partition("\n);\n")
        file.write_text(f"{head}{begin}{CHOICE}{body}")
    choose(folder, 0)
    return mase_hw.Design(folder, design.graph, verify=False)


def choose(folder: Path, mutant: int) -> None:
    """Switch a mutant on, and all others off."""
    (folder / "mem" / "mutant.mem").write_text(f"{mutant:x}\n")
