"""Quantised files of other tools, as they are taken: a table of differences, cycles and resources.

    python -m benchmarks.quantised_files --write build/runtime zoo/ vww_96_int8.tflite --simulate 2

Files are QONNX, ONNX with integers, and TFLite; of a folder all of these. Their results for random frames are compared
with those of the source's own executor: of ``qonnx``, of ONNX Runtime without its fusions, and of LiteRT's reference
kernels. With ``--simulate`` the design is simulated as well, with every bit and every cycle compared; with ``--yosys``
look-up tables and DSP blocks are counted, not estimated.

A file ``NAME.json`` beside ``NAME.onnx`` says what that leaves open: ``{"inputs": {"x": [8, 0.25, false]}, "outputs":
["y"]}`` has formats of inputs that the file leaves in float, by width, scale and whether there is a sign (a scale that
is a power of two is one of fixed point), and results that take the place of those of the file; ``"values": [-1, 1]``
are the numbers that inputs have, if not all of their format.

``--write`` makes files beforehand, with the static quantisation of ONNX Runtime, of an MLP, a CNN, and BERT, ViT and
GPT-2 of transformers from small configurations with random weights.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.emit.estimate import estimate
from mase_hw.errors import MaseHwError
from mase_hw.formats import FixedFormat, ScaledFormat
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized, QuantizeInput
from mase_hw.nn.on_host import HostGraph
from mase_hw.numerics import dequantize
from mase_hw.synth.synthesise import synthesise

Array = np.ndarray[Any, Any]
HEADER = ("file", "taken", "differences", "results", "interval", "fill", "LUT", "DSP", "simulated")
QONNX = ("qonnx", "finn", "onnx.brevitas")
"""How the domains of QONNX begin."""
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "attn_implementation": "eager",
}
TOKENS, LENGTH, FRAMES = 32, 8, 16
MASKED = -20.0
"""What the causal mask adds to a score.

GPT-2 itself puts the least float32 there, for which ONNX Runtime chooses a step of 1.3e36: all scores become 0.
"""


class First(nn.Module):
    """A model of transformers without what is not its first result."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        """The first result."""
        return self.model(x, return_dict=False)[0]


class Decoder(nn.Module):
    """GPT-2 without a cache, whose causal mask is a constant."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        for layer in model.get_submodule("h").children():
            layer.get_submodule("attn").get_buffer("bias").fill_(True)  # its own mask hides nothing
        mask = torch.full((LENGTH, LENGTH), MASKED).triu(1)
        self.register_buffer("mask", mask.reshape(1, 1, LENGTH, LENGTH))

    def forward(self, x: Tensor) -> Any:
        """The hidden states of every token."""
        return self.model(x, attention_mask=self.mask, use_cache=False, return_dict=False)[0]


def networks() -> dict[str, tuple[nn.Module, Tensor]]:
    """Every network, and frames to calibrate it with, the same every time."""
    import transformers as hf

    torch.manual_seed(0)
    ids = torch.randint(0, TOKENS, (FRAMES, LENGTH))
    mlp = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 10))
    cnn = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 10),
    )  # fmt: skip
    bert = hf.BertModel(hf.BertConfig(vocab_size=TOKENS, max_position_embeddings=LENGTH, **SMALL))
    vit = hf.ViTModel(hf.ViTConfig(image_size=16, patch_size=4, **SMALL))
    shape = {"n_positions": LENGTH, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_inner": 24}
    gpt2 = hf.GPT2Model(hf.GPT2Config(vocab_size=TOKENS, attn_implementation="eager", **shape))
    with torch.no_grad():
        # Their biases are all 0, of which ONNX Runtime makes one that it quantises wrongly.
        for parameter in (p for model in (bert, vit, gpt2) for p in model.parameters() if p.dim() == 1):
            parameter.add_(torch.randn_like(parameter), alpha=0.05)
    return {
        "mlp": (mlp.eval(), torch.randn(FRAMES, 16)),
        "cnn": (cnn.eval(), torch.randn(FRAMES, 3, 12, 12)),
        "bert": (First(bert).eval(), ids),
        "vit": (First(vit).eval(), torch.randn(FRAMES, 3, 16, 16)),
        "gpt2": (Decoder(gpt2).eval(), ids),
    }


def written(folder: Path) -> Iterator[Path]:
    """Write every network in both formats of ONNX Runtime.

    Args:
        folder: Where the files go; it is made.
    """
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Frames(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self, frames: Tensor) -> None:
            self.left = iter(frames)

        def get_next(self) -> dict[str, Any] | None:
            frame = next(self.left, None)
            return None if frame is None else {"x": frame.unsqueeze(0).numpy()}

    folder.mkdir(parents=True, exist_ok=True)
    for name, (model, frames) in networks().items():
        plain, inferred = folder / f"{name}.float", folder / f"{name}.inferred"
        torch.onnx.export(
            model, (frames[:1],), plain, input_names=["x"], output_names=["y"], opset_version=17, dynamo=False
        )
        quant_pre_process(plain, inferred, skip_symbolic_shape=True)
        for kind in (QuantFormat.QDQ, QuantFormat.QOperator):
            file = folder / f"{name}_{kind.name.lower()}.onnx"
            types = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
            quantize_static(inferred, file, Frames(frames), quant_format=kind, per_channel=True, **types)
            yield file
        plain.unlink()
        inferred.unlink()


def format_of(width: int, scale: float, signed: bool) -> FixedFormat:
    """A format, in fixed point if the scale is a power of two."""
    fraction, exponent = math.frexp(scale)
    if fraction == 0.5:
        return FixedFormat(width, 1 - exponent, signed)
    return ScaledFormat.make(width, scale, signed=signed)


def frames_of(graph: MaseGraph, count: int, values: Sequence[float] = ()) -> dict[str, Tensor]:
    """Random frames: every integer of the formats in which hardware takes an input, and normal values otherwise.

    Args:
        graph: The graph of a file.
        count: How many.
        values: Of these in place of all integers.
    """
    random = torch.Generator().manual_seed(0)
    entries = {m.input_name: m for m in graph.model.modules() if isinstance(m, QuantizeInput)}
    found = {}
    for name, example in graph.example.items():
        shape, entry = (count, *example.shape[1:]), entries.get(name)
        if not example.dtype.is_floating_point:
            found[name] = torch.randint(0, (entry.places if entry else None) or TOKENS, shape, generator=random)
        elif values:
            found[name] = torch.tensor(values).float()[torch.randint(0, len(values), shape, generator=random)]
        elif entry is None:
            found[name] = torch.randn(shape, generator=random)
        else:
            fmt = entry.arithmetic.formats["data_out_0"]
            codes = torch.randint(fmt.min_mantissa, fmt.max_mantissa + 1, shape, generator=random)
            found[name] = dequantize(codes.double(), fmt).float()
    return found


def executor(file: Path, outputs: Sequence[str] | None) -> Callable[[dict[str, Array]], list[Array]]:
    """What the source's own executor gives for a frame: the results in order, as values."""
    return (of_tflite if file.suffix == ".tflite" else of_onnx)(file, outputs)


def of_onnx(file: Path, outputs: Sequence[str] | None) -> Callable[[dict[str, Array]], list[Array]]:
    """The executor of an ONNX file."""
    import onnx
    import onnxruntime as runtime

    model = onnx.load(file)
    names = list(outputs or (each.name for each in model.graph.output))
    if any(node.domain.startswith(QONNX) for node in model.graph.node):
        from qonnx.core.modelwrapper import ModelWrapper
        from qonnx.core.onnx_exec import execute_onnx
        from qonnx.transformation.infer_shapes import InferShapes

        onnx.IR_VERSION = 10  # of the parts that the executor makes of a model, for any ONNX Runtime
        whole = ModelWrapper(model).transform(InferShapes())

        def executed(frame: dict[str, Array]) -> list[Array]:
            found = execute_onnx(whole, frame, return_full_exec_context=True)
            return [found[name] for name in names]

        return executed
    known = {each.name for each in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in known)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options)
    return lambda frame: session.run(names, frame)


def of_tflite(file: Path, outputs: Sequence[str] | None) -> Callable[[dict[str, Array]], list[Array]]:
    """The executor of a TFLite file."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kernels = OpResolverType.BUILTIN_REF
    lite = Interpreter(str(file), experimental_op_resolver_type=kernels, experimental_preserve_all_tensors=True)
    lite.allocate_tensors()
    tensors = {detail["name"]: detail for detail in lite.get_tensor_details()}
    wanted = [tensors[name] for name in outputs] if outputs else lite.get_output_details()

    def executed(frame: dict[str, Array]) -> list[Array]:
        for detail, given in zip(lite.get_input_details(), frame.values(), strict=True):
            scale, zero = detail["quantization"]
            codes = given if detail["dtype"] == np.float32 else np.rint(given / scale) + zero
            lite.set_tensor(detail["index"], codes.astype(detail["dtype"]))
        lite.invoke()
        found = []
        for detail in wanted:
            (scale, zero), value = detail["quantization"], lite.get_tensor(detail["index"])
            found.append(value if detail["dtype"] == np.float32 else (value.astype(np.float64) - zero) * scale)
        return found

    return executed


def differences(
    file: Path, graph: MaseGraph, frames: Mapping[str, Tensor], outputs: Sequence[str] | None
) -> tuple[str, str]:
    """How many results of frames are not those of the source's executor, up to float32's rounding; of all."""
    count = len(next(iter(frames.values())))
    try:
        run = executor(file, outputs)
    except ModuleNotFoundError as missing:
        return f"not compared: {missing.name} is missing", ""
    entries = {str(node.target): node.name for node in graph.fx_graph.nodes if node.op == "placeholder"}
    named = {graph.meta["imported"][entries[name]]: value.numpy() for name, value in frames.items()}
    wanted = [run({name: value[i : i + 1] for name, value in named.items()}) for i in range(count)]
    with torch.no_grad():
        made = graph.model(*frames.values())
    far = total = 0
    for value, want in zip(made if isinstance(made, tuple) else (made,), zip(*wanted, strict=True), strict=True):
        whole = np.concatenate(want)
        far += int((~np.isclose(value.numpy(), whole, rtol=1e-5, atol=1e-6 * np.abs(whole).max())).sum())
        total += whole.size
    return f"{far:,}", f"{total:,}"


def measure(file: Path, args: argparse.Namespace) -> tuple[str, ...]:
    """A row of the table."""
    more = file.with_suffix(".json")
    said = json.loads(more.read_text(encoding="utf-8")) if more.exists() else {}
    inputs, outputs = {name: format_of(*given) for name, given in said.get("inputs", {}).items()}, said.get("outputs")
    values = said.get("values", ())
    given: Mapping[str, Any] = {"inputs": inputs, "outputs": outputs}
    try:
        graph = mase_hw.import_model(file, **given)
    except MaseHwError as refused:
        why = f"refused: {refused.message.splitlines()[-1].strip()}"
        try:
            graph = mase_hw.import_model(file, host=True, **given)
        except MaseHwError:
            return file.name, why
        modules = list(graph.model.named_modules())
        host = ", ".join(name for name, module in modules if isinstance(module, HostGraph))
        count = sum(isinstance(module, Quantized) for _, module in modules)
        found = f"{count} nodes; on the host: {host}"
        return file.name, found, *differences(file, graph, frames_of(graph, args.frames, values), outputs)
    compared = differences(file, graph, frames_of(graph, args.frames, values), outputs)
    with tempfile.TemporaryDirectory() as folder:
        design = mase_hw.compile(graph, graph.example, out=Path(folder) / "design")
        timing = (f"{design.timing['interval']:,}", f"{design.timing['fill']:,}")
        area = synthesise(design, "xc7", replay_netlist=False).total if args.yosys else estimate(design.record)
        simulated = ""
        if args.simulate:
            frames = list(frames_of(graph, args.simulate, values).values())
            run = design.simulate(frames, engine="batch", work_dir=Path(folder) / "work")
            cycles = f"{run.interval or run.fill:,} cycles"  # a single frame has no interval
            simulated = f"{run.result.mismatches} mismatches, {run.frames} frames, {cycles}"
    return file.name, "whole", *compared, *timing, f"{area['lut']:,}", f"{area['dsp']}", simulated


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="files and folders of them")
    parser.add_argument("--frames", type=int, default=4, help="frames for the executor (%(default)s)")
    parser.add_argument("--simulate", type=int, default=0, metavar="FRAMES", help="frames for the simulation (none)")
    parser.add_argument("--yosys", action="store_true")
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    args = parser.parse_args()
    if args.write:
        args.files += written(args.write)
    inside = ((sorted(p for p in f.iterdir() if p.suffix in (".onnx", ".tflite")) if f.is_dir() else [f])
              for f in args.files)  # fmt: skip
    rows = [HEADER, ["---"] * len(HEADER)]
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))
    for file in (file for files in inside for file in files):
        print(f"| {' | '.join(measure(file, args))} |", flush=True)


if __name__ == "__main__":
    main()
