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
from mase_hw.system.selftest import build_program
from mase_hw.system.soc import build_soc, run_soc, write_soc
from tests.e2e.test_decode import CONTEXT, IDS, alone, compiled
from tests.e2e.test_decode_by_itself import GIVEN, LENGTH, STOP, by_the_model
from tests.system.test_software import load

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


needs_gcc = pytest.mark.skipif(bool(MISSING), reason="; ".join(f"{one.problem}: {one.remedy}" for one in MISSING))


def of_risc_v(system: Path) -> str:
    """What the program prints on the system on a chip."""
    gateware = write_soc(system)
    result = run_soc(build_soc(gateware), gateware)
    assert result.passed
    return result.text.splitlines()[0]


@pytest.mark.slow
@needs_gcc
def test_a_risc_v_sends_a_prompt_alone(by_itself: tuple[mase_hw.Design, Path]) -> None:
    design, system = by_itself
    assert of_risc_v(system) == a_sequence(design).replace("\n", " ")


@pytest.fixture(scope="module")
def in_slots(tmp_path_factory: pytest.TempPathFactory) -> tuple[mase_hw.Design, Path]:
    """Sequences of two slots by themselves, which end with a token, by their length or with the context."""
    folder = tmp_path_factory.mktemp("slots")
    decode = {"context": CONTEXT, "sample": "greedy", "stop": STOP, "length": LENGTH, "slots": 2}
    made = compiled(folder / "design", decode=decode, vectors={"faults": 4, "frames": 8})
    make_system(made.path, folder / "system", SystemOptions(letters=LETTERS))
    return made, folder / "system"


def alone_in_slots(design: mase_hw.Design) -> str:
    """What the program must print, from the prompts that the bundle names and the model alone."""
    words = [int(word, 16) for word in (design.path / "vectors/generate_data_in_0.mem").read_text().split()]
    said, slots = [], []
    for begin in range(0, len(words), CONTEXT):
        marked = [token % 32 for token in words[begin : begin + CONTEXT]]
        ids = [token % 16 for token in marked[: 1 + next(i for i, token in enumerate(marked) if token >= 16)]]
        slots.append(words[begin] // 32)
        chosen = by_the_model(design, ids)
        said.append(" | ".join("".join(LETTERS[i] for i in part) for part in (ids, chosen)))
    assert slots == [0, 1, 0]
    return f"PASS: 3 sequences in 2 slots: {'; '.join(said)}".replace("\n", " ")


@pytest.mark.slow
@pytest.mark.parametrize("stalls", [0, 30])
def test_the_program_sends_prompts_of_several_slots(in_slots: tuple[mase_hw.Design, Path], stalls: int) -> None:
    design, system = in_slots
    assert run_selftest(system, stalls=stalls).text == alone_in_slots(design)


@pytest.mark.slow
def test_a_wrong_token_of_a_slot_is_seen(in_slots: tuple[mase_hw.Design, Path], tmp_path: Path) -> None:
    """Expected of the third sequence: the one behind another in its slot."""
    other = tmp_path / "system"
    shutil.copytree(in_slots[1], other)
    vectors = other / "software/mase_vectors.c"
    before, head, rest = vectors.read_text().partition("mase_vectors_out[MASE_VECTORS][MASE_OUTPUT_BYTES] = {")
    rows = rest.split("\n")
    first, more = rows[3].split("{")[1].split(",", 1)
    rows[3] = f"    {{ {int(first) ^ 1},{more}"
    vectors.write_text(f"{before}{head}" + "\n".join(rows))
    assert run_selftest(other).text == "FAIL: sequence 2, token 0"


@pytest.mark.slow
def test_python_continues_prompts_in_slots(in_slots: tuple[mase_hw.Design, Path]) -> None:
    """More prompts than slots, in turn and all in one slot; those that nothing is sent of."""
    design, system = in_slots
    build_program(system, main=Path("software/mase_model_server.c"), name="server")
    module = load(system)
    model = module.Model()
    device = module.Device(model)
    expected = [by_the_model(design, prompt) for prompt in GIVEN[:-3]]
    assert len({len(row) for row in expected}) > 2
    given = [prompt[:CONTEXT] for prompt in GIVEN[:-3]]
    assert device.generate(given) == expected
    assert device.generate(given, [1] * len(given)) == expected
    for prompts, slots in (([[]], None), ([[32]], None), ([[1] * (CONTEXT + 1)], None), ([[1]], [2]), ([[1]], [0, 1])):
        with pytest.raises(ValueError):
            device.generate(prompts, slots)
    model.close()


@pytest.mark.slow
@needs_gcc
def test_a_risc_v_sends_prompts_of_several_slots(in_slots: tuple[mase_hw.Design, Path]) -> None:
    design, system = in_slots
    assert of_risc_v(system) == alone_in_slots(design)


def test_letters_of_another_number(design: mase_hw.Design, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="every id has a character"):
        make_system(design.path, tmp_path / "system", SystemOptions(letters="ab"))


@pytest.mark.slow
@needs_gcc
def test_a_risc_v_continues_a_prompt(design: mase_hw.Design, system: Path) -> None:
    gateware = write_soc(system)
    result = run_soc(build_soc(gateware), gateware)
    assert result.passed and result.text.splitlines()[0] == written(design)
