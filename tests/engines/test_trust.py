"""What a simulation of a design says holds of the very bundle, of all of it, and of a run that lasted long enough."""

from __future__ import annotations

import re
import shutil
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.design.attempts import alone
from mase_hw.errors import EmitError, MismatchError, ResultsError, SimulationError, ToolError
from mase_hw.simulate.engines import batch
from mase_hw.simulate.plan import FAILURE, Limits, Stalls
from tests.emit.bundles import rewrite

Manifest = dict[str, Any]
FRAMES = 4
X = torch.rand(FRAMES, 8, generator=torch.Generator().manual_seed(4)) - 0.5
QUIET = 100


def net(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Linear(8, 8).eval()


def compiled(model: nn.Module, out: Path, lanes: int = 1) -> mase_hw.Design:
    return mase_hw.compile(model, X[:1], {"hardware": {"max_parallelism": lanes}}, out=out, vectors=X)


@pytest.fixture(scope="module")
def design(work: Path) -> mase_hw.Design:
    """One lane, so that a frame takes longer than the 64 cycles that every run waits."""
    made = compiled(net(0), work / "trust")
    assert made.timing["last"] + made.timing["interval"] > QUIET + 16
    return made


@pytest.fixture
def options(work: Path) -> dict[str, Any]:
    return {"engine": "batch", "work_dir": work / "trust.work", "waves": False}


@pytest.fixture
def copy(design: mase_hw.Design, tmp_path: Path) -> Path:
    shutil.copytree(design.path, tmp_path / "bundle")
    return tmp_path / "bundle"


def test_it_passes(design: mase_hw.Design, options: dict[str, Any]) -> None:
    for more in ({}, {"jobs": 2}, {"stalls": 0.3}):
        simulation = design.simulate(**options, **more)
        assert simulation.passed and simulation.frames == design.manifest["vectors"]["frames"] == FRAMES
        assert set(simulation.result.edges) == set(design.manifest["edges"])


@pytest.mark.parametrize("more", [{}, {"jobs": 2}])
def test_an_edge_that_says_nothing(copy: Path, options: dict[str, Any], more: dict[str, int]) -> None:
    rewrite(copy, lambda m: m["edges"].append("u_lost.data_out_0 to u_found.data_in_0"), honest=False)
    with pytest.raises(ResultsError, match=r"(?s)said nothing: u_lost\.data_out_0 to u_found\.data_in_0") as caught:
        mase_hw.Design(copy).simulate(**options, **more)
    assert caught.value.node == "u_lost.data_out_0 to u_found.data_in_0"


def test_an_edge_of_another_design(copy: Path, options: dict[str, Any]) -> None:
    gone: list[str] = []

    def rename(m: dict[str, Any]) -> None:
        gone.append(m["edges"].pop())
        m["edges"].append(gone[0].replace("u_", "v_"))

    rewrite(copy, rename, honest=False)
    with pytest.raises(ResultsError, match=f"(?s)said nothing: v_.*not in the manifest: {re.escape(gone[0])}"):
        mase_hw.Design(copy).simulate(**options)


def test_a_latency_that_is_not_kept(copy: Path, options: dict[str, Any]) -> None:
    """All bits are right; yet who counts cycles by the manifest reads garbage."""
    rewrite(copy, sooner, honest=False)
    told = mase_hw.Design(copy)
    with pytest.raises(SimulationError, match=r"(?s)every bit is right, but the design does not take") as caught:
        told.simulate(**options)
    promised = told.timing["fill"]
    assert f"timing.fill: promised {promised} cycles, measured {promised + 1}" in str(caught.value.got)
    assert caught.value.node is not None and "(instance u_" in caught.value.node
    assert told.simulate(**options, stalls=0.3).passed, "nothing is promised of a run with stalls"
    rewrite(copy, lambda m: m["timing"].update(exact=False, steady=None), honest=False)
    assert mase_hw.Design(copy).simulate(**options).passed, "it does not say that it is exact"


def sooner(m: Manifest, cycles: int = 1) -> None:
    """The first result some cycles earlier, in every place where it stands."""
    m["timing"]["fill"] -= cycles
    _of_slowest(m)["first_out"] -= cycles


def slower(m: Manifest, factor: int, more: int = 0) -> None:
    """Another interval, in every place where it stands."""
    m["timing"]["interval"] = _of_slowest(m)["interval"] = m["timing"]["interval"] * factor + more


def _of_slowest(m: Manifest) -> dict[str, int]:
    return next(e["timing"] for e in m["instances"] if e["name"] == m["timing"]["bottleneck"])


PROMISES: dict[str, tuple[str, Callable[[Manifest], object]]] = {
    "a cycle too few to the first result": ("fill", sooner),
    "a cycle too many to the first result": ("fill", lambda m: sooner(m, -1)),
    "a cycle too many to the last result": ("last", lambda m: m["timing"].update(last=m["timing"]["last"] + 1)),
    "a cycle too few to the last result": ("last", lambda m: m["timing"].update(last=m["timing"]["last"] - 1)),
    "a cycle too many a frame": ("interval", lambda m: slower(m, 1, 1)),
    "a cycle too few a frame": ("interval", lambda m: slower(m, 1, -1)),
    "ten thousand times as many a frame": ("interval", lambda m: slower(m, 10**4)),
}


@pytest.mark.parametrize("engine", ["batch", "cocotb", "fast"])
@pytest.mark.parametrize("name", PROMISES)
def test_promises_that_are_not_kept(copy: Path, work: Path, name: str, engine: str) -> None:
    """By one cycle or by very many, up or down: no run passes, and none waits for what was promised."""
    field, change = PROMISES[name]
    before = mase_hw.Design(copy).timing[field]
    rewrite(copy, change, honest=False)
    told = mase_hw.Design(copy)
    simulation = told.simulate(engine=engine, waves=False, work_dir=work / "trust.work", check=False)
    promised = told.timing[field]
    assert promised != before and not simulation.passed and simulation.result.mismatches == 0
    assert f"timing.{field}: promised {promised} cycles, measured {before}" in str(simulation.result.failure)
    ended = max(simulation.result.accepted["data_out_0"])
    assert simulation.result.cycles <= 3 * ended + 256 + 1, "the idle watch is bounded by the run itself"


class Exchange:
    """Told of progress; puts another bundle into the folder when it hears a word."""

    def __init__(self, word: str, replace: Callable[[], object]) -> None:
        self.word, self.replace, self.done = word, replace, False

    def __call__(self, line: str) -> None:
        if self.word in line and not self.done:
            self.done = True
            self.replace()


@pytest.mark.parametrize(
    ("word", "lanes", "file"),
    [("building", 2, "rtl/top.sv"), ("simulating", 1, "_bias.mem")],
)
def test_compiled_again_meanwhile(tmp_path: Path, options: dict[str, Any], word: str, lanes: int, file: str) -> None:
    """The files were checked, and are others by the time they are compiled, or read by the simulator."""
    first = compiled(net(0), tmp_path / "b")
    (name,) = (name for name in first.manifest["files"] if name.endswith(file))
    exchange = Exchange(word, lambda: compiled(net(1), tmp_path / "b", lanes))
    with pytest.raises(EmitError, match="was changed while it was being used") as caught:
        first.simulate(**options, progress=exchange)
    assert exchange.done and caught.value.node == str(tmp_path / "b" / name)


def late(text: str, quiet: int = QUIET, *, monitored: bool) -> str:
    """A beat too many, so many quiet cycles after the last one of the run; with the monitor of frames, or without."""
    if not monitored:
        text = re.sub(r"\n  frame_check #.*?\n  \);\n", "", text, flags=re.DOTALL)
    assert ("frame_check #(" in text) == monitored
    found = re.search(r"assign data_out_0_valid = (\w+);", text)
    assert found is not None
    return text.replace(
        found[0],
        f"""int beats_q, quiet_q;
  assign data_out_0_valid = {found[1]} || (beats_q == {8 * FRAMES} && quiet_q >= {quiet});
  always_ff @(posedge clk) begin
    if (rst) {{beats_q, quiet_q}} <= '0;
    else begin
      quiet_q <= {found[1]} ? 0 : quiet_q + 1;
      if (data_out_0_valid && data_out_0_ready) beats_q <= beats_q + 1;
    end
  end""",
    )


@pytest.mark.parametrize("engine", ["batch", "cocotb", "fast"])
def test_a_beat_too_many_after_a_while(copy: Path, work: Path, engine: str) -> None:
    """Seen by every engine; what the exception cannot tell without a model, and how to be told, is in it."""
    top = copy / "rtl/top.sv"
    top.write_text(late(top.read_text(), monitored=False))
    broken = mase_hw.Design(copy, verify=False)
    with pytest.raises(MismatchError, match="data_out_0 produced 1 beats more than expected") as caught:
        broken.simulate(engine=engine, waves=False, work_dir=work / "trust-late.work")
    text = str(caught.value)
    assert text.index("files that are not what was emitted: rtl/top.sv\n") < text.index(f"{8 * FRAMES + 1}")
    assert "no diagnosis was possible" in text and "--model FILE.py:FUNCTION --config FILE.toml" in text
    assert "no diagnosis was possible" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("engine", ["batch", "cocotb", "fast"])
@pytest.mark.parametrize("quiet", [QUIET, -1])
def test_the_design_says_that_a_frame_is_too_many(copy: Path, work: Path, quiet: int, engine: str) -> None:
    """100 cycles after the last one, and just before as many as the interval and the first frame take together."""
    top, timing = copy / "rtl/top.sv", mase_hw.Design(copy).timing
    quiet = quiet if quiet > 0 else timing["last"] + timing["interval"] - 4
    top.write_text(late(top.read_text(), quiet, monitored=True))
    broken = mase_hw.Design(copy, verify=False)
    with pytest.raises(SimulationError, match="a frame leaves the design before what it is made of came in") as caught:
        broken.simulate(engine=engine, waves=False, diagnose=False, work_dir=work / f"trust-frames{quiet}.work")
    assert caught.value.node == "data_out_0"
    assert f"begins frame {FRAMES}, but 0 of the 8 beats of data_in_0 came" in str(caught.value.got)


@pytest.mark.parametrize("engine", ["batch", "cocotb", "fast"])
def test_a_small_design_is_watched_as_long(work: Path, tmp_path: Path, engine: str) -> None:
    """Its interval and its first frame take fewer than 100 cycles together."""
    small = compiled(nn.ReLU(), tmp_path / "small")
    assert small.timing["last"] + small.timing["interval"] < QUIET
    top = small.path / "rtl/top.sv"
    top.write_text(late(top.read_text(), monitored=False))
    with pytest.raises(MismatchError, match="data_out_0 produced 1 beats more than expected"):
        mase_hw.Design(small.path, verify=False).simulate(engine=engine, waves=False, work_dir=work / "small.work")


def test_how_long_is_waited(design: mase_hw.Design, options: dict[str, Any]) -> None:
    last, interval = design.timing["last"], design.timing["interval"]
    assert Limits.of(design.timing, 1).tail_cycles == last + interval
    assert Limits.of({"last": 3, "interval": 2}, 1).tail_cycles == 128
    assert Limits.of(design.timing, 1).watchdog > Limits.of(design.timing, 1).tail_cycles
    slow = Limits.of(design.timing, 10, Stalls.random(0.5, 0.5))
    assert slow.max_cycles > Limits.of(design.timing, 10).max_cycles > 10 * interval
    result = design.simulate(**options).result
    assert result.cycles - max(result.accepted["data_out_0"]) == last + interval


def flipped(copy: Path) -> mase_hw.Design:
    """The bundle with a wrong weight, which no hash is asked about."""
    path = next((copy / "mem").glob("*weight.mem"))
    first, rest = path.read_text().split("\n", 1)
    path.write_text(f"{int(first, 16) ^ 0x80:0{len(first)}x}\n{rest}")
    return mase_hw.Design(copy, verify=False)


def test_waves_of_an_earlier_failure(copy: Path, options: dict[str, Any], work: Path) -> None:
    """They say of what they are, and are gone after the next run; waves that were asked for stay."""
    options |= {"waves": None, "diagnose": False, "work_dir": work / "trust-waves.work"}
    waves = flipped(copy).simulate(**options, check=False).result.waves
    assert waves is not None and waves.is_file()
    assert "MismatchError: hardware and reference differ" in (waves.parent / FAILURE).read_text()
    right = mase_hw.load_design(work / "trust")
    assert right.simulate(**options).passed and not waves.exists() and not (waves.parent / FAILURE).exists()
    asked = right.simulate(**options | {"waves": True}).result.waves
    assert asked == waves and right.simulate(**options).passed and waves.is_file()


def test_what_is_not_ours_stays(design: mase_hw.Design, options: dict[str, Any], tmp_path: Path) -> None:
    """In a work folder that another process uses as well."""
    theirs = [tmp_path / "run1" / name for name in (FAILURE, "plan.json", "mem/a.mem")]
    for path in theirs:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("theirs")
    assert design.simulate(**options | {"work_dir": tmp_path}).passed
    assert [path.read_text() for path in theirs] == ["theirs"] * 3


def test_waves_that_cannot_be_written(copy: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure is what it was; and a failure that waves do not show says so."""
    broken, real = flipped(copy), batch.build

    def no_waves(dut: Any, folder: Any, options: Any, **more: Any) -> Any:
        if options.waves:
            raise ToolError("no compiler")
        return real(dut, folder, options, **more)

    monkeypatch.setattr(batch, "build", no_waves)
    with pytest.raises(MismatchError) as caught:
        broken.simulate(**options | {"waves": None}, diagnose=False)
    assert caught.value.__notes__ == ["no waves, the run with them failed: no compiler"]


def test_one_at_a_time_in_a_work_folder(tmp_path: Path) -> None:
    """Also after the one before failed for a tool and took the folder away, with the lock that others wait for."""
    work, order = tmp_path / "work", []
    inside, leave = threading.Event(), threading.Event()

    def waiting() -> None:
        with alone(work):
            order.append("second in")
            inside.set()
            leave.wait(20)
            order.append("second out")

    def last() -> None:
        with alone(work):
            order.append("third in")

    second, third = threading.Thread(target=waiting), threading.Thread(target=last)
    with pytest.raises(ToolError, match="nothing was built"), alone(work):
        second.start()
        time.sleep(0.3)  # it waits for the lock by now; if not, this test only shows less
        raise ToolError("nothing was built")
    assert inside.wait(20)
    third.start()
    third.join(0.5)
    leave.set()
    for thread in (second, third):
        thread.join(20)
    assert order == ["second in", "second out", "third in"]
