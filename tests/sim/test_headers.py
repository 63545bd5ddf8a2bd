"""The header that units share: without what no design uses, and not in the way of a design that does use it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mase_hw.simulate.build import runtime_cache as headers
from mase_hw.simulate.build.runtime_cache import runtime
from mase_hw.simulate.build.simulator import Built, build
from mase_hw.simulate.build.tools import BuildTools
from mase_hw.simulate.dut import Dut
from tests.sim.conftest import RTL, slice_dut
from tests.sim.test_engine import play

DYNAMIC = """
  // A dynamic array that is packed: what is not in the shared header.
  byte unsigned kept[$];
  logic [31:0] packed_again;
  initial begin
    for (int i = 0; i < 4; i++) kept.push_back(8'(i + 1));
    packed_again = {>>{kept}};
    if (packed_again != 32'h01020304) $fatal(1, "packed as %h", packed_again);
  end
endmodule
"""


def test_only_functions_of_dynamic_arrays_are_left_out(tools: BuildTools) -> None:
    whole = (tools.include / "verilated_funcs.h").read_text(encoding="utf-8")
    left = headers.without_dynamic_arrays(whole)
    functions = re.compile(r"^static inline .*?\b(\w+)\(([^{;]*)\)[^{;()]*\{", re.MULTILINE)
    before, after = functions.findall(whole), functions.findall(left)
    gone = list(before)
    for each in after:
        gone.remove(each)
    assert len(gone) >= 10 and len(after) > 200
    assert all("VlQueue<" in parameters for _, parameters in gone)
    # What goes away is what one of them begins with to what it ends with.
    assert len(whole.splitlines()) - len(left.splitlines()) < 20 * len(gone)
    for begin, end in (("{", "}"), ("#if", "#endif")):
        assert whole.count(begin) - left.count(begin) == whole.count(end) - left.count(end)


def compiled(built: Built) -> list[str]:
    """The commands that compiled the first unit."""
    log = (built.folder / "build.log").read_text()
    return [line for line in log.splitlines() if line.endswith("unit_0.o") and "unit_0.cpp" in line]


def test_a_design_with_a_dynamic_array(tools: BuildTools, work: Path, tmp_path: Path) -> None:
    base = slice_dut()
    source = tmp_path / "faulty_slice.sv"
    text = (RTL / "faulty_slice.sv").read_text()
    body, end, rest = text.rpartition("endmodule\n")
    assert end and not rest.strip()
    source.write_text(body + DYNAMIC)
    built = build(Dut(base.top, (source,), base.parameters, base.streams), tmp_path / "b", cache_dir=work, tools=tools)
    assert play(built, tmp_path / "run").passed
    assert "VL_PACK_" in "".join(p.read_text() for p in (tmp_path / "b" / "model").glob("*.cpp"))
    assert ["runtime.h" in command for command in compiled(built)] == [True, False], "again, with all of Verilator's"
    assert all("runtime.h" in command for command in compiled(build(base, tmp_path / "c", cache_dir=work, tools=tools)))


def test_a_header_that_lacks_something_is_made_whole(
    tools: BuildTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it may be with another version of Verilator."""
    monkeypatch.setenv("MASE_HW_RUNTIME", "")
    monkeypatch.setattr(headers, "without_dynamic_arrays", lambda text: "#error too little is left\n")
    monkeypatch.setattr(headers, "WHOLE", '#include "verilated_config.h"\n')  # compiling all of them takes seconds
    header = runtime(tools, tmp_path / "cache", waves=False, optimise="-O0").header()
    assert header.read_text() == headers.WHOLE and header.with_name("runtime.h.gch").is_file()
