"""A driver in the style of AFE: import, record, calibrate, quantise, evaluate, search, dump.

Run it with ``python examples/afe_flow.py``. What it imports from ``mase_hw.compat`` are names of ``afe.driver.passes``.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from mase_hw.compat import (
    MaseGraph,
    binary_search,
    calibration,
    dump_diagnostic_files_after,
    evaluation,
    import_and_transform,
    noise_based_mixed_precision_quantization,
    quantization,
    update_quantization_configs,
)


def source() -> tuple[bytes, list[dict[str, np.ndarray]], np.ndarray]:
    """A network as an ONNX file, data for it, and the classes that it finds, which take the place of labels."""
    random = np.random.default_rng(0)
    shapes = {"w1": (8, 16), "b1": (16,), "w2": (16, 4), "b2": (4,)}
    weights = {name: random.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Gemm", ["image", "w1", "b1"], ["a"], name="fc1"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Gemm", ["b", "w2", "b2"], ["scores"], name="fc2"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", k]) for n, k in (("image", 8), ("scores", 4))]
    stored = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "net", ends[:1], ends[1:], stored), opset_imports=[helper.make_opsetid("", 17)]
    )
    data = random.random((256, 8), dtype=np.float32)
    hidden = np.maximum(data @ weights["w1"] + weights["b1"], 0)
    return model.SerializeToString(), [{"image": data}], (hidden @ weights["w2"] + weights["b2"]).argmax(1)


def accuracy(outputs: np.ndarray, ground_truth: np.ndarray) -> float:
    """Share of the right classes."""
    return float((outputs.argmax(1) == ground_truth).mean())


def width(bits: int) -> dict[str, Any]:
    """A configuration for all nodes."""
    return {"name": "fixed", "data_in_width": bits, "weight_width": bits, "data_out_width": bits}


def main() -> None:
    """Run the driver."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="build/afe_flow")
    out = parser.parse_args().out
    file, calib_data, labels = source()
    eval_data = [(batch, labels) for batch in calib_data]
    evaluate = evaluation(accuracy, fast_mode=True)

    def quantized(bits: int) -> MaseGraph:
        net = import_and_transform(file, name="net")
        net = update_quantization_configs(global_config=width(bits))(net)
        net = calibration(method="mse")(net, calib_data)
        return dump_diagnostic_files_after(quantization(), f"{out}/", f"_{bits}")(net)

    print("8 bits:", evaluate(quantized(8), eval_data))

    def good_enough(bits: int) -> tuple[bool, int]:
        return evaluate(quantized(bits), eval_data) >= 0.97, bits

    print("fewest bits:", binary_search(good_enough, 2, 12, procedure_name="width"))

    net = import_and_transform(file, name="net")
    mixed = noise_based_mixed_precision_quantization(net, {"low": 4, "high": 8}, accuracy, 0.97, data=eval_data)
    print("raised to 8 bits:", mixed.raised, "score:", mixed.score)


if __name__ == "__main__":
    main()
