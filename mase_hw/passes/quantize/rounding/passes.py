"""Passes that choose the mantissas of weights and biases of a quantised graph; formats stay as they are."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import outputs
from mase_hw.passes.base import Info, graph_pass
from mase_hw.passes.evaluation.criteria import decibels
from mase_hw.passes.quantize.noise.network import origins
from mase_hw.passes.quantize.rounding import bias
from mase_hw.passes.quantize.rounding.adaround import adaround
from mase_hw.passes.quantize.rounding.gptq import gptq
from mase_hw.passes.quantize.rounding.layers import Layer, Problem, reference_of
from mase_hw.passes.quantize.rounding.options import CorrectionArgs, RoundingArgs
from mase_hw.passes.quantize.rounding.walk import some_batches, walk

OUTDATED = ("add_hardware_metadata_analysis_pass",)


@graph_pass("round_weights_transform_pass", args=RoundingArgs, needs=("quantize_transform_pass",), invalidates=OUTDATED)
def round_weights_transform_pass(graph: MaseGraph, args: RoundingArgs) -> tuple[MaseGraph, Info]:
    """Choose the mantissas of all weights by what the layer loses, and correct the biases, layer by layer.

    Linear layers and convolutions of one and two dimensions; other nodes stay as they are. Every layer sees what the
    layers before it give with their new weights. The weights are replaced by values of their grid, so that emission
    rounds them to themselves; no format changes, and no hardware.

    A layer's weights are rounded to nearest where that errs less, and the whole is undone if it does not raise the
    signal-to-noise ratio at the outputs (``keep``).

    Args:
        graph: A quantised graph.
        args: The method, the data, and the float graph.

    Returns:
        The graph, and ``modified``, ``frames``, ``sqnr_db`` (``before``, ``after``, with everything rounded to nearest
        and now) and ``layers``: by node ``changed`` (share of the mantissas that are not the nearest), ``error``
        (``nearest`` and ``now``, mean squared error of the layer), ``bias`` (how it was corrected, or why not).

    Raises:
        ConfigError: If there is no data, or it does not fit.
        PassOrderError: If there is no float graph.
        GraphError: If the float graph is of another model.
    """
    return _run(graph, args)


@graph_pass(
    "correct_bias_transform_pass", args=CorrectionArgs, needs=("quantize_transform_pass",), invalidates=OUTDATED
)
def correct_bias_transform_pass(graph: MaseGraph, args: CorrectionArgs) -> tuple[MaseGraph, Info]:
    """Take the mean error of every layer off its bias; the weights are rounded to nearest.

    Args:
        graph: A quantised graph.
        args: The method, the data, and the float graph.

    Returns:
        As ``round_weights_transform_pass``.

    Raises:
        MaseHwError: Likewise.
    """
    given = {"data": args.data, "reference": args.reference, "frames": args.frames, "keep": args.keep}
    return _run(graph, RoundingArgs(bias_correction=args.method, **given))


def _run(graph: MaseGraph, args: RoundingArgs) -> tuple[MaseGraph, Info]:
    exact = reference_of(graph, args.reference, "rounding")
    origins(exact, graph)
    given, frames = some_batches(graph, args.data, args.frames)
    before = dict(_parameters(graph))
    ratio = _ratio(exact, graph, given)
    layers: dict[str, object] = {}
    walk(exact, graph, given, lambda layer, x, y: layers.update({layer.name: _choose(layer, x, y, args)}))
    graph.refresh()
    after = _ratio(exact, graph, given)
    kept = args.keep == "always" or after > ratio
    if not kept:
        for (module, name), value in before.items():
            module.register_parameter(name, value)
        for layer in (Layer.of(graph, node) for node in graph.nodes):
            if layer is not None:
                layer.refit()
        graph.refresh()
    info: Info = {
        "modified": kept and bool(layers),
        "frames": frames,
        "sqnr_db": {"before": ratio, "after": after},
        "kept": kept,
        "layers": layers,
    }
    return graph, info


def _choose(layer: Layer, inputs: list[Tensor], wanted: list[Tensor], args: RoundingArgs) -> dict[str, object]:
    """Round one layer; what was done."""
    float_weight, corrected = layer.weight(), args.bias_correction != "none" and layer.has_bias
    problem = _problem(layer, inputs, wanted, args.target, centred=corrected)
    nearest = problem.nearest()
    if args.method == "gptq":
        chosen = gptq(problem, args.damping, args.order)
    elif args.method == "adaround":
        chosen = adaround(problem, args.iterations)
    else:
        chosen = nearest
    layer.set_weight(chosen)
    found: dict[str, object] = {
        "changed": float((chosen != nearest).double().mean()),
        "error": {"nearest": float(problem.error(nearest).mean()), "now": float(problem.error(chosen).mean())},
    }
    if args.bias_correction != "none":
        found["bias"] = _corrected(layer, float_weight, inputs, wanted, args) if corrected else "it has none"
    return found


def _corrected(layer: Layer, before: Tensor, inputs: list[Tensor], wanted: list[Tensor], args: RoundingArgs) -> str:
    how: str = args.bias_correction
    if how == "empirical":
        move = bias.empirical(layer, inputs, wanted)
    else:
        means = bias.normalised_means(layer.graph, layer)
        how = "analytic, from data" if means is None else "analytic, from batch normalisation"
        move = bias.analytic(layer, before, bias.observed_means(layer, inputs) if means is None else means)
    return f"{how}, clipped" if layer.set_bias(layer.bias() + move) else how


def _problem(layer: Layer, inputs: list[Tensor], wanted: list[Tensor], target: str, *, centred: bool) -> Problem:
    """What is known of a layer's data; with ``centred`` the means are left out, since the bias will see to them."""
    weight = layer.weight()
    shift = layer.bias().reshape(layer.groups, 1, -1)
    groups, rows, columns = weight.shape
    hessian = weight.new_zeros(groups, columns, columns)
    cross, power = torch.zeros_like(weight), weight.new_zeros(groups, rows)
    mean_in, mean_out, count = weight.new_zeros(groups, 1, columns), weight.new_zeros(groups, 1, rows), 0
    for x, y in zip(inputs, wanted, strict=True):
        given = layer.inputs(x)
        ideal = given @ weight.mT if target == "layer" else layer.outputs(y) - shift
        hessian += given.mT @ given
        cross += ideal.mT @ given
        power += ideal.square().sum(1)
        mean_in += given.sum(1, keepdim=True)
        mean_out += ideal.sum(1, keepdim=True)
        count += given.shape[1]
    if centred and count:
        hessian -= mean_in.mT @ mean_in / count
        cross -= mean_out.mT @ mean_in / count
        power -= mean_out.squeeze(1).square() / count
    return Problem(weight, layer.steps(), layer.formats()["weight"], hessian, cross, power, count)


def _parameters(graph: MaseGraph) -> Iterator[tuple[tuple[nn.Module, str], nn.Parameter]]:
    for node in graph.nodes:
        layer = Layer.of(graph, node)
        for name in ("weight", "bias") if layer is not None else ():
            if layer is not None and name in layer.module.parameter_names:
                yield (layer.module, name), layer.module.get_parameter(name)


def _ratio(exact: MaseGraph, graph: MaseGraph, given: list[dict[str, object]]) -> float:
    """Signal-to-noise ratio of the quantised graph at all outputs, in dB."""
    signal = noise = 0.0
    for inputs in given:
        for want, got in zip(outputs(exact.model, inputs), outputs(graph.model, inputs), strict=True):
            signal += float(want.square().sum())
            noise += float((want - got).square().sum())
    return decibels(signal, noise)
