"""A frame becomes one hop of a stream that never ends: causal layers remember the columns of hops before."""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx

from mase_hw.errors import UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.nn.recurrence import Recurrence
from mase_hw.nn.streaming import Taps
from mase_hw.passes.base import Info, NoArgs, graph_pass
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.lower.layers.call import Line, expand
from mase_hw.passes.lower.streaming._rules import At, Flow, NotCausal, Plan, at_node, layer_of, rule_of

Problem = tuple[str, str, str, bool]
"""A node, why it cannot go on, what to do, and whether time is probably another dimension."""
STREAMING = "streaming"
"""Key of ``graph.meta``: the dimension of time of every ``inputs`` by name, and of every one of ``outputs``."""


@graph_pass("lower_streaming_transform_pass", args=NoArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED)
def lower_streaming_transform_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Let the state of causal layers go on from frame to frame.

    A frame is one hop of a stream. A convolution or pooling that reads columns of hops before, because the hop is
    padded on the left by ``(kernel - 1) * dilation`` or padded on both sides and cut at the end, becomes one with
    windows side by side behind :class:`~mase_hw.nn.streaming.Taps`, which remember these columns. A recurrence begins a
    hop with the state behind the last one. After a reset all of them are zero, as what PyTorch pads.

    The dimension of time is the last one of the inputs, or another one on which all layers agree.

    Args:
        graph: A float graph of layers that are lowered already, calibrated later.
        args: None.

    Returns:
        The graph, ``modified``, ``inputs`` and ``outputs`` (dimensions of time), ``remembering`` (nodes that have a
        state) and ``columns`` (how far back the convolutions reach, all together).

    Raises:
        UnsupportedError: If a node needs more than the hops so far, or mixes time with other dimensions, or a recurrent
            layer begins with a state; all of them.
        GraphError: If the graph is quantised already.
    """
    edit.refuse_quantised(graph, "streaming")
    plan = _planned(graph)
    remembering = [n.name for n in graph.nodes if n in plan.windows or n in plan.remembering]
    shared: dict[Shared, fx.Node] = {}
    for node, (window, source) in plan.windows.items():
        _remember(graph, node, window, plan.dropped.get(source, source), shared)
    for node in plan.remembering:
        module = graph.meta_of(node).module
        assert isinstance(module, Recurrence)  # the op has no other targets
        module.streaming = True
        graph.meta_of(node).common.args["streaming"] = True
    for node, source in plan.dropped.items():
        source = plan.dropped.get(source, source)
        edit.bypass(graph, node, source)
    if plan.changes:
        for node in reversed(graph.nodes):
            if node in plan.flows and not node.users and node.op != "placeholder":
                graph.fx_graph.erase_node(node)
        edit.finish(graph)
    (output,) = (n for n in graph.nodes if n.op == "output")
    found = {
        "inputs": {n.name: plan.flows[n].dim for n in graph.nodes if n.op == "placeholder" and n in plan.flows},
        "outputs": [plan.flows[n].dim for n, _ in graph.sources(output).values() if n in plan.flows],
        "columns": plan.span,
    }
    graph.meta[STREAMING] = found
    return graph, {"modified": plan.changes, **found, "remembering": remembering}


def _planned(graph: MaseGraph) -> Plan:
    """What becomes of every node, with time where most of them agree."""
    _refuse_begins(graph)
    inputs = [n for n in graph.nodes if n.op == "placeholder" and _shape(graph, n)]
    ranks = [len(_shape(graph, n)) for n in inputs]
    several = [n.name for n in inputs if _shape(graph, n)[0] != 1]
    if several or not inputs:
        raise UnsupportedError(
            "a frame of a stream is one hop",
            node=", ".join(several) or "the model",
            got=[list(_shape(graph, n)) for n in inputs],
            expected="examples whose first dimension is 1",
            remedy="give one hop as the example; hops stand one after the other along the first dimension",
        )
    tried = []
    for back in range(1, max(1, min(ranks))):
        plan, problems = _try(graph, inputs, back)
        wrong = sum(elsewhere for _, _, _, elsewhere in problems)
        # Of those that cannot be, the one in which least layers look along something else.
        score = (1, wrong, -len(plan.flows)) if problems else (0, -plan.temporal, 0)
        tried.append((score, back, plan, problems))
    if not tried:
        raise UnsupportedError("a stream needs a dimension of time", node=inputs[0].name, expected="(1, C, L) or more")
    _, _, plan, problems = min(tried, key=lambda entry: entry[:2])
    if problems:
        raise UnsupportedError(
            "this model cannot go on from one frame to the next",
            node=", ".join(name for name, *_ in problems),
            field="streaming",
            got="; ".join(f"{name}: {said}" for name, said, *_ in problems),
            expected="causal layers: every result depends on columns up to its own alone",
            remedy="; ".join(dict.fromkeys(hint for _, _, hint, _ in problems if hint)) or "leave streaming out",
        )
    return plan


def _refuse_begins(graph: MaseGraph) -> None:
    """A hop goes on with the state behind the last one: what it is given would not be used, or used every time."""
    found = [
        node.name
        for node in graph.nodes
        if isinstance(graph.meta_of(node).module, Recurrence) and len(node.all_input_nodes) > 1
    ]
    if found:
        raise UnsupportedError(
            "a recurrent layer begins with a state that is not zero",
            node=", ".join(found),
            field="streaming",
            expected="layers without an initial state: a reset makes it zero, and every hop goes on with it",
            remedy="leave the initial states out of the model, or leave streaming out",
        )


def _shape(graph: MaseGraph, node: fx.Node) -> Sequence[int]:
    found = graph.meta_of(node).common.results.get("data_out_0")
    return found.shape if found is not None else ()


def _try(graph: MaseGraph, inputs: Sequence[fx.Node], back: int) -> tuple[Plan, list[Problem]]:
    """The plan with time in the dimension so many from the end of every input, and why that cannot be."""
    plan, problems = Plan(), list[Problem]()
    lost: set[fx.Node] = set()
    for node in graph.nodes:
        if node in inputs:
            plan.flows[node] = Flow(len(_shape(graph, node)) - back)
            continue
        if node.op == "output":
            for producer, _ in graph.sources(node).values():
                if producer in plan.flows and not plan.flows[producer].plain:
                    problems.append((producer.name, "columns that were added are a result", "cut them off", False))
            continue
        reads = [n for n in node.all_input_nodes if n in plan.flows or n in lost]
        if not reads or not _shape(graph, node):
            continue
        if any(n in lost for n in reads):
            lost.add(node)
            continue
        rule = rule_of(graph, node)
        try:
            if rule is None:
                raise NotCausal("nothing is known of what it does along time")
            plan.flows[node] = rule(at_node(graph, node, plan))
        except NotCausal as problem:
            problems.append((node.name, str(problem), problem.remedy, problem.elsewhere))
            lost.add(node)
    return plan, problems


Shared = tuple[tuple[int, int, int, int], fx.Node]
"""A window, and the stream it is of."""


def _remember(
    graph: MaseGraph,
    node: fx.Node,
    window: tuple[int, int, int, int],
    source: fx.Node,
    shared: dict[Shared, fx.Node],
) -> None:
    """Put the columns of windows before a layer; layers with the same windows share them."""
    at: At = at_node(graph, node, Plan({n: Flow(2) for n in node.all_input_nodes[:1]}))
    assert at.call is not None  # the rule has looked at it
    taps, layer = Taps(*window), layer_of(at.call)
    expand(graph, node, Line(lambda x: layer(taps(x)), taps=taps, layer=layer), [source])
    columns = node.all_input_nodes[0]
    known = shared.setdefault((window, source), columns)
    if known is not columns:
        edit.bypass(graph, columns, known)
    _shortened(graph, node)


def _shortened(graph: MaseGraph, node: fx.Node) -> None:
    """Carry the new length of a result on, as far as it goes through ops that keep it."""
    length = graph.tensor(node, "data_out_0").shape[-1]
    for user, name in graph.consumers(node, "data_out_0"):
        taken = graph.tensor(user, name)
        changed = taken.shape[-1] != length
        taken.shape = [*taken.shape[:-1], length]
        results = graph.meta_of(user).common.results.tensors
        if changed and "data_out_0" in results and results["data_out_0"].shape[-1] > length:
            results["data_out_0"].shape = [*results["data_out_0"].shape[:-1], length]
            _shortened(graph, user)
