"""ONNX' own backend tests, counted: ``python -m tests.importers.onnx_backend [PART OF A NAME]``.

Every test is a file with inputs and what it must give. It is taken as it is, else with all inputs but the first one
stored, as a model has its weights; a first size other than 1 is that many frames. What is taken must give what the test
says. What is refused is counted by its reason, numbers and names left out.
"""

import re
import sys
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from mase_hw import import_model
from mase_hw.errors import MaseHwError


def tests() -> Any:
    """Name, model, inputs and results of every test that is stored or generated without a network."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        for case in collect_testcases(None):
            if case.model is not None and case.data_sets:
                yield case.name, case.model, *case.data_sets[0]
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        for case in load_model_tests(kind=kind):
            folder = Path(case.model_dir)
            model = onnx.load(folder / "model.onnx")
            sets = sorted(folder.glob("test_data_set_0/*.pb"))
            read = {way: [_read(f) for f in sets if f.name.startswith(way)] for way in ("input", "output")}
            yield f"{kind}/{case.name}", model, read["input"], read["output"]


def _read(file: Path) -> Any:
    return numpy_helper.to_array(onnx.load_tensor(file))


def _float(value: Any) -> Any:
    """Halves as float32, which is what they are taken as."""
    halves = getattr(value, "dtype", None) in ("float16", "bfloat16")
    return value.astype(np.float32) if halves else value


def stored(model: onnx.ModelProto, inputs: list[Any]) -> onnx.ModelProto:
    """The model with all of its inputs but the first one as stored tensors."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for value, given in zip(list(made.graph.input)[1:], inputs[1:], strict=True):
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(given), value.name))
        made.graph.input.remove(value)
    return made


def outcome(model: onnx.ModelProto, inputs: list[Any], wanted: list[Any], close: float) -> str:
    """``right``, ``WRONG``, or why it is refused."""
    names = [v.name for v in model.graph.input]
    shapes = {n: (1, *v.shape[1:]) for n, v in zip(names, inputs, strict=False) if getattr(v, "ndim", 0)}
    try:
        graph = import_model(model, shapes=shapes)
        given = [torch.from_numpy(np.array(v)) for v in inputs[: len(graph.example)]]
        with torch.no_grad():
            found = graph.model(*given)
    except MaseHwError as error:
        lines = str(error).splitlines()
        text = lines[1] if lines[0].endswith(":") else lines[0]
        return re.sub(r"\[[^]]*\]|'[^']*'|\d+(\.\d+)?", "*", re.sub(r"^.*?\((\w+)\): ", r"\1: ", text.strip()))[:110]
    found = list(found) if isinstance(found, tuple | list) else [found]
    pairs = list(zip(found, wanted, strict=False))
    right = all(
        tuple(a.shape) == tuple(np.shape(b))
        and np.allclose(a.numpy().astype(np.float64), np.asarray(b).astype(np.float64), close, close, equal_nan=True)
        for a, b in pairs
    )
    return "right" if right else "WRONG"


def main() -> None:
    """Count."""
    part, counts, examples = sys.argv[1] if len(sys.argv) > 1 else "", Counter[str](), defaultdict(list)
    for name, model, inputs, wanted in tests():
        if part not in name:
            continue
        close = 3e-2 if any(getattr(v, "dtype", None) == "bfloat16" for v in wanted) else 1e-3
        inputs, wanted = ([_float(v) for v in values] for values in (inputs, wanted))
        try:
            found = outcome(model, inputs, wanted, close)
            if found not in ("right", "WRONG") and len(inputs) > 1:
                again = outcome(stored(model, inputs), inputs[:1], wanted, close)
                found = "right, the other inputs stored" if again == "right" else again
        except (NotImplementedError, TypeError, ValueError):
            found = "inputs that are no tensors of numbers"
        counts[found] += 1
        examples[found].append(name)
        if found == "WRONG":
            print(f"WRONG: {name}")
    for found, count in counts.most_common():
        print(f"{count:5} {found}   {', '.join(examples[found][:3])}")


if __name__ == "__main__":
    main()
