"""`mase-hw weights` for a design on several devices: a folder with what each one loads, or reads from its memory."""

from __future__ import annotations

import binascii
import json
from pathlib import Path

import numpy as np
import pytest

from mase_hw.cli.main import main
from mase_hw.devices import load_devices

MODEL = """
import torch
from torch import nn

def model(factor=1.0):
    torch.manual_seed(3)
    made = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3), nn.ReLU(), nn.Linear(3, 3))
    with torch.no_grad():
        made[2].weight *= factor
        made[4].weight *= factor
    data = torch.rand(32, 4)
    return made, data[:1], [data], None, [(data, torch.zeros(32, dtype=torch.long))]

def retrained():
    return model(0.5)
"""
CONFIG = """
[quantize.default.config]
name = "fixed"
data_in_width = 8
weight_width = 8
data_out_width = 8

[hardware.device]
2 = 1
4 = 2

[hardware.parameters_at]
"2.weight" = "ram"
"4.weight" = "external"
"""


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Device 1 loads an image, device 2 reads another one, device 0 has ROMs; results are those of the other model."""
    file, config = tmp_path / "net.py", tmp_path / "net.toml"
    file.write_text(MODEL)
    config.write_text(CONFIG)
    bundle, out = tmp_path / "bundle", tmp_path / "weights"
    words = ["--config", str(config)]
    assert main(["compile", f"{file}:model", *words, "--out", str(bundle)]) == 0
    capsys.readouterr()
    words = ["weights", f"{file}:retrained", *words, "--bundle", str(bundle), "--out", str(out), "--json"]
    assert main(words) == 2 and not out.exists()
    assert "is not kept beside it" in capsys.readouterr().err
    assert main([*words, "--model", f"{file}:model"]) == 0
    assert json.loads(capsys.readouterr().out)["evaluation"]["frames"] == 32
    manifest = json.loads((out / "manifest.json").read_text())
    assert sorted(manifest["devices"]) == ["device_1", "device_2"]
    for place, name in (("device_1", "image.bin"), ("device_2", "external.bin")):
        image = (out / place / name).read_bytes()
        assert f"{binascii.crc32(image[:-4]):08x}" == manifest["devices"][place]["crc"]
    assert manifest["devices"]["device_1"]["changed"] == ["mem/_2_weight.mem"]
    design = load_devices(bundle)
    given, before = design.whole.vectors()
    after = np.load(out / "vectors.npz")
    (port,), (result,) = given, before
    assert np.array_equal(after[port], given[port].reshape(after[port].shape))
    assert not np.array_equal(after[result], before[result].reshape(after[result].shape))
