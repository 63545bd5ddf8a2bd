"""The metadata record: attribute and dict access reach the same tree, and wrong keys say what was meant."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

import pytest
import torch

from mase_hw.errors import ConfigError, MetadataKeyError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph, MaseGraphMetadata, MaseMetadata, TensorMetadata
from mase_hw.ir.copies import copy_graph


@pytest.fixture
def meta() -> MaseMetadata:
    meta = MaseMetadata()
    meta["common"]["mase_type"] = "module_related_func"
    meta["common"]["mase_op"] = "linear"
    meta["common"]["args"] = {
        "data_in_0": {"shape": [1, 4], "torch_dtype": torch.float32, "type": "float", "precision": [32]},
        "weight": {"shape": [2, 4], "type": "float", "precision": [32]},
        "inplace": False,
    }
    return meta


def test_fresh_metadata_is_three_empty_branches() -> None:
    assert MaseMetadata().to_dict() == {"common": {}, "software": {}, "hardware": {}}
    assert MaseGraphMetadata().to_dict() == {"common": {}, "software": {}, "hardware": {}}
    assert MaseMetadata()["hardware"] == {}


def test_dict_and_attribute_access_share_the_record(meta: MaseMetadata) -> None:
    assert isinstance(meta.common.args["data_in_0"], TensorMetadata)
    assert meta["common"]["args"]["data_in_0"]["precision"] == [32]
    meta.common.args["weight"].shape = [3, 4]
    assert meta["common"]["args"]["weight"]["shape"] == [3, 4]
    meta["common"]["args"]["weight"]["shape"] = (5, 4)
    assert meta.common.args["weight"].shape == [5, 4]
    assert meta.parameters["common"]["args"]["inplace"] is False
    meta.parameters["hardware"]["fifo_depth"]["data_in_0"] = 8
    assert meta.hardware.fifo_depth == {"data_in_0": 8}


def test_view_behaves_like_a_dict(meta: MaseMetadata) -> None:
    common = meta["common"]
    assert set(common) == set(common.keys()) == {"mase_type", "mase_op", "args"}
    assert "args" in common and "arg" not in common and "module" not in meta["hardware"]
    assert common.get("nothing", 7) == 7 and meta["hardware"].get("module") is None
    assert dict(common["args"]["weight"].items()) == {"shape": [2, 4], "type": "float", "precision": [32]}
    assert common["args"]["weight"] == {"shape": [2, 4], "type": "float", "precision": [32]}
    assert common["args"]["weight"] != {"shape": [2, 5], "type": "float", "precision": [32]}
    del common["args"]["weight"]
    assert "weight" not in meta.common.args
    del common["mase_op"]
    assert meta.common.mase_op == ""


def test_unset_optional_keys_are_omitted_and_set_ones_shown(meta: MaseMetadata) -> None:
    assert "signed" not in meta["common"]["args"]["weight"]
    meta["hardware"] = {"module": "fixed_linear", "toolchain": "INTERNAL"}
    shown = meta["hardware"].to_dict()
    assert shown.pop("given") == shown == {"toolchain": "INTERNAL", "module": "fixed_linear"}


def test_tensors_compare_by_value(meta: MaseMetadata) -> None:
    meta["common"]["args"]["weight"]["value"] = torch.ones(2, 4)
    want = {"shape": [2, 4], "type": "float", "precision": [32], "value": torch.ones(2, 4)}
    assert meta["common"]["args"]["weight"] == want
    assert meta["common"]["args"]["weight"] != {**want, "value": torch.zeros(2, 4)}


@pytest.mark.parametrize(
    ("path", "where", "meant"),
    [
        (("comon",), "metadata", "'common'"),
        (("common", "arg"), "common", "'args'"),
        (("common", "args", "weigth"), "common.args", "'weight'"),
        (("common", "args", "weight", "presision"), "common.args.weight", "'precision'"),
        (("hardware", "dependance_files"), "hardware", "'dependence_files'"),
    ],
)
def test_wrong_key_says_where_and_what_was_meant(
    meta: MaseMetadata, path: tuple[str, ...], where: str, meant: str
) -> None:
    tree = meta.parameters
    for key in path[:-1]:
        tree = tree[key]
    with pytest.raises(MetadataKeyError) as error:
        tree[path[-1]]
    assert f"where: {where}\n" in str(error.value) and meant in str(error.value)
    assert isinstance(error.value, KeyError)


def test_wrong_key_cannot_be_written(meta: MaseMetadata) -> None:
    with pytest.raises(MetadataKeyError, match="toolchain"):
        meta["hardware"]["toolchian"] = "INTERNAL"
    with pytest.raises(MetadataKeyError, match="module"):
        meta.hardware.modul = "x"
    with pytest.raises(MetadataKeyError, match="toolchain"):
        meta["hardware"] = {"toolchian": "INTERNAL"}
    with pytest.raises(MetadataKeyError, match="precision"):
        meta["common"]["args"]["x"] = {"shape": [1], "type": "float", "precision": [32], "presision": 1}


def test_key_that_is_not_set_yet_says_so(meta: MaseMetadata) -> None:
    with pytest.raises(MetadataKeyError, match="not set yet"):
        meta["hardware"]["module"]


def test_unknown_type_and_toolchain_are_refused(meta: MaseMetadata) -> None:
    with pytest.raises(ConfigError, match="'fixed'"):
        meta["common"]["args"]["weight"]["type"] = "fixd"
    with pytest.raises(ConfigError, match=r"INTERNAL \| EXTERNAL \| HLS"):
        meta["hardware"]["toolchain"] = "VIVADO"
    assert MaseMetadata.known_toolchain == ["INTERNAL", "EXTERNAL", "HLS"]
    assert MaseMetadata.known_storage == ["BRAM", "LUT"]


def test_format_of_a_tensor() -> None:
    tensor = TensorMetadata([2], "float", [32])
    assert tensor.fmt is None
    tensor.fmt = FixedFormat(6, 9, signed=False)
    assert (tensor.type, tensor.precision, tensor.signed) == ("fixed", [6, 9], False)
    assert tensor.fmt == FixedFormat(6, 9, signed=False)
    assert TensorMetadata([2], "fixed", [8, 4]).fmt == FixedFormat(8, 4, signed=True)


def test_software_is_free_below_the_names(meta: MaseMetadata) -> None:
    meta["software"]["args"]["weight"] = {"stat": {"range_min_max": {"min": -1.0, "max": 2.0, "count": 3}}}
    assert meta["software"]["args"]["weight"]["stat"]["range_min_max"]["max"] == 2.0
    meta["software"]["args"]["weight"]["stat"]["mine"] = {"a": 1}
    assert meta.software.args["weight"]["stat"]["mine"] == {"a": 1}
    with pytest.raises(MetadataKeyError, match="range_min_max"):
        meta["software"]["args"]["weight"]["stat"]["range_minmax"]


def test_the_tree_is_a_tree_of_dicts(meta: MaseMetadata) -> None:
    """The tree is a tree of dicts: isinstance, json, deepcopy, ** and recursion work as on plain dicts."""
    meta["hardware"] = {"parallelism": {"data_in_0": 2}, "interface": {"weight": {"storage": "LUT"}}}
    meta["software"]["args"]["weight"] = {"stat": {"record": {"data": [1.0]}}}
    seen: list[str] = []

    def walk(tree: dict[str, Any], path: str) -> None:
        for key, value in tree.items():
            seen.append(f"{path}.{key}")
            if isinstance(value, dict):
                walk(value, f"{path}.{key}")

    walk(meta, "")
    assert {".common.args.weight.shape", ".common.args.data_in_0.precision"} <= set(seen)
    assert {".software.args.weight.stat.record.data", ".hardware.interface.weight.storage"} <= set(seen)
    assert json.loads(json.dumps(meta, default=str)) == {**meta.to_dict(), "common": ANY}
    assert json.loads(json.dumps(meta["hardware"])) == meta["hardware"].to_dict()
    assert dict(**meta["common"]["args"]["weight"]) == {"shape": [2, 4], "type": "float", "precision": [32]}
    for branch in (meta, *meta.values(), meta["common"]["args"], meta["hardware"]["interface"]):
        copied, plain = copy.deepcopy(branch), copy.deepcopy(dict(branch))
        assert copied == branch == plain and copied is not branch
    copied = copy.deepcopy(meta)
    copied["common"]["args"]["weight"]["shape"].append(1)
    copied["hardware"]["parallelism"]["data_in_0"] = 4
    assert meta.common.args["weight"].shape == [2, 4] and meta.hardware.parallelism == {"data_in_0": [2]}
    assert copied.hardware.given["parallelism"]["data_in_0"] == [4]


def test_keys_of_ones_own(meta: MaseMetadata) -> None:
    """Own keys under common and software are allowed; what nearly is a documented one is not."""
    meta["common"]["quantized"], meta["software"]["mine"] = True, {"a": {"b": 1}}
    meta["common"]["args"]["weight"]["sparsity"] = 0.5
    assert meta["common"]["quantized"] is True and meta["software"]["mine"]["a"] == {"b": 1}
    assert meta.to_dict()["common"]["args"]["weight"]["sparsity"] == 0.5
    for branch, key, meant in (("common", "arg", "args"), ("software", "result", "results")):
        with pytest.raises(MetadataKeyError, match=f"did you mean '{meant}'"):
            meta[branch][key] = {}
    with pytest.raises(MetadataKeyError, match="known"):
        meta["hardware"]["mine"] = 1


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "toolchain": (lambda h: h.update(toolchain="VIVADO"), "INTERNAL | EXTERNAL | HLS"),
    "storage": (lambda h: h.update(interface={"weight": {"storage": "URAM"}}), "BRAM | LUT"),
    "device": (lambda h: h.setdefault("device_id", "first"), "number of a device"),
    "lanes": (lambda h: h["parallelism"].update(data_out_0=0), "number of lanes"),
    "depth": (lambda h: h["fifo_depth"].setdefault("data_in_0", -1), "0 for no FIFO"),
    "is_implicit": (lambda h: h.update(is_implicit=True), "op of the catalogue"),
    "files": (lambda h: h.update(dependence_files=[]), "dependence_files"),
    "parameter": (lambda h: h["verilog_param"].update(WIDTH=8), "quantize"),
    "latency": (lambda h: h.update(latency={"fill": 1}), "parallelism"),
    "layouts": (lambda h: h["layouts"].update(data_in_0={}), "stream"),
    "registers": (lambda h: h["interface"].update(weight={"registers": 1}), "hardware.family"),
    "given": (lambda h: h["given"].update(device_id=1), "by hand"),
    "list": (lambda h: h["parallelism"]["data_in_0"].append(2), "assign a whole"),
    "deleted": (lambda h: h.pop("parallelism"), "nothing is taken out"),
    "emptied": (lambda h: h["parallelism"].clear(), "nothing is taken out"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_result_cannot_be_set_and_an_input_is_checked(meta: MaseMetadata, name: str) -> None:
    """An input refuses unknown values at the assignment; a result raises and names what decides it."""
    meta["hardware"]["parallelism"]["data_in_0"] = 2
    meta["hardware"].fill({**meta["hardware"], "verilog_param": {"A": 1}})
    meta["hardware"]["verilog_param"]["A"] = 1  # what is so already is no change
    before = meta.to_dict()
    with pytest.raises(ConfigError) as caught:
        WRONG[name][0](meta["hardware"])
    assert WRONG[name][1] in str(caught.value)
    assert meta.to_dict() == before


def test_a_copied_graph_has_lists_and_dicts_of_its_own() -> None:
    """Of numbers too, which are not looked at one by one, and of lists among them."""
    graph = MaseGraph(torch.nn.ReLU())
    given = {"data_in_0": {"stat": {"samples": [1.0, 2.5], "edges": [0, 1], "mixed": [1, [2.0], {"a": [3]}, None]}}}
    for node in graph.nodes:
        node.meta["mase"] = MaseMetadata(node, graph.model)
        node.meta["mase"].software.args = given
    for node in copy_graph(graph).nodes:
        made = node.meta["mase"].software.args
        assert made == given
        for one, other in _pairs(made, given):
            assert one is not other, one


def _pairs(one: object, other: object) -> list[tuple[object, object]]:
    """The lists and dicts of two nested values that are equal, each with its like."""
    if isinstance(one, dict) and isinstance(other, dict):
        parts = [(one[key], other[key]) for key in one]
    elif isinstance(one, list) and isinstance(other, list):
        parts = list(zip(one, other, strict=True))
    else:
        return []
    return [(one, other), *(pair for a, b in parts for pair in _pairs(a, b))]
