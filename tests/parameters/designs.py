"""Designs whose parameters are loaded, with two sets of them, and the bench that plays them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

import mase_hw
from mase_hw.compiler.config import load_config
from mase_hw.compiler.quantised_graph import quantised_graph
from mase_hw.compiler.weights import Weights, make_weights
from mase_hw.emit.reference import Inputs
from mase_hw.hardware.beats import encode
from mase_hw.simulate.build.tools import find_build_tools, run_tool

BENCH = Path(__file__).with_name("swaps.cpp")


def shrunk(model: nn.Module, seed: int = 1, kinds: tuple[type[nn.Module], ...] = (nn.Module,)) -> nn.Module:
    """A model with other parameters of such layers, each nearer to zero, so that no format is too small."""
    made = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in (p for m in made.modules() if isinstance(m, kinds) for p in m.parameters(recurse=False)):
            parameter.mul_(torch.rand(parameter.shape, generator=generator))
    return made


def loaded(
    model: nn.Module, example: Inputs, config: Mapping[str, Any], out: Path, **given: Any
) -> tuple[mase_hw.Design, list[Weights]]:
    """A design, and both sets: its own, and that of another model."""
    design = mase_hw.compile(model, example, config, out=out, **given)
    kinds = (nn.Linear, nn.Conv2d) if design.record.image is None else (nn.Module,)
    return design, [
        weights_of(design, each, example, config, given.get("calibration"))
        for each in (model, shrunk(model, kinds=kinds))
    ]


def weights_of(
    design: mase_hw.Design, model: nn.Module, example: Inputs, config: Mapping[str, Any], calibration: Any = None
) -> Weights:
    """What a design is loaded with to compute as a model."""
    graph = quantised_graph(model, example, load_config(config), calibration, None, lambda _: None)
    return make_weights(design, graph)


def in_ram(config: Mapping[str, Any], **hardware: Any) -> dict[str, Any]:
    """A configuration whose parameters are loaded."""
    return {**config, "hardware": {**config.get("hardware", {}), "parameters": "ram", **hardware}}


def build_bench(design: mase_hw.Design, sets: Sequence[Weights], folder: Path, make: str = "") -> Path:
    """Compile the bench and write what it plays: the vectors of the design, with the results of each set."""
    folder.mkdir()
    ports: dict[str, list[str]] = {"in": [], "out": []}
    for name, stream in design.streams.items():
        size = (stream.bits + 7) // 8
        ports[stream.direction].append(
            f'{{"{name}", &dut->{name}, {size}, {stream.beats}, &dut->{stream.valid}, &dut->{stream.ready}}}'
        )
        for number, each in enumerate(sets):
            raw = encode(stream, stream.pack(each.vectors[name]))
            kind = f"{name}.in" if stream.direction == "in" else f"{name}.{number}.out"
            (folder / kind).write_bytes(raw)
    for number, each in enumerate(sets):
        (folder / f"image.{number}.bin").write_bytes(each.image or each.outside)
    words: dict[str, str | int] = {"LOADER": "<images.h>" if design.record.image is None else "<packets.h>"}
    if design.record.image is not None:
        words["BANKS"] = design.record.image.banks
    if design.record.external is not None:
        words |= {"EXTERNAL": design.record.external.bits // 8, "PRIMED": f"{design.record.external.primed}u"}
    lines = [f"#define {name} {value}" for name, value in words.items()]
    for way, name in (("in", "input_ports"), ("out", "output_ports")):
        lines.append(f"static std::vector<Port> {name}() {{ return {{{', '.join(ports[way])}}}; }}")
    (folder / "ports.h").write_text("\n".join(lines) + "\n")
    tools = find_build_tools()
    command = [
        *(*tools.verilate, "--cc", "--exe", "--build", "-j", "1", "--assert", "--x-initial", "unique"),
        *("-CFLAGS", f"-I{folder} -I{BENCH.parent} -O1", "--prefix", "Vdut", "--top-module", design.manifest["top"]),
        *("--Mdir", str(folder / "build"), "-o", "bench"),
        # Loaded parameters beside others in memory: the model of the memory has those of the bundle.
        *(["-GMEMORY_MODEL=1"] if design.record.image is not None and design.record.external is not None else []),
        *(str(design.path / file) for file in design.manifest["rtl"]),
        str(BENCH),
    ]
    env = {**tools.env, "MAKEFLAGS": tools.env.get("MAKEFLAGS", "") + make}
    done = run_tool(command, env, folder)
    assert done.returncode == 0, done.stdout
    return folder / "build" / "bench"


def play(bench: Path, design: mase_hw.Design, kind: str, *, seed: int, stalls: int, packets: int) -> str:
    """Run it where the memory files are found; what it said last."""
    command = [str(bench), str(bench.parents[1]), *map(str, (seed, stalls, packets)), kind]
    command += ["+verilator+rand+reset+2", f"+verilator+seed+{seed}"]
    done = run_tool(command, find_build_tools().env, design.path)
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()[-1]
