"""The hardware branch of a node's metadata: what is set there is built, before the hardware pass and after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mase_hw.emit.passes import emit_bram_transform_pass, emit_verilog_top_transform_pass
from mase_hw.errors import ConfigError, MaseHwError, UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.ir.copies import copy_graph
from mase_hw.passes import add_hardware_metadata_analysis_pass, verify_analysis_pass
from tests.unit.pipeline import EIGHT, MLP, inputs, quantised, seeded

Setting = Callable[[Any], Any]


@pytest.fixture(scope="module")
def network() -> MaseGraph:
    return quantised(seeded(MLP), inputs(20, 6), config=EIGHT)[0]


@pytest.fixture(scope="module")
def untouched(network: MaseGraph) -> dict[str, bytes]:
    return emitted(add_hardware_metadata_analysis_pass(copy_graph(network))[0])


def emitted(graph: MaseGraph) -> dict[str, bytes]:
    for emit in (emit_verilog_top_transform_pass, emit_bram_transform_pass):
        graph, _ = emit(graph)
    bundle = graph.meta["bundle"]
    files = {name: bundle.read(name) for name in bundle if not name.endswith(".svg")}
    return {**files, "manifest": repr(bundle.manifest).encode()}


def set_before(network: MaseGraph, change: Setting, args: dict[str, Any], node: str = "fc1") -> MaseGraph:
    graph = copy_graph(network)
    change(graph.node(node).meta["mase"]["hardware"])
    return add_hardware_metadata_analysis_pass(graph, args)[0]  # type: ignore[no-any-return]


def set_after(network: MaseGraph, change: Setting, args: dict[str, Any], node: str = "fc1") -> MaseGraph:
    graph, _ = add_hardware_metadata_analysis_pass(copy_graph(network), args)
    change(graph.node(node).meta["mase"]["hardware"])
    return graph  # type: ignore[no-any-return]


SAME: dict[str, tuple[Setting, dict[str, Any]]] = {
    "parallelism": (lambda h: h["parallelism"].update(data_out_0=3), {"parallelism": {"fc1": {"data_out_0": 3}}}),
    "fifo_depth": (lambda h: h.update(fifo_depth={"data_in_0": 9}), {"fifo_depth": {"fc1.data_in_0": 9}}),
    "storage": (lambda h: h.update(interface={"weight": {"storage": "LUT"}}), {"memory": {"fc1.weight": "lut"}}),
    "implementation": (lambda h: h.update(implementation="chain"), {"implementation": {"fc1": "chain"}}),
    "module": (lambda h: h.update(module="unrolled"), {"implementation": {"fc1": "unrolled"}}),
    "device_id": (lambda h: h.update(device_id=2), {"device_id": 2}),
}


@pytest.mark.parametrize("name", SAME)
def test_an_input_is_what_the_argument_of_that_name_is(
    network: MaseGraph, untouched: dict[str, bytes], name: str
) -> None:
    """A field that is an input takes effect, before the hardware pass and after it, as the argument does."""
    change, args = SAME[name]
    if name == "module":
        elsewhere = network.hardware_op(network.node("fc1")).hardware.delegates["unrolled"]  # type: ignore[union-attr]
        module = network.catalogue[elsewhere].hardware.module  # type: ignore[union-attr]
        change = lambda h: h.update(module=module)  # noqa: E731
    wanted = emitted(add_hardware_metadata_analysis_pass(copy_graph(network), args)[0])
    assert wanted != untouched
    assert emitted(set_before(network, change, {})) == wanted
    after = set_after(network, change, {})
    assert emitted(copy_graph(after)) == wanted, "a copy has it too"
    verify_analysis_pass(after)


def test_most_lanes_of_one_node(network: MaseGraph) -> None:
    graph = set_before(network, lambda h: h.update(max_parallelism=2), {"max_parallelism": 4})
    lanes = [graph.node(name).meta["mase"]["hardware"]["parallelism"]["data_out_0"] for name in ("fc1", "fc2")]
    assert lanes[0][0] == 2 and lanes[1][0] > 2


WRONG: dict[str, tuple[str, Setting, dict[str, Any], str]] = {
    "module": ("fc1", lambda h: h.update(module="fixed_relu"), {}, "expected: fixed_linear"),
    "toolchain": ("fc1", lambda h: h.update(toolchain="HLS"), {}, "expected: INTERNAL"),
    "implementation": ("fc1", lambda h: h.update(implementation="fast"), {}, "implementation.fc1"),
    "of another op": ("relu", lambda h: h.update(implementation="tree"), {}, "without several"),
    "transpose": ("fc1", lambda h: h.update(interface={"weight": {"transpose": True}}), {}, "external module"),
    "no parameter": ("fc1", lambda h: h.update(interface={"scale": {"storage": "LUT"}}), {}, "no parameter is kept"),
    "no tensor": ("fc1", lambda h: h.update(parallelism={"data_in_7": 2}), {}, "does not have"),
    "implicit": ("output", lambda h: h.update(module="fixed_linear"), {}, "without hardware of its own"),
    "two devices": ("fc2", lambda h: h.update(device_id=1), {"device_id": 2}, "for one device"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_input_is_checked_against_the_module(network: MaseGraph, name: str) -> None:
    """What is set before the pass is refused by it, what is set after it by emission: with the node, and what to do."""
    node, change, args, said = WRONG[name]
    with pytest.raises((ConfigError, UnsupportedError)) as caught:
        set_before(network, change, args, node)
    assert said in str(caught.value)
    graph = set_after(network, change, args, node)
    with pytest.raises(MaseHwError) as later:
        emit_verilog_top_transform_pass(graph)
    assert str(later.value) == str(caught.value)


def test_the_later_of_two_that_contradict_each_other(network: MaseGraph) -> None:
    """An argument that contradicts what was set before is refused; what is set after the pass wins."""
    change, args = SAME["parallelism"][0], {"parallelism": {"fc1": {"data_out_0": 2}}}
    with pytest.raises(ConfigError, match="say different things"):
        set_before(network, change, args)
    wanted = emitted(add_hardware_metadata_analysis_pass(copy_graph(network), SAME["parallelism"][1])[0])
    assert emitted(set_after(network, change, args)) == wanted


def test_another_run_of_the_pass_leaves_nothing_of_the_one_before(network: MaseGraph) -> None:
    graph, _ = add_hardware_metadata_analysis_pass(copy_graph(network), {"fifo_depth": {"fc2.data_in_0": 9}})
    graph, _ = add_hardware_metadata_analysis_pass(graph)
    assert "fifo_depth" not in graph.node("fc2").meta["mase"]["hardware"]
