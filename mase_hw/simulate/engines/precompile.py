"""Compiles Verilator's runtime once for an environment, so that no design's first build has to.

What is compiled depends on tools and flags only. It lies in the environment (``<prefix>/cache/mase_hw``), or in the
folder that the variable ``MASE_HW_RUNTIME`` names, and every build takes it from there. Builds with a Python that is no
virtual environment, or none that can be written, have it in their own cache until this is called.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mase_hw.errors import EmitError
from mase_hw.formats import FixedFormat
from mase_hw.simulate.build.runtime_cache import PREPARED, prepared_place
from mase_hw.simulate.build.simulator import LONG_RUN, SHORT_RUN
from mase_hw.simulate.build.tools import find_build_tools
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines.registry import ENGINES
from mase_hw.simulate.plan import SimulationOptions
from mase_hw.streams import Stream

_WIRE = """\
module wire_only (
    input  logic       clk,
    input  logic       rst,
    input  logic [7:0] data_in_0,
    input  logic       data_in_0_valid,
    output logic       data_in_0_ready,
    output logic [7:0] data_out_0,
    output logic       data_out_0_valid,
    input  logic       data_out_0_ready
);
  wire unused = &{1'b0, clk};
  assign data_out_0 = data_in_0;
  assign data_out_0_valid = data_in_0_valid && !rst;
  assign data_in_0_ready = data_out_0_ready && !rst;
endmodule
"""


def precompile_runtime(tell: Callable[[str], None] = lambda _: None) -> Path:
    """Build the smallest design for every engine, without and with waves, and keep the runtime.

    Args:
        tell: Told what is being done.

    Returns:
        The folder.

    Raises:
        EmitError: If the folder cannot be written.
        ToolError: If a tool is missing or the C++ compiler fails.
    """
    folder = prepared_place()
    fmt = FixedFormat(8, 4)
    streams = (Stream("data_in_0", "in", (1,), fmt), Stream("data_out_0", "out", (1,), fmt))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".prepare-", dir=folder) as place:
            source = Path(place) / "wire_only.sv"
            source.write_text(_WIRE, encoding="utf-8")
            dut = Dut("wire_only", (source,), {}, streams)
            tools = find_build_tools()
            (folder / PREPARED).touch()  # from here on builds look here
            for name, engine in ENGINES.items():
                for waves in (False, True):
                    begin, options = time.perf_counter(), SimulationOptions(name, waves=waves)
                    # The lowest level of optimisation first: a higher one would be taken for it.
                    for cycles in (SHORT_RUN, LONG_RUN, None):
                        build = Path(place) / f"{name}-{waves}-{cycles}"
                        engine.build(dut, build, options, cache_dir=folder, tools=tools, cycles=cycles)
                    tell(f"{name}, {'with' if waves else 'without'} waves: {time.perf_counter() - begin:.1f} s")
        shutil.rmtree(folder / "simulators", ignore_errors=True)
    except OSError as problem:
        raise EmitError(
            "the runtime cannot be kept here", node=str(folder), got=str(problem),
            remedy="set MASE_HW_RUNTIME to a folder that can be written",
        ) from problem  # fmt: skip
    return folder
