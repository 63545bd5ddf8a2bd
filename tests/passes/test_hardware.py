"""Hardware metadata against MASE's documented trees, and what the pass refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from mase_hw.ir import MaseGraph
from tests.ir.nets import MLP as MaseMLP
from tests.rtl import LIBRARY
from tests.unit.pipeline import EIGHT, MLP, Functional, Heads, inputs, mapped, rule, seeded

BRAM = {"storage": "BRAM", "transpose": False}
NAMED = {"data_in": 8, "weight": 8, "bias": 8, "data_out": 8}
S8_3 = {"default": rule(**{f"{k}_width": v for k, v in NAMED.items()}, **{f"{k}_frac_width": 3 for k in NAMED})}


def tensor(name: str, sizes: list[int], lanes: list[int]) -> dict[str, int]:
    """The documented parameters of a tensor: precision, sizes and lanes, DIM_0 innermost."""
    tree = {f"{name}_PRECISION_0": 8, f"{name}_PRECISION_1": 3}
    for dim, (size, parallel) in enumerate(zip(sizes, lanes, strict=True)):
        tree |= {f"{name}_TENSOR_SIZE_DIM_{dim}": size, f"{name}_PARALLELISM_DIM_{dim}": parallel}
    return tree


# The trees in the docstring of MASE's add_hardware_metadata_analysis_pass, for its MLP on 28 x 28 images at (8, 3),
# with these differences, all on purpose:
#  - the documentation calls the sizes of the output DATA_OUT_0_TENSOR_SIZE_1_DIM_0 (and PARALLELISM likewise), which
#    its own naming rules and its code do not: DATA_OUT_0_TENSOR_SIZE_DIM_0;
#  - it lists the sizes outermost first (DIM_0 = 1, DIM_1 = 784); its code, like us, counts from the innermost;
#  - it gives weights three dimensions and biases three, most of them 1: here two and one;
#  - it unrolls everything (784 lanes); here lanes are asked for;
#  - SIGNED, HAS_BIAS, WEIGHT_SHIFT, ROUNDING and OVERFLOW are ours: without them they would not fix the bits;
#  - INPLACE is no parameter of a relu: it means nothing to hardware;
#  - the files are ours, in our folders; as documented, the module's own file is the last.
LINEAR = {
    "is_implicit": False,
    "interface": {"weight": BRAM, "bias": BRAM},
    "toolchain": "INTERNAL",
    "module": "fixed_linear",
    "device_id": -1,
    "verilog_param": {
        **tensor("DATA_IN_0", [784, 1, 1], [16, 1, 1]),
        **tensor("WEIGHT", [784, 784], [16, 8]),
        **tensor("BIAS", [784], [8]),
        **tensor("DATA_OUT_0", [784, 1, 1], [8, 1, 1]),
    },
}
RELU = {
    "is_implicit": False,
    "interface": {"inplace": {}},
    "toolchain": "INTERNAL",
    "module": "fixed_relu",
    "device_id": -1,
    "verilog_param": {
        **tensor("DATA_IN_0", [784, 1, 1], [8, 1, 1]),
        **tensor("DATA_OUT_0", [784, 1, 1], [8, 1, 1]),
    },
}
ADDED = {"ROUNDING": 0, "OVERFLOW": 0, "DATA_IN_0_SIGNED": 1, "DATA_OUT_0_SIGNED": 1}
SHIFT = {"PRECISION_0": 1, "PRECISION_1": 0, "SIGNED": 0, "TENSOR_SIZE_DIM_0": 784, "PARALLELISM_DIM_0": 8}
ADDED_LINEAR = {**ADDED, "WEIGHT_SIGNED": 1, "BIAS_SIGNED": 1, "HAS_BIAS": 1, "HAS_WEIGHT_SHIFT": 0}
ADDED_LINEAR |= {
    "PACKED": 1,
    "CHAIN": 0,
    "SPACING": 17,
    "NARROW": 0,
    "WEIGHT_BLOCK": 0,
    "WEIGHT_FACTORS": 0,
    "INPUTS_FIRST": 0,
    "LIFT": 0,
    "LOGIC": 0,
    "AHEAD": 0,
}
ADDED_LINEAR |= {f"WEIGHT_SHIFT_{key}": value for key, value in SHIFT.items()}
OURS = {"dependence_files", "max_parallelism", "parallelism", "latency"}


@pytest.fixture(scope="module")
def documented() -> MaseGraph:
    """The graph of the documentation: flatten, fc1, relu (a function), fc2."""
    lanes = {"fc1": {"data_in_0": 16, "data_out_0": 8}}
    return mapped(seeded(MaseMLP), inputs(1, 28, 28), config=S8_3, hardware={"parallelism": lanes})[0]


def tree(graph: MaseGraph, node: str) -> dict[str, Any]:
    return graph.node(node).meta["mase"].to_dict()["hardware"]


@pytest.mark.parametrize(("node", "expected", "added"), [("fc1", LINEAR, ADDED_LINEAR), ("relu", RELU, ADDED)])
def test_documented_trees(documented: MaseGraph, node: str, expected: dict[str, Any], added: dict[str, int]) -> None:
    found = tree(documented, node)
    assert {k: v for k, v in found.items() if k not in OURS | {"verilog_param"}} == {
        k: v for k, v in expected.items() if k != "verilog_param"
    }
    assert found["verilog_param"] == {**expected["verilog_param"], **added}
    files = found["dependence_files"]
    assert files[-1] == f"ops/{expected['module']}.sv" and len(set(files)) == len(files)
    # The same objects through MASE's keys.
    assert documented.node(node).meta["mase"]["hardware"]["module"] == expected["module"]
    assert documented.node(node).meta["mase"].parameters["hardware"]["device_id"] == -1


def test_documented_flatten_is_implicit(documented: MaseGraph) -> None:
    for node in ("flatten", "x", "x_quantize", "output"):
        found = tree(documented, node)
        assert found.pop("is_implicit") is True and found.pop("device_id") == -1
        assert set(found) <= {"parallelism"}, node


def test_a_layer_without_bias(documented: MaseGraph) -> None:
    found = tree(documented, "fc2")
    assert found["interface"] == {"weight": BRAM}
    assert found["verilog_param"]["HAS_BIAS"] == 0 and found["verilog_param"]["BIAS_TENSOR_SIZE_DIM_0"] == 10


def test_files_exist_and_come_after_what_they_use(documented: MaseGraph) -> None:
    for node in ("fc1", "relu"):
        seen: list[str] = []
        for file in tree(documented, node)["dependence_files"]:
            text = (LIBRARY / file).read_text()
            modules = {Path(other).stem for other in tree(documented, node)["dependence_files"]} - {Path(file).stem}
            used = {m for m in modules if f"  {m} #(" in text}
            assert used <= set(seen), (file, used)
            seen.append(Path(file).stem)


def test_parameters_are_those_of_the_module_in_its_order(documented: MaseGraph) -> None:
    for node in ("fc1", "relu"):
        found = tree(documented, node)
        text = (LIBRARY / found["dependence_files"][-1]).read_text()
        header = text[text.index("#(") : text.index(") (")]
        declared = [line.split("=")[0].split()[-1] for line in header.splitlines() if "parameter int" in line]
        assert list(found["verilog_param"]) == declared


def test_lanes_by_default_are_the_maximum_or_the_size() -> None:
    for most, lanes in ((1, [1, 1, 1]), (4, [4, 4, 3]), (5, [5, 5, 3]), (100, [6, 5, 3]), ([4, 1], [4, 4, 3])):
        graph, info = mapped(seeded(MLP), inputs(2, 6), hardware={"max_parallelism": most})
        found = [
            info["nodes"]["fc1"]["parallelism"]["data_in_0"][0],
            info["nodes"]["fc1"]["parallelism"]["data_out_0"][0],
        ]
        assert [*found, info["nodes"]["fc2"]["parallelism"]["data_out_0"][0]] == lanes
        assert graph.node("fc1").meta["mase"]["hardware"]["max_parallelism"] == most


def test_lanes_by_node_beat_the_maximum() -> None:
    lanes = {"fc1": {"data_in_0": 6, "data_out_0": [3]}, "fc2": {"data_in_0": 2}}
    graph, info = mapped(seeded(MLP), inputs(2, 6), hardware={"max_parallelism": 1, "parallelism": lanes})
    found = {n: info["nodes"][n]["parallelism"] for n in ("fc1", "relu", "fc2")}
    assert found["fc1"] == {"data_in_0": [6, 1, 1], "weight": [6, 3], "bias": [3], "data_out_0": [3, 1, 1]}
    assert found["relu"] == {"data_in_0": [3, 1, 1], "data_out_0": [3, 1, 1]}, "as its producer"
    assert found["fc2"] == {"data_in_0": [2, 1, 1], "weight": [2, 1], "bias": [1], "data_out_0": [1, 1, 1]}
    # The input of the design has the lanes of its reader.
    assert tree(graph, "x_quantize")["parallelism"] == {"data_out_0": [6]}
    assert info["nodes"]["fc1"]["verilog_param"]["WEIGHT_PARALLELISM_DIM_1"] == 3


@pytest.mark.parametrize("name", ["data_in_0", "data_out_0"])
def test_an_elementwise_op_takes_lanes_of_its_own(name: str) -> None:
    _, info = mapped(seeded(MLP), inputs(2, 6), hardware={"parallelism": {"relu": {name: 2}}})
    assert info["nodes"]["relu"]["parallelism"] == {"data_in_0": [2, 1, 1], "data_out_0": [2, 1, 1]}


def test_work_is_cycles_times_multipliers() -> None:
    """The interval is in * out / multipliers a vector, rounded up where lanes do not divide."""
    for p_in, p_out, cycles in ((6, 5, 1), (1, 1, 30), (3, 5, 2), (4, 2, 6), (2, 3, 6)):
        lanes = {"fc1": {"data_in_0": p_in, "data_out_0": p_out}}
        _, info = mapped(seeded(MLP), inputs(4, 6), hardware={"parallelism": lanes})
        assert info["nodes"]["fc1"]["latency"]["interval"] == 4 * cycles


def test_leading_dimensions_fold_into_the_outermost() -> None:
    model = nn.Sequential(nn.Linear(6, 4)).eval()
    for shape, sizes in (((6,), [6, 1, 1]), ((5, 6), [6, 5, 1]), ((2, 5, 6), [6, 5, 2]), ((3, 2, 5, 6), [6, 5, 6])):
        _, info = mapped(model, inputs(*shape))
        found = info["nodes"]["_0"]["verilog_param"]
        assert [found[f"DATA_IN_0_TENSOR_SIZE_DIM_{d}"] for d in range(3)] == sizes
        assert [found[f"DATA_OUT_0_TENSOR_SIZE_DIM_{d}"] for d in range(3)] == [4, *sizes[1:]]


def test_formats_and_modes_reach_the_parameters() -> None:
    config = {
        **EIGHT,
        "overrides": {"fc2": rule(rounding="trunc", overflow="wrap", data_out_width=5, data_out_frac_width=-1)},
    }
    _, info = mapped(seeded(MLP), inputs(2, 6), config=config)
    found = info["nodes"]["fc2"]["verilog_param"]
    assert [found[k] for k in ("ROUNDING", "OVERFLOW", "DATA_OUT_0_PRECISION_0", "DATA_OUT_0_PRECISION_1")] == [
        3,
        1,
        5,
        -1,
    ]
    unsigned = {**EIGHT, "relu": rule(data_out_width=6, data_out_signed=False)}
    _, info = mapped(seeded(MLP), inputs(2, 6), config=unsigned)
    assert info["nodes"]["relu"]["verilog_param"]["DATA_OUT_0_SIGNED"] == 0
    assert info["nodes"]["fc2_cast"]["module"] == "fixed_cast"


def test_every_form_of_an_op() -> None:
    graph, info = mapped(seeded(Functional), inputs(2, 3, 4))
    assert [info["nodes"][n]["module"] for n in info["nodes"]] == [
        "fixed_linear", "fixed_relu", "fixed_linear", "fixed_relu", "fixed_linear",
    ]  # fmt: skip
    assert info["verilog_sources"] == list(
        dict.fromkeys(f for n in info["nodes"].values() for f in n["dependence_files"])
    )
    assert (
        mapped(seeded(Heads), inputs(2, 6), hardware={"device_id": 3})[0]
        .node("a")
        .meta["mase"]["hardware"]["device_id"]
        == 3
    )
    assert "add_hardware_metadata_analysis_pass" in graph.completed
