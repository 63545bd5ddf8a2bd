"""A partitioned design: a bundle for every segment, and one callable for the whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn

from mase_hw.compiler.compile import compile
from mase_hw.compiler.config import ConfigLike, load_config
from mase_hw.compiler.quantised_graph import name_inputs, traced
from mase_hw.design.design import Design, Progress
from mase_hw.design.simulation import Simulation
from mase_hw.host.disk import refuse_foreign, staged
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import Values
from mase_hw.ir.faithful.surroundings import ordinary
from mase_hw.ir.parts import HARDWARE, Part
from mase_hw.partition.passes import PARTS, partition_transform_pass
from mase_hw.passes.base import Info

FILE = "partition.json"
"""In the folder of a partitioned design: what runs where, and why."""


@dataclass(frozen=True)
class PartitionedSimulation:
    """What a simulation of all segments showed.

    Args:
        output: What the whole gives, the results of the segments taken from the hardware.
        segments: The simulation of every segment, by name.
    """

    output: Any
    segments: Mapping[str, Simulation]

    @property
    def passed(self) -> bool:
        """Whether every bit of every segment was equal."""
        return all(simulation.passed for simulation in self.segments.values())


class PartitionedDesign:
    """A model of which parts are hardware.

    Called like the model, it runs the host's parts in PyTorch and the segments as their bit-true quantised models.

    Args:
        path: The folder: :data:`FILE`, and a bundle for every segment.
        graph: The graph that calls the parts.
        designs: The design of every segment.
        info: What ``partition_transform_pass`` said.
    """

    def __init__(self, path: Path, graph: MaseGraph, designs: Mapping[str, Design], info: Info) -> None:
        self.path, self.graph, self.designs, self.info = path, graph, dict(designs), dict(info)

    @property
    def parts(self) -> list[Part]:
        """The parts, in order of execution."""
        found: list[Part] = self.graph.meta[PARTS]
        return found

    @property
    def host(self) -> dict[str, str]:
        """Why each node of the host is there."""
        return dict(self.info["host"])

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """The results of the whole; arguments and shapes as of the model."""
        return self._run(inputs, named, lambda part, given: self.designs[part.name].model(*given))

    def simulate(self, inputs: Any, **options: Any) -> PartitionedSimulation:
        """Simulate every segment on what reaches it, and go on with what its hardware gave.

        Args:
            inputs: Inputs of the model, frames stacked along the first dimension.
            options: As for :meth:`mase_hw.design.design.Design.simulate`, for every segment.

        Raises:
            MismatchError: If a bit of a segment differs; and whatever else its simulation raises.
        """
        found: dict[str, Simulation] = {}

        def hardware(part: Part, given: list[Tensor]) -> Any:
            named = dict(zip(part.inputs, given, strict=True))
            simulation = found[part.name] = self.designs[part.name].simulate(named, **options)
            results = [value.to(torch.float32) for value in simulation.outputs.values()]
            return results[0] if len(results) == 1 else tuple(results)

        given = name_inputs(self.graph, inputs)
        return PartitionedSimulation(self._run((), given, hardware), found)

    def report(self) -> str:
        """What runs where, and why, as text."""
        lines = []
        for part in self.parts:
            lines.append(f"{part.name}: {', '.join(part.nodes)}")
            lines += [f"  {name}: {self.host[name]}" for name in part.nodes if name in self.host]
        return "\n".join(lines)

    def _run(self, inputs: Any, named: Values, hardware: Callable[[Part, list[Tensor]], Any]) -> Any:
        segments = {part.name: part for part in self.parts if part.where == HARDWARE}

        class Runner(fx.Interpreter):
            def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
                part = segments.get(str(target))
                return super().call_module(target, args, kwargs) if part is None else hardware(part, list(args))

        places = [str(n.target) for n in self.graph.nodes if n.op == "placeholder"]
        given = {**dict(zip(places, inputs, strict=False)), **named}
        with torch.no_grad():
            return Runner(self.graph.model).run(*(given[name] for name in places))


def compile_partitioned(
    model: nn.Module | MaseGraph,
    example_inputs: Any,
    config: ConfigLike = None,
    *,
    out: Path | str,
    host: Iterable[str] = (),
    hardware: Iterable[str] | None = None,
    calibration: Iterable[Any] | None = None,
    progress: Progress | None = None,
) -> PartitionedDesign:
    """Compile what of a model can be hardware; PyTorch runs the rest on the host.

    Args:
        model: A float model or graph; it is not changed.
        example_inputs: One frame, as for :func:`mase_hw.compile`.
        config: The configuration, for every segment.
        out: Folder of the whole: a bundle for every segment, and ``partition.json``. An older one is replaced, anything
            else is refused. It is written whole or not at all.
        host: Nodes that stay on the host, by name or with wildcards.
        hardware: Nodes that become hardware, and no others; all that can if None.
        calibration: Batches of inputs of the model; the example if None.
        progress: Told what is being done.

    Raises:
        MaseHwError: As :func:`mase_hw.compile` and ``partition_transform_pass``.
    """
    tell = progress or (lambda _: None)
    settings, place = load_config(config), Path(out).absolute()
    refuse_foreign(place, FILE, "a partitioned design")
    with ordinary():
        if isinstance(model, MaseGraph):
            graph, example = model, name_inputs(model, example_inputs)
        else:
            graph, example = traced(model, example_inputs, None, tell)
    given = {
        "example": example,
        "host": list(host),
        "hardware": None if hardware is None else list(hardware),
        "config": settings,
    }
    divided, info = partition_transform_pass(graph, given)
    batches = [example] if calibration is None else [name_inputs(graph, batch) for batch in calibration]
    parts: list[Part] = divided.meta[PARTS]
    first, *seen_by = (reaching(divided, parts, batch) for batch in (example, *batches))
    graphs: dict[str, MaseGraph | None] = {}
    with staged(place) as staging:
        for part in parts:
            if part.where != HARDWARE:
                continue
            tell(f"compiling {part.name}")
            seen = [batch[part.name] for batch in seen_by]
            design = compile(
                part.module, first[part.name], settings, out=staging / part.name, calibration=seen, progress=progress
            )
            graphs[part.name] = design.graph
        (staging / FILE).write_text(json.dumps(info, indent=1) + "\n", encoding="utf-8")
    return PartitionedDesign(place, divided, {name: Design(place / name, g) for name, g in graphs.items()}, info)


def reaching(graph: MaseGraph, divided: Iterable[Part], inputs: Values) -> dict[str, dict[str, Tensor]]:
    """What reaches every part of a divided graph, by the names of its inputs."""
    found: dict[str, dict[str, Tensor]] = {}
    parts = {part.name: part for part in divided}

    class Runner(fx.Interpreter):
        def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
            names = [str(n.target) for n in parts[str(target)].module.graph.nodes if n.op == "placeholder"]
            found[str(target)] = dict(zip(names, args, strict=True))
            return super().call_module(target, args, kwargs)

    names = [str(n.target) for n in graph.nodes if n.op == "placeholder"]
    with torch.no_grad():
        Runner(graph.model).run(*(inputs[name] for name in names))
    return found
