"""Gives a bundle that was loaded from disk its model back, so that a failure can be diagnosed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from mase_hw.design.design import HARDWARE, Design
from mase_hw.errors import ConfigError


def attach_model(design: Design, compile_into: Callable[[Path], Design]) -> None:
    """Compile the model again, for its graph only, if it gives the very hardware of the bundle.

    Args:
        design: As loaded; it has its graph afterwards.
        compile_into: Compiles the model into a folder that does not exist yet.

    Raises:
        ConfigError: If a file of the hardware differs, so that the model is not the one behind the bundle.
    """
    with tempfile.TemporaryDirectory() as folder:
        again = compile_into(Path(folder) / "bundle")
        ours, theirs = _hashes(design), _hashes(again)
        different = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
        if different:
            raise ConfigError(
                "the model does not give the hardware of the bundle",
                node=str(design.path),
                field="--model",
                got=f"{len(different)} other files: {', '.join(different[:3])}",
                remedy="give the model and the configuration it was compiled with",
            )
        design.graph = again.graph


def _hashes(design: Design) -> dict[str, str]:
    files: dict[str, str] = design.manifest["files"]
    return {name: digest for name, digest in files.items() if name.startswith(HARDWARE)}
