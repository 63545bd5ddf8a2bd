"""Every operation of ONNX that is taken gives what ONNX' own evaluator gives, for one frame and for several."""

from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import ModelProto
from onnxruntime import InferenceSession

from mase_hw import import_model
from tests.importers.graphs import ints, model, node, reference

R = np.random.default_rng(20)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
"""Of float32: sums in another order, functions of another library."""


def arr(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def one(
    kind: str, shape: tuple[int, ...], stored: dict[str, Any] | None = None, opset: int = 17, **attributes: Any
) -> Any:
    """A model of one node whose first input is data."""
    given = " ".join(["x", *(stored or {})])
    return model([node(kind, given, **attributes)], {"x": shape}, stored, opset=opset)


PLAIN = (
    "Sigmoid", "Tanh", "Exp", "Abs", "Sign", "Floor", "Ceil", "Round", "Sin", "Cos", "Tan", "Erf", "Relu", "Softplus",
    "Softsign", "HardSwish", "Mish", "Neg", "Identity", "LeakyRelu", "Elu", "Celu", "Selu", "HardSigmoid",
    "ThresholdedRelu", "Dropout",
)  # fmt: skip
CASES: dict[str, Any] = {name.lower(): lambda name=name: one(name, (1, 3, 5), opset=18) for name in PLAIN}
CASES |= {
    "conv_odd": lambda: one("Conv", (1, 3, 7, 6), {"w": arr(4, 3, 3, 2), "b": arr(4)},
                            strides=[2, 1], pads=[1, 0, 1, 0]),
    "conv_asymmetric": lambda: one("Conv", (1, 3, 7, 6), {"w": arr(4, 3, 3, 3)}, strides=[2, 2], pads=[0, 1, 2, 0]),
    "conv_dilated": lambda: one("Conv", (1, 2, 9, 9), {"w": arr(2, 2, 3, 3)}, dilations=[2, 3], pads=[2, 3, 2, 3]),
    "conv_grouped": lambda: one("Conv", (1, 6, 5, 5), {"w": arr(4, 3, 3, 3), "b": arr(4)}, group=2),
    "conv_depthwise": lambda: one("Conv", (1, 3, 5, 5), {"w": arr(6, 1, 3, 3), "b": arr(6)}, group=3,
                                  kernel_shape=[3, 3]),
    "conv_same_upper": lambda: one("Conv", (1, 2, 6, 7), {"w": arr(3, 2, 3, 4)}, strides=[2, 2], auto_pad="SAME_UPPER"),
    "conv_same_lower": lambda: one("Conv", (1, 2, 6, 7), {"w": arr(3, 2, 3, 4)}, strides=[2, 3], auto_pad="SAME_LOWER"),
    "conv_1d": lambda: one("Conv", (1, 3, 11), {"w": arr(4, 3, 4), "b": arr(4)}, strides=[3], pads=[2, 1]),
    "deconv": lambda: one("ConvTranspose", (1, 3, 4, 5), {"w": arr(3, 2, 3, 3), "b": arr(2)}, strides=[2, 2],
                          pads=[1, 1, 1, 1], output_padding=[1, 0]),
    "deconv_uneven": lambda: one("ConvTranspose", (1, 2, 4, 5), {"w": arr(2, 3, 3, 4)}, strides=[2, 1],
                                 pads=[0, 2, 1, 1]),
    "gemm": lambda: one("Gemm", (1, 5), {"w": arr(5, 3), "b": arr(3)}, alpha=0.5, beta=2.0),
    "gemm_turned": lambda: one("Gemm", (1, 5), {"w": arr(3, 5), "b": arr(1, 3)}, transB=1),
    "gemm_onto_data": lambda: model(
        [node("Slice", "x a b c", "r"), node("Gemm", "x w r", beta=0.5)], {"x": (1, 5)},
        {"w": arr(5, 3), "a": ints(1), "b": ints(4), "c": ints(1)}),
    "gemm_scalar": lambda: one("Gemm", (1, 5), {"w": arr(3, 5), "b": arr(1)}, transB=1),
    "matmul": lambda: one("MatMul", (1, 4, 5), {"w": arr(5, 3)}),
    "matmul_data": lambda: model([node("MatMul", "x z")], {"x": (1, 2, 4, 5), "z": (1, 2, 5, 3)}),
    "batch_norm": lambda: one("BatchNormalization", (1, 3, 4, 5), {"s": arr(3), "b": arr(3), "m": arr(3),
                              "v": np.abs(arr(3)) + 1}, epsilon=1e-3),
    "batch_norm_1d": lambda: one("BatchNormalization", (1, 3), {"s": arr(3), "b": arr(3), "m": arr(3),
                                 "v": np.abs(arr(3))}),
    "instance_norm": lambda: one("InstanceNormalization", (1, 3, 4, 5), {"s": arr(3), "b": arr(3)}),
    "group_norm": lambda: one("GroupNormalization", (1, 6, 4), {"s": arr(6), "b": arr(6)}, opset=21, num_groups=3),
    "layer_norm": lambda: one("LayerNormalization", (1, 4, 6), {"s": arr(6), "b": arr(6)}, axis=-1),
    "layer_norm_two": lambda: one("LayerNormalization", (1, 4, 6), {"s": arr(4, 6)}, axis=1, epsilon=1e-3),
    "prelu": lambda: one("PRelu", (1, 3, 4, 4), {"s": arr(3, 1, 1)}),
    "prelu_one": lambda: one("PRelu", (1, 3), {"s": arr(1)}),
    "gelu": lambda: one("Gelu", (1, 3, 5), opset=20),
    "gelu_tanh": lambda: one("Gelu", (1, 3, 5), opset=20, approximate="tanh"),
    "hard_sigmoid_torch": lambda: one("HardSigmoid", (1, 9), alpha=1 / 6),
    "selu_other": lambda: one("Selu", (1, 9), alpha=1.5, gamma=1.25),
    "clip": lambda: one("Clip", (1, 9), {"a": np.float32(-0.5), "b": np.float32(0.75)}),
    "clip_six": lambda: one("Clip", (1, 9), {"a": np.float32(0), "b": np.float32(6)}),
    "clip_low": lambda: one("Clip", (1, 9), {"a": np.float32(0)}),
    "sqrt": lambda: model([node("Abs", "x", "a"), node("Sqrt", "a", "s"), node("Reciprocal", "s")], {"x": (1, 7)}),
    "log": lambda: model([node("Abs", "x", "a"), node("Log", "a")], {"x": (1, 7)}),
    **{f"{name.lower()}_data": lambda name=name: model([node(name, "x z")], {"x": (1, 3, 4), "z": (1, 1, 4)})
       for name in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum")},
    **{f"{name.lower()}_stored": lambda name=name: one(name, (1, 3, 4), {"c": arr(3, 1)})
       for name in ("Add", "Sub", "Mul", "Div", "Max", "Min")},
    **{f"{name.lower()}_number": lambda name=name: model([node(name, "c x")], {"x": (1, 3)}, {"c": np.float32(1.5)})
       for name in ("Add", "Sub", "Mul", "Div")},
    "pow": lambda: one("Pow", (1, 3, 4), {"e": np.float32(2)}),
    "where": lambda: model([node("Greater", "x c", "g"), node("Where", "g x z")], {"x": (1, 5), "z": (1, 5)},
                           {"c": np.float32(0.1)}),
    "softmax": lambda: one("Softmax", (1, 3, 5)),
    "softmax_channels": lambda: one("Softmax", (1, 3, 5), axis=1),
    "log_softmax": lambda: one("LogSoftmax", (1, 3, 5), axis=2),
    "mean": lambda: one("ReduceMean", (1, 3, 4, 5), axes=[2, 3]),
    "mean_input": lambda: one("ReduceMean", (1, 3, 4, 5), {"a": ints(-1, -2)}, 18, keepdims=0),
    "sum_of_nothing": lambda: model(
        [node("ReduceSum", "x a", "t", noop_with_empty_axes=1), node("Relu", "t")], {"x": (1, 3, 4)}, {"a": ints()}),
    "group_norm_of_groups": lambda: one("GroupNormalization", (1, 6, 4), {"s": arr(3), "b": arr(3)}, opset=18,
                                        num_groups=3),
    "division_of_integers": lambda: model(
        [node("Div", "a b", "d"), node("Cast", "d", "f", to=1), node("Add", "x f")], {"x": (1, 3)},
        {"a": ints(-7, 7, 9), "b": ints(2, -2, 4)}),
    "max_pool_without_one_behind": lambda: one("MaxPool", (1, 2, 6, 4), kernel_shape=[2, 2], strides=[2, 2],
                                               pads=[0, 0, 1, 1], ceil_mode=1),
    "sum": lambda: one("ReduceSum", (1, 3, 4), {"a": ints(1)}),
    "max": lambda: one("ReduceMax", (1, 3, 4), axes=[1], keepdims=0),
    "min": lambda: one("ReduceMin", (1, 3, 4), axes=[-1]),
    "l2": lambda: one("ReduceL2", (1, 3, 4), axes=[2]),
    "argmax": lambda: one("ArgMax", (1, 3, 4), axis=1, keepdims=0),
    "max_pool": lambda: one("MaxPool", (1, 2, 7, 8), kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0]),
    "max_pool_uneven": lambda: one("MaxPool", (1, 2, 8, 8), kernel_shape=[3, 3], strides=[2, 2], pads=[0, 1, 1, 0]),
    "max_pool_same": lambda: one("MaxPool", (1, 2, 8, 7), kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
    "max_pool_ceil": lambda: one("MaxPool", (1, 2, 8, 7), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "max_pool_even": lambda: one("MaxPool", (1, 2, 8, 7), kernel_shape=[2, 2], strides=[1, 1], auto_pad="SAME_UPPER"),
    "max_pool_wide_border": lambda: one("MaxPool", (1, 2, 5, 6), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1,
                                        pads=[2, 2, 2, 1]),
    "average_pool_wide_border": lambda: one("AveragePool", (1, 2, 5, 6), kernel_shape=[3, 3], pads=[2, 2, 2, 2]),
    "max_pool_dilated": lambda: one("MaxPool", (1, 2, 9), kernel_shape=[3], dilations=[2]),
    "average_pool": lambda: one("AveragePool", (1, 2, 7, 8), kernel_shape=[3, 2], strides=[2, 2]),
    "average_pool_border": lambda: one("AveragePool", (1, 2, 7, 8), kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "average_pool_counted": lambda: one("AveragePool", (1, 2, 7, 8), kernel_shape=[3, 3], pads=[0, 1, 2, 1],
                                        count_include_pad=1),
    "global_average": lambda: one("GlobalAveragePool", (1, 3, 5, 4)),
    "global_average_1d": lambda: one("GlobalAveragePool", (1, 3, 5)),
    "global_max": lambda: one("GlobalMaxPool", (1, 3, 5, 4)),
    "pad": lambda: one("Pad", (1, 2, 3, 4), {"p": ints(0, 0, 1, 2, 0, 0, 0, 3), "v": np.float32(0.5)}),
    "pad_reflect": lambda: one("Pad", (1, 2, 5, 4), {"p": ints(0, 0, 1, 2, 0, 0, 0, 3)}, mode="reflect"),
    "pad_edge": lambda: one("Pad", (1, 2, 5), {"p": ints(0, 0, 1, 0, 0, 2)}, mode="edge"),
    "pad_axes": lambda: model([node("Pad", "x p - a")], {"x": (1, 2, 5)}, {"p": ints(1, 2), "a": ints(-1)}, opset=18),
    "resize": lambda: model([node("Resize", "x - s", coordinate_transformation_mode="asymmetric", nearest_mode="floor",
                            mode="nearest")], {"x": (1, 2, 3, 4)}, {"s": np.array([1, 1, 2, 3], np.float32)}),
    "resize_half_pixel": lambda: model([node("Resize", "x - s")], {"x": (1, 2, 3, 4)},
                                       {"s": np.array([1, 1, 2, 2], np.float32)}),
    "resize_sizes": lambda: model([node("Resize", "x - - s", coordinate_transformation_mode="asymmetric",
                                  nearest_mode="floor")], {"x": (1, 2, 3, 4)}, {"s": ints(1, 2, 5, 6)}),
    "resize_linear": lambda: model([node("Resize", "x - s", mode="linear")], {"x": (1, 2, 3, 4)},
                                   {"s": np.array([1, 1, 2, 2], np.float32)}),
    "resize_corners": lambda: model([node("Resize", "x - - s", mode="linear",
                                    coordinate_transformation_mode="align_corners")], {"x": (1, 2, 3, 4)},
                                    {"s": ints(1, 2, 5, 7)}),
    "reshape": lambda: one("Reshape", (1, 3, 4), {"s": ints(0, -1, 2)}),
    "reshape_one": lambda: one("Reshape", (1, 3, 4), {"s": ints(1, 12)}),
    "flatten": lambda: one("Flatten", (1, 3, 4, 2)),
    "transpose": lambda: one("Transpose", (1, 3, 4, 2), perm=[0, 2, 3, 1]),
    "squeeze": lambda: one("Squeeze", (1, 3, 1, 2), {"a": ints(2)}),
    "unsqueeze": lambda: one("Unsqueeze", (1, 3, 2), {"a": ints(-1, 1)}),
    "concat": lambda: model([node("Concat", "x z", axis=1)], {"x": (1, 3, 2), "z": (1, 4, 2)}),
    "split": lambda: model([node("Split", "x s", "a b", axis=1), node("Mul", "a a", "c"), node("Concat", "b c",
                            axis=1)],
                           {"x": (1, 5, 2)}, {"s": ints(2, 3)}),
    "split_even": lambda: model([node("Split", "x", "a b", axis=2, num_outputs=2), node("Concat", "b a", axis=2)],
                                {"x": (1, 3, 5)}, opset=18),
    "slice": lambda: one("Slice", (1, 6, 7), {"a": ints(1, -5), "b": ints(9223372036854775807, -1), "c": ints(1, 2),
                                              "d": ints(2, 1)}),
    "slice_turned": lambda: one("Slice", (1, 6), {"a": ints(-1), "b": ints(-9223372036854775807), "c": ints(1),
                                                  "d": ints(-1)}),
    "slice_backwards": lambda: one("Slice", (1, 6, 7), {"a": ints(-2, 1), "b": ints(0, 6), "c": ints(1, 2),
                                                        "d": ints(-2, 2)}),
    "gather": lambda: one("Gather", (1, 6, 3), {"i": ints(4, -6, 1)}, axis=1),
    "gather_matrix": lambda: one("Gather", (1, 6, 3), {"i": np.array([[4, 0], [1, 1]])}, axis=1),
    "gather_one": lambda: one("Gather", (1, 6, 3), {"i": np.int64(-2)}, axis=1),
    "expand": lambda: one("Expand", (1, 3, 1), {"s": ints(1, 1, 4)}),
    "depth_to_space": lambda: one("DepthToSpace", (1, 8, 2, 3), blocksize=2),
    "depth_to_space_crd": lambda: one("DepthToSpace", (1, 8, 2, 3), blocksize=2, mode="CRD"),
    "space_to_depth": lambda: one("SpaceToDepth", (1, 2, 4, 6), blocksize=2),
    "shapes": lambda: model(
        [node("Shape", "x", "s"), node("Gather", "s i", "n"), node("Unsqueeze", "n z", "u"),
         node("Mul", "u t", "d"), node("Div", "d t", "e"), node("Concat", "o e m", "w", axis=0),
         node("Cast", "w", "v", to=7), node("Reshape", "x v")],
        {"x": (1, 4, 6)}, {"i": np.int64(2), "z": ints(0), "t": ints(2), "o": ints(1), "m": ints(-1)}),
    "mean_of_three": lambda: model([node("Mean", "x z x")], {"x": (1, 3, 2), "z": (1, 3, 2)}),
    "shrink_soft": lambda: one("Shrink", (1, 9), lambd=0.75, bias=0.75),
    "shrink_hard": lambda: one("Shrink", (1, 9), lambd=0.75),
    "local_response": lambda: one("LRN", (1, 7, 3, 2), size=5, alpha=0.5, beta=0.75, bias=2.0),
    "power_pool": lambda: one("LpPool", (1, 2, 6, 7), opset=18, kernel_shape=[2, 3], strides=[2, 2]),
    "global_power": lambda: one("GlobalLpPool", (1, 3, 4, 2)),
    "unit_norm": lambda: one("LpNormalization", (1, 3, 4), axis=1),
    "unit_norm_of_one": lambda: one("LpNormalization", (1, 3, 4), axis=2, p=1),
    "standardised": lambda: one("MeanVarianceNormalization", (1, 3, 4, 5), axes=[2, 3]),
    "l1": lambda: one("ReduceL1", (1, 3, 4), axes=[1, 2], keepdims=0),
    "squares": lambda: one("ReduceSumSquare", (1, 3, 4), {"a": ints(-1)}, 18),
    "log_sum": lambda: model([node("Exp", "x", "e"), node("ReduceLogSum", "e", axes=[2])], {"x": (1, 3, 4)}),
    "log_sum_exp": lambda: one("ReduceLogSumExp", (1, 3, 4), axes=[1]),
    "largest": lambda: model([node("TopK", "x k", "v i", axis=1), node("Cast", "i", "f", to=1), node("Add", "v f")],
                             {"x": (1, 5, 3)}, {"k": ints(1)}),
    "smallest": lambda: model([node("TopK", "x k", "y i", largest=0)], {"x": (1, 5, 3)}, {"k": ints(1)}),
    **{f"running_{kind}": lambda more=more: one("CumSum", (1, 5, 3), {"a": np.int64(1)}, **more)
       for kind, more in {"sum": {}, "sum_back": {"reverse": 1}, "sum_before": {"exclusive": 1, "reverse": 1}}.items()},
    "tile": lambda: one("Tile", (1, 2, 3), {"r": ints(1, 3, 2)}),
    "triangle": lambda: one("Trilu", (1, 4, 5), {"k": np.int64(1)}, upper=0),
    "remainder": lambda: model(
        [node("Shape", "x", "s"), node("Mod", "s m", "r"), node("ReduceProd", "r", "p"), node("Cast", "p", "f", to=1),
         node("Mul", "x f")], {"x": (1, 7, 5)}, {"m": ints(2, 4, 3)}),
    "masks": lambda: model(
        [node("Trilu", "o", "t"), node("NonZero", "t", "n"), node("Cast", "n", "c", to=1), node("Add", "x c")],
        {"x": (1, 2, 6)}, {"o": np.ones((3, 3), np.float32)}),
    "places": lambda: model(
        [node("EyeLike", "o", "e", k=1), node("GatherElements", "e i", "g", axis=1), node("CastLike", "g x", "c"),
         node("ScatterND", "c p v", "d"), node("Mul", "x d")],
        {"x": (1, 3, 3)}, {"o": arr(3, 3), "i": np.array([[1, -1, 0]] * 3), "p": ints(0, 2).reshape(2, 1),
                           "v": arr(2, 3)}),
    "bits": lambda: model(
        [node("BitwiseAnd", "a b", "c"), node("BitwiseXor", "c b", "d"), node("BitwiseNot", "d", "e"),
         node("BitwiseOr", "e a", "f"), node("Cast", "f", "g", to=1), node("Add", "x g")],
        {"x": (1, 3)}, {"a": ints(1, 6, -7), "b": ints(3, 5, 9)}, opset=18),
    "either": lambda: model(
        [node("Greater", "x c", "g"), node("Less", "x z", "l"), node("Xor", "g l", "e"), node("Where", "e x z")],
        {"x": (1, 9), "z": (1, 9)}, {"c": np.float32(0.1)}),
    "average_pool_uneven": lambda: one("AveragePool", (1, 2, 7, 8), kernel_shape=[3, 2], strides=[2, 2],
                                       auto_pad="SAME_UPPER"),
    "global_average_3d": lambda: one("GlobalAveragePool", (1, 3, 2, 3, 2)),
    "resize_1d": lambda: model([node("Resize", "x - s")], {"x": (1, 2, 5)}, {"s": np.array([1, 1, 2], np.float32)}),
    "resize_axes": lambda: model([node("Resize", "x - s", axes=[3, 2])], {"x": (1, 2, 3, 4)},
                                 {"s": np.array([3, 2], np.float32)}, opset=18),
    "columns": lambda: one("Col2Im", (1, 12, 6), {"s": ints(4, 5), "b": ints(2, 3)}, 18, strides=[2, 1]),
    **{f"einsum_{name}": lambda equation=equation, a=a, b=b: one("Einsum", a, {"w": arr(*b)}, equation=equation)
       for name, (equation, a, b) in {
           "linear": ("bsd,de->bse", (1, 4, 3), (3, 5)), "linear_turned": ("bsd,ed->bse", (1, 4, 3), (5, 3)),
           "heads": ("bsd,dhe->bhse", (1, 4, 3), (3, 2, 5)), "of_heads": ("bhse,hed->bsd", (1, 2, 4, 5), (2, 5, 3)),
           "each_head": ("bhqd,hdk->bhqk", (1, 2, 4, 3), (2, 3, 5)), "scaled": ("b...,s->b...s", (1, 4, 3), (5,)),
           "implied": ("...d,de", (1, 4, 3), (3, 5)), "summed": ("bsd,e->be", (1, 4, 3), (5,)),
           "weighted": ("bsd,s->bd", (1, 4, 3), (4,)),
       }.items()},
    **{f"einsum_data_{name}": lambda equation=equation, a=a, b=b: model(
        [node("Einsum", "x z", equation=equation)], {"x": a, "z": b}) for name, (equation, a, b) in {
            "attention": ("bqhd,bkhd->bhqk", (1, 4, 2, 3), (1, 5, 2, 3)), "outer": ("bi,bj->bij", (1, 4), (1, 5)),
            "values": ("bhqk,bkhd->bqhd", (1, 2, 4, 5), (1, 5, 2, 3)), "dot": ("bsd,bsd->bs", (1, 4, 3), (1, 4, 3)),
        }.items()},
    "einsum_alone": lambda: model([node("Einsum", "x", equation="bsde->bes")], {"x": (1, 3, 4, 2)}),
    "constants": lambda: model(
        [node("Constant", "", "a", value_floats=[1.0, 2.0, 3.0]), node("ConstantOfShape", "s", "b"),
         node("Range", "l h d", "c"), node("Cast", "c", "f", to=1), node("Add", "a b", "e"), node("Add", "e f", "g"),
         node("Mul", "x g")],
        {"x": (1, 2, 3)}, {"s": ints(3), "l": np.int64(0), "h": np.int64(6), "d": np.int64(2)}),
    # Heads share the dimension of the frames with them, as PyTorch's attention is written.
    "concat_heads": lambda: model(
        [node("Transpose", "x", "t", perm=[1, 0, 2]), node("Reshape", "t s", "h"),
         node("Transpose", "h", "k", perm=[1, 0, 2]), node("Concat", "k z", axis=1)],
        {"x": (1, 3, 4)}, {"s": ints(3, 2, 2), "z": arr(2, 1, 2)}),
}  # fmt: skip


OF_RUNTIME = {"local_response", "unit_norm_of_one", "global_power"}
"""Operations that ONNX' own evaluator does not have, or computes otherwise than their specification says."""
ONLY = {"group_norm_of_groups": range(18, 21), "group_norm": range(21, 22)}
"""Versions in which a node means what its case says, where not all."""


def evaluated(name: str, made: ModelProto, frame: dict[str, np.ndarray]) -> np.ndarray:
    """What ONNX' own evaluator gives, or ONNX Runtime."""
    trains = name.startswith("batch_norm") and made.opset_import[0].version < 14  # so it reads one result
    if name not in OF_RUNTIME and not trains:
        return reference(made, frame)[0]
    found: np.ndarray = InferenceSession(made.SerializeToString()).run(None, frame)[0]
    return found


@pytest.mark.parametrize("name", CASES)
def test_operation(name: str) -> None:
    compare(name, CASES[name]())


def compare(name: str, made: ModelProto) -> None:
    """The graph and the evaluator, on several frames."""
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in made.graph.input}
    frames = [{n: 2 * arr(*s) for n, s in shapes.items()} for _ in range(3)]
    wanted = [evaluated(name, made, frame) for frame in frames]
    graph = import_model(made)
    assert graph.meta["imported"][next(iter(graph.example))] == made.graph.input[0].name
    found = [graph.model(*(torch.from_numpy(v) for v in frame.values())) for frame in frames]
    for one, want in zip(found, wanted, strict=True):
        assert one.shape == want.shape
        np.testing.assert_allclose(one.detach().numpy(), want, **CLOSE)
    # Several frames at once give what they give alone.
    stacked = graph.model(*(torch.from_numpy(np.concatenate([f[n] for f in frames])) for n in shapes))
    torch.testing.assert_close(stacked, torch.cat(found), rtol=1e-5, atol=1e-5)


def test_ids_choose_rows() -> None:
    made = model([node("Gather", "t x")], {"x": (1, 4)}, {"t": arr(9, 3)}, x=7)
    ids = np.array([[3, 0, 8, 3]])
    np.testing.assert_array_equal(
        import_model(made).model(torch.from_numpy(ids)).detach().numpy(), reference(made, {"x": ids})[0]
    )


def versions(made: ModelProto, among: range) -> list[int]:
    """The versions from 13 on in which an operation of a model became another one, that allow what it does."""
    kinds = {n.op_type for n in made.graph.node}
    steps = {13, made.opset_import[0].version} | {
        s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name in kinds
    }
    found = []
    for version in sorted(v for v in steps if v in among):
        context = onnx.checker.C.CheckerContext()
        context.ir_version, context.opset_imports = 10, {"": version}
        try:
            for each in made.graph.node:
                onnx.checker.check_node(each, context)
        except onnx.checker.ValidationError as error:
            if "deprecated" not in str(error):  # its inputs or attributes are not those of this version
                continue
        found.append(version)
    return found


@pytest.mark.parametrize("name", CASES)
def test_every_version_of_an_operation(name: str) -> None:
    made: ModelProto = CASES[name]()
    found = versions(made, ONLY.get(name, range(13, 22)))
    assert found
    for version in found:
        made.opset_import[0].version = version
        x = {v.name: 2 * arr(*[d.dim_value for d in v.type.tensor_type.shape.dim]) for v in made.graph.input}
        try:
            want = evaluated(name, made, x)
        except RuntimeError as error:  # it has only newer versions of some operations
            assert "No implementation" in str(error)
            want = InferenceSession(made.SerializeToString()).run(None, x)[0]
        got = import_model(made).model(*map(torch.from_numpy, x.values())).detach().numpy()
        np.testing.assert_allclose(got, want, **CLOSE)


@pytest.mark.parametrize("opset", range(13, 22))
def test_opsets(opset: int) -> None:
    """A network with operations that changed, in every version: axes became inputs in 18, layouts came in 14."""
    stored = {"w": arr(4, 2, 3, 3), "b": arr(4), "s": np.abs(arr(4)), "a": ints(2, 3), "m": arr(4, 5), "p": ints(1)}
    inputs, axes = ("c a", {}) if opset >= 18 else ("c", {"axes": [2, 3]})
    made = model(
        [
            node("Conv", "x w b", "d", pads=[1, 1, 1, 1]),
            node("BatchNormalization", "d s b b s", "e"),
            node("Relu", "e", "c"),
            node("ReduceMean", inputs, "r", keepdims=0, **axes),
            node("MatMul", "r m", "g"),
            node("Softmax", "g", "h"),
            node("Split", "h", "u v", axis=1, **({"num_outputs": 2} if opset >= 18 else {}))
            if opset >= 18
            else node("Split", "h q", "u v", axis=1),
            node("Unsqueeze", "u p", "t"),
            node("Squeeze", "t p", "k"),
            node("Concat", "v k", axis=1),
        ],
        {"x": (1, 2, 5, 4)},
        stored if opset >= 18 else {**stored, "q": ints(3, 2)},
        opset=opset,
    )
    x = arr(1, 2, 5, 4)
    want = InferenceSession(made.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_allclose(import_model(made).model(torch.from_numpy(x)).detach().numpy(), want, **CLOSE)


def test_transposed_convolution_of_a_given_size() -> None:
    """ONNX' own evaluator does not compute it; ONNX Runtime does."""
    made = one("ConvTranspose", (1, 2, 4), {"w": arr(2, 3, 4)}, strides=[3], output_shape=[10])
    x = arr(1, 2, 4)
    want = InferenceSession(made.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_allclose(import_model(made).model(torch.from_numpy(x)).detach().numpy(), want, **CLOSE)
