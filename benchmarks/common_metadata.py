"""Time and memory of common metadata for large transformers, on real weights and on the meta device.

    python benchmarks/common_metadata.py

Needs the extra ``hf``. Models are built from their configurations with random weights; nothing is downloaded.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

from mase_hw.ir import MaseGraph

MIB = 2**20
TOKENS = 128


def resident() -> int:
    """Bytes of memory the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@contextmanager
def watched() -> Iterator[Callable[[], int]]:
    """How far memory rose above what it was on entry, sampled every few milliseconds."""
    base = peak = resident()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.003):
            peak = max(peak, resident())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: max(peak, resident()) - base
    finally:
        done.set()
        thread.join()


def measure(name: str, model: nn.Module, **args: Any) -> None:
    ids = torch.randint(5, 1000, (1, TOKENS))
    dummy_in = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    weights = {p.data_ptr(): p.numel() * p.element_size() for p in model.parameters() if p.device.type != "meta"}
    with watched() as risen:
        start = time.perf_counter()
        graph = MaseGraph(model, hf_input_names=list(dummy_in), share_weights=True)
        traced = time.perf_counter()
        graph.init_metadata()
        graph.add_common_metadata(dummy_in, **args)
        done = time.perf_counter()
        memory = risen()
    print(
        f"{name:32} {sum(p.numel() for p in model.parameters()) / 1e6:7.0f} M parameters {len(graph.nodes):5} nodes"
        f"   trace {traced - start:5.2f} s   metadata {done - traced:6.2f} s"
        f"   memory +{memory / MIB:4.0f} MiB beside {sum(weights.values()) / MIB:4.0f} MiB of weights",
        flush=True,
    )


def main() -> None:
    bert = transformers.BertModel(transformers.BertConfig()).eval()
    warm = transformers.BertModel(transformers.BertConfig(num_hidden_layers=1)).eval()
    print(f"batch 1, {TOKENS} tokens, {torch.get_num_threads()} threads")
    measure("(first use, one layer)", warm)
    measure("BERT-base, with values", bert)
    measure("BERT-base, without values", bert, add_value=False)
    measure("BERT-base, symbolic", bert, force_device_meta=True)
    with torch.device("meta"):
        shapes = transformers.BertModel(transformers.BertConfig()).eval()
        sizes = {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_key_value_heads": 4}
        small = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).eval()
        large = transformers.LlamaForCausalLM(transformers.LlamaConfig()).eval()
    measure("BERT-base on meta", shapes, force_device_meta=True)
    measure("LLaMA, 22 layers of 2048, on meta", small, force_device_meta=True)
    measure("LLaMA, 32 layers of 4096, on meta", large, force_device_meta=True)


if __name__ == "__main__":
    main()
