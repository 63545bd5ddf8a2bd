"""Files as ONNX Runtime's static quantisation writes them, of small networks with random weights.

    python -m benchmarks.runtime_files build/runtime
    python -m benchmarks.quantised_files --frames 2 build/runtime/*.onnx

An MLP, a CNN, and BERT, ViT and GPT-2 of transformers from small configurations; nothing is downloaded. Beside
every file lie the frames with which it was calibrated, as ``.npy``. Needs onnx, onnxruntime and transformers.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

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
        for model in (
            bert,
            vit,
            gpt2,
        ):  # their biases are all 0, of which ONNX Runtime makes one that it quantises wrongly
            for parameter in model.parameters():
                if parameter.dim() == 1:
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
            np.save(file.with_suffix(".npy"), frames.numpy())
            yield file


def main() -> None:
    """Write the files, and print where they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for file in written(parser.parse_args().folder):
        print(file)


if __name__ == "__main__":
    main()
