"""The parameters of a retrained model as an image for a design that loads them, checked before it is written."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mase_hw._version import __version__
from mase_hw.design.design import Design
from mase_hw.emit.build import build_netlist
from mase_hw.emit.bundle import Bundle
from mase_hw.emit.passes import memory_files
from mase_hw.emit.read_bundle import read_file
from mase_hw.emit.reference import Reference
from mase_hw.errors import ConfigError
from mase_hw.formats import SignFormat
from mase_hw.hardware.external import design_number, image_bytes, outside
from mase_hw.hardware.image import digest_of, loaded, make_image
from mase_hw.hardware.manifest import Manifest
from mase_hw.hardware.prefix import renamed
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ir.copies import copy_graph
from mase_hw.nn import Quantized
from mase_hw.numerics import dequantize, quantize
from mase_hw.streams import IntArray

IMAGE, OUTSIDE, VECTORS = "image.bin", "external.bin", "vectors.npz"
"""In the folder of the weights: the image, the content of external memory, words little-endian, and the vectors."""
KIND = {"generator": {"mase_hw": __version__}, "kind": "weights"}
"""What the manifest of the weights begins with."""
_ROUNDED = 0.501
"""Steps between a value and what stands for it, if the format holds it; a little more than half, as floats divide."""


@dataclass(frozen=True)
class Weights:
    """What a design is loaded with.

    Args:
        graph: The quantised model with these parameters, in the formats of the design.
        image: What the hardware takes; empty if it loads nothing.
        outside: What external memory has to hold; empty if nothing is read from there.
        memories: Memory files by their path in the bundle.
        vectors: The vectors of the bundle with the results of these parameters: mantissas of shape ``(frames, *shape)``
            by port.
        changed: Memory files that differ from those of the bundle.
    """

    graph: MaseGraph
    image: bytes
    outside: bytes
    memories: Mapping[str, str]
    vectors: Mapping[str, IntArray]
    changed: tuple[str, ...]

    @property
    def digest(self) -> int:
        """What the design shows while it has them; that of external memory if it loads nothing."""
        return digest_of(self.image or self.outside)

    def add_to(self, made: Bundle, design: Design, folder: str = "") -> Json:
        """Add the files of the weights to a bundle: the image, also for C, the memory files and the vectors.

        Args:
            made: To which they are added.
            design: That they are for.
            folder: Where in it, with a slash at its end.

        Returns:
            What is said of them in a manifest.
        """
        if self.image:
            made.add(folder + IMAGE, self.image)
            made.add(f"{folder}mase_weights.h", _header(self.image))
        if self.outside:
            made.add(folder + OUTSIDE, self.outside)
        for file, text in self.memories.items():
            made.add(folder + file, text)
        made.add(folder + VECTORS, packed(self.vectors))
        return {
            "design": design.manifest["digest"],
            "crc": f"{self.digest:08x}",
            **({"external_crc": f"{digest_of(self.outside):08x}"} if self.outside else {}),
            "changed": list(self.changed),
        }

    def write(self, folder: Path, design: Design) -> Json:
        """Write the folder of the weights.

        Returns:
            Its manifest.

        Raises:
            EmitError: If it cannot be written.
        """
        made = Bundle()
        made.manifest |= {**KIND, **self.add_to(made, design)}
        made.write(folder)
        return made.manifest


def make_weights(design: Design, retrained: MaseGraph, *, part: bool = False) -> Weights:
    """The parameters of a retrained model, in the formats of a design.

    Args:
        design: With its model; it stays as it is.
        retrained: The quantised graph of the other model: its formats are not looked at, its parameters are.
        part: Whether the design is one device of several, which has some of the nodes and may load nothing.

    Raises:
        ConfigError: If the design loads nothing, the model is another one, a value is outside its format, or a
            parameter differs that is not loaded.
        EmitError: If a code occurs that the multipliers were chosen without.
    """
    manifest = design.record
    parts, tensors = loaded(manifest), outside(manifest)
    if not part:
        replaceable(manifest, str(design.path))
    graph = _taken(design, retrained, part)
    netlist = (design.graph or graph).meta.get("netlist") or build_netlist(graph, manifest.top)
    named = memory_files(graph, netlist, design_number(manifest))
    made = {renamed(file, manifest.prefix): text for file, text in named.items()}
    before = {file: read_file(design.path, manifest.files, file).decode("ascii") for file in made}
    changed = tuple(file for file in sorted(made) if made[file] != before[file])
    own = {*(part.file for part in parts), *tensors}
    external = None if manifest.external is None else manifest.external.file
    fixed = sorted(set(changed) - own - {external})
    if fixed:
        raise ConfigError(
            "a parameter differs that is not loaded",
            node=", ".join(fixed),
            expected="the values of the bundle, as it is in a ROM or a part of a module",
            remedy="leave it as it is in training, or compile again",
        )
    texts = {file: text for file, text in made.items() if file in own or file == external}
    words = make_image(manifest.image.design, parts, texts) if manifest.image is not None else b""
    held = b""
    if manifest.external is not None:
        lines = texts[manifest.external.file].split()
        held = image_bytes([int(line, 16) for line in lines], manifest.external.bits)
    return Weights(graph, words, held, texts, _vectors(design, graph), changed)


def replaceable(manifest: Manifest, node: str) -> None:
    """Refuse a design whose parameters are all fixed.

    Raises:
        ConfigError: If it loads none, and reads none from external memory.
    """
    if manifest.image is None and manifest.external is None:
        raise ConfigError(
            "this design loads no parameters",
            node=node,
            got="parameters in ROM",
            remedy='compile it with parameters = "ram" or "external" in the table hardware',
        )


def retrained_model(design: Design, retrained: MaseGraph) -> tuple[MaseGraph, dict[str, IntArray]]:
    """The model of a design with the parameters of a retrained one, and the vectors with their results by port.

    Raises:
        ConfigError: As :func:`make_weights`, but for what may be loaded.
    """
    graph = _taken(design, retrained, part=False)
    return graph, _vectors(design, graph)


def packed(vectors: Mapping[str, IntArray]) -> bytes:
    """Vectors as a file of NumPy."""
    arrays = io.BytesIO()
    np.savez(arrays, allow_pickle=False, **vectors)
    return arrays.getvalue()


def _taken(design: Design, retrained: MaseGraph, part: bool) -> MaseGraph:
    """A copy of the quantised model of a design, with the parameters of the nodes of the same names."""
    if design.graph is None:
        raise ConfigError(
            "a bundle alone does not say how its model is quantised",
            node=str(design.path),
            remedy="keep the model when it is compiled (--save-model), or name it",
        )
    graph = copy_graph(design.graph, share_weights=False)
    _take(graph, retrained, part)
    return graph


def _take(graph: MaseGraph, retrained: MaseGraph, part: bool) -> None:
    """Give the quantised nodes of a graph the parameters of the nodes of the same names."""
    ours, theirs = _quantised(graph), _quantised(retrained)
    if part:
        theirs = {name: module for name, module in theirs.items() if name in ours}
    shapes = [{n: _shapes(module) for n, module in each.items()} for each in (ours, theirs)]
    for name in sorted({**ours, **theirs}):
        has, wanted = (each.get(name) for each in reversed(shapes))
        if has != wanted:
            raise ConfigError(
                "the model is not the one of this design with other parameters",
                node=name,
                got=_shown(has),
                expected=_shown(wanted),
                remedy="compile it into a bundle of its own",
            )
    for name, module in ours.items():
        for parameter in module.parameter_names:
            value = getattr(theirs[name], parameter).detach()
            if value.dtype.is_floating_point and module.op.name != "requantize":
                # Multipliers of scaled integers follow from the formats, which stay, and so do integers.
                before, _ = _clipped(module, parameter, name)
                with torch.no_grad():
                    getattr(module, parameter).copy_(value)
                _check_range(module, parameter, name, float(before.max()))


def _quantised(graph: MaseGraph) -> dict[str, Quantized]:
    found = {node.name: graph.meta_of(node).module for node in graph.nodes}
    return {name: module for name, module in found.items() if isinstance(module, Quantized)}


def _shapes(module: Quantized) -> tuple[Any, ...]:
    floats = {n: getattr(module, n) for n in module.parameter_names if n != "weight_shift"}
    return (module.op.name, *((name, tuple(value.shape)) for name, value in floats.items()))


def _shown(found: tuple[Any, ...] | None) -> str:
    if found is None:
        return "no such node"
    return ", ".join([str(found[0]), *(f"{name} {list(shape)}" for name, shape in found[1:])])


def _clipped(module: Quantized, parameter: str, node: str) -> tuple[Tensor, Tensor]:
    """By how many steps the format of a parameter cuts off each value, and the values; 0 where it only rounds."""
    fmt = module.arithmetic.formats[parameter]
    value: Tensor = getattr(module, parameter).detach().double()
    if isinstance(fmt, SignFormat):  # which has every value of one sign in common
        return torch.zeros_like(value), value
    if parameter == "weight" and "weight_shift" in module.parameter_names:
        factor = fmt.factors(module.get_buffer("weight_shift")).double()
        value = value / fmt.spread(factor, value.shape)
    mantissa = quantize(value, fmt, name=f"{node}.{parameter}")
    if fmt.digits:  # further apart than a step, but for the smallest
        return (value - value.clamp(fmt.min_value, fmt.max_value)).abs() / fmt.scale, value
    held = dequantize(mantissa, fmt).double()
    steps = (value - held).abs() / (dequantize(mantissa + 1, fmt).double() - held)
    return torch.where(steps > _ROUNDED, steps, 0.0), value


def _check_range(module: Quantized, parameter: str, node: str, before: float) -> None:
    """Refuse a value that the format cuts off by more than it does any of the design's own."""
    steps, values = _clipped(module, parameter, node)
    outside = steps > before
    if outside.any():
        raise ConfigError(
            "a parameter is outside the range of its format",
            node=f"{node}.{parameter}",
            got=f"{int(outside.sum())} values, such as {float(values[outside][0]):.6g}",
            expected=f"{module.arithmetic.formats[parameter]}, beyond which the design's own lie {before:.3g} steps",
            remedy="clamp it in training, or compile again, which chooses formats anew",
        )


def _vectors(design: Design, graph: MaseGraph) -> dict[str, IntArray]:
    """The vectors of the bundle, with the results of these parameters."""
    given, _ = design.vectors()
    reference = Reference(graph)
    stacked = {p: torch.as_tensor(given[p.port]).reshape(-1, *p.shape[1:]) for p in reference.inputs}
    stimulus, expected = reference.run({p.name: dequantize(frames, p.fmt) for p, frames in stacked.items()})
    return stimulus | expected


def _header(image: bytes) -> str:
    """The image for C."""
    words = [f"0x{word:08X}u," for word in np.frombuffer(image, "<u4").tolist()]
    lines = ["    " + " ".join(words[at : at + 8]) for at in range(0, len(words), 8)]
    return "\n".join(["/* Generated by mase_hw. */", "static const uint32_t mase_weights[] = {", *lines, "};", ""])
