"""Transformers through the fx tracer of Hugging Face: complete metadata, equal to a real run."""

from __future__ import annotations

import builtins
import inspect
import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw.errors import ConfigError, GraphError, UnsupportedError
from mase_hw.ir import MaseGraph, trace_torch_module
from mase_hw.ir.faithful.same_function import equal
from mase_hw.passes import add_common_metadata_analysis_pass, init_metadata_analysis_pass, verify_analysis_pass
from tests.ir.huggingface_models import NETWORKS, needed
from tests.ir.nets import untouched
from tests.ir.real_run import assert_real

pytestmark = needed

LAYERS = (nn.Linear, nn.LayerNorm, nn.Embedding, nn.Conv2d)


def annotate(graph: MaseGraph, inputs: dict[str, Tensor], symbolic: bool) -> MaseGraph:
    init_metadata_analysis_pass(graph)
    add_common_metadata_analysis_pass(graph, {"dummy_in": inputs, "force_device_meta": symbolic})
    verify_analysis_pass(graph)
    return graph


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_node_is_as_in_a_real_run(name: str, attention: str) -> None:
    network = NETWORKS[name]
    model = network.build(attention)
    with untouched(model):
        graph = MaseGraph(model, hf_input_names=list(network.inputs))
    # No size of the inputs is that of the tracer's own dummies, and both differ.
    for (batch, length), symbolic in (((2, 7), False), ((1, 6), True), ((3, 5), False)):
        inputs = network.example(batch, length)
        assert_real(annotate(graph, inputs, symbolic), model, inputs, values=not symbolic)


def test_attention_is_one_node_with_sdpa() -> None:
    network = NETWORKS["bert"]
    for attention, count in (("eager", 0), ("sdpa", 2)):
        graph = annotate(
            MaseGraph(network.build(attention), hf_input_names=network.inputs), network.example(1, 6), True
        )
        ops = [graph.meta_of(n).common.mase_op for n in graph.nodes]
        assert ops.count("scaled_dot_product_attention") == count and ops.count("softmax") == 2 - count
        assert ops.count("linear") == 13 and ops.count("layer_norm") == 5


def test_inputs_are_in_the_order_of_forward_and_default_to_the_main_one() -> None:
    model = NETWORKS["bert"].build()
    places = [n.target for n in trace_torch_module(model, hf_input_names=TURNED).graph.nodes if n.op == "placeholder"]
    assert places == ["input_ids", "attention_mask"]
    for name, main in (("bert", "input_ids"), ("vit", "pixel_values")):
        traced = trace_torch_module(NETWORKS[name].build())
        assert [n.target for n in traced.graph.nodes if n.op == "placeholder"] == [main]


TURNED = ["attention_mask", "input_ids"]


def test_cf_args_fix_an_argument() -> None:
    model = NETWORKS["bert"].build()
    inputs = NETWORKS["bert"].example(2, 6)
    ids = torch.arange(6).flip(0)[None]
    traced = trace_torch_module(model, {"position_ids": ids}, hf_input_names=list(inputs)).eval()
    with torch.no_grad():
        torch.testing.assert_close(
            traced(**inputs)["last_hidden_state"], model(**inputs, position_ids=ids).last_hidden_state
        )


def test_tracing_leaves_no_trace() -> None:
    """The same graph every time, and neither the model nor torch, transformers or random numbers changed."""
    model = NETWORKS["llama"].build()
    constructors = {name: getattr(torch, name) for name in ("arange", "ones", "full", "tensor", "finfo")}
    state, config = random.getstate(), model.config.to_dict()
    codes = {trace_torch_module(model, hf_input_names=NETWORKS["llama"].inputs).code for _ in range(2)}
    assert len(codes) == 1
    assert random.getstate() == state and model.config.to_dict() == config
    assert {name: getattr(torch, name) for name in constructors} == constructors
    assert "isinstance" not in vars(inspect.getmodule(type(model)))


def test_weights_can_be_shared() -> None:
    model = NETWORKS["gpt2"].build()
    graph = MaseGraph(model, hf_input_names=["input_ids"], share_weights=True)
    own = {p.data_ptr() for p in model.parameters()}
    assert {p.data_ptr() for p in graph.model.parameters()} <= own
    assert graph.model.get_parameter("lm_head.weight") is graph.model.get_parameter("transformer.wte.weight")


def branching() -> nn.Module:
    import transformers

    class Branching(transformers.BertModel):
        def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
            if input_ids.max() > 3:  # the line
                return super().forward(input_ids=input_ids).pooler_output
            return super().forward(input_ids=input_ids * 2).pooler_output

    return Branching(NETWORKS["bert"].config())


def test_control_flow_names_the_line_and_everything_is_put_back() -> None:
    arange, source = torch.arange, inspect.getsourcelines(branching)
    line = source[1] + next(i for i, text in enumerate(source[0]) if "the line" in text)
    with pytest.raises(GraphError) as error:
        trace_torch_module(branching())
    message = str(error.value)
    assert f"test_networks_huggingface.py:{line}:" in message and "cf_args" in message and "hf_input_names" in message
    assert torch.arange is arange and isinstance is builtins.isinstance
    assert "isinstance" not in globals()


@pytest.mark.parametrize(
    ("kwargs", "error", "texts"),
    [
        ({"hf_input_names": ["input_id"]}, ConfigError, ["input_id", "did you mean 'input_ids'?"]),
        ({"hf_input_names": []}, ConfigError, ["at least one input", "input_ids"]),
        ({"hf_input_names": ["input_ids"], "cf_args": {"input_ids": None}}, ConfigError, ["cf_args.input_ids"]),
        ({"hf_input_names": ["input_ids", "past_key_values"]}, UnsupportedError, ["cache", "leave it out"]),
        ({"cf_args": {"use_cach": False}}, ConfigError, ["cf_args.use_cach", "did you mean 'use_cache'?"]),
    ],
)
def test_refused(kwargs: dict[str, Any], error: type[Exception], texts: list[str]) -> None:
    with pytest.raises(error) as caught:
        MaseGraph(NETWORKS["gpt2"].build(), **kwargs)
    for text in texts:
        assert text in str(caught.value)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", NETWORKS)
def test_an_example_makes_a_graph_of_its_shapes_for_any_number_of_frames(name: str, attention: str) -> None:
    network = NETWORKS[name]
    model = network.build(attention)
    with untouched(model):
        graph = MaseGraph(model, example=network.example(1, 7))
    annotate(graph, network.example(1, 7), False)
    asked = {"size", "getattr", "dim", "finfo", "arange", "full", "ones", "zeros", "to"}
    left = {str(graph.meta_of(n).common.mase_op) for n in graph.nodes} & asked
    assert left <= {"to"}, "nothing is left that depends on shapes alone"
    inputs = network.example(3, 7)
    with torch.no_grad():
        wanted = model(**inputs, **({"use_cache": False} if name not in ("bert", "bert-classifier", "vit") else {}))
        assert equal(wanted, graph.model(**inputs))
    layers = {path for path, m in model.named_modules() if isinstance(m, LAYERS)}
    found = {str(n.target) for n in graph.nodes if n.op == "call_module"}
    assert found <= layers and len(found) >= len(layers) - 4  # positions and types are constants
