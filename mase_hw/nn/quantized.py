"""The quantised module: a thin shell of floats around an op's golden arithmetic.

Values enter and leave as ordinary floats that lie exactly on the fixed-point grid; inside, they are mantissas. The
module keeps its parameters in float, so an ordinary torch training loop trains it (straight-through gradients).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from mase_hw.catalogue import Arithmetic, Catalogue, OpDef
from mase_hw.errors import FormatError, GraphError, suggest
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.numerics import dequantize, quantize


class Quantized(nn.Module):
    """Any op of the catalogue, bit-true.

    Args:
        op: The op; its ``golden`` is the arithmetic.
        arithmetic: Formats of ``data_in_k``, of every parameter and of ``data_out_0``; cast modes; attributes.
        parameters: Float parameters by name (``weight``, ``bias``); an ``nn.Parameter`` is kept as it is.

    Shapes:
        As the float op. Inputs of any floating dtype are brought into their format half-even and saturating;
        outputs are float32 (formats up to 24 magnitude bits) or float64.

    Raises:
        GraphError: If a tensor of the op has no format.
    """

    mase_leaf = True

    def __init__(self, op: OpDef, arithmetic: Arithmetic, parameters: Mapping[str, Tensor] | None = None) -> None:
        super().__init__()
        if op.golden is None:
            raise GraphError(f"op {op.name!r} has no arithmetic to quantise", node=op.name)
        self.mase_op = op.name
        self.label = op.name
        """What errors call this module: the node's name once it is in a graph."""
        self.op = op
        self.arithmetic = arithmetic
        self.parameter_names = tuple(parameters or {})
        for name, value in (parameters or {}).items():
            keep = value if isinstance(value, nn.Parameter) else nn.Parameter(value, requires_grad=False)
            self.register_parameter(name, keep)
        for name in (*self.parameter_names, "data_out_0"):
            if name not in arithmetic.formats:
                raise GraphError(f"no format for {name}", node=op.name, field=name)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Quantise, compute in mantissas, return the values."""
        formats = self.arithmetic.formats
        tensors = {f"data_in_{i}": x for i, x in enumerate(inputs)}
        tensors |= {name: getattr(self, name) for name in self.parameter_names}
        mantissas = {name: quantize(x, formats[name], name=f"{self.label}.{name}") for name, x in tensors.items()}
        assert self.op.golden is not None  # checked on construction
        try:
            result = self.op.golden(self.arithmetic, mantissas)["data_out_0"]
        except FormatError as error:
            error.node = error.node or self.label
            raise
        return dequantize(result, formats["data_out_0"])

    def mantissa(self, name: str) -> Tensor:
        """Mantissas of a parameter, in the carrier of its format."""
        return quantize(getattr(self, name).detach(), self.arithmetic.formats[name], name=f"{self.label}.{name}")

    def extra_repr(self) -> str:
        """Op and formats, for ``print(model)``."""
        formats = ", ".join(f"{name}={fmt}" for name, fmt in self.arithmetic.formats.items())
        return f"{self.mase_op}, {formats}"

    def check_parameters(self) -> None:
        """Refuse parameters that no fixed-point number can stand for.

        Raises:
            FormatError: Naming the tensor that holds NaN.
        """
        for parameter in self.parameter_names:
            value = getattr(self, parameter).detach()
            quantize(value, self.arithmetic.formats[parameter], name=f"{self.label}.{parameter}")

    def to_document(self) -> dict[str, Any]:
        """All but the parameters, for a checkpoint."""
        return {
            "op": self.op.name,
            "label": self.label,
            "formats": dict(self.arithmetic.formats),
            "rounding": self.arithmetic.rounding,
            "overflow": self.arithmetic.overflow,
            "attributes": dict(self.arithmetic.attributes),
            "parameters": list(self.parameter_names),
        }

    @classmethod
    def from_document(
        cls, document: Mapping[str, Any], tensors: Mapping[str, Tensor], catalogue: Catalogue
    ) -> Quantized:
        """Build the module that :meth:`to_document` describes; see :class:`mase_hw.ir.checkpoint_modules.Rebuildable`.

        Raises:
            GraphError: If the catalogue has no such op, a parameter is missing, or a value is of the wrong kind.
        """
        name = str(document["op"])
        op = catalogue.get(name)
        if op is None:
            hint = suggest(name, catalogue.names())
            raise GraphError(
                "a quantised op is not in the catalogue",
                node=name,
                remedy=f"pass the custom_ops with which the graph was made; {hint}",
            )
        formats, rounding, overflow = document["formats"], document["rounding"], document["overflow"]
        fits = all(isinstance(fmt, FixedFormat) for fmt in formats.values())
        if not (fits and isinstance(rounding, Rounding) and isinstance(overflow, Overflow)):
            raise GraphError("a quantised op is described by values of the wrong kind", node=op.name)
        missing = set(document["parameters"]) - (set(tensors) & set(op.parameters))
        if missing:
            raise GraphError("a parameter of a quantised op is missing", node=op.name, got=", ".join(sorted(missing)))
        arithmetic = Arithmetic(formats, rounding, overflow, dict(document["attributes"]))
        made = cls(op, arithmetic, {name: tensors[name] for name in document["parameters"]})
        made.label = str(document["label"])
        return made


class QuantizeInput(nn.Module):
    """The boundary of the hardware: floats of any kind become values of a format, on the host.

    Args:
        fmt: Format in which the hardware takes the tensor.
        name: Name of the model's input, for errors.
    """

    mase_leaf = True
    mase_op = "quantize"

    def __init__(self, fmt: FixedFormat, name: str) -> None:
        super().__init__()
        self.arithmetic = Arithmetic({"data_out_0": fmt})
        self.input_name = name

    def forward(self, x: Tensor) -> Tensor:
        """Quantise half-even and saturating; same shape, values on the grid."""
        fmt = self.arithmetic.formats["data_out_0"]
        return dequantize(quantize(x, fmt, name=self.input_name), fmt)

    def extra_repr(self) -> str:
        """The format, for ``print(model)``."""
        return f"{self.input_name} -> {self.arithmetic.formats['data_out_0']}"

    def to_document(self) -> dict[str, Any]:
        """The constructor's arguments, for a checkpoint."""
        return {"fmt": self.arithmetic.formats["data_out_0"], "name": self.input_name}

    @classmethod
    def from_document(
        cls, document: Mapping[str, Any], tensors: Mapping[str, Tensor], catalogue: Catalogue
    ) -> QuantizeInput:
        """Build the module that :meth:`to_document` describes."""
        if not isinstance(document["fmt"], FixedFormat):
            raise GraphError("an input is described by values of the wrong kind", node=str(document["name"]))
        return cls(document["fmt"], str(document["name"]))
