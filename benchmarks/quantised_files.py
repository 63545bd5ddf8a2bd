"""Quantised files of other tools, as they are taken: whole, with a part on the host, or refused; cycles and resources.

    python -m benchmarks.quantised_files TFC_1W1A.onnx vww_96_int8.tflite
    python -m benchmarks.quantised_files --inputs '{"0": [8, 0.00392156862745098, false]}' --outputs 74 TFC_1W2A.onnx

Formats of inputs that a file leaves in float are width, scale and whether there is a sign; a scale that is a power of
two is one of fixed point. Results named by ``--outputs`` take the place of those of the file. With ``--frames`` a
design that is whole is simulated, and its bits are compared. Where frames lie beside a file (``NAME.npy``, as
:mod:`benchmarks.runtime_files` writes them), the results are compared with those of ONNX Runtime, without its fusions.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import mase_hw
from mase_hw.emit.estimate import estimate
from mase_hw.errors import MaseHwError
from mase_hw.formats import FixedFormat, ScaledFormat
from mase_hw.nn import Quantized
from mase_hw.nn.on_host import HostGraph


def format_of(width: int, scale: float, signed: bool) -> FixedFormat:
    """A format, in fixed point if the scale is a power of two."""
    fraction, exponent = math.frexp(scale)
    if fraction == 0.5:
        return FixedFormat(width, 1 - exponent, signed)
    return ScaledFormat.make(width, scale, signed=signed)


def differences(file: Path, model: torch.nn.Module) -> str:
    """How many results of the frames beside a file are not those of ONNX Runtime, up to rounding in float32."""
    frames = file.with_suffix(".npy")
    if not frames.exists():
        return ""
    import onnxruntime as runtime

    options, given = runtime.SessionOptions(), np.load(frames)
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(file, options)
    (name,) = (each.name for each in session.get_inputs())
    want = np.concatenate([session.run(None, {name: frame[None]})[0] for frame in given])
    with torch.no_grad():
        found = model(torch.from_numpy(given)).numpy()
    far = ~np.isclose(found, want, rtol=1e-5, atol=1e-6 * np.abs(want).max())
    return f", {far.sum()} of {far.size} results differ from ONNX Runtime"


def measure(file: Path, inputs: Mapping[str, FixedFormat], outputs: Sequence[str] | None, frames: int) -> str:
    """How a file is taken, in one line."""
    given: dict[str, Any] = {"inputs": inputs, "outputs": outputs}
    try:
        graph = mase_hw.import_model(file, **given)
    except MaseHwError as refused:
        try:
            graph = mase_hw.import_model(file, host=True, **given)
        except MaseHwError:
            return f"refused: {refused.message.splitlines()[-1].strip()}"
        modules = list(graph.model.named_modules())
        host = [name for name, module in modules if isinstance(module, HostGraph)]
        count = sum(isinstance(module, Quantized) for _, module in modules)
        line = f"{count} nodes in hardware, on the host: {', '.join(host)}"
        return line + differences(file, graph.model)
    settings = {"hardware": {"max_parallelism": 1}, "vectors": {"frames": 1, "faults": 1}}
    with tempfile.TemporaryDirectory() as folder:
        design = mase_hw.compile(graph, graph.example, settings, out=Path(folder) / "design")
        area, timing = estimate(design.record), design.timing
        line = f"whole, interval {timing['interval']:,}, {area['lut']:,} LUTs, {area['dsp']} DSP blocks"
        if frames:
            (example,) = graph.example.values()
            run = design.simulate(torch.cat([example] * frames), engine="batch", work_dir=Path(folder) / "work")
            line += f", {run.result.mismatches} mismatches in {run.frames} frames of {run.interval:,} cycles"
    return line + differences(file, graph.model)


def main() -> None:
    """Print a line for every file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--inputs", type=json.loads, default={}, help="JSON: name -> [width, scale, signed]")
    parser.add_argument("--outputs", nargs="+")
    parser.add_argument("--frames", type=int, default=0)
    args = parser.parse_args()
    inputs = {name: format_of(*given) for name, given in args.inputs.items()}
    for file in args.files:
        print(f"{file.name}: {measure(file, inputs, args.outputs, args.frames)}", flush=True)


if __name__ == "__main__":
    main()
