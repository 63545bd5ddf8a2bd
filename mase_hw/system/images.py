"""The parameters that the self-test of a system loads: images of the bundle's own, or of a retrained model's."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mase_hw.compiler.weights import IMAGE, OUTSIDE
from mase_hw.emit.bundle import MANIFEST
from mase_hw.emit.read_bundle import read_file
from mase_hw.errors import ConfigError
from mase_hw.hardware.external import image_bytes, image_words
from mase_hw.hardware.image import loaded, make_image
from mase_hw.hardware.manifest import Manifest
from mase_hw.host.documents import Json, parse_json


def outside_bytes(manifest: Manifest) -> int:
    """Bytes of an image in external memory; 0 if the design reads none."""
    memory = manifest.external
    return 0 if memory is None else image_words(memory.bits, memory.words) * memory.bits // 8


def images_of(bundle: Path, manifest: Manifest, weights: Path | None) -> dict[str, list[int]]:
    """The images of a design as words of 32 bits: ``image`` that is loaded, ``outside`` that lies in memory.

    Args:
        bundle: Of the design.
        manifest: Of the bundle.
        weights: Folder that ``mase-hw weights`` wrote for it; else the parameters are those of the bundle.

    Raises:
        ConfigError: If the weights are of another design.
    """
    if weights is not None:
        _check_weights(weights, manifest.digest)
    found = {}
    if manifest.image is not None:
        parts = loaded(manifest)
        texts = {part.file: _text(bundle, manifest, part.file) for part in parts} if weights is None else {}
        raw = make_image(manifest.image.design, parts, texts) if weights is None else (weights / IMAGE).read_bytes()
        found["image"] = raw
    if manifest.external is not None:
        if weights is None:
            lines = _text(bundle, manifest, manifest.external.file).split()
            found["outside"] = image_bytes([int(line, 16) for line in lines], manifest.external.bits)
        else:
            found["outside"] = (weights / OUTSIDE).read_bytes()
    return {name: np.frombuffer(raw, "<u4").tolist() for name, raw in found.items()}


def _text(bundle: Path, manifest: Manifest, file: str) -> str:
    return read_file(bundle, manifest.files, file).decode("ascii")


def _check_weights(weights: Path, digest: str) -> None:
    try:
        made: Json = parse_json((weights / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        made = {}
    if made.get("kind") != "weights" or made.get("design") != digest:
        raise ConfigError(
            "these are no weights of this bundle",
            node=str(weights),
            got=made.get("kind", "no such folder"),
            expected=f"weights of the design {digest[:16]}",
            remedy="make them with `mase-hw weights MODEL --bundle BUNDLE --out DIR`",
        )
