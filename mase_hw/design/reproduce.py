"""A simulation as a folder that repeats it: the bundle, its arguments, the inputs with the model, and ``run.py``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch

from mase_hw.design.design import Design
from mase_hw.emit.reference import Inputs
from mase_hw.errors import ConfigError
from mase_hw.host.reproducible import SCRIPT, NotData, as_data, reproducible, script
from mase_hw.simulate.plan import Stalls

REPEATED = ("engine", "seed", "stalls", "reset_at", "jobs", "coverage", "diagnose")
"""Arguments of ``Design.simulate`` that decide what happens; the others say where and how it is told."""


def reproduce_simulation(design: Design, folder: str | Path, inputs: Inputs | None = None, **arguments: Any) -> Path:
    """Leave a folder that repeats a simulation of this design elsewhere.

    Args:
        design: The design; its bundle is copied.
        folder: Where to; an older reproducer is replaced, anything else is refused.
        inputs: Those of the simulation; the model goes along as a checkpoint, to compute what is expected. If None, the
            bundle's own vectors are played.
        arguments: Those of :meth:`Design.simulate`.

    Returns:
        The script: ``python folder/run.py`` fails as the simulation did, or says that it did not.

    Raises:
        ConfigError: If the simulation intervenes, which is code and no data, an argument is no data, or inputs are
            given for a design without model.
        EmitError: If the folder cannot be written.
        CheckpointError: If the model cannot be kept.
    """
    if arguments.get("intervene") is not None:
        raise ConfigError(
            "a simulation that intervenes is repeated by its own test", field="intervene", got=arguments["intervene"]
        )
    if inputs is not None and design.graph is not None and design.graph.nested is not None:
        inputs = design.graph.nested.flat(inputs)
    given = {name: arguments[name] for name in REPEATED if arguments.get(name) is not None}
    try:
        kept = {name: value if isinstance(value, Stalls) else as_data(value, name) for name, value in given.items()}
        data = None if inputs is None else as_data(inputs, "inputs")
    except NotData as problem:
        raise ConfigError("the simulation cannot be kept as data", got=str(problem)) from problem
    if data is not None and design.graph is None:
        raise ConfigError("inputs need the model, which this design does not have", node=str(design.path))
    imports = ["from mase_hw.design.design import Design", "from mase_hw.simulate.plan import Stalls"]
    call = [f"{name}={value!r}" for name, value in kept.items()]
    body, graph = [], "None"
    with reproducible(folder) as partial:
        shutil.copytree(design.path, partial / "bundle")
        if data is not None and design.graph is not None:
            design.graph.export(partial / "graph")
            torch.save(data, partial / "inputs.pt")
            imports = ["import torch", "from mase_hw import MaseGraph", *imports]
            body = ['inputs = torch.load(HERE / "inputs.pt", weights_only=True)']
            graph, call = 'MaseGraph.from_checkpoint(HERE / "graph")', ["inputs", *call]
        body += [
            f'design = Design(HERE / "bundle", {graph}, verify={design.verify})',
            f"design.simulate({', '.join(call)})",
        ]
        used = [line for line in imports if "Stalls" not in line or any("Stalls(" in item for item in call)]
        (partial / SCRIPT).write_text(script("a simulation", used, body), encoding="utf-8")
    return Path(folder).resolve() / SCRIPT
