"""Images and the checks before they are made."""

from __future__ import annotations

import binascii
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.cli.main import main
from mase_hw.compiler.weights import make_weights
from mase_hw.errors import ConfigError, EmitError, UnsupportedError
from mase_hw.hardware.image import Part, digest_of, loaded, make_image
from mase_hw.hardware.manifest import typed
from tests.handoff.designs import CONFIG, EXAMPLE, VECTORS, Pair
from tests.parameters.designs import in_ram, shrunk, weights_of
from tests.unit.pipeline import seeded


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    folder = tmp_path_factory.mktemp("loaded")
    return mase_hw.compile(seeded(Pair), EXAMPLE, in_ram(CONFIG), out=folder / "bundle", vectors=VECTORS)


def test_the_words_of_an_image() -> None:
    """Of 40 bits 20 and 20, the lower ones first; of 3 bits a word each; a CRC that another library computes too."""
    parts = [Part("mem/wide.mem", 2, 40), Part("mem/narrow.mem", 3, 3)]
    texts = {"mem/wide.mem": "8000000001\n123456789a\n", "mem/narrow.mem": "1\n7\n4\n"}
    image = make_image("0badcafe", parts, texts)
    words = [int.from_bytes(image[at : at + 4], "little") for at in range(0, len(image), 4)]
    assert words[:2] == [0x4D415357, 0x0BADCAFE]
    assert words[2:-1] == [0x00001, 0x80000, 0x6789A, 0x12345, 1, 7, 4]
    assert words[-1] == digest_of(image) == binascii.crc32(image[:-4])


def test_a_memory_file_of_another_size() -> None:
    with pytest.raises(ConfigError, match="does not fit its memory"):
        make_image("00000001", [Part("mem/a.mem", 2, 8)], {"mem/a.mem": "01\n"})


def test_the_design_s_own_parameters(design: mase_hw.Design) -> None:
    """Its image holds the memory files that it was made with, and its vectors are those of the bundle."""
    found = weights_of(design, seeded(Pair), EXAMPLE, CONFIG)
    assert found.changed == ()
    manifest = typed(design.manifest)
    assert manifest.image is not None
    parts = loaded(manifest)
    texts = {part.file: (design.path / part.file).read_text() for part in parts}
    assert found.image == make_image(manifest.image.design, parts, texts) and len(parts) == 2
    assert len(found.image) == 4 * (manifest.image.words + 3)
    given, expected = design.vectors()
    for port, values in {**given, **expected}.items():
        assert (found.vectors[port] == values).all()


def test_other_parameters(design: mase_hw.Design) -> None:
    """The results are those of a model of its own, which PyTorch computes from the same numbers."""
    other = shrunk(seeded(Pair))
    found = weights_of(design, other, EXAMPLE, CONFIG)
    assert set(found.changed) == {"mem/fc_weight.mem", "mem/fc_bias.mem"}
    x = torch.as_tensor(found.vectors["data_in_0"]).double() / 16
    weight = (other.fc.weight.double() * 32).round() / 32
    bias = (other.fc.bias.double() * 16).round() / 16
    exact = (x @ weight.T + bias) * 8
    assert (torch.as_tensor(found.vectors["data_out_0"]) == exact.round().clamp(-64, 63)).all()


def test_a_number_names_all_but_the_parameters(design: mase_hw.Design, tmp_path: Path) -> None:
    def number(model: nn.Module, config: dict[str, Any], name: str) -> str:
        made = mase_hw.compile(model, EXAMPLE, config, out=tmp_path / name, vectors=VECTORS)
        return str(made.manifest["image"]["design"])

    own = design.manifest["image"]["design"]
    assert number(shrunk(seeded(Pair)), in_ram(CONFIG), "other") == own
    assert number(seeded(Pair), in_ram(CONFIG, parameter_banks=2), "banks") != own


@pytest.mark.parametrize("place", ["ram", "external"])
def test_what_is_refused(place: str, tmp_path: Path) -> None:
    config = in_ram(CONFIG, parameters=place)
    design = mase_hw.compile(seeded(Pair), EXAMPLE, config, out=tmp_path / "bundle", vectors=VECTORS)
    far = seeded(Pair)
    with torch.no_grad():
        far.fc.weight[1, 2] = 1.5
    with pytest.raises(ConfigError, match="outside the range") as error:
        weights_of(design, far, EXAMPLE, CONFIG)
    assert error.value.node == "fc.weight" and "1.5" in str(error.value.got)
    with pytest.raises(ConfigError, match="not the one of this design"):
        weights_of(design, nn.Sequential(nn.Linear(5, 3)), EXAMPLE[0], {"quantize": CONFIG["quantize"]})
    fixed = mase_hw.compile(seeded(Pair), EXAMPLE, CONFIG, out=tmp_path / "rom", vectors=VECTORS)
    with pytest.raises(ConfigError, match="loads no parameters"):
        make_weights(fixed, fixed.graph)
    mixed = in_ram(CONFIG, parameters=place, parameters_at={"fc.bias": "rom"})
    partly = mase_hw.compile(seeded(Pair), EXAMPLE, mixed, out=tmp_path / "partly", vectors=VECTORS)
    with pytest.raises(ConfigError, match="differs that is not loaded") as error:
        weights_of(partly, shrunk(seeded(Pair)), EXAMPLE, CONFIG)
    assert error.value.node == "mem/fc_bias.mem"
    with pytest.raises(ConfigError, match="does not say how its model is quantised"):
        make_weights(mase_hw.load_design(design.path), design.graph)


@pytest.mark.parametrize("place", ["ram", "external"])
def test_the_code_that_multipliers_were_chosen_without(place: str, tmp_path: Path) -> None:
    """Multipliers that share an operand take no -32: the design's own weights have none."""
    config = in_ram(CONFIG, parameters=place, family="xc7", implementation={"fc": "packed"})
    design = mase_hw.compile(seeded(Pair), EXAMPLE, config, out=tmp_path / "bundle", vectors=VECTORS)
    (layer,) = (each for each in design.manifest["instances"] if each["module"] == "fixed_linear")
    assert layer["parameters"]["NARROW"] == 1
    least = seeded(Pair)
    with torch.no_grad():
        least.fc.weight[0, 0] = -1.0
    with pytest.raises(EmitError, match="most negative code"):
        weights_of(design, least, EXAMPLE, config)


def test_what_is_a_part_of_its_module(tmp_path: Path) -> None:
    config = in_ram(CONFIG, implementation={"fc": "unrolled"})
    with pytest.raises(UnsupportedError, match="a part of its module") as error:
        mase_hw.compile(seeded(Pair), EXAMPLE, config, out=tmp_path / "bundle", vectors=VECTORS)
    assert error.value.node == "fc.weight"
    with pytest.raises(ConfigError, match="no such stored parameter"):
        nowhere = in_ram(CONFIG, parameters_at={"fc.scale": "rom"})
        mase_hw.compile(seeded(Pair), EXAMPLE, nowhere, out=tmp_path / "bundle", vectors=VECTORS)


MODEL = """
import torch
from torch import nn

def model(factor=1.0):
    torch.manual_seed(3)
    made = nn.Sequential(nn.Linear(4, 3))
    with torch.no_grad():
        made[0].weight *= factor
    data = torch.rand(32, 4)
    return made, data[:1], [data], None, [(data, torch.zeros(32, dtype=torch.long))]

def retrained():
    return model(0.5)
"""


@pytest.mark.parametrize(("place", "name"), [("ram", "image.bin"), ("external", "external.bin")])
def test_the_command(place: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a file with both models to a folder with the image, and the accuracies of both."""
    file, config = tmp_path / "net.py", tmp_path / "net.toml"
    file.write_text(MODEL)
    config.write_text('[quantize.default.config]\nname = "fixed"\ndata_in_width = 8\nweight_width = 8\n'
                      f'data_out_width = 8\n[hardware]\nparameters = "{place}"\n')  # fmt: skip
    bundle, out = tmp_path / "bundle", tmp_path / "weights"
    words = ["--config", str(config)]
    assert main(["compile", f"{file}:model", *words, "--out", str(bundle), "--save-model"]) == 0
    capsys.readouterr()
    assert main(["weights", f"{file}:retrained", *words, "--bundle", str(bundle), "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["evaluation"]["frames"] == 32
    manifest = json.loads((out / "manifest.json").read_text())
    changed = {file for file in manifest["changed"] if file != "mem/external.mem"}
    assert len(changed) == 1, "the bias is the same"
    image = (out / name).read_bytes()
    assert f"{binascii.crc32(image[:-4]):08x}" == manifest["crc"]
    assert manifest["design"] == json.loads((bundle / "manifest.json").read_text())["digest"]
