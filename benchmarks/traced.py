"""A program of ``throughput.py`` in alkaid: the same integers and casts, traced and written as Verilog.

    OTHER/bin/python benchmarks/traced.py PROGRAM.json FOLDER CUTOFF

This file runs where alkaid is, and without this package. da4ml 0.6 has no rounding half to even, so it cannot have the
same casts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from alkaid.codegen.rtl.rtl_model import RTLModel  # type: ignore[import-not-found]
from alkaid.trace import FVArray, trace  # type: ignore[import-not-found]


def scaled(values: Any, frac: int) -> Any:
    """Mantissas as numbers."""
    return np.array(values, dtype=np.float64) * 2.0**-frac


def cast(x: Any, fmt: tuple[int, int, bool]) -> Any:
    """Round half to even, saturate."""
    width, frac, signed = fmt
    return x.quantize(int(signed), width - frac - int(signed), frac, overflow_mode="SAT", round_mode="RND_CONV")


def convolution(x: Any, weight: Any, pad: tuple[int, int]) -> Any:
    """A convolution of stride 1 as products with the windows, ``(1, O, H, W)``."""
    _, channels, height, width = x.shape
    rows = []
    for y in range(height + 2 * pad[0] - weight.shape[2] + 1):
        for z in range(width + 2 * pad[1] - weight.shape[3] + 1):
            window, kept = [], []
            for place in np.ndindex(channels, *weight.shape[2:]):
                down, along = y + place[1] - pad[0], z + place[2] - pad[1]
                if 0 <= down < height and 0 <= along < width:
                    window.append(x[0, place[0], down, along])
                    kept.append(weight[:, place[0], place[1], place[2]])
            rows.append(np.asarray(FVArray(np.array(window), x.solver_options) @ np.array(kept)))
    found = np.array(rows).reshape(height + 2 * pad[0] - weight.shape[2] + 1, -1, len(weight)).transpose(2, 0, 1)
    return FVArray(found[None], x.solver_options)


def result(step: dict[str, Any], given: list[Any]) -> Any:
    """What a step gives."""
    x, formats, op = given[0], step["formats"], step["op"]
    parameters = {n: scaled(v, formats[n][1]) for n, v in step["parameters"].items()}
    if op == "order":
        fmt = formats.get("data_out_0")
        parts = [np.asarray(cast(each, fmt) if fmt else each).reshape(-1) for each in given]
        return FVArray(np.concatenate(parts)[np.array(step["order"])].reshape(step["shape"]), x.solver_options)
    if op == "linear":
        found = x @ parameters["weight"].T
        return cast(found + parameters["bias"] if "bias" in parameters else found, formats["data_out_0"])
    if op == "conv2d":
        pad = step["attributes"]["padding"]
        found = convolution(x, parameters["weight"], tuple(pad) if isinstance(pad, list) else (pad, pad))
        return cast(found + parameters["bias"].reshape(1, -1, 1, 1), formats["data_out_0"])
    if op == "cast":
        return cast(x, formats["data_out_0"])
    if op == "relu":
        return cast(np.maximum(x, 0), formats["data_out_0"])
    if op == "max_pool2d":
        size = step["attributes"]["kernel_size"]
        down, along = step["shape"][2:]
        parts = x.reshape(1, x.shape[1], down, size, along, size)
        return cast(np.amax(np.amax(parts, axis=5), axis=3), formats["data_out_0"])
    if op in ("sum", "mean", "mean_over"):
        dim = step["attributes"]["dim"]
        dim = dim if isinstance(dim, int) else dim[0]
        found = np.sum(x, axis=dim)
        return cast(found if op == "sum" else found * (1.0 / x.shape[dim]), formats["data_out_0"])
    raise SystemExit(f"no {op} here")


def main() -> None:
    """Trace a program, cut it into stages, and write it."""
    program = json.loads(Path(sys.argv[1]).read_text())
    width, frac, signed = program["format"]
    k, i, f = (np.full(program["shape"], n) for n in (int(signed), width - frac - int(signed), frac))
    x = FVArray.from_kif(k, i, f)
    found = [x]
    for step in program["steps"]:
        found.append(result(step, [found[at] for at in step["inputs"]]))
    logic = trace(x, found[-1])
    model = RTLModel(logic, sys.argv[2], "net", latency_cutoff=float(sys.argv[3]))
    model.write()
    print(f"{model.latency} cycles, {model.reg_bits} bits of registers, cost {logic.cost}")


if __name__ == "__main__":
    main()
