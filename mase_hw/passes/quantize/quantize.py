"""Quantisation: float nodes become golden fixed-point modules, with casts where formats meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import fx

from mase_hw.catalogue import Arithmetic, Catalogue
from mase_hw.errors import ConfigError
from mase_hw.formats import FixedFormat, ScaledFormat, any_scaled
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ir.module_paths import vanished
from mase_hw.nn import Quantized
from mase_hw.ops.rows.block_round import CHANNELS, ROWS, WIDEST, attributes
from mase_hw.passes.base import Info, graph_pass
from mase_hw.passes.lower._edit import finish
from mase_hw.passes.quantize.config import NodeConfig, QuantizeArgs
from mase_hw.passes.quantize.formats import Decision
from mase_hw.passes.quantize.integers.thresholds import Requantizing
from mase_hw.passes.quantize.operands import hold_constant, hold_derived
from mase_hw.passes.quantize.plan import Plan, Planner
from mase_hw.passes.quantize.record import configured_quantization
from mase_hw.passes.quantize.rewrite import Rewriter

DECISIONS = "quantization_decisions"
"""Key of ``graph.meta``: by node, why its tensors have their formats, and what was configured."""
Decisions = dict[str, tuple[dict[str, Decision], list[tuple[str, Json]]]]
"""What is there: by node, decisions by tensor, and who configured which keys, the weakest first."""


@graph_pass(
    "quantize_transform_pass",
    args=QuantizeArgs,
    needs=("add_common_metadata_analysis_pass",),
    invalidates=("add_hardware_metadata_analysis_pass",),
)
def quantize_transform_pass(graph: MaseGraph, args: QuantizeArgs) -> tuple[MaseGraph, Info]:
    """Replace float nodes by bit-true fixed-point ones.

    What is recorded at a node, by :func:`update_quantization_configs` or by hand, wins over all arguments but
    ``overrides``; without any argument it is all that is used.

    Formats come from the configuration or, where a fraction width is not given, from the observed range. Inputs of
    the model are quantised where they enter; a cast is put wherever a producer's format is not the one its consumer
    wants. Everything is decided, and refused if need be, before the graph is touched.

    Returns:
        The same graph, and per node its op, formats and the reason for each format; under ``paths``, for every path of
        a module in the configuration, the nodes that it stands for.

    Raises:
        ConfigError: A rule that applies to nothing, a missing width, or no configuration at all.
        PassOrderError: A fraction width that is neither configured nor observed.
        UnsupportedError: A node that cannot be quantised.
        FormatError: NaN in a parameter.
    """
    planner = Planner(graph, configured_quantization(graph, args))
    planner.run()

    def configured(plan: Plan) -> Requantizing:
        config, _ = planner.args.config_for(plan.node.name, plan.op.name)
        return Requantizing(config.rounding, config.multiplier_width)

    def before(plan: Plan) -> Requantizing:
        return Requantizing(bits=configured(plan).bits)

    def blocks(plan: Plan, name: str) -> Quantized | None:
        config, _ = planner.args.config_for(plan.node.name, plan.op.name)
        return in_blocks(graph.catalogue, plan, name, config)

    info = write_plans(graph, planner, configured, before, blocks)
    graph.meta[DECISIONS] = {
        name: (each, planner.args.layers(name, planner.plans[name].op.name)) for name, each in planner.decisions.items()
    }
    if planner.paths:
        info["paths"] = planner.paths
    return graph, info


def configured_for(graph: MaseGraph, node: str) -> NodeConfig:
    """The keys with which a node of a quantised graph was quantised; none of one that has no record."""
    merged: Json = {}
    for _, given in (graph.note(DECISIONS, Decisions) or {}).get(node, ({}, []))[1]:
        merged |= given
    return NodeConfig(**merged)


class Planned(Protocol):
    """What is to become of every node of a graph."""

    plans: dict[str, Plan]
    formats: dict[str, FixedFormat]
    entries: dict[str, FixedFormat]
    places: dict[str, int]
    spent: set[fx.Node]


def write_plans(
    graph: MaseGraph,
    planner: Planned,
    behind: Callable[[Plan], Requantizing],
    before: Callable[[Plan], Requantizing] = lambda _: Requantizing(),
    blocks: Callable[[Plan, str], Quantized | None] = lambda *_: None,
) -> Json:
    """Put the quantised modules into a graph, with what brings their formats together.

    Args:
        graph: The graph, with common metadata.
        planner: The plans, all made; nothing is changed before every module is.
        behind: How numbers get another scale behind a node.
        before: How they get it before one.
        blocks: What brings an input, by its name, into blocks or minifloats; None for one that stays as it is.

    Returns:
        As :func:`quantize_transform_pass`.

    Raises:
        FormatError: NaN in a parameter.
    """
    modules = {name: Quantized(p.op, p.arithmetic, p.parameters) for name, p in planner.plans.items()}
    for name, module in modules.items():
        module.label = name
        module.check_parameters()
    rewriter = Rewriter(graph)
    info: Info = {"nodes": {}, "casts": [], "inputs": {}}
    wanted: list[tuple[Plan, fx.Node, FixedFormat, FixedFormat]] = []
    for name, plan in planner.plans.items():
        formats = plan.arithmetic.formats
        for source in {*plan.operands.chain, *(n for n in plan.node.all_input_nodes if n.op == "get_attr")}:
            vanished(graph, source, f"is a constant, which {name} holds as its {plan.op.constant or 'parameter'}")
        for index, source in enumerate(plan.inputs):
            have = planner.formats.get(source.name)
            seen_before = source in plan.inputs[:index]  # x + x needs one cast
            if have is not None and have != formats[f"data_in_{index}"] and not seen_before:
                wanted.append((plan, source, have, formats[f"data_in_{index}"]))
        rewriter.replace(plan.node, plan.inputs, modules[name])
        if plan.operands.constant is not None:
            hold_constant(graph, plan.node, plan.op, plan.operands, plan.arithmetic.attributes)
        elif plan.op.derive is not None:
            hold_derived(graph, plan.node, plan.op, plan.parameters)
        info["nodes"][name] = {
            "op": plan.op.name,
            "formats": {k: str(v) for k, v in formats.items()},
            "reasons": plan.reasons,
        }
    for plan, source, have, want in wanted:
        made = _between(graph, have, want, before(plan))
        info["casts"].append(rewriter.cast(plan.node, source, made))
    made_once: dict[tuple[object, ...], fx.Node] = {}
    for plan in planner.plans.values():
        for index, source in enumerate(dict.fromkeys(plan.node.all_input_nodes)):
            shared = blocks(plan, f"data_in_{index}")
            if shared is not None:
                key = source, *shared.arithmetic.attributes.items()
                if key in made_once:
                    plan.node.replace_input_with(source, made_once[key])
                else:
                    info["casts"].append(rewriter.cast(plan.node, source, shared, "blocks"))
                    made_once[key] = graph.node(info["casts"][-1])
    for plan in planner.plans.values():
        if plan.result is not None:
            have = plan.arithmetic.formats["data_out_0"]
            made = _between(graph, have, plan.result, behind(plan))
            info["casts"].append(rewriter.requantize(plan.node, made))
    for name, fmt in planner.entries.items():
        entered = rewriter.enter(graph.node(name), fmt, planner.places.get(name))
        info["inputs"][name] = {"node": entered, "format": str(fmt)}
    finish(graph, planner.spent)
    info["modified"] = any((info["nodes"], info["casts"], info["inputs"]))
    return info


def in_blocks(catalogue: Catalogue, plan: Plan, name: str, config: NodeConfig) -> Quantized | None:
    """What brings an input of a node into blocks that share an exponent, or into minifloats, if that is configured.

    Raises:
        ConfigError: Fixed point too narrow for such numbers.
    """
    asked = config.data_in_block_size is not None or config.data_in_element is not None
    if not asked or plan.op.places is not None:  # which place of a table is no number to round
        return None
    given = attributes(config.data_in_block_size or 0, config.data_in_block_width, config.data_in_element or "")
    fmt = plan.arithmetic.formats[name]
    least = given["top"] + 1 + fmt.signed
    if isinstance(fmt, ScaledFormat) or not least <= fmt.width <= WIDEST:
        raise ConfigError(
            "numbers in blocks, and minifloats, are made from fixed point that has bits for them",
            node=plan.node.name,
            field="quantize.*.config.data_in_width",
            got=str(fmt),
            expected=f"{least} to {WIDEST} bits: those of the smallest block, and one for every power of two above it",
            remedy="set data_in_width here, and data_out_width of what comes before",
        )
    hardware = plan.op.hardware
    op = catalogue[CHANNELS if hardware is not None and hardware.layout == "channels_last" else ROWS]
    return Quantized(op, Arithmetic({"data_in_0": fmt, "data_out_0": fmt}, attributes=given))


def _between(graph: MaseGraph, have: FixedFormat, want: FixedFormat, how: Requantizing) -> Quantized:
    """What brings a format into another one: a cast of fixed point, a requantisation where one is scaled."""
    if not any_scaled({"have": have, "want": want}):
        return Quantized(graph.catalogue["cast"], Arithmetic({"data_in_0": have, "data_out_0": want}))
    return Quantized(graph.catalogue["requantize"], *how.between(have, want))
