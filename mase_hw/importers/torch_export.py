"""Programs of ``torch.export`` that were quantised (pt2e): operations of ``quantized_decomposed``.

They quantise between their operations, as files of QDQ do: ``quantize_per_tensor`` marks data, what is stored becomes
values at once, and :mod:`mase_hw.importers.settle_integers` makes scaled integers of that.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from mase_hw.catalogue import Catalogue
from mase_hw.errors import UnsupportedError
from mase_hw.formats import Rounding, ScaledFormat
from mase_hw.importers.graph import Known, Marker, Problems, Refused
from mase_hw.ir.export.aten import packet
from mase_hw.ir.export.convert import ProgramImport
from mase_hw.ir.export.program import program_of
from mase_hw.ops.cast import passed_on

_QUANTISE = ("quantize_per_tensor", "quantize_per_channel")
_DEQUANTISE = ("dequantize_per_tensor", "dequantize_per_channel")
_TYPES = {torch.uint8: (8, False), torch.int8: (8, True), torch.int16: (16, True), torch.int32: (32, True)}


def is_quantised_program(model: ExportedProgram | fx.GraphModule) -> bool:
    """Whether a program has operations of ``quantized_decomposed``."""
    graph = model.graph
    return any(str(n.target).startswith("quantized_decomposed.") for n in graph.nodes if n.op == "call_function")


class QuantisedProgram(ProgramImport):
    """The graph of such a program, with what it says of its numbers.

    Args:
        model: An ``ExportedProgram``, or what its ``module()`` gives.
        known: The ops.

    Raises:
        UnsupportedError: As :func:`mase_hw.ir.export.convert.import_program`; and quantisations that no hardware has,
            with their names.
    """

    def __init__(self, model: ExportedProgram | fx.GraphModule, known: Catalogue) -> None:
        super().__init__(program_of(model), known)
        self.markers: dict[str, Marker] = {}
        self.stored: dict[str, Known] = {}
        self.faults = Problems("exported program")
        self._integers: dict[fx.Node, tuple[Any, ...]] = {}
        """Nodes of the program that are integers of data, with scale, zero point, limits and type."""

    def _output(self, node: fx.Node) -> None:
        self.faults.refuse()
        given = [n for n in node.all_input_nodes if n in self._integers]
        if given:
            raise UnsupportedError(
                "a result of the program is quantised integers",
                node=", ".join(n.name for n in given),
                expected="values",
                remedy="end the program with a dequantisation; the hardware gives the integers on its port",
            )
        super()._output(node)

    def _call(self, node: fx.Node) -> None:
        name = packet(node.target)
        ours = str(node.target).startswith("quantized_decomposed.")
        integers = [n for n in node.all_input_nodes if n in self._integers]
        try:
            if ours and name in _QUANTISE:
                self._quantise(node, name)
            elif ours and name in _DEQUANTISE:
                self._dequantise(node, name)
            elif ours:
                raise Refused(
                    "its scale is computed from each input, and hardware has them fixed"
                    if name.startswith("choose_qparams")
                    else "no such operation is known",
                    "quantise the program statically, with calibration data",
                )
            elif integers:
                raise Refused("it computes with quantised integers", "dequantise before it")
            else:
                super()._call(node)
        except Refused as error:
            self.faults.add(node.name, str(node.target), error)

    def _numbers(self, node: fx.Node, per_channel: bool) -> tuple[Tensor, Tensor, int, int, int, torch.dtype]:
        """Scales, zero points, the axis, the smallest and the largest integer and their type."""
        given = [self._constant(a) for a in node.args[1:]]
        scale, zero, *rest = given
        axis, low, high, dtype = rest[:4] if per_channel else (0, *rest[:3])
        scales, zeros = (torch.as_tensor(v, dtype=torch.float64).reshape(-1) for v in (scale, zero))
        if dtype not in _TYPES:
            raise Refused(f"quantised numbers of the type {dtype}")
        if not bool((torch.isfinite(scales) & (scales > 0)).all()):
            raise Refused(f"a scale of {float(scales.min()):g}", "a scale is finite and above zero")
        width, signed = _TYPES[dtype]
        first, last = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
        if not first <= int(low) <= int(high) <= last:
            raise Refused(f"integers from {low} to {high} of the type {dtype}")
        return scales, zeros, int(axis), int(low), int(high), dtype

    def _constant(self, value: Any) -> Any:
        if not isinstance(value, fx.Node):
            return value
        if value not in self.static:
            raise Refused("its scale or zero point depends on data", "quantise the program statically")
        return self.static[value]

    def _quantise(self, node: fx.Node, name: str) -> None:
        source = node.args[0]
        assert isinstance(source, fx.Node)
        if source in self.static or source in self.paths:
            value = self.static.get(source)
            if value is None:
                value = self.attribute(self.paths[source])
            with torch.no_grad():
                args = [value.detach(), *map(self._constant, node.args[1:])]
                self.static[node] = node.target(*args)  # type: ignore[operator]
            return
        if source not in self.env:
            return  # behind an operation that is refused
        if name != "quantize_per_tensor":
            raise Refused("data with a scale for each channel", "quantise it with one scale")
        numbers = self._numbers(node, False)
        scales, zeros, _, low, high, dtype = numbers
        width, signed = _TYPES[dtype]
        fmt = ScaledFormat.make(width, float(scales[0]), int(zeros[0]), signed=signed, low=low, high=high)
        self.env[node] = made = self.emit(("call_function", passed_on, (self.value(source),), {}), node)
        self.markers[made.name] = Marker(fmt, Rounding.HALF_EVEN)
        self._integers[node] = (float(scales[0]), int(zeros[0]), low, high, dtype)

    def _dequantise(self, node: fx.Node, name: str) -> None:
        source = node.args[0]
        assert isinstance(source, fx.Node)
        per_channel = name == "dequantize_per_channel"
        if source in self._integers:
            scales, zeros, _, low, high, dtype = self._numbers(node, per_channel)
            if per_channel or (float(scales[0]), int(zeros[0]), low, high, dtype) != self._integers[source]:
                raise Refused("it reads integers that were quantised with other numbers")
            self.env[node] = self.env[source]
            return
        value = self.static.get(source)
        if value is None and source in self.paths:
            value = self.attribute(self.paths[source])
        if value is None:
            if source in self.env:
                raise Refused("it reads integers that nothing has quantised")
            return  # behind an operation that is refused
        scales, zeros, axis, low, high, dtype = self._numbers(node, per_channel)
        shape = [-1 if per_channel and i == axis % value.dim() else 1 for i in range(value.dim())]
        integers = value.detach().double() - zeros.reshape(shape)
        exact = integers * scales.reshape(shape)
        width, _ = _TYPES[dtype]
        least, most = (int(integers.min()), int(integers.max())) if integers.numel() else (0, 0)
        bits = max(width, most.bit_length() + 1, (-least - 1).bit_length() + 1 if least < 0 else 0)
        narrow = least > -(1 << (bits - 1))
        fmt = ScaledFormat.make(bits, scales.tolist(), axis=axis % max(value.dim(), 1), narrow=narrow)
        path = f"{node.name}_values"
        self._store(path, exact.float())
        self.paths[node] = path
        self.stored[path] = Known(None, fmt, exact)
