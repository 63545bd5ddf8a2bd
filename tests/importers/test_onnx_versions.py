"""Old and new versions of ONNX, control flow whose course is known, halves, and what came with opset 23."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime import InferenceSession

from mase_hw import import_model
from mase_hw.errors import UnsupportedError
from tests.importers.graphs import ints, model, node

R = np.random.default_rng(31)
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def arr(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def runtime(made: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    return InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def check(made: onnx.ModelProto, shape: tuple[int, ...], want: Any = runtime) -> None:
    x = arr(*shape)
    with torch.no_grad():
        found = import_model(made).model(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, want(made, x), **CLOSE)


def one(kind: str, shape: tuple[int, ...], opset: int, stored: dict[str, Any] | None = None, **attributes: Any) -> Any:
    made = model([node(kind, " ".join(["x", *(stored or {})]), **attributes)], {"x": shape}, stored, opset=opset)
    made.ir_version = 4 if opset < 9 else made.ir_version
    return made


ROWS, IMAGE = (1, 3, 5), (1, 4, 6, 5)
OLD: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...]]] = {
    "squeeze": (lambda v: one("Squeeze", (1, 3, 1, 5), v, axes=[2]), (1, 3, 1, 5), (7, 11, 12)),
    "unsqueeze": (lambda v: one("Unsqueeze", ROWS, v, axes=[1, 4]), ROWS, (7, 11, 12)),
    "reduce_sum": (lambda v: one("ReduceSum", ROWS, v, axes=[2], keepdims=0), ROWS, (7, 11, 12)),
    "reduce_mean": (lambda v: one("ReduceMean", IMAGE, v, axes=[2, 3]), IMAGE, (7, 11, 17)),
    "reduce_l2": (lambda v: one("ReduceL2", ROWS, v, axes=[-1]), ROWS, (11, 13)),
    "split": (
        lambda v: model([node("Split", "x", "a b", axis=2, split=[2, 3]), node("Concat", "b a", axis=2)], {"x": ROWS},
                        opset=v),
        ROWS, (7, 12),
    ),
    "slice": (lambda v: one("Slice", ROWS, v, starts=[1, 0], ends=[3, -1], axes=[1, 2]), ROWS, (7, 9)),
    "pad": (lambda v: one("Pad", IMAGE, v, pads=[0, 0, 1, 2, 0, 0, 0, 1], value=0.5), IMAGE, (7, 10)),
    "clip": (lambda v: one("Clip", ROWS, v, min=-0.5, max=0.25), ROWS, (7, 10)),
    "clip_low": (lambda v: one("Clip", ROWS, v, min=-0.5), ROWS, (7, 10)),
    "dropout": (lambda v: one("Dropout", ROWS, v, ratio=0.4), ROWS, (7, 10, 11)),
    "upsample": (lambda v: one("Upsample", IMAGE, v, scales=[1.0, 1.0, 2.0, 3.0], mode="nearest"), IMAGE, (7, 8)),
    "upsample_linear": (lambda v: one("Upsample", IMAGE, v, scales=[1.0, 1.0, 2.0, 2.0], mode="linear"), IMAGE, (7,)),
    "upsample_scales": (lambda v: one("Upsample", IMAGE, v, {"s": np.float32([1, 1, 1.5, 2])}), IMAGE, (9,)),
    "resize": (lambda v: one("Resize", IMAGE, v, {"s": np.float32([1, 1, 2, 0.6])}), IMAGE, (10,)),
    "resize_linear": (lambda v: one("Resize", IMAGE, v, {"s": np.float32([1, 1, 2, 2])}, mode="linear"), IMAGE, (10,)),
    "softmax": (lambda v: one("Softmax", IMAGE, v, axis=2), IMAGE, (7, 11, 12)),
    "softmax_default": (lambda v: one("Softmax", ROWS, v), ROWS, (8, 12)),
    "hardmax": (lambda v: one("Hardmax", ROWS, v), ROWS, (8, 12, 13)),
    "hardmax_axis": (lambda v: one("Hardmax", IMAGE, v, axis=2), IMAGE, (11, 13)),
    "log_softmax": (lambda v: one("LogSoftmax", ROWS, v), ROWS, (8, 12)),
    "batch_norm": (
        lambda v: one("BatchNormalization", IMAGE, v,
                      {"s": arr(4), "b": arr(4), "m": arr(4), "v": np.abs(arr(4)) + 1}, epsilon=1e-3),
        IMAGE, (7, 8, 9),
    ),
    "gemm": (lambda v: one("Gemm", (1, 5), v, {"w": arr(5, 3), "b": arr(3)}, alpha=0.5), (1, 5), (7, 9)),
    "prelu": (lambda v: one("PRelu", IMAGE, v, {"s": arr(4, 1, 1)}), IMAGE, (7, 9)),
    "average_pool": (
        lambda v: one("AveragePool", IMAGE, v, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1), IMAGE, (7,)
    ),
    "add": (lambda v: one("Add", IMAGE, v, {"b": arr(4, 1, 1)}), IMAGE, (7, 12)),
    "gru": (
        lambda v: model([node("Transpose", "x", "t", perm=[1, 0, 2]),
                         node("GRU", "t w r", "y", hidden_size=2, linear_before_reset=1)], {"x": (1, 4, 3)},
                        {"w": arr(1, 6, 3), "r": arr(1, 6, 2)}, opset=v),
        (1, 4, 3), (7, 13),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "opset"), [(name, v) for name, (_, _, versions) in OLD.items() for v in versions])
def test_old_forms(name: str, opset: int) -> None:
    make, shape, _ = OLD[name]
    check(make(opset), shape)


SIX: dict[str, tuple[Any, Any]] = {
    "add": (lambda b: one("Add", IMAGE, 6, {"b": b}, broadcast=1, axis=1), lambda x, b: x + b.reshape(1, 4, 1, 1)),
    "mul": (lambda b: one("Mul", IMAGE, 6, {"b": b}, broadcast=1, axis=1), lambda x, b: x * b.reshape(1, 4, 1, 1)),
    "div": (lambda b: one("Div", IMAGE, 6, {"b": b}, broadcast=1, axis=1), lambda x, b: x / b.reshape(1, 4, 1, 1)),
    "prelu": (lambda b: one("PRelu", IMAGE, 6, {"b": b}), lambda x, b: np.where(x < 0, x * b.reshape(1, 4, 1, 1), x)),
    "upsample": (
        lambda b: one("Upsample", IMAGE, 6, width_scale=2.0, height_scale=3.0, mode="nearest"),
        lambda x, b: x.repeat(3, 2).repeat(2, 3),
    ),
    "dropout": (lambda b: one("Dropout", IMAGE, 6, is_test=1), lambda x, b: x),
}


@pytest.mark.parametrize("name", SIX)
def test_forms_of_opset_6(name: str) -> None:
    """What evaluators no longer take: the values follow from the specification of the operation."""
    make, want = SIX[name]
    b = arr(4)
    check(make(b), IMAGE, lambda _, x: want(x, b))


def test_training_of_opset_6_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="a dropout in training"):
        import_model(one("Dropout", ROWS, 6))
    stored = {"s": arr(3), "b": arr(3), "m": arr(3), "v": np.abs(arr(3))}
    with pytest.raises(UnsupportedError, match="a batch normalisation in training"):
        import_model(one("BatchNormalization", ROWS, 6, stored))


def body(nodes: list[Any], inputs: list[tuple[str, int]], outputs: list[str]) -> onnx.GraphProto:
    return helper.make_graph(
        nodes,
        "body",
        [helper.make_tensor_value_info(name, kind, None if kind == TensorProto.FLOAT else []) for name, kind in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
    )


def looped(shape: tuple[int, ...] = ROWS, rounds: int = 3) -> onnx.ModelProto:
    """``h = (h + x) * w`` for some rounds, whose states are stacked as well."""
    inner = body(
        [
            node("Identity", "go", "more"),
            node("Add", "h x", "sum"),
            node("Mul", "sum w", "next"),
            node("Identity", "next", "row", "kept"),
        ],
        [("i", TensorProto.INT64), ("go", TensorProto.BOOL), ("h", TensorProto.FLOAT)],
        ["more", "next", "row"],
    )
    inner.output[0].type.tensor_type.elem_type = TensorProto.BOOL
    return model(
        [
            node("Loop", "n go0 x", "last rows", body=inner),
            node("ReduceSum", "rows a", "all", keepdims=0),
            node("Sub", "all last"),
        ],
        {"x": shape},
        {"n": np.int64(rounds), "go0": np.bool_(True), "w": arr(shape[-1]), "a": ints(0)},
    )


def chosen(known: bool) -> onnx.ModelProto:
    """One branch doubles, the other one takes the absolute value; the condition is a size, or data."""
    graphs = {
        "then_branch": body([node("Add", "x x", "t")], [], ["t"]),
        "else_branch": body([node("Abs", "x", "e")], [], ["e"]),
    }
    sizes = [node("Shape", "x", "s"), node("Gather", "s one", "n"), node("Equal", "n three", "c")]
    data = [node("ReduceMax", "x", "m", keepdims=0), node("Greater", "m zero", "c")]
    stored = {"one": np.int64(1), "three": np.int64(3), "zero": np.float32(0)}
    return model([*(sizes if known else data), node("If", "c", **graphs)], {"x": ROWS}, stored)


@pytest.mark.parametrize("made", [looped(), looped(rounds=1), chosen(True)], ids=["loop", "one round", "branch"])
def test_control_flow_whose_course_is_known(made: onnx.ModelProto) -> None:
    check(made, ROWS)


def test_control_flow_that_data_decides_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="which branch runs is decided by data"):
        import_model(chosen(False))
    open_batch = chosen(True)
    open_batch.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    for store in open_batch.graph.initializer:
        if store.name == "one":
            store.CopyFrom(numpy_helper.from_array(np.int64(0), "one"))
    open_batch.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.int64(1), "three"))
    with pytest.raises(UnsupportedError, match="depends on the number of frames"):
        import_model(open_batch)


def test_sequences_of_tensors() -> None:
    nodes = [
        node("SequenceConstruct", "x x", "s"),
        node("Neg", "x", "m"),
        node("SequenceInsert", "s m one", "t"),
        node("SplitToSequence", "x two", "u", axis=2),
        node("SequenceAt", "u zero", "v"),
        node("ConcatFromSequence", "t", "w", axis=1),
        node("ReduceSum", "v last", "z"),
        node("Add", "w z"),
    ]
    stored = {"one": np.int64(1), "zero": np.int64(0), "two": np.int64(2), "last": ints(1, 2)}
    check(model(nodes, {"x": ROWS}, stored), ROWS)


@pytest.mark.parametrize("place", [-2, -1, 0, 2])
def test_a_place_in_a_sequence_counts_from_its_end_if_negative(place: int) -> None:
    nodes = [
        node("Neg", "x", "m"),
        node("Abs", "x", "a"),
        node("SequenceConstruct", "x m", "s"),
        node("SequenceInsert", "s a at", "t"),
        node("ConcatFromSequence", "t", axis=1),
    ]
    check(model(nodes, {"x": ROWS}, {"at": np.int64(place)}), ROWS)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_a_reset_gate_before_the_product(direction: str) -> None:
    both = 2 if direction == "bidirectional" else 1
    for begun in (False, True):
        stored = {"w": arr(both, 12, 3), "r": arr(both, 12, 4), "b": arr(both, 24)}
        stored |= {"h": arr(both, 1, 4)} if begun else {}
        given = "t w r b - h" if begun else "t w r b"
        nodes = [node("Transpose", "x", "t", perm=[1, 0, 2]), node("GRU", given, hidden_size=4, direction=direction)]
        check(model(nodes, {"x": (1, 5, 3)}, stored), (1, 5, 3))
    with pytest.raises(UnsupportedError, match=r"over 65 steps.*at most 64"):
        import_model(model(nodes, {"x": (1, 65, 3)}, stored))


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
def test_weights_of_half_width_are_exact(kind: int) -> None:
    weight, bias = (helper.make_tensor(n, kind, s, arr(*s).reshape(-1)) for n, s in (("w", (5, 3)), ("b", (3,))))
    exact = [numpy_helper.to_array(v).astype(np.float32) for v in (weight, bias)]
    made = model([node("Gemm", "h w b", "g"), node("Cast", "g", to=1)], {"h": (1, 5)}, h=kind)
    made.graph.initializer.extend([weight, bias])
    x = arr(1, 5)
    with torch.no_grad():
        found = import_model(made).model(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, x @ exact[0] + exact[1], **CLOSE)


def evaluated(made: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    result: np.ndarray = ReferenceEvaluator(made).run(None, {"x": x})[0]
    return result


TOKENS = (1, 6, 16)
CACHE = {"cos": np.cos(arr(6, 4)), "sin": np.sin(arr(6, 4)), "p": np.arange(6, dtype=np.int64)[None]}
NEW: dict[str, tuple[Any, tuple[int, ...]]] = {
    "attention": (
        lambda: model([node("Mul", "x w", "k"), node("Attention", "x k x", q_num_heads=2, kv_num_heads=2)],
                      {"x": TOKENS}, {"w": arr(16)}, opset=23),
        TOKENS,
    ),
    "attention of shared heads": (
        lambda: model([node("Slice", "x a b d", "k"), node("Attention", "x k k", scale=0.3)], {"x": (1, 4, 6, 8)},
                      {"a": ints(1), "b": ints(3), "d": ints(1)}, opset=23),
        (1, 4, 6, 8),
    ),
    "causal attention": (lambda: model([node("Attention", "x x x", is_causal=1)], {"x": (1, 2, 6, 8)}, opset=23),
                         (1, 2, 6, 8)),
    "masked attention": (
        lambda: model([node("Attention", "x x x m", is_causal=1)], {"x": (1, 2, 6, 8)}, {"m": arr(6, 6)}, opset=23),
        (1, 2, 6, 8),
    ),
    "attention masked by truths": (
        lambda: model([node("Attention", "x x x m")], {"x": (1, 2, 6, 8)}, {"m": np.tri(6, dtype=bool)}, opset=24),
        (1, 2, 6, 8),
    ),
    "attention behind keys of earlier calls": (
        lambda: model([node("Attention", "x x x m k v", "y p r", is_causal=1), node("Mul", "y s")],
                      {"x": (1, 2, 6, 8)}, {"k": arr(1, 2, 3, 8), "v": arr(1, 2, 3, 8), "m": arr(6, 9), "s": arr(1)},
                      opset=23),
        (1, 2, 6, 8),
    ),
    **{
        f"attention of capped scores, {kind}": (
            lambda mask=mask: model([node("Attention", "x x x m", softcap=0.7, scale=0.6)], {"x": (1, 2, 6, 8)},
                                    {"m": mask}, opset=23),
            (1, 2, 6, 8),
        )
        for kind, mask in (("added", arr(6, 6)), ("of truths", np.tri(6, dtype=bool)))
    },
    "hardmax": (lambda: one("Hardmax", TOKENS, 13, axis=1), TOKENS),
    "the last of equals": (
        lambda: model([node("Round", "x", "r"), node("ArgMax", "r", "i", axis=2, select_last_index=1),
                       node("Cast", "i", to=1)], {"x": TOKENS}, opset=13),
        TOKENS,
    ),
    "rms_norm": (lambda: one("RMSNormalization", TOKENS, 23, {"s": arr(16)}, epsilon=1e-3), TOKENS),
    "rms_norm over two": (lambda: one("RMSNormalization", TOKENS, 25, {"s": arr(6, 16)}, axis=1), TOKENS),
    "rotary": (lambda: one("RotaryEmbedding", (1, 2, 6, 8), 23, CACHE), (1, 2, 6, 8)),
    "rotary interleaved": (lambda: one("RotaryEmbedding", TOKENS, 23, CACHE, interleaved=1, num_heads=2), TOKENS),
    "rotary of a part": (
        lambda: one("RotaryEmbedding", (1, 2, 6, 10), 23, CACHE, rotary_embedding_dim=8), (1, 2, 6, 10)
    ),
    "swish": (lambda: one("Swish", TOKENS, 24, alpha=0.5), TOKENS),
    "relu": (lambda: one("Relu", TOKENS, 25), TOKENS),
}  # fmt: skip


@pytest.mark.parametrize("name", NEW)
def test_operations_of_new_versions(name: str) -> None:
    make, shape = NEW[name]
    check(make(), shape, evaluated)


@pytest.mark.parametrize("kind", [TensorProto.UINT8, TensorProto.INT8, TensorProto.INT16])
def test_narrow_integers_that_are_only_converted(kind: int) -> None:
    made = model([node("Cast", "x", "f", to=1), node("Mul", "f s", "y")], {"x": IMAGE}, {"s": np.float32(0.5)}, x=kind)
    x = R.integers(0, 120, IMAGE).astype(helper.tensor_dtype_to_np_dtype(kind))
    np.testing.assert_array_equal(import_model(made).model(torch.from_numpy(x)).numpy(), runtime(made, x))
    doubled = [node("Add", "x x", "d"), node("Cast", "d", "f", to=1), node("Mul", "f s", "y")]
    with pytest.raises(UnsupportedError, match="narrower integers that are only cast"):  # their sums would wrap
        import_model(model(doubled, {"x": IMAGE}, {"s": np.float32(0.5)}, x=kind))


def test_what_one_frame_alone_may_do() -> None:
    """A file for one frame takes its dimension away; the place of the frames is kept where there is one."""
    check(model([node("ReduceMean", "x", keepdims=0)], {"x": ROWS}), ROWS)
    check(model([node("ReduceMax", "x")], {"x": ROWS}), ROWS)
    check(model([node("Squeeze", "x", "s"), node("Unsqueeze", "s a")], {"x": ROWS}, {"a": ints(0)}), ROWS)
    with pytest.raises(UnsupportedError, match="along the batch"):
        import_model(model([node("ReduceMean", "x", keepdims=0)], {"x": ("N", 3, 5)}))


PLACES = {
    "gather_nd": lambda: model([node("Transpose", "x", "t", perm=[1, 2, 0]), node("GatherND", "t p")], {"x": ROWS},
                               {"p": R.integers(0, 3, (4, 2, 2))}),
    "gather_nd of rows": lambda: model([node("GatherND", "x p", batch_dims=1)], {"x": ROWS},
                                       {"p": ints(2, 0)[None, :, None]}),
    "gather_elements": lambda: model([node("GatherElements", "x p", axis=2)], {"x": ROWS},
                                     {"p": R.integers(-5, 5, (1, 3, 7))}),
    "gather_elements where the largest are": lambda: model(
        [node("TopK", "x k", "v i", axis=2), node("Mul", "x x", "s"), node("GatherElements", "s i", axis=2)],
        {"x": ROWS}, {"k": ints(2)}),
    "gather_elements from the end": lambda: model(
        [node("TopK", "x k", "v i", axis=2), node("Sub", "i five", "j"), node("GatherElements", "x j", axis=2)],
        {"x": ROWS}, {"k": ints(2), "five": np.int64(5)}),
    "rows of a table from the end": lambda: model(
        [node("ArgMax", "x", "i", axis=2, keepdims=0), node("Sub", "i five", "j"), node("Gather", "t j", axis=0)],
        {"x": ROWS}, {"five": np.int64(5), "t": arr(5, 4)}),
    "a row that data names from the end": lambda: model(
        [node("ReduceMax", "x", "m", axes=[2], keepdims=0), node("ArgMax", "m", "i", axis=1, keepdims=0),
         node("Flatten", "x", "f", axis=2), node("Sub", "i z", "p"), node("Gather", "f p", axis=0)],
        {"x": ROWS}, {"z": ints(3)}),
    "rows written": lambda: model([node("Mul", "x x", "s"), node("Slice", "s a b c", "r"), node("ScatterND", "x p r")],
                                  {"x": ROWS}, {"a": ints(0), "b": ints(2), "c": ints(1),
                                                "p": np.array([[[0, 2], [0, 0]]])}),
    "elements written": lambda: model([node("ScatterND", "x p v")], {"x": ROWS},
                                      {"p": np.array([[[0, 2, -1], [0, 0, 3]]]), "v": arr(1, 2)}),
    "written to zeros": lambda: model([node("Slice", "x a b c", "r"), node("ScatterND", "z p r")], {"x": ROWS},
                                      {"z": np.zeros((1, 4, 5), np.float32), "a": ints(0), "b": ints(2), "c": ints(1),
                                       "p": np.array([[[0, 1], [0, 3]]])}),
    "scatter_elements": lambda: model([node("Mul", "x x", "s"), node("ScatterElements", "x p s", axis=2)], {"x": ROWS},
                                      {"p": np.array([[[0, 2, -1, 1, 3]] * 3])}),
    **{
        f"scatter that reduces by {kind}": lambda kind=kind: model(
            [node("ScatterElements", "x p v", axis=1, reduction=kind)], {"x": ROWS},
            {"p": np.array([[[0, 2, 1], [0, 2, 2]]]), "v": arr(1, 2, 3)}, opset=18)
        for kind in ("add", "mul", "max", "min")
    },
    "rows added": lambda: model([node("Mul", "x x", "s"), node("ScatterND", "x p s", reduction="add")], {"x": ROWS},
                                {"p": np.array([[[0, 2], [0, 0], [0, 2]]])}, opset=18),
    # x[arange(frames), places] of PyTorch's exporter without dynamo
    "a row that data names": lambda: model(
        [node("ReduceMax", "x", "m", axes=[2], keepdims=0), node("ArgMax", "m", "i", axis=1, keepdims=0),
         node("Flatten", "x", "f", axis=2), node("Add", "i z", "p"), node("Gather", "f p", axis=0)],
        {"x": ROWS}, {"z": ints(0)}),
    # the same of its exporter with dynamo
    "a row of its frame that data names": lambda: model(
        [node("ReduceMax", "x", "m", axes=[2], keepdims=0), node("ArgMax", "m", "i", axis=1),
         node("Concat", "z i", "p", axis=1), node("GatherND", "x p")], {"x": ROWS}, {"z": ints(0)[None]}),
    "rows of its frame that data names": lambda: model(
        [node("ReduceMax", "x", "m", axes=[2], keepdims=1), node("TopK", "m k", "v i", axis=1),
         node("GatherND", "x i", batch_dims=1)], {"x": ROWS}, {"k": ints(2)}),
    "stored rows": lambda: model([node("Concat", "w x w", axis=1)], {"x": ROWS}, {"w": arr(1, 2, 5)}),
    "zeros": lambda: model([node("Concat", "x w", axis=2)], {"x": ROWS}, {"w": np.zeros((1, 3, 2), np.float32)}),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_places_that_are_known_in_every_frame(name: str) -> None:
    made = PLACES[name]()
    check(made, ROWS)
    x = arr(3, *ROWS[1:])
    with torch.no_grad():
        graph = import_model(made).model
        each = [graph(torch.from_numpy(x[i : i + 1])) for i in range(3)]
        together = graph(torch.from_numpy(x))
    dim = 2 if name == "gather_nd" else 0
    torch.testing.assert_close(together, torch.cat(each, dim))


WAYS = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_every_resize(mode: str, way: str) -> None:
    """Sizes that are whole multiples, and others; weights and places are those of ONNX Runtime."""
    rounding = ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"] if mode == "nearest" else [None]
    for size in ((1, 2, 3, 1), (1, 2, 7, 5), (1, 2, 8, 10)):
        for how in rounding:
            more = {} if how is None else {"nearest_mode": how}
            more |= {"cubic_coeff_a": -0.5, "exclude_outside": 1} if mode == "cubic" and size[3] == 5 else {}
            made = model([node("Resize", "x - - s", mode=mode, coordinate_transformation_mode=way, **more)],
                         {"x": (1, 2, 4, 5)}, {"s": ints(*size)}, opset=19)  # fmt: skip
            check(made, (1, 2, 4, 5))


def test_a_resize_that_evaluators_take_in_two_ways_is_refused() -> None:
    """ONNX Runtime and the evaluator of ONNX choose other places."""
    made = model([node("Resize", "x - s", coordinate_transformation_mode="half_pixel_symmetric")],
                 {"x": (1, 2, 4, 5)}, {"s": np.array([1, 1, 1.5, 0.6], np.float32)}, opset=19)  # fmt: skip
    with pytest.raises(UnsupportedError, match="half_pixel_symmetric"):
        import_model(made)
