"""Self-tests of the verdict: every fault in a bundle fails the run, with a message that says what happened.

Where a fault has a computable effect, the numbers in the message are those of the Python-integer reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import mase_hw
from mase_hw.errors import EmitError, HangError, MismatchError, ResultsError
from mase_hw.simulate.engines import cocotb as bench
from tests.e2e.conftest import Workshop
from tests.e2e.designs import DESIGNS
from tests.unit import test_golden_network as golden

FRAMES = 6
MODES = ("half_even", "saturate")
Weights = dict[str, Any]


@pytest.fixture(scope="module")
def x() -> Tensor:
    return DESIGNS["golden"].frames(FRAMES)[0]


@pytest.fixture(scope="module")
def weights() -> Weights:
    return {key: p.tolist() for key, p in DESIGNS["golden"].model.named_parameters()}


def edit(path: Path, change: Callable[[str], str]) -> None:
    before = path.read_text()
    after = change(before)
    assert after != before, "the fault was put in"
    path.write_text(after)


def test_the_copy_is_good(
    copy: mase_hw.Design, workshop: Workshop, tmp_path: Path, x: Tensor, weights: Weights
) -> None:
    """What every other test here damages passes undamaged."""
    simulation = copy.simulate(x, work_dir=workshop.work(copy, tmp_path, "golden"))
    expected = [golden.reference(frame, weights, MODES) for frame in x.tolist()]
    assert (simulation.output * 2**golden.Y2.frac).tolist() == expected


QUIET: dict[str, Any] = {"check": False, "waves": False, "diagnose": False}
"""The verdict as it is, for a look at it."""


def flip_sign(text: str) -> str:
    """The top bit of lane 0 in the first beat: the sign of weight [0][0]."""
    first, rest = text.split("\n", 1)
    return f"{int(first, 16) ^ 1 << golden.W2.width - 1:0{len(first)}x}\n{rest}"


def test_flipped_weight_bit_is_caught_by_the_hash(copy: mase_hw.Design, tmp_path: Path, x: Tensor) -> None:
    edit(copy.path / "mem/fc2_weight.mem", flip_sign)
    with pytest.raises(EmitError, match="was changed after emission") as caught:
        mase_hw.Design(copy.path, copy.graph).simulate(x, work_dir=tmp_path / "work")
    assert caught.value.node == str(copy.path / "mem/fc2_weight.mem")
    assert not (tmp_path / "work").exists(), "nothing was built"


def test_flipped_weight_bit_is_caught_by_the_scoreboard(
    copy: mase_hw.Design, workshop: Workshop, tmp_path: Path, x: Tensor, weights: Weights
) -> None:
    edit(copy.path / "mem/fc2_weight.mem", flip_sign)
    simulation = copy.simulate(x, work_dir=workshop.work(copy, tmp_path, "golden"), **QUIET)
    mantissa = golden.enter(weights["fc2.weight"][0][0], golden.W2)
    changed = [list(row) for row in weights["fc2.weight"]]
    changed[0][0] = (mantissa + (-16 if mantissa >= 0 else 16)) / 2**golden.W2.frac
    right = [golden.reference(frame, weights, MODES) for frame in x.tolist()]
    wrong = [golden.reference(frame, {**weights, "fc2.weight": changed}, MODES) for frame in x.tolist()]
    assert (simulation.output * 2**golden.Y2.frac).tolist() == wrong, "it computed with the damaged weight"
    frame = next(i for i in range(FRAMES) if right[i] != wrong[i])
    differing = sum(a[0] != b[0] for a, b in zip(right, wrong, strict=True))
    failure = simulation.result.failure
    assert not simulation.passed and type(failure) is MismatchError
    scale = 2**golden.Y2.frac
    assert f"differ in {differing} of {2 * FRAMES} beats" in str(failure)
    assert (
        f"data_out_0: frame {frame}, beat 0, lane 0 (element [0, 0]): expected {right[frame][0]} "
        f"({right[frame][0] / scale:g}), found {wrong[frame][0]} ({wrong[frame][0] / scale:g})"
    ) in str(failure)
    assert "FAILED" in simulation.report()
    with pytest.raises(MismatchError):
        copy.simulate(x, work_dir=tmp_path / "work", waves=False, diagnose=False)


def floor_everywhere(text: str) -> str:
    """ROUNDING of every op the model has; the cast between them stays."""
    parts = re.split(r"(?=\n  // )", text)
    return "".join(p if "fixed_cast #" in p else p.replace(".ROUNDING(0)", ".ROUNDING(2)") for p in parts)


def test_changed_rounding(
    copy: mase_hw.Design, workshop: Workshop, tmp_path: Path, x: Tensor, weights: Weights
) -> None:
    edit(copy.path / "rtl/top.sv", floor_everywhere)
    simulation = copy.simulate(x, work_dir=workshop.work(copy, tmp_path, "floor"), **QUIET)
    wrong = [golden.reference(frame, weights, ("floor", "saturate")) for frame in x.tolist()]
    assert (simulation.output * 2**golden.Y2.frac).tolist() == wrong
    with pytest.raises(
        MismatchError, match=r"(?s)differ in \d+ of 12 beats.*data_out_0: frame \d+, beat \d+, lane \d+"
    ):
        simulation.result.raise_on_failure()


COUNTER = """
  logic [7:0] count_q;
  always_ff @(posedge clk) begin
    if (rst) count_q <= '0;
    else if (in_valid && in_ready && count_q != '1) count_q <= count_q + 8'd1;
  end
  assign in_ready ="""


def drop(text: str) -> str:
    """Every register slice swallows its sixth beat."""
    return text.replace("\n  assign in_ready =", COUNTER).replace("<= in_valid;", "<= in_valid && count_q != 8'd5;")


def test_dropped_beat(copy: mase_hw.Design, workshop: Workshop, tmp_path: Path, x: Tensor) -> None:
    """Inside the design: what follows is shifted, and in the end something is missing."""
    edit(copy.path / "rtl/lib/register_slice.sv", drop)
    simulation = copy.simulate(x, work_dir=workshop.work(copy, tmp_path, "drop"), **QUIET)
    text = str(simulation.result.failure)
    assert type(simulation.result.failure) is MismatchError
    assert re.search(r"differ in \d+ of \d+ beats; then no stream moved for \d+ cycles", text), text
    assert "first difference: data_out_0: frame 1, beat 0, lane" in text
    port = simulation.result.ports["data_out_0"]
    assert port.beats < port.expected and len(simulation.output) < FRAMES


def stick(text: str) -> str:
    """A register slice whose ready stays low after five beats; what it holds still leaves."""
    text = text.replace("\n  assign in_ready = ", COUNTER + " count_q < 8'd5 && (").replace(
        "|| out_ready;", "|| out_ready);"
    )
    move = "else if (!out_valid || out_ready) begin\n      out_valid <= in_valid && in_ready;"
    return re.sub(r"else if \(in_ready\) begin\s+out_valid <= in_valid;", move, text)


def test_stuck_ready(copy: mase_hw.Design, workshop: Workshop, tmp_path: Path, x: Tensor) -> None:
    edit(copy.path / "rtl/lib/register_slice.sv", stick)
    with pytest.raises(HangError, match="the design hangs: no stream moved") as caught:
        copy.simulate(x, work_dir=workshop.work(copy, tmp_path, "stick"), waves=False, diagnose=False)
    # The relu took five of 18 beats, so one frame came out; the input backs up and the output waits.
    text = str(caught.value)
    assert re.search(r"data_in_0 valid=1 ready=0 \d+/18 beats", text), text
    assert re.search(r"data_out_0 valid=0 ready=1 2/12 beats", text), text
    assert "half of them without any stall" in text


def test_waves_come_by_themselves(copy: mase_hw.Design, workshop: Workshop, tmp_path: Path, x: Tensor) -> None:
    """A mismatch is run again with waves, unless told otherwise."""
    edit(copy.path / "mem/fc2_weight.mem", flip_sign)
    work = workshop.work(copy, tmp_path, "golden")
    lines: list[str] = []
    with workshop.alone():
        (work.parent / "runtime-cache").symlink_to(workshop.shared / "runtime-cache")
        simulation = copy.simulate(x, work_dir=work, check=False, progress=lines.append, diagnose=False)
    assert type(simulation.result.failure) is MismatchError
    assert "MismatchError: running again with waves" in lines
    waves = simulation.result.waves
    assert waves is not None and waves.is_file() and waves.stat().st_size > 1000


def test_missing_results_xml(
    copy: mase_hw.Design, workshop: Workshop, tmp_path: Path, x: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulation itself was perfect."""
    original = bench.run

    def lossy(built: Any, plan: Any, options: Any) -> Any:
        run = original(built, plan, options)
        (plan.folder / "results.xml").unlink()
        return run

    monkeypatch.setattr(bench, "run", lossy)
    with pytest.raises(ResultsError, match=r"wrote no results\.xml, so no test ran to its end"):
        copy.simulate(x, work_dir=workshop.work(copy, tmp_path, "golden"))


def test_no_run_at_all(
    copy: mase_hw.Design, workshop: Workshop, tmp_path: Path, x: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results of an earlier, good run lie in the folder; they are not taken for those of this one."""
    work = workshop.work(copy, tmp_path, "golden")
    assert copy.simulate(x, work_dir=work).passed

    def idle(built: Any, plan: Any, options: Any) -> Any:
        (plan.folder / "sim.log").touch()
        return bench.Run(0, False, plan.folder / "sim.log", 0.0, bench.PERIOD)

    monkeypatch.setattr(bench, "run", idle)
    with pytest.raises(ResultsError, match=r"wrote no results\.xml"):
        copy.simulate(x, work_dir=work)
