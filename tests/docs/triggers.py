"""How each example in docs/troubleshooting.md comes about: by name, a function that raises the error shown there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw import MaseGraph
from mase_hw.catalogue import OpDef, default_catalogue
from mase_hw.cost.devices import DEVICES
from mase_hw.design.vectors import read_vectors
from mase_hw.passes import (
    add_common_metadata_analysis_pass,
    calibrate_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)
from mase_hw.simulate.build.simulator import build
from mase_hw.simulate.build.tools import find_build_tools
from mase_hw.simulate.engines.cocotb import simulate
from mase_hw.simulate.plan import Limits
from mase_hw.synth.checks import check_capacity
from tests.ir.nets import With

EXAMPLE = torch.linspace(-1, 1, 8).reshape(1, 8)
WIDTHS = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8, "data_out_width": 8}


def net(**layers: nn.Module) -> nn.Module:
    """Three layers with names, or others."""
    torch.manual_seed(0)
    return nn.Sequential(OrderedDict(layers or {"fc1": nn.Linear(8, 4), "relu": nn.ReLU(), "fc2": nn.Linear(4, 2)}))


def compiling(
    model: nn.Module | None = None, config: Mapping[str, Any] | None = None, example: Tensor = EXAMPLE
) -> Callable[[], object]:
    """A call of ``compile``."""
    return lambda: mase_hw.compile(model or net(), example, config, out="build/refused")


def quantized(**keys: Any) -> Mapping[str, Any]:
    """A configuration whose default is 8 bits, with some keys changed."""
    return {"quantize": {"default": {"config": {**WIDTHS, **keys}}}}


class Branch(nn.Module):
    """Python that depends on a value."""

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x
        return torch.relu(x)


class Counts(nn.Module):
    """Keeps count of its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.calls = nn.Linear(8, 2), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.fc(x)


class OtherWeights(nn.Linear):
    """Gives its forward other weights than anybody else."""

    def __getattr__(self, name: str) -> Any:
        value = super().__getattr__(name)
        return value * 2 if name == "weight" and sys._getframe(1).f_code.co_name == "forward" else value


def _replaced() -> object:
    model = net()
    plain = model.fc1.forward
    model.fc1.forward = lambda x: plain(x) * 2
    return compiling(model)()


def _images() -> Iterator[Tensor]:
    raise LookupError("no such image")
    yield EXAMPLE


def _nan() -> object:
    model = net()
    model.fc1.weight.data[0, 0] = float("nan")
    return compiling(model)()


def _early() -> object:
    return calibrate_analysis_pass(MaseGraph(net()), {"data": [EXAMPLE]})


def _initialised() -> MaseGraph:
    graph, _ = init_metadata_analysis_pass(MaseGraph(net()))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"input": EXAMPLE}})
    return graph


def _calibrated() -> MaseGraph:
    graph, _ = calibrate_analysis_pass(_initialised(), {"data": [EXAMPLE]})
    return graph


def _other_folder() -> object:
    Path("notes").mkdir(exist_ok=True)
    Path("notes/plan.txt").write_text("keep me")
    return mase_hw.compile(net(), EXAMPLE, out="notes")


def _edited() -> object:
    mase_hw.compile(net(), EXAMPLE, out="build/edited")
    Path("build/edited/rtl/top.sv").write_text("module top; endmodule\n")
    return mase_hw.load_design("build/edited")


def _another_bundle() -> object:
    first = mase_hw.compile(net(), EXAMPLE, out="build/twice")
    mase_hw.compile(net(fc1=nn.Linear(8, 3)), EXAMPLE, out="build/twice")
    return first.simulate()


def _contradiction() -> object:
    mase_hw.compile(net(), EXAMPLE, out="build/strange")
    path = Path("build/strange/manifest.json")
    manifest = json.loads(path.read_text())
    manifest["ports"][0]["lanes"] = 3
    manifest["clock"] = "clock"
    del manifest["digest"]
    manifest["digest"] = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(manifest))
    return mase_hw.load_design("build/strange")


def _again() -> object:
    graph, _ = calibrate_analysis_pass(_initialised(), {"data": [EXAMPLE]})
    for _ in range(2):
        graph, _ = quantize_transform_pass(graph, {"default": {"config": WIDTHS}})
    return graph


def _cut_off() -> object:
    _initialised().export("net")
    Path("net.pt").write_bytes(Path("net.pt").read_bytes()[:-1])
    return MaseGraph.from_checkpoint("net")


def _hook() -> object:
    graph = _initialised()
    graph.model.get_submodule("fc1").register_forward_hook(lambda *_: None)
    return graph.export("net")


def _no_transformers() -> object:
    theirs = type("PreTrainedModel", (nn.Linear,), {"__module__": "transformers.modeling_utils"})
    with mock.patch.dict(sys.modules, {"transformers": None, "transformers.utils.fx": None}):
        return MaseGraph(theirs(8, 4))


def _rival() -> object:
    rival = OpDef(name="rival", mase_type="implicit_func", implicit=True, methods=("relu",))
    return default_catalogue().extended([rival])


TRIGGERS: dict[str, Callable[[], object]] = {
    "nan": _nan,
    "wide sum": compiling(config=quantized(data_in_width=40, weight_width=40, bias_frac_width=160)),
    "unknown key": compiling(config={"quantize": {"default": {"config": {"data_in_widht": 8, "rounding": "nearest"}}}}),
    "no width": lambda: quantize_transform_pass(
        _calibrated(), {"default": {"config": {"name": "fixed", "data_in_width": 8}}}
    ),
    "no node": compiling(config={"quantize": {"by": "name", "fc3": {"config": WIDTHS}}}),
    "unsigned": compiling(config=quantized(data_in_signed=False)),
    "control flow": compiling(Branch()),
    "replaced": _replaced,
    "state": lambda: compiling(Counts())(),
    "something else": lambda: compiling(net(fc1=nn.Linear(8, 4), relu=nn.ReLU(), fc2=OtherWeights(4, 2)))(),
    "own code": lambda: mase_hw.compile(net(), EXAMPLE, out="build/refused", calibration=_images()),
    "no number": compiling(config=quantized(data_in_width=True)),
    "no frames": compiling(example=EXAMPLE.to(torch.complex64)),
    "shape": compiling(example=torch.zeros(1, 7)),
    "metadata key": lambda: _initialised().node("fc1").meta["mase"]["common"]["args"]["weigth"],
    "too early": _early,
    "not observed": lambda: quantize_transform_pass(_initialised(), {"default": {"config": WIDTHS}}),
    "unknown op": compiling(net(fc1=nn.Linear(8, 4), gate=nn.FractionalMaxPool2d(2, 2))),
    "no hardware": compiling(With(nn.Linear(4, 2), lambda fc, x: fc(x.take((x > 0).long()[:, :4])))),
    "float": compiling(config={"quantize": {"default": {"config": {"name": None}}}}),
    "parallelism": compiling(config={"hardware": {"parallelism": {"fc1": {"data_in_0": 16}}}}),
    "again": _again,
    "cut off": _cut_off,
    "hook": _hook,
    "transformers": _no_transformers,
    "other folder": _other_folder,
    "edited": _edited,
    "another bundle": _another_bundle,
    "contradiction": _contradiction,
    "device": lambda: check_capacity(
        {"lut": 9000, "ff": 6000, "dsp": 104, "bram": 15}, DEVICES["lfe5u-25f"], "counted after mapping"
    ),
    "compiler": lambda: find_build_tools({**os.environ, "CXX": "no-such-compiler"}),
    "rival": _rival,
}
"""Everything that needs no simulator."""


def simulated(demo: Path) -> dict[str, Callable[[], object]]:
    """What goes wrong in a simulation, shown with an existing build of the design in ``demo``."""
    design = mase_hw.load_design(demo)
    beats = {
        name: stream.pack(read_vectors(demo / "vectors" / f"{name}.mem", stream))
        for name, stream in design.streams.items()
    }
    stimulus, expected = ({s.name: beats[s.name] for s in side} for side in (design.dut().inputs, design.dut().outputs))
    built = build(design.dut(), Path(f"{demo}.work/build"), cache_dir=demo.parent / "runtime-cache")

    def play(**changes: Any) -> object:
        given: dict[str, Any] = {
            "stimulus": stimulus,
            "expected": expected,
            "limits": Limits(100, 2000),
        } | changes
        return simulate(built, Path(f"{demo}.work/run"), **given).raise_on_failure()

    def wrong_weight() -> object:
        broken = Path("build/broken")
        shutil.rmtree(broken, ignore_errors=True)
        shutil.copytree(demo, broken)
        shutil.copytree(f"{demo}.work/build", f"{broken}.work/build", dirs_exist_ok=True)
        memory = broken / "mem/fc2_bias.mem"
        memory.write_text("".join(f"{int(line, 16) ^ 0x10:08x}\n" for line in memory.read_text().split()))
        return mase_hw.Design(broken, verify=False).simulate(waves=False)

    def nothing() -> object:
        empty = [{name: beats[:0] for name, beats in side.items()} for side in (stimulus, expected)]
        return play(stimulus=empty[0], expected=empty[1])

    def one_more() -> object:
        return play(expected={name: np.concatenate([beats, beats[-1:]]) for name, beats in expected.items()})

    return {"wrong weight": wrong_weight, "hang": one_more, "nothing": nothing}
