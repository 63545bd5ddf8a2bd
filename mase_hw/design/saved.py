"""The model behind a bundle, kept beside it, so that a function that trains it runs once."""

from __future__ import annotations

from pathlib import Path

from mase_hw.design.attempts import Progress
from mase_hw.design.design import Design
from mase_hw.errors import ConfigError
from mase_hw.ir import MaseGraph

_BUNDLE = "bundle_digest"
"""Where the graph says which bundle it became."""


def saved_model(bundle: Path) -> Path:
    """The checkpoint beside a bundle, without the endings of its two files."""
    return bundle.with_name(f"{bundle.name}.model")


def save_model(design: Design) -> Path:
    """Keep the quantised model that a design was made of, as a checkpoint beside the bundle.

    Args:
        design: As compiled.

    Returns:
        The checkpoint, without the endings of its two files.

    Raises:
        CheckpointError: If the model holds something that a checkpoint cannot.
        ConfigError: If a file of the name is there that no checkpoint belongs to.
    """
    place = saved_model(design.path)
    tensors, document = (place.with_name(place.name + ending) for ending in (".pt", ".mz"))
    if tensors.exists() and not document.exists():
        raise ConfigError(
            "a file is in the place of the model that is to be kept",
            node=str(tensors),
            expected=f"no such file, or {document.name} beside it",
            remedy="move it away, or choose another name for the bundle",
        )
    assert design.graph is not None
    design.graph.meta[_BUNDLE] = design.manifest["digest"]
    design.graph.export(place)
    return place


def attach_saved(design: Design, say: Progress) -> None:
    """Give a design that was loaded from disk the model that was kept beside it, if there is one of this bundle.

    Args:
        design: As loaded.
        say: Told what is used, and what is not.

    Raises:
        CheckpointError: If it cannot be read.
    """
    place = saved_model(design.path)
    document = place.with_name(f"{place.name}.mz")
    if not document.exists():
        return
    graph = MaseGraph.from_checkpoint(place)
    if graph.meta.get(_BUNDLE) == design.manifest["digest"]:
        design.graph = graph
        say(f"the model behind it: {document}")
    else:
        say(f"{document} is of another bundle, so it is not used; compile with --save-model keeps that of this one")
