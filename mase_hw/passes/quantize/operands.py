"""Operands of a node: the data that flows into it, and the constant that may stand in place of the other operand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.catalogue import OpDef
from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.formats.attributes import Attributes, attributes_of
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotate import describe
from mase_hw.ir.binding import slots
from mase_hw.ir.paths import attribute_at, called
from mase_hw.ir.tensors import TensorDict
from mase_hw.ops.arithmetic.where import some_beyond
from mase_hw.passes.quantize.config import QuantizeArgs
from mase_hw.passes.quantize.paths import attribute

_SIGNATURE = ("input", "self", "other", "a", "b", "decay")
"""What signatures call an operand; other numbers of a call are settings."""


@dataclass(frozen=True)
class Operands:
    """What a node computes with.

    Args:
        inputs: Producers of its data, in order.
        names: The metadata's name of each of them in the float graph.
        constant: The operand that is a number or a stored tensor.
        number: The constant is written as a number.
        reversed: The constant is the first operand.
        settings: Names of the arguments that are operands, so no attributes.
        chain: Nodes that only make the constant.
    """

    inputs: list[fx.Node]
    names: list[str]
    constant: Tensor | None = None
    number: bool = False
    reversed: bool = False
    settings: frozenset[str] = frozenset()
    chain: list[fx.Node] = field(default_factory=list)

    def attributes(self, given: Attributes) -> Attributes:
        """The arguments of a node that are no operands, and whether the constant comes first."""
        kept = {name: value for name, value in given.items() if name not in self.settings}
        return attributes_of({**kept, "reversed": True} if self.reversed else kept)


def operands_of(graph: MaseGraph, node: fx.Node, op: OpDef) -> Operands:
    """Tell data from a constant; ops without constants take everything as data.

    Raises:
        UnsupportedError: If an op of two operands has another number of them, or both are constants.
    """
    results = {n: graph.meta_of(n).common.results for n in node.all_input_nodes}
    found = slots(graph.op_of(node), graph.model, node, results)
    data = [(s.name, s.source[0]) for s in found if s.source is not None and s.name.startswith("data_in_")]
    if not op.constant:
        return Operands([producer for _, producer in data], [name for name, _ in data])
    operands: list[tuple[str, fx.Node | None, Tensor | None]] = []
    chain: list[fx.Node] = []
    for slot in found:
        if slot.source is not None:
            value = stored(graph, slot.source[0], chain)
            operands.append((slot.name, slot.source[0], value))
        elif slot.name in _SIGNATURE and isinstance(slot.value, int | float):
            operands.append((slot.name, None, as_tensor(slot.value)))
    constants = [value for _, _, value in operands if value is not None]
    if len(operands) != 2 or len(constants) > 1:
        raise UnsupportedError(
            f"{op.name} needs two operands, at least one of them data",
            node=node.name,
            got=f"{len(operands)} operands, {len(constants)} of them constant",
            expected="data and data, or data and a number or a stored tensor",
            remedy="compute constants before the model is traced, and reductions with an op that says so",
        )
    streamed = [(name, producer) for name, producer, value in operands if value is None and producer is not None]
    return Operands(
        [producer for _, producer in streamed],
        [name for name, _ in streamed],
        constants[0] if constants else None,
        any(producer is None for _, producer, _ in operands),
        operands[0][2] is not None,
        frozenset(name for name, _, _ in operands),
        chain,
    )


def refuse_without_hardware(graph: MaseGraph, args: QuantizeArgs) -> None:
    """Refuse all ops at once that have no arithmetic in integers.

    Raises:
        UnsupportedError: Naming every one, by op.
    """
    found: dict[str, list[str]] = {}
    for node in graph.nodes:
        op = graph.op_of(node)
        if op is None or (op.golden is not None and op.hardware is not None) or graph.is_implicit(node):
            continue
        computes = bool(graph.meta_of(node).common.results.tensors)
        if computes and args.config_for(node.name, op.name)[0].quantised:
            found.setdefault(op.name, []).append(node.name)
    if not found:
        return
    several = len(found) > 1
    reasons = "".join(f"{o.name}: {o.refused}; " for o in graph.catalogue if o.name in found and o.refused)
    first = next(iter(found.values()))[0]
    raise UnsupportedError(
        f"{'ops' if several else 'op'} {', '.join(map(repr, found))} cannot be quantised",
        node="; ".join((f"{op}: " if several else "") + ", ".join(names) for op, names in found.items()),
        expected="an op with hardware, which `mase-hw ops` lists",
        remedy=f"{reasons}replace them in the model, or compile only the part before or after them "
        f"(overrides.{first}.config.name = null leaves a node in float, for PyTorch only)",
    )


def sign_is_dropped(graph: MaseGraph, args: QuantizeArgs, node: fx.Node, width: int | None) -> bool:
    """Whether all readers of a node of this width give 0 for negative numbers, in a format without a sign."""
    for user in node.users:
        op = graph.op_of(user)
        if op is None or not op.non_negative or user.op == "output":
            return False
        config, _ = args.config_for(user.name, op.name)
        takes, *fixed = config.of("data_in_0")
        if not config.quantised or takes not in (None, width) or fixed != [None, None]:
            return False
        if config.of("data_out_0")[1:] != (None, None):
            return False
    return bool(node.users)


def check_data(graph: MaseGraph, node: fx.Node, op: OpDef, inputs: list[fx.Node]) -> None:
    """Refuse to compute with stored tensors in the place of data: hardware has them in memories, not in streams.

    Raises:
        UnsupportedError: If an input is a parameter or buffer, or one in another shape.
    """
    found = [source for source in inputs if _is_stored(graph, source)]
    if not found:
        return
    problem = "takes a stored tensor in the place of data"
    remedy = (
        "keys and values of earlier calls are not kept: give the whole sequence; what is stored can be added or "
        "multiplied, and tokens of a model are joined to (1, tokens, size) along dimension 1"
    )
    if len(found) == len(inputs):
        problem = "computes with nothing but stored tensors"
        remedy = (
            "run fold_constants_transform_pass before calibration (compile does); what is random or written in place "
            "it leaves: compute that in the constructor of the model"
        )
    names, expected = ", ".join(source.name for source in found), "data that flows through the model"
    raise UnsupportedError(f"{op.name} {problem}", node=node.name, got=names, expected=expected, remedy=remedy)


def _is_stored(graph: MaseGraph, node: fx.Node) -> bool:
    while graph.is_implicit(node) and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node.op == "get_attr"


def hold_constant(graph: MaseGraph, node: fx.Node, op: OpDef, operands: Operands, attributes: Attributes) -> None:
    """Write into the metadata that a node's constant is a parameter now, and that only data is called data."""
    assert operands.constant is not None  # the caller looked
    meta = graph.meta_of(node)
    old, args = meta.common.args, TensorDict()
    for index, name in enumerate(operands.names):
        args[f"data_in_{index}"] = old[name]
    args[op.constant] = describe(operands.constant.detach()).as_parameter()
    own = {name: value for name, value in attributes.items() if name in op.attributes}
    for name, value in {**old, **own}.items():
        if name not in old.tensors and name not in operands.settings:
            args[name] = value
    meta.common.args = args
    seen, stats = meta.software.args, dict(meta.software.args)
    for name in operands.settings:
        stats.pop(name, None)
    stats |= {f"data_in_{i}": seen[name] for i, name in enumerate(operands.names) if name in seen}
    meta.software.args = stats


def hold_derived(graph: MaseGraph, node: fx.Node, op: OpDef, parameters: Mapping[str, Tensor]) -> None:
    """Write into the metadata that a node has other parameters now."""
    meta = graph.meta_of(node)
    args = TensorDict({k: v for k, v in meta.common.args.items() if k not in op.parameters})
    for name, value in parameters.items():
        args[name] = describe(value.detach()).as_parameter()
    meta.common.args = args
    meta.software.args = {k: v for k, v in meta.software.args.items() if k not in op.parameters}


def ends_of(value: Tensor, result: Json | None = None) -> tuple[float, float]:
    """The smallest and the largest value of a tensor; zeros if it is empty.

    Args:
        value: The tensor.
        result: What was observed where it is used: what leaves elements out is as far as that reaches.
    """
    value = value.detach()
    if result is not None and some_beyond(value):
        value = value.clamp(float(result["min"]), float(result["max"]))
    return (float(value.min()), float(value.max())) if value.numel() else (0.0, 0.0)


def data_inputs(graph: MaseGraph, node: fx.Node) -> list[fx.Node]:
    """Producers of a node's data, in order."""
    return [producer for name, (producer, _) in graph.sources(node).items() if name.startswith("data_in_")]


def entry_of(graph: MaseGraph, source: fx.Node) -> list[fx.Node] | None:
    """From a producer back to the input of the model that it is in another shape or order; None if it computes."""
    chain = [source]
    while chain[-1].op != "placeholder":
        before = data_inputs(graph, chain[-1]) if graph.is_implicit(chain[-1]) else []
        if not before:
            return None
        chain.append(before[0])
    return chain


def parameters_of(graph: MaseGraph, node: fx.Node, op: OpDef) -> dict[str, Tensor]:
    """The float parameters of a node, by name: those of its module, or stored tensors.

    Raises:
        UnsupportedError: If one is computed by the model.
    """
    module = graph.meta_of(node).module
    found: dict[str, Tensor] = {}
    sources = graph.sources(node)
    for name in op.parameters:
        value: Any = getattr(module, name, None) if module is not None else None
        if value is None and name in sources:
            producer = sources[name][0]
            if producer.op != "get_attr":
                raise UnsupportedError(
                    f"{name} is computed by the model, not stored",
                    node=node.name,
                    got=producer.name,
                    expected="a parameter or buffer of the model",
                )
            value = attribute(graph.model, str(producer.target))
        if value is not None:
            found[name] = value
    return found


def stored(graph: MaseGraph, node: fx.Node, chain: list[fx.Node]) -> Tensor | None:
    """The value of a node that depends on stored tensors alone, only reshaped on the way; None for data.

    Args:
        graph: The graph.
        node: A producer.
        chain: Gets the nodes passed, the last one first.
    """
    if node.op == "get_attr":
        value = attribute_at(graph.model, str(node.target))
        if isinstance(value, Tensor):
            chain.append(node)
            return value
        return None
    if node.op not in ("call_function", "call_method") or not graph.is_implicit(node):
        return None
    passed: list[fx.Node] = [node]
    tensors = [n for n in node.all_input_nodes if graph.meta_of(n).common.results.tensors]
    values = {n: stored(graph, n, passed) for n in tensors}
    if len(tensors) != 1 or any(v is None for v in values.values()):
        return None
    for other in node.all_input_nodes:
        if other not in values:
            values[other] = graph.meta_of(other).common.results["data_out_0"].value
    with torch.no_grad():
        result = called(graph.model, node, lambda n: values[n])
    chain.extend(passed)
    return result if isinstance(result, Tensor) else None


def as_tensor(number: float) -> Tensor:
    """A number as a tensor without dimensions, in float32 if that holds it."""
    narrow = torch.tensor(float(number), dtype=torch.float32)
    return narrow if float(narrow) == float(number) else torch.tensor(float(number), dtype=torch.float64)


def exact_format(number: float, width: int) -> FixedFormat | None:
    """The narrowest signed format that holds a number exactly; None if ``width`` bits are not enough."""
    if not math.isfinite(number):
        return None
    numerator, denominator = float(number).as_integer_ratio()
    frac = denominator.bit_length() - 1
    while numerator and not numerator % 2:
        numerator, frac = numerator // 2, frac - 1
    if not numerator:
        frac = 0
    needed = max(2, (numerator if numerator >= 0 else -numerator - 1).bit_length() + 1)
    return FixedFormat(needed, frac) if needed <= width else None


_COARSE, _FINE = FixedFormat(2, 0), FixedFormat(2, 1)


def leaves(graph: MaseGraph, args: QuantizeArgs, node: fx.Node) -> bool:
    """Whether nothing but the output of the model reads a result, or the same numbers in other places."""
    reads = [
        user.op == "output" or (_passes_on(graph, args, user) and leaves(graph, args, user)) for user in node.users
    ]
    return bool(reads) and all(reads)


def passes_out(graph: MaseGraph, args: QuantizeArgs, node: fx.Node) -> bool:
    """Whether a node passes numbers on to the output of the model, with all bits that they have."""
    return args.output_width is not None and _passes_on(graph, args, node) and leaves(graph, args, node)


def _passes_on(graph: MaseGraph, args: QuantizeArgs, node: fx.Node) -> bool:
    """Whether the result of a node is numbers of its data, and no rule for the node gives them other bits."""
    op = graph.op_of(node)
    if op is None or graph.is_implicit(node):
        return op is not None
    config, specific = args.config_for(node.name, op.name)
    given = any(key.startswith(("data_in_", "data_out_")) for key in specific)
    return config.quantised and not given and _moves(op)


def _moves(op: OpDef) -> bool:
    """Whether the results of an op are numbers of its data, in other places or chosen among them; not what it computes.

    The default format says so: finer data gives a finer result, and what has a sign keeps it.
    """
    if op.default_out is None or op.rounds or op.non_negative:
        return False
    fmt = op.default_out({name: _FINE if name.startswith("data_in_") else _COARSE for name in op.formats})
    return fmt.signed and fmt.frac_width == _FINE.frac_width
