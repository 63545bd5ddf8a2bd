"""Accuracy of quantised networks: methods x networks x bits x seeds, beside baselines that use nothing of this package.

    python benchmarks/quantisation_accuracy.py            # about ten minutes on one core
    python benchmarks/quantisation_accuracy.py --quick    # one seed, two widths, a short training
    python benchmarks/quantisation_accuracy.py --methods integers    # rows with this word alone, and float

The networks are those of the examples (``digits_mlp.py``: 40 epochs, ``digits_cnn.py``: 15), trained from every seed;
1,437 images to calibrate and train on, 360 held out. Everything has the bits of the row, the pixels and the first and
the last layer included, but biases and logits have 16 (in the rows ``all``: as few as everything else; biases of scaled
integers have the bits that their sums need). What is shown
is the mean over the seeds, each seed in brackets, and the seconds a network takes, calibration included.
"""

from __future__ import annotations

import argparse
import copy
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import digits_cnn
import digits_mlp

from mase_hw.compiler.config import load_config
from mase_hw.compiler.stages import quantise_pipeline
from mase_hw.ir import MaseGraph
from mase_hw.passes import (
    add_common_metadata_analysis_pass,
    fold_batch_norm_transform_pass,
    init_metadata_analysis_pass,
)
from mase_hw.training import prepare

NETWORKS = {"cnn": (digits_cnn.DigitsCNN, 15, "fc"), "mlp": (digits_mlp.DigitsMLP, 40, "fc3")}
WIDE = 16
EPOCHS, ROUND_AT, RATE = 20, 8, 1e-2
MIN_MAX = {"method": "min_max", "weight_method": "min_max"}
MSE = {"method": "mse", "weight_method": "mse"}
Model = Callable[[Tensor], Tensor]


def configuration(bits: int, last: str, **tables: Any) -> dict[str, Any]:
    """Everything at so many bits, but for biases and logits."""
    keys = {"name": "fixed", "data_in_width": bits, "weight_width": bits, "bias_width": WIDE, "data_out_width": bits}
    overrides = {last: {"config": {"data_out_width": WIDE}}}
    return {"quantize": {"default": {"config": keys}, "overrides": overrides}, **tables}


def integers(bits: int, last: str, keys: dict[str, Any], **tables: Any) -> dict[str, Any]:
    """The same with scaled integers, of which no width of biases is given."""
    made = configuration(bits, last, **tables)
    own = {k: v for k, v in made["quantize"]["default"]["config"].items() if k != "bias_width"}
    made["quantize"]["default"]["config"] = {**own, "name": "integer", "multiplier_width": 31, **keys}
    return made


def per_channel(config: dict[str, Any], layers: list[str]) -> dict[str, Any]:
    """A fraction width for every output channel of the weights."""
    made = copy.deepcopy(config)
    for layer in layers:
        own = made["quantize"]["overrides"].setdefault(layer, {"config": {}})
        own["config"]["weight_granularity"] = "channel"
    return made


def ours(net: nn.Module, data: digits_mlp.Digits, config: dict[str, Any]) -> Model:
    """The quantised graph that ``compile`` makes of a configuration."""
    pipeline = quantise_pipeline(
        {"image": data.test_images[:1]}, load_config(config), calibration=data.train_images.split(256)
    )
    return pipeline.run(MaseGraph(net)).graph.model


def trained(net: nn.Module, data: digits_mlp.Digits, config: dict[str, Any], epochs: int) -> Model:
    """Learned steps for some epochs from the float network on; of fixed point powers of two for the last three fifths.

    Scales of scaled integers, which stay real, are learned to the end, at a tenth of the rate.
    """
    calibration = list(data.train_images.split(256))
    model = prepare(net, data.test_images[:1], config, calibration=calibration)
    torch.manual_seed(0)
    real = config["quantize"]["default"]["config"]["name"] == "integer"
    groups = [
        {"params": model.weights(), "lr": RATE},
        {"params": model.steps(), "lr": RATE / 10 if real else RATE},
    ]
    optimiser = torch.optim.Adam(groups)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    model.train()
    for epoch in range(epochs):
        if epoch == epochs * ROUND_AT // EPOCHS and not real:
            model.round_steps()
        for batch in torch.randperm(len(data.train_images)).split(64):
            optimiser.zero_grad()
            F.cross_entropy(model(data.train_images[batch]), data.train_labels[batch]).backward()
            optimiser.step()
        schedule.step()
    return model.freeze().model


def folded(net: nn.Module, example: Tensor) -> fx.GraphModule:
    """The float network without batch normalisations."""
    graph, _ = init_metadata_analysis_pass(MaseGraph(net))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"image": example}})
    graph, _ = fold_batch_norm_transform_pass(graph)
    return graph.model


def affine(net: nn.Module, data: digits_mlp.Digits, bits: int, channels: bool) -> Model:
    """Affine fake quantisation: any scale and zero point, float biases and logits; symmetric weights, min and max."""
    model = copy.deepcopy(folded(net, data.test_images[:1]))
    layers = [module for module in model.modules() if isinstance(module, nn.Linear | nn.Conv2d)]
    ends: dict[nn.Module, tuple[float, float]] = {}

    def observe(module: nn.Module, given: tuple[Tensor, ...]) -> None:
        ends[module] = (min(0.0, float(given[0].min())), max(0.0, float(given[0].max())))

    hooks = [layer.register_forward_pre_hook(observe) for layer in layers]
    with torch.no_grad():
        model(data.train_images)
    for hook in hooks:
        hook.remove()
    top = 2 ** (bits - 1) - 1

    def enter(module: nn.Module, given: tuple[Tensor, ...]) -> Tensor:
        low, high = ends[module]
        scale = (high - low) / (2**bits - 1)
        zero = round(-low / scale)
        return ((given[0] / scale).round() + zero).clamp(0, 2**bits - 1).sub(zero) * scale

    for layer in layers:
        weight = layer.weight.data
        peak = weight.flatten(1).abs().amax(1) if channels else weight.abs().max().expand(len(weight))
        scale = (peak / top).reshape(-1, *[1] * (weight.dim() - 1))
        layer.weight.data = (weight / scale).round().clamp(-top - 1, top) * scale
        layer.register_forward_pre_hook(enter)
    return model


def onnx_runtime(net: nn.Module, data: digits_mlp.Digits) -> Model:
    """ONNX Runtime's static quantisation to 8 bits, per channel, by min and max."""
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType, quantize_static

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(data.train_images.split(1))

        def get_next(self) -> dict[str, np.ndarray] | None:
            batch = next(self.left, None)
            return None if batch is None else {"image": batch.numpy()}

    with tempfile.TemporaryDirectory() as folder:
        plain, made = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        model = folded(net, data.test_images[:1])
        axes = {"image": {0: "n"}, "scores": {0: "n"}}
        torch.onnx.export(
            model, (data.test_images[:1],), str(plain), input_names=["image"], output_names=["scores"],
            dynamic_axes=axes, dynamo=False,
        )  # fmt: skip
        quantize_static(
            plain, made, Reader(), per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
        )  # fmt: skip
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(made.read_bytes(), options, providers=["CPUExecutionProvider"])
    return lambda images: torch.as_tensor(session.run(None, {"image": images.numpy()})[0])


def methods(
    net: nn.Module, data: digits_mlp.Digits, bits: int, last: str, quick: bool
) -> dict[str, Callable[[], Model]]:
    """How each row of a table is made."""
    layers = [name for name, module in net.named_modules() if isinstance(module, nn.Linear | nn.Conv2d)]
    narrow: dict[str, Any] = configuration(bits, last)
    narrow["quantize"]["default"]["config"]["bias_width"] = bits
    narrow["quantize"]["overrides"] = {}
    plain, mse = configuration(bits, last, calibrate=MIN_MAX), configuration(bits, last, calibrate=MSE)

    def rounded(**table: Any) -> dict[str, Any]:
        return configuration(bits, last, calibrate=MSE, rounding=table)

    epochs = 5 if quick else EPOCHS
    found: dict[str, Callable[[], Model]] = {
        "float": lambda: net,
        "affine, per tensor (baseline)": lambda: affine(net, data, bits, False),
        "affine, per channel (baseline)": lambda: affine(net, data, bits, True),
    }
    if bits == 8:
        found["ONNX Runtime int8 (baseline)"] = lambda: onnx_runtime(net, data)
    found |= {
        "min_max, all": lambda: ours(net, data, {**narrow, "calibrate": MIN_MAX}),
        "mse, all": lambda: ours(net, data, {**narrow, "calibrate": MSE}),
        "min_max": lambda: ours(net, data, plain),
        "mse": lambda: ours(net, data, mse),
        "mse, bias analytic": lambda: ours(net, data, rounded(bias_correction="analytic")),
        "mse, bias empirical": lambda: ours(net, data, rounded(bias_correction="empirical")),
        "gptq": lambda: ours(net, data, rounded(method="gptq")),
        "gptq, bias empirical": lambda: ours(net, data, rounded(method="gptq", bias_correction="empirical")),
        "adaround, bias empirical": lambda: ours(net, data, rounded(method="adaround", bias_correction="empirical")),
        "gptq, bias empirical, per channel": lambda: ours(
            net, data, per_channel(rounded(method="gptq", bias_correction="empirical"), layers)
        ),
    }
    channels = {"weight_granularity": "channel"}
    affine_data = {**channels, "data_affine": True}
    refined = {"rounding": {"method": "gptq", "bias_correction": "empirical"}}
    found |= {
        "integers, per tensor": lambda: ours(net, data, integers(bits, last, {})),
        "integers, per channel": lambda: ours(net, data, integers(bits, last, channels)),
        "integers, per channel, affine": lambda: ours(
            net, data, integers(bits, last, {**affine_data, "weight_affine": True})
        ),
        "integers, gptq, bias empirical": lambda: ours(net, data, integers(bits, last, channels, **refined)),
        "integers, adaround, bias empirical": lambda: ours(
            net, data, integers(bits, last, channels, rounding={"method": "adaround", "bias_correction": "empirical"})
        ),
    }
    if bits <= 4:
        found[f"trained {epochs} epochs"] = lambda: trained(net, data, mse, epochs)
        found[f"integers, trained {epochs} epochs"] = lambda: trained(net, data, integers(bits, last, channels), epochs)
    return found


def main() -> int:
    """Print the tables; see the module."""
    parser = argparse.ArgumentParser(description="Accuracy of quantised networks on scikit-learn's digits.")
    parser.add_argument("--seeds", type=int, default=3, help="networks of each kind")
    parser.add_argument("--bits", type=int, nargs="+", default=[2, 3, 4, 8])
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--quick", action="store_true", help="one seed, 3 and 8 bits, a short training")
    parser.add_argument("--methods", default="", metavar="WORD", help="rows with this word, and float")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    logging.getLogger().setLevel(logging.ERROR)
    seeds, widths = (1, [3, 8]) if arguments.quick else (arguments.seeds, arguments.bits)
    data = digits_mlp.load()
    for name in arguments.networks:
        kind, epochs, last = NETWORKS[name]
        nets = [digits_mlp.train(data, kind, epochs, seed) for seed in range(seeds)]
        for bits in widths:
            print(f"\n{name}, {bits} bits{'':30} accuracy   seeds 0 to {seeds - 1}      seconds")
            rows = [methods(net, data, bits, last, arguments.quick) for net in nets]
            for method in rows[0]:
                if method != "float" and arguments.methods not in method:
                    continue
                started, scores = time.perf_counter(), []
                for row in rows:
                    model = row[method]()
                    with torch.no_grad():
                        scores.append(100 * digits_mlp.accuracy(model(data.test_images), data.test_labels))
                each = (time.perf_counter() - started) / seeds
                shown = " ".join(f"{score:.1f}" for score in scores)
                print(f"{method:40} {sum(scores) / seeds:8.2f}   ({shown}) {each:8.1f}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
