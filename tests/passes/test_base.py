"""Arguments, order and record of passes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import BaseModel, ConfigDict, Field

from mase_hw.errors import ConfigError, GraphError, PassOrderError
from mase_hw.ir import MaseGraph
from mase_hw.passes import GraphPass, NoArgs, PassArgs, graph_pass
from tests.ir.nets import MLP


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    width: int = Field(default=8, ge=1)


class Args(PassArgs):
    name: str
    lanes: int = 1
    per_node: dict[str, Inner] = Field(default_factory=dict)


@graph_pass("echo_pass", args=Args)
def echo_pass(graph: MaseGraph, args: Args) -> tuple[MaseGraph, dict[str, Any]]:
    """Say what came in."""
    return graph, args.model_dump()


def made(name: str, **order: Any) -> GraphPass[NoArgs]:
    return graph_pass(name, args=NoArgs, **order)(lambda graph, args: (graph, {}))


@pytest.fixture
def graph() -> MaseGraph:
    return MaseGraph(MLP(4), skip_init_metadata=True)


def test_valid_arguments(graph: MaseGraph) -> None:
    given = {"name": "a", "per_node": {"fc1": {"width": 4}}}
    _, info = echo_pass(graph, given)
    assert info == {"name": "a", "lanes": 1, "per_node": {"fc1": {"width": 4}}}
    assert given == {"name": "a", "per_node": {"fc1": {"width": 4}}}
    assert echo_pass(graph, Args(name="b"))[1]["name"] == "b"
    assert echo_pass.__doc__ == "Say what came in."
    assert echo_pass.__name__ == "echo_pass"


def test_all_problems_at_once_with_paths(graph: MaseGraph) -> None:
    given = {"lane": 2, "lanes": "many", "per_node": {"fc1": {"widht": 3}, "fc2": {"width": 0}}}
    with pytest.raises(ConfigError) as error:
        echo_pass(graph, given)
    message = str(error.value)
    assert "5 problem(s) in the arguments of echo_pass" in message
    assert "name: missing" in message
    assert "lane: unknown key; did you mean 'lanes'?" in message
    assert "lanes: Input should be a valid integer" in message and "'many'" in message
    assert "per_node.fc1.widht: unknown key; did you mean 'width'?" in message
    assert "per_node.fc2.width: Input should be greater than or equal to 1 (got 0)" in message
    assert graph.completed == ()


def test_arguments_that_are_no_dict(graph: MaseGraph) -> None:
    with pytest.raises(ConfigError, match="not a dict"):
        echo_pass(graph, [1])  # type: ignore[arg-type]


def test_a_graph_is_needed() -> None:
    with pytest.raises(GraphError, match=r"MaseGraph\(model\)"):
        echo_pass(MLP(4), {"name": "a"})  # type: ignore[arg-type]


def test_wrong_order_names_the_pass_to_run(graph: MaseGraph) -> None:
    first = made("first")
    second = made("second", needs=(first,))
    with pytest.raises(PassOrderError, match="run first first"):
        second(graph)
    first(graph)
    second(graph)
    assert graph.completed == ("first", "second")


def test_alternatives_and_gives(graph: MaseGraph) -> None:
    third = made("third", needs=((made("first"), made("other")),))
    with pytest.raises(PassOrderError, match="first or other"):
        third(graph)
    made("both", gives=("other",))(graph)
    third(graph)
    assert graph.completed == ("both", "other", "third")


@pytest.mark.parametrize("field", ["needs", "invalidates"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_pass_that_does_not_exist_is_refused(field: str, nested: bool) -> None:
    name: Any = "add_comon_metadata_analysis_pass"
    if nested and field == "needs":
        name = (name, "calibrate_analysis_pass")
    with pytest.raises(ConfigError, match="did you mean 'add_common_metadata_analysis_pass'") as error:
        made("mine", **{field: (name,)})
    assert error.value.field == field and error.value.got == "add_comon_metadata_analysis_pass"
    with pytest.raises(ConfigError, match="give a pass of your own itself"):
        made("mine", **{field: ("zzz",)})


def test_invalidation(graph: MaseGraph) -> None:
    first = made("first")
    second = made("second", needs=(first,))
    first(graph)
    second(graph)
    graph_pass("idle", args=NoArgs, invalidates=(first,))(lambda graph, args: (graph, {"modified": False}))(graph)
    assert graph.completed == ("first", "second", "idle")
    made("transform", invalidates=(first,))(graph)
    assert graph.completed == ("second", "idle", "transform")
    with pytest.raises(PassOrderError):
        second(graph)
    made("all", invalidates=("*",))(graph)
    assert graph.completed == ("all",)


def test_a_failing_pass_is_not_recorded(graph: MaseGraph) -> None:
    def fail(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, dict[str, Any]]:
        raise GraphError("no")

    with pytest.raises(GraphError):
        graph_pass("bad", args=NoArgs)(fail)(graph)
    assert graph.completed == ()


def test_running_twice_is_recorded_once(graph: MaseGraph) -> None:
    first = made("first")
    first(graph)
    first(graph)
    assert graph.completed == ("first",)
    assert torch.is_tensor(graph.modules["fc1"].weight)
