"""The matrix: what it expands to, and what is refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from mase_hw.errors import ConfigError
from mase_hw.regress.matrix import Job, expand, load_matrix
from mase_hw.simulate.plan import PATTERNS
from tests.regress.conftest import RELU, network, write

ROOT = Path(__file__).resolve().parents[2]


def jobs_of(folder: Path, *entries: str) -> list[Job]:
    path = write(folder, *entries)
    return expand(load_matrix(path), path.parent)


def test_product(tmp_path: Path) -> None:
    entry = network("n", "good", seeds="[1, 2]", stalls="[0.0, 0.5]", foldings="{ a = {}, b = {} }")
    jobs = jobs_of(tmp_path, RELU, entry)
    assert len(jobs) == 1 + 2 * 2 * 2 and len({j.name for j in jobs}) == len(jobs)
    assert len({j.build for j in jobs}) == 3
    assert len({j.build for j in jobs[:3]}) == 3, "builds come first, so that no worker waits for another's"
    assert "net.n.default.a.cocotb.seed1.stalls0.5" in {j.name for j in jobs}
    assert pickle.loads(pickle.dumps(jobs)) == jobs
    assert len({j.identity for j in jobs}) == len(jobs)


def test_one_case_of_every_module_that_no_entry_before_has(tmp_path: Path) -> None:
    from mase_hw.catalogue import default_catalogue

    jobs = jobs_of(tmp_path, RELU, "[[op]]\nevery_module = true\n")
    hardware = {op.name: op.hardware for op in default_catalogue() if op.hardware}
    modules = [hardware[job.spec["op"]].module for job in jobs]
    assert sorted(modules) == sorted({h.module for h in hardware.values()})
    assert [j.name for j in jobs_of(tmp_path, RELU)] == [j.name for j in jobs if j.spec["op"] == "relu"]


@pytest.mark.parametrize("name", ["smoke", "full"])
def test_committed_matrices(name: str) -> None:
    path = ROOT / "regress" / f"{name}.toml"
    matrix = load_matrix(path)
    jobs = expand(matrix, path.parent)
    assert matrix.name == name and {j.kind for j in jobs} == {"op", "network"}
    if name == "full":
        from mase_hw.catalogue import default_catalogue

        hardware = {op.name: op.hardware for op in default_catalogue() if op.hardware}
        run = {(j.spec["op"], j.spec["case"]) for j in jobs if j.kind == "op"}
        modules = {hardware[op].module for op, _ in run}
        assert modules == {h.module for h in hardware.values()}, "one of every kind of op"
        basic = ("skid_buffer", "register_slice", "fifo", "repack", "linear", "relu", "cast")
        assert {(op, case.name) for op in basic for case in hardware[op].cases()} <= run, "the basic ops in depth"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("", "the matrix is empty"),
        ('[[op]]\nop = "nothing_like_it"\n', "no op case matches"),
        (RELU + 'engines = ["warp"]\n', r"(?s)unknown simulation engine.*warp"),
        (RELU + "engines = []\n", "engines"),
        (RELU + "stalls = [1.0]\n", "stalls"),
        (RELU + "seed = [1]\n", "seed"),
        (RELU + "inner_stalls = [0.2]\n", "inner_stalls"),  # nothing inside
        (network("n", "good", inner_stalls="[1.0]"), "inner_stalls"),
        (network("a b", "good"), "name"),
        (RELU + RELU + "timeout = 5\n", "two entries of the matrix make the same job"),
        ("[[", "not TOML"),
    ],
)
def test_refused(tmp_path: Path, entry: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        jobs_of(tmp_path, entry)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_matrix(tmp_path / "absent.toml")


def test_one_problem_is_told_once(tmp_path: Path) -> None:
    """A list whose only item is refused is not empty."""
    with pytest.raises(ConfigError, match=r"^1 problem.*(?s:.*)op\.0\.stalls\.0: ") as refused:
        jobs_of(tmp_path, RELU + "stalls = [1.0]\n")
    assert "at least 1 item" not in str(refused.value)


def test_stalls_inside(tmp_path: Path) -> None:
    """Of networks only; they share the compiled bundle with the others."""
    jobs = jobs_of(tmp_path, network("n", "good", inner_stalls="[0.0, 0.2]", stalls="[0.0, 0.3]"))
    found = {job.name: (job.inner_stalls, job.build) for job in jobs}
    build = "net.n.default.default.cocotb"
    assert found == {
        f"{build}.seed0": (0.0, build),
        f"{build}.seed0.inner0.2": (0.2, build),
        f"{build}.seed0.stalls0.3": (0.0, build),
        f"{build}.seed0.stalls0.3.inner0.2": (0.2, build),
    }


def test_named_stalls(tmp_path: Path) -> None:
    """Every pattern of a simulation may stand beside probabilities; none is the same as 0."""
    found = jobs_of(tmp_path, RELU + f"stalls = [0.3, {', '.join(map(json.dumps, PATTERNS))}]\n")
    assert [job.stalls for job in found] == [0.3, 0.0, *(name for name in PATTERNS if name != "none")]
    assert len({job.name for job in found}) == len(found) and found[2].name.endswith(".random")
    with pytest.raises(ConfigError, match="lnog"):
        jobs_of(tmp_path, RELU + 'stalls = ["lnog"]\n')
