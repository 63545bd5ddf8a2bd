"""The system of a language model that decodes: a frame is a token, and the C program continues a prompt."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.hardware.beats import from_words
from mase_hw.host.toolchain import find
from mase_hw.system import SystemOptions, make_system, run_selftest
from mase_hw.system.soc import build_soc, run_soc, write_soc
from tests.e2e.test_decode import CONTEXT, IDS, alone, compiled

LETTERS = 'ab"\\efghi\nk'
PROMPT = CONTEXT // 2
MISSING = [tool for tool in map(find, ("litex", "riscv-gcc")) if tool.problem]


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    return compiled(tmp_path_factory.mktemp("system") / "design")


@pytest.fixture(scope="module")
def system(design: mase_hw.Design) -> Path:
    out = design.path.parent / "system"
    manifest = make_system(design.path, out, SystemOptions(letters=LETTERS))
    assert manifest["frames"]["in"][0]["elements"] == 1 and manifest["frames"]["out"][0]["elements"] == IDS
    return out


def written(design: mase_hw.Design) -> str:
    """What the program must print, from the vectors, the manifest and the model alone."""
    words = (design.path / "vectors/data_in_0.mem").read_text()
    tokens = from_words(design.streams["data_in_0"], words).reshape(-1)
    prompt = tokens[:PROMPT].tolist()
    said = ["".join(LETTERS[i] for i in ids) for ids in (prompt, alone(design, prompt, CONTEXT - PROMPT)[0])]
    last = design.manifest["decode"]["cycles"][-1]
    cycles = f"{last} cycles for the last of {CONTEXT} ({last} predicted)"
    return f"PASS: {len(tokens)} tokens, {cycles}: {said[0]} | {said[1]}".replace("\n", " ")


@pytest.mark.slow
@pytest.mark.parametrize("stalls", [0, 30])
def test_the_program_continues_a_prompt(design: mase_hw.Design, system: Path, stalls: int) -> None:
    """Every bit of the vectors, the cycles of every token, and the same tokens as the model."""
    assert run_selftest(system, stalls=stalls).text == written(design)


@pytest.mark.slow
def test_a_token_in_other_cycles_is_seen(design: mase_hw.Design, system: Path, tmp_path: Path) -> None:
    other = tmp_path / "system"
    shutil.copytree(system, other)
    vectors = other / "software/mase_vectors.c"
    before, head, rest = vectors.read_text().partition("mase_token_cycles[MASE_CONTEXT] = {")
    first, second, *others = rest.split(",")
    vectors.write_text(f"{before}{head}{','.join((first, str(int(second) + 1), *others))}")
    cycles = design.manifest["decode"]["cycles"][1]
    assert run_selftest(other).text == f"FAIL: cycles of token 1: got {cycles}, expected {cycles + 1}"


@pytest.fixture(scope="module")
def by_itself(tmp_path_factory: pytest.TempPathFactory) -> tuple[mase_hw.Design, Path]:
    folder = tmp_path_factory.mktemp("itself")
    settings = {"decode": {"context": CONTEXT, "sample": "greedy", "length": 4}, "vectors": {"faults": 4, "frames": 8}}
    made = compiled(folder / "design", **settings)
    make_system(made.path, folder / "system", SystemOptions(letters=LETTERS))
    return made, folder / "system"


def a_sequence(design: mase_hw.Design) -> str:
    """What the program must print of a prompt that the bundle names, from the model alone."""
    words = (design.path / "vectors/generate_data_in_0.mem").read_text()
    marked = [int(word, 16) for word in words.split()]
    prompt = [token % 16 for token in marked[: 1 + next(i for i, token in enumerate(marked) if token >= 16)]]
    assert len(set(prompt)) > 2
    ids = list(prompt)
    with torch.no_grad():
        while len(ids) < len(prompt) + 4:
            ids.append(int(design.model(torch.tensor([ids + [0] * (CONTEXT - len(ids))]))[0, len(ids) - 1]))
    said = ["".join(LETTERS[i] for i in part) for part in (prompt, ids[len(prompt) :])]
    cycles = sum(design.generate([prompt]).measured[0])
    return f"PASS: 1 frames, {cycles} cycles for the last ({cycles} predicted): {said[0]} | {said[1]}"


@pytest.mark.slow
@pytest.mark.parametrize("stalls", [0, 30])
def test_the_program_sends_a_prompt_alone(by_itself: tuple[mase_hw.Design, Path], stalls: int) -> None:
    """The hardware goes on by itself, in the cycles of `generate`."""
    design, system = by_itself
    assert run_selftest(system, stalls=stalls).text == a_sequence(design).replace("\n", " ")


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason="; ".join(f"{one.problem}: {one.remedy}" for one in MISSING))
def test_a_risc_v_sends_a_prompt_alone(by_itself: tuple[mase_hw.Design, Path]) -> None:
    design, system = by_itself
    gateware = write_soc(system)
    result = run_soc(build_soc(gateware), gateware)
    assert result.passed and result.text.splitlines()[0] == a_sequence(design).replace("\n", " ")


def test_letters_of_another_number(design: mase_hw.Design, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="every id has a character"):
        make_system(design.path, tmp_path / "system", SystemOptions(letters="ab"))


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason="; ".join(f"{one.problem}: {one.remedy}" for one in MISSING))
def test_a_risc_v_continues_a_prompt(design: mase_hw.Design, system: Path) -> None:
    gateware = write_soc(system)
    result = run_soc(build_soc(gateware), gateware)
    assert result.passed and result.text.splitlines()[0] == written(design)
