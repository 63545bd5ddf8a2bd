"""The quantised module: a thin shell of floats around an op's golden arithmetic.

Values enter and leave as ordinary floats that lie exactly on the fixed-point grid; inside, they are mantissas. The
module keeps its parameters in float, so an ordinary torch training loop trains it (straight-through gradients).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw.errors import FormatError, GraphError, suggest
from mase_hw.formats import FixedFormat, GroupFormat, Overflow, Rounding, ScaledFormat, refuse_others, refuse_scaled
from mase_hw.formats.attributes import attributes_of
from mase_hw.host.documents import Json
from mase_hw.nn.change_detector import KEPT, ChangeDetector
from mase_hw.nn.streaming import CONTINUED, keep, resumed
from mase_hw.nn.values import OnValues, enter
from mase_hw.numerics import as_carrier, carrier, dequantize, magnitude, quantize, symbolic
from mase_hw.opdef import Arithmetic, KnownOps, OpDef, for_golden


class Quantized(nn.Module):
    """Any op of the catalogue, bit-true.

    Args:
        op: The op; its ``golden`` is the arithmetic.
        arithmetic: Formats of ``data_in_k``, of every parameter and of ``data_out_0``; cast modes; attributes.
        parameters: Float parameters by name (``weight``, ``bias``); an ``nn.Parameter`` is kept as it is. Integers
            (``weight_shift``) are buffers: they are not trained.

    Scaled integers: the golden of an op with ``bias`` computes on the mantissas of its input as they are. What their
    zero point ``z`` adds to every sum, ``z`` times the sum of the output's weights, is taken off the mantissa of the
    bias, here, so that no hardware knows of it.

    With a ``weight_shift`` of ``s``, one for every index of the weight's first dimension, the weights of index ``o``
    are brought into the weight's format after division by ``2**s[o]``; the golden multiplies back. Weights in block
    floating point have a shift ``s[o, b]`` for every block, integers in groups a factor in its place.

    Shapes:
        As the float op. Inputs of any floating dtype are brought into their format half-even and saturating;
        outputs are float32 (formats up to 24 magnitude bits) or float64.

    Raises:
        GraphError: If a tensor of the op has no format.
        UnsupportedError: Scaled integers that the op does not take.
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
            if not value.dtype.is_floating_point:
                self.register_buffer(name, value)
                continue
            keep = value if isinstance(value, nn.Parameter) else nn.Parameter(value, requires_grad=False)
            self.register_parameter(name, keep)
        for name in (*self.parameter_names, "data_out_0"):
            if name not in arithmetic.formats:
                raise GraphError(f"no format for {name}", node=op.name, field=name)
        refuse_scaled(op.name, op.name, op.scaled, arithmetic.formats, arithmetic.overflow, arithmetic.attributes)
        refuse_others(op.name, op.name, op.ternary, op.blocks, arithmetic.formats)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Quantise, compute in mantissas, return the values; or compute on values, where that gives the same bits."""
        if self.op.on_values is not None and all(map(plain, inputs)):
            run = self.on_values()
            if run is not None:
                formats = self.arithmetic.formats
                values = [enter(x, formats[f"data_in_{i}"]) for i, x in enumerate(inputs)]
                result = run(*values) if all(x is not None for x in values) else None
                if result is not None:
                    return result
        return self.in_mantissas(inputs)

    def on_values(self) -> OnValues | None:
        """The op on values, prepared once for these parameters, formats, modes and attributes.

        None if the op has no such form, or these do not allow it.

        Raises:
            FormatError: Naming the parameter that holds NaN.
        """
        if self.op.on_values is None:
            return None
        kept: tuple[Snapshot, OnValues | None] | None = self.__dict__.get("_prepared")
        if kept is not None and kept[0].fits(self):
            return kept[1]
        mantissas = {name: self.mantissa(name) for name in self.parameter_names}
        if any(map(symbolic, mantissas.values())):
            return None
        run: OnValues | None = self.op.on_values(self.arithmetic, mantissas)
        self.__dict__["_prepared"] = (Snapshot(self), run)
        return run

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: without what was prepared from the rest."""
        return {name: value for name, value in self.__dict__.items() if name not in (*KEPT, CONTINUED)}

    def in_mantissas(self, inputs: Sequence[Tensor], on_grid: bool = False) -> Tensor:
        """The values of what ``golden`` gives.

        Args:
            inputs: Floats, one tensor for every ``data_in_k``.
            on_grid: The inputs are values of their formats already, so there is nothing to round.
        """
        formats = self.arithmetic.formats
        mantissas = {
            name: self._entered(name, x, on_grid) for name, x in ((f"data_in_{i}", x) for i, x in enumerate(inputs))
        }
        mantissas |= {name: self._parameter(name) for name in self.parameter_names} | resumed(self)
        assert self.op.golden is not None  # checked on construction
        try:
            results = self.op.golden(for_golden(self.op, self.arithmetic), mantissas)
        except FormatError as error:
            error.node = error.node or self.label
            raise
        keep(self, results)
        return dequantize(results["data_out_0"], formats["data_out_0"])

    def _entered(self, name: str, x: Tensor, on_grid: bool) -> Tensor:
        fmt = self.arithmetic.formats[name]
        if on_grid and not isinstance(fmt, ScaledFormat):
            return as_carrier(x * math.ldexp(1.0, fmt.frac_width), carrier(magnitude(fmt)))
        return quantize(x, fmt, name=f"{self.label}.{name}")

    def mantissa(self, name: str) -> Tensor:
        """Mantissas of a parameter, in the carrier of its format; without gradient.

        Raises:
            FormatError: Naming the tensor that holds NaN.
        """
        # Never a tensor of inference mode: it is kept, and may be needed for a gradient later.
        with torch.inference_mode(False), torch.no_grad():
            return self._quantized(name).detach()

    def kept_mantissa(self, name: str) -> Tensor:
        """The same, made once for as long as nothing changes that it depends on; not to be written.

        Raises:
            FormatError: As :meth:`mantissa`.
        """
        with torch.no_grad():
            return self._parameter(name)

    def _quantized(self, name: str) -> Tensor:
        value: Tensor = getattr(self, name)
        fmt = self.arithmetic.formats[name]
        if name == "weight" and "weight_shift" in self.parameter_names:
            shift = self.get_buffer("weight_shift").to(torch.int64)
            factor = fmt.factors(shift).to(torch.promote_types(value.dtype, torch.float32))
            if isinstance(fmt, GroupFormat):
                value, factor = value.double(), factor.double()  # the quotient is the mantissa, if it is one
            value = value / fmt.spread(factor, value.shape)  # of powers of two: exact
        mantissa = quantize(value, fmt, name=f"{self.label}.{name}")
        zero = self._zero_point(name)
        if zero:
            weight = self._quantized("weight")
            sums = weight.reshape(weight.shape[0], -1).double().sum(1)  # exact: fewer than 2**53 steps
            if "weight_shift" in self.parameter_names:
                sums = sums * self.arithmetic.formats["weight"].factors(self.get_buffer("weight_shift")).double()
            mantissa = (mantissa.double() - zero * sums).clamp(fmt.min_mantissa, fmt.max_mantissa)
            mantissa = as_carrier(mantissa, carrier(magnitude(fmt)))
        return mantissa

    def _zero_point(self, name: str) -> int:
        """The zero point of the input that a parameter takes off the sums; 0 of all but a bias."""
        use = self.op.scaled
        if name != "bias" or use is None or use.kind != "sums" or "weight" not in self.parameter_names:
            return 0
        return self.arithmetic.formats["data_in_0"].zero_point

    def _parts(self, name: str) -> list[Tensor]:
        """What the mantissa of a parameter is made of."""
        parts: list[Tensor] = [getattr(self, name)]
        if name == "weight" and "weight_shift" in self.parameter_names:
            parts.append(self.get_buffer("weight_shift"))
        if self._zero_point(name):
            parts += self._parts("weight")
        return parts

    def _parameter(self, name: str) -> Tensor:
        """Mantissas of a parameter; without gradient they are kept until something they depend on changes."""
        parts = self._parts(name)
        if any((torch.is_grad_enabled() and part.requires_grad) or symbolic(part) for part in parts):
            return self._quantized(name)
        # Not made by the constructor: a checkpoint compares what constructors make.
        kept: dict[str, Any] = self.__dict__.setdefault("_kept", {})
        if name in kept:
            fmt, detectors, mantissa = kept[name]
            if fmt == self.arithmetic.formats[name] and all(w.holds(p) for w, p in zip(detectors, parts, strict=True)):
                found: Tensor = mantissa
                return found
        mantissa = self.mantissa(name)
        kept[name] = (self.arithmetic.formats[name], [ChangeDetector(part) for part in parts], mantissa)
        return mantissa

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
            self.mantissa(parameter)

    def to_document(self) -> Json:
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
    def from_document(cls, document: Json, tensors: Mapping[str, Tensor], catalogue: KnownOps) -> Quantized:
        """Build the module that :meth:`to_document` describes; see :class:`mase_hw.ir.checkpoint.modules.Rebuildable`.

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
        arithmetic = Arithmetic(formats, rounding, overflow, attributes_of(document["attributes"]))
        made = cls(op, arithmetic, {name: tensors[name] for name in document["parameters"]})
        made.label = str(document["label"])
        return made


class Snapshot:
    """Everything about a quantised module that its bits depend on, to tell later whether it is still so.

    Parameters have a :class:`~mase_hw.nn.change_detector.ChangeDetector`; formats and attributes are compared, because
    an arithmetic is frozen, but its mappings need not be.

    Args:
        module: The module, :class:`Quantized` or :class:`QuantizeInput`.
        parameters: Its parameters matter; else only formats, modes and attributes.
    """

    def __init__(self, module: Quantized | QuantizeInput, parameters: bool = True) -> None:
        self._arithmetic = module.arithmetic
        self._formats, self._attributes = dict(self._arithmetic.formats), dict(self._arithmetic.attributes)
        names = module.parameter_names if parameters and isinstance(module, Quantized) else ()
        tables = [(module._parameters if n in module._parameters else module._buffers, n) for n in names]
        self._detectors = tuple((table, name, ChangeDetector(getattr(module, name))) for table, name in tables)

    def fits(self, module: Quantized | QuantizeInput) -> bool:
        """Whether nothing has changed."""
        a = self._arithmetic
        if module.arithmetic is not a or a.formats != self._formats or a.attributes != self._attributes:
            return False
        for table, name, detector in self._detectors:
            value = table.get(name)
            if value is None or not detector.holds(value):
                return False
        return True


def plain(x: object) -> bool:
    """Whether this is an ordinary float32 tensor on the CPU, of which no gradient is wanted.

    There passes over memory and calls are what inference costs; elsewhere everything goes the general way.
    """
    if torch.is_grad_enabled() or type(x) is not Tensor or x.dtype is not torch.float32 or not x.is_cpu:
        return False
    return not (x.requires_grad or torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling())


class QuantizeInput(nn.Module):
    """The boundary of the hardware: floats of any kind become values of a format, on the host.

    Args:
        fmt: Format in which the hardware takes the tensor.
        name: Name of the model's input, for errors.
        places: Of an input whose numbers are places in a table: how many there are.

    Raises:
        FormatError: On a call with integers of which one is no place.
    """

    mase_leaf = True
    mase_op = "quantize"

    def __init__(self, fmt: FixedFormat, name: str, places: int | None = None) -> None:
        super().__init__()
        self.places = places
        self.arithmetic = Arithmetic({"data_out_0": fmt})
        self.input_name = name

    def forward(self, x: Tensor) -> Tensor:
        """Quantise half-even and saturating; same shape, values on the grid."""
        fmt = self.arithmetic.formats["data_out_0"]
        if self.places is not None and not x.dtype.is_floating_point and not symbolic(x) and x.numel():
            _refuse_no_places(x, self.places, self.input_name)
        entered = enter(x, fmt) if plain(x) else None
        return dequantize(quantize(x, fmt, name=self.input_name), fmt) if entered is None else entered

    def extra_repr(self) -> str:
        """The format, for ``print(model)``."""
        return f"{self.input_name} -> {self.arithmetic.formats['data_out_0']}"

    def to_document(self) -> Json:
        """The constructor's arguments, for a checkpoint."""
        places = {} if self.places is None else {"places": self.places}
        return {"fmt": self.arithmetic.formats["data_out_0"], "name": self.input_name, **places}

    @classmethod
    def from_document(cls, document: Json, tensors: Mapping[str, Tensor], catalogue: KnownOps) -> QuantizeInput:
        """Build the module that :meth:`to_document` describes."""
        if not isinstance(document["fmt"], FixedFormat):
            raise GraphError("an input is described by values of the wrong kind", node=str(document["name"]))
        places = document.get("places")
        return cls(document["fmt"], str(document["name"]), None if places is None else int(places))


def _refuse_no_places(x: Tensor, places: int, name: str) -> None:
    low, high = int(x.min()), int(x.max())
    if low < 0 or high >= places:
        raise FormatError(
            "an id is no row of the table",
            node=name,
            got=high if high >= places else low,
            expected=f"0 to {places - 1}",
            remedy="look at the tokenizer; hardware, which has no errors, would take the last row",
        )
