"""The fast cocotb engine: sources and sinks in SystemVerilog, Python only where something happens.

The same plan, stalls, cycles and judge as :mod:`mase_hw.simulate.engines.cocotb`. The main program
runs the clock, cocotb is woken now and then and at the end.
"""

from __future__ import annotations

import ast
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import numpy as np

from mase_hw.errors import ConfigError
from mase_hw.host.disk import write_whole, writing
from mase_hw.host.resources import sim_root
from mase_hw.simulate.build import simulator
from mase_hw.simulate.build.simulator import COCOTB, Built, Flavour, Place, literal, public_ports
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines.cocotb import PERIOD
from mase_hw.simulate.judge import judge
from mase_hw.simulate.plan import DEFAULTS, Limits, Plan, SimulationOptions, refuse_turns, write_plan
from mase_hw.simulate.result import SimResult
from mase_hw.simulate.run import Call, Run, cocotb_env, run_simulators
from mase_hw.streams import Beats, Stream

FLAVOUR = Flavour(
    "fast",
    "-O2",
    main=lambda tools: (sim_root() / "end_with_parent.h", sim_root() / "fast_main.cpp"),
    flags=COCOTB.flags,
    link=COCOTB.link,
    rules=public_ports,
)
"""A simulator whose main program runs the clock and enters cocotb only at events."""


def build(
    dut: Dut,
    build_dir: Path,
    options: SimulationOptions = DEFAULTS,
    **place: Unpack[Place],
) -> Built:
    """Build the design in its harness; arguments and exceptions as :func:`mase_hw.simulate.engines.cocotb.build`."""
    file, text = build_dir.resolve() / f"{TOP}.sv", harness_text(dut)
    with writing("the build folder", build_dir):
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            write_whole(file, text)
    wrapped, waves = harness(dut, file), bool(options.waves)
    return simulator.build(wrapped, build_dir, waves=waves, flavour=FLAVOUR, **place)


def simulate(
    built: Built, run_dir: Path, stimulus: Beats, expected: Beats, limits: Limits, options: SimulationOptions = DEFAULTS
) -> SimResult:
    """Play stimulus and judge what comes out; arguments as :func:`mase_hw.simulate.engines.cocotb.simulate`.

    Raises:
        ConfigError: If there is no such test as is to intervene.
    """
    if options.intervene is not None:
        Intervention.parse(options.intervene)
    plan = write_plan(built.dut, run_dir.resolve(), stimulus, expected, limits, options)
    return judge(built.dut, plan, run(built, plan, options))


def run(built: Built, plan: Plan, options: SimulationOptions = DEFAULTS) -> Run:
    """Run the simulator on a plan until it ends.

    Raises:
        ConfigError: If there is no such test as is to intervene.
        EmitError: If what the harness reads cannot be written.
        ToolError: If the simulator cannot be started, or cannot write waves.
    """
    refuse_turns("fast", options.turns)
    test = None if options.intervene is None else Intervention.parse(options.intervene)
    write_fast_plan(built.dut, plan, test)
    env = cocotb_env(plan, built.dut.top, options.seed, "fast_testbench", foreign=test is not None)
    window = options.window if options.waves else None
    arguments = () if window is None else (f"--window={max(0, window[0])},{window[1]},{plan.resets}",)
    (found,) = run_simulators(built, [Call(plan, options.seed, env, arguments)], options, PERIOD)
    return found


TOP = "fast_harness"
MODULES = ("stream_stalls", "stream_source", "stream_sink", "stream_control")
_OUT = {
    "done": "logic",
    "tick": "logic",
    "wake": "logic",
    "resets": "int",
    "requested": "int",
    "cycle": "longint",
    "beats": "longint",
}
_IN = {"reset_request": "logic", "reset_length": "int", "wake_cycle": "longint"}


@dataclass(frozen=True)
class HarnessDut(Dut):
    """A design in its harness: the streams are the design's, the ports are the harness's.

    Args:
        wrapped: Name of the design's top module.
    """

    wrapped: str = ""

    @property
    def design(self) -> str:
        """The module in the harness."""
        return self.wrapped

    @property
    def inside(self) -> str:
        """The path of the design in the harness."""
        return f"{self.top}.u_dut."

    @property
    def ports(self) -> tuple[str, ...]:
        """What cocotb can reach."""
        return (*_OUT, *_IN, *(name for i, s in enumerate(self.streams) for name in (*_outs(i, s), *_ins(i, s))))


def _outs(index: int, stream: Stream) -> dict[str, str]:
    """What a test may read of a stream."""
    bits = f"logic [{stream.bits - 1}:0]"
    return {f"data_{index}": bits, f"valid_{index}": "logic", f"ready_{index}": "logic", f"count_{index}": "longint"}


def _ins(index: int, stream: Stream) -> dict[str, str]:
    """How a test may intervene in a stream."""
    found = {f"hold_{index}": "logic", f"reload_{index}": "logic", f"wake_at_{index}": "longint"}
    if stream.direction == "in":
        found |= {f"flip_at_{index}": "longint", f"flip_{index}": f"logic [{stream.bits - 1}:0]"}
    return found


def harness(dut: Dut, file: Path) -> HarnessDut:
    """Describe the design in its harness, whose source will be ``file``."""
    library = [sim_root() / "hdl" / f"{name}.sv" for name in MODULES]
    sources = (*dut.sources, *library, file)
    digests = {**dut.digests, file: hashlib.sha256(harness_text(dut).encode()).hexdigest()}
    return HarnessDut(TOP, sources, {}, dut.streams, dut.memory, digests=digests, edges=dut.edges, wrapped=dut.top)


def harness_text(dut: Dut) -> str:
    """The SystemVerilog of the harness."""
    count, outputs = len(dut.streams), dut.outputs
    ports = {f"output {kind} {name}": None for name, kind in _OUT.items()}
    ports |= {f"input {kind} {name}": None for name, kind in _IN.items()}
    for index, stream in enumerate(dut.streams):
        ports |= {f"output {kind} {name}": None for name, kind in _outs(index, stream).items()}
        ports |= {f"input {kind} {name}": None for name, kind in _ins(index, stream).items()}
    lines = [f"module {TOP} (", "    input logic clk,", ",\n".join(f"    {port}" for port in ports), ");"]
    lines += [
        "  logic rst, release_rst, restart, started, calm, stop;",
        f"  logic [{count - 1}:0] moved, woken, finished;",
        f"  logic [{len(outputs) - 1}:0] broken;",
    ]
    for index, stream in enumerate(dut.streams):
        source = stream.direction == "in"
        pins = [
            ".clk", ".restart", ".calm", ".stop", ".cycle", ".halt(|broken)", f".moved(moved[{index}])",
            f".woken(woken[{index}])", f".all_done(finished[{index}])", f".accepted(count_{index})",
        ]  # fmt: skip
        pins += [f".{name}({name}_{index})" for name in ("data", "valid", "ready", "hold", "reload", "wake_at")]
        if source:
            pins += [".started", f".flip_at(flip_at_{index})", f".flip(flip_{index})"]
        else:
            pins += [".rst", ".release_rst", f".violation(broken[{outputs.index(stream)}])"]
        kind = "stream_source" if source else "stream_sink"
        lines.append(f'  {kind} #(.NAME("{stream.name}"), .BITS({stream.bits})) u_side_{index} ({", ".join(pins)});')
    sums = {}
    for direction in ("in", "out"):
        places = [index for index, stream in enumerate(dut.streams) if stream.direction == direction]
        sums[direction] = " + ".join(f"count_{i} + longint'(moved[{i}])" for i in places) or "0"
        if direction == "out":
            lines.append(f"  assign beats = {' + '.join(f'count_{i}' for i in places)};")
    control = [f".{name}" for name in (*_OUT, *_IN) if name != "beats"]
    control += [".clk", ".rst", ".release_rst", ".restart", ".started", ".calm", ".stop", ".moved(|moved)"]
    control += [".woken(|woken)", ".all_done(&finished)", ".violation(|broken)"]
    control += [f".in_beats({sums['in']})", f".out_beats({sums['out']})"]
    lines.append(f"  stream_control u_control ({', '.join(control)});")
    parameters = ", ".join(f".{name}({literal(value)})" for name, value in dut.parameters.items())
    pins = [".clk", ".rst"]
    for index, stream in enumerate(dut.streams):
        names = ((stream.name, "data"), (stream.valid, "valid"), (stream.ready, "ready"))
        pins += [f".{name}({wire}_{index})" for name, wire in names]
    for name, value in dut.tied.items():
        if name in dut.idle:
            pins.append(f".{name}({value})")
        else:
            lines.append(f"  logic {value} unused_{name};")
            pins.append(f".{name}(unused_{name})")
    lines.append(f"  {dut.top}{f' #({parameters})' if parameters else ''} u_dut ({', '.join(pins)});")
    return "\n".join([*lines, "endmodule", ""])


def write_fast_plan(dut: Dut, plan: Plan, test: Intervention | None = None) -> None:
    """Add the files that the harness, and the test around it, read.

    Args:
        dut: What is simulated.
        plan: What to play.
        test: A test that intervenes.

    Raises:
        EmitError: If they cannot be written.
    """
    streams = {
        s.name: {"index": index, "direction": s.direction, "frame": s.frame_beats}
        for index, s in enumerate(dut.streams)
    }
    harness = {
        "streams": streams,
        "test": None if test is None else {"file": str(test.file), "function": test.function},
    }
    content, beats = plan.content, plan.folder / "beats"
    with writing("the plan", plan.folder):
        names = ("reset_cycles", "idle_cycles", "watchdog", "max_cycles", "tail_cycles")
        (beats / "control.fast").write_text(" ".join(str(content[name]) for name in names) + "\n", encoding="ascii")
        (beats / "harness.json").write_text(json.dumps(harness) + "\n", encoding="utf-8")
        resets = "".join(f"{unit} {at} {length}\n" for unit, at, length in plan.times_of_resets())
        (beats / "resets.fast").write_text(resets, encoding="ascii")
        for port in (*content["inputs"], *content["outputs"]):
            name, size = port["name"], (port["bits"] + 7) // 8
            words = np.frombuffer(plan.raw[name], dtype=np.uint8).reshape(-1, size)[:, ::-1]
            (beats / f"{name}.words").write_bytes(words.tobytes())
            (beats / f"{name}.count").write_text(f"{port['beats']}\n", encoding="ascii")
            threshold, go, period, state = plan.stalls(port)
            (beats / f"{name}.stalls").write_text(f"{threshold:x} {state:x} {go} {period}\n", encoding="ascii")
            if port in content["inputs"]:
                garbage = "".join(f"{word:x}\n" for word in plan.garbage(port))
                (beats / f"{name}.garbage").write_text(garbage, encoding="ascii")


FUNCTION = "intervene"
"""The function of the file if none is named."""


@dataclass(frozen=True)
class Intervention:
    """A coroutine function that runs beside the harness, inside the simulator.

    Args:
        file: Where it is.
        function: Its name.
    """

    file: Path
    function: str = FUNCTION

    @classmethod
    def parse(cls, text: str | Path) -> Intervention:
        """Read ``FILE.py`` or ``FILE.py:FUNCTION``.

        Raises:
            ConfigError: If there is no such file, or no coroutine function of that name at its top level.
        """
        name, _, function = str(text).rpartition(":")
        if not name:
            name, function = function, FUNCTION
        file = Path(name).resolve()
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError) as problem:
            raise ConfigError(
                "the test that intervenes cannot be read",
                field="intervene",
                got=f"{text}: {problem}",
                expected="FILE.py or FILE.py:FUNCTION",
                remedy="give a Python file that exists and has no syntax error",
            ) from problem
        # Looked at without running it: its imports belong to the simulator.
        found = [node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef)]
        if function not in found:
            raise ConfigError(
                "the file has no such test",
                node=str(file),
                field="intervene",
                got=function,
                expected=" | ".join(found) or f"async def {function}(bench)",
            )
        return cls(file, function)
