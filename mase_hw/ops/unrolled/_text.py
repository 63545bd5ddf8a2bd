"""What the template of an unrolled layer prints: the values of the graph as expressions, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mase_hw.formats import Rounding
from mase_hw.opdef import Arithmetic
from mase_hw.ops.unrolled._graph import Graph, Sum
from mase_hw.ops.unrolled._layer import Layer
from mase_hw.ops.unrolled._stages import Stages


def context_of(
    layer: Layer, stages: Stages, a: Arithmetic, order: Sequence[int], parameters: Mapping[str, int | str]
) -> dict[str, Any]:
    """The context of the template.

    Args:
        layer: The layer.
        stages: Where its registers are.
        a: Formats and cast modes.
        order: The input that comes on each lane.
        parameters: The SystemVerilog parameters.
    """
    text = _Text(layer.graph, stages)
    lane_of = {element: lane for lane, element in enumerate(order)}
    used = {operand for made in layer.graph.values for operand in (made.a, made.b) if operand >= 0}
    used |= {output[0] for output in layer.graph.outputs if output is not None}
    inputs = len(layer.graph.inputs)
    types = {("s" if made.signed else "u", made.width) for made in layer.graph.values if made.coefficients}
    return {
        "types": [
            {"name": f"{kind}{width:03}_t", "sign": "signed " if kind == "s" else "", "high": width - 1}
            for kind, width in sorted(types)
        ],
        "parameters": list(parameters.items()),
        "stages": stages.count,
        "elements": inputs,
        "adders": sum(made.a >= 0 for made in layer.graph.values),
        "adder_bits": layer.graph.adder_bits,
        "fmt_in": a.formats["data_in_0"],
        "fmt_out": a.formats["data_out_0"],
        "inputs": [
            {
                "declared": _declared(layer.graph.values[i], text.name(i, 0)),
                "name": text.name(i, 0),
                "lane": lane_of[i],
                "flipped": f" ^ {layer.graph.values[i].width}'d{layer.graph.values[i].constant}"
                if layer.graph.values[i].constant
                else "",
            }
            for i in range(inputs)
            if i in used
        ],
        "unread": [lane_of[i] for i in range(inputs) if i not in used],
        "halves": any(layer.halves),
        "levels": [
            [text.sum_of(number) for number, made in enumerate(layer.graph.values) if made.level == level]
            for level in range(1, layer.graph.levels + 1)
        ],
        "registers": [text.registers(stage) for stage in range(stages.count - 1)],
        "casts": [_cast(layer, text, a, lane) for lane in range(len(layer.graph.outputs))],
        "rounding": int(a.rounding),
        "overflow": int(a.overflow),
    }


def _declared(made: Sum, name: str) -> str:
    """A declaration with a type of its own: their names have one length, so that nothing need be aligned."""
    return f"{'s' if made.signed else 'u'}{made.width:03}_t {name}"


class _Text:
    """Names and expressions of a graph."""

    def __init__(self, graph: Graph, stages: Stages) -> None:
        self.graph, self.stages = graph, stages

    def name(self, number: int, stage: int) -> str:
        """What holds a value in a stage."""
        made = self.graph.values[number]
        # Names of one length: nothing need be aligned.
        plain = f"{'x' if number < len(self.graph.inputs) else 's'}{number:0{len(str(len(self.graph.values)))}}"
        at = self.stages.of(number)
        return plain if stage == at or not made.coefficients else f"{plain}_q{stage - 1}"

    def operand(self, number: int, shift: int, width: int, stage: int) -> str:
        """A value as a number of so many bits."""
        made = self.graph.values[number]
        if not made.coefficients:
            return f"{width}'d{(made.constant << shift) & ((1 << width) - 1)}"
        plain = f"{width}'({self.name(number, stage)})"
        return f"({plain} << {shift})" if shift else plain

    def sum_of(self, number: int) -> dict[str, Any]:
        """Declaration and assignment of a sum, and the operands that are wider than it."""
        made = self.graph.values[number]
        stage = self.stages.of(number)
        operands = [(made.a, made.a_shift), (made.b, made.b_shift)]
        wider = [
            self.name(of, stage)
            for of, _ in operands
            if self.graph.values[of].coefficients and self.graph.values[of].width > made.width
        ]
        return {
            "declared": _declared(made, self.name(number, stage)),
            "name": self.name(number, stage),
            "value": self._value(number, stage),
            "wider": wider,
        }

    def _value(self, number: int, stage: int) -> str:
        made, offsets, apart = self.graph.values[number], self.graph.offsets(number), self.graph.apart(number)
        a, low, width = self.graph.values[made.a], made.b_shift, made.width
        passes = low > 0 and not offsets and not apart
        if passes:
            # The lowest bits of the first operand pass by. That they are seen to also keeps Yosys from adding three
            # operands in one carry-save adder, which takes more look-up tables than two carry chains.
            width -= low
            first = f"{width}'({self.name(made.a, stage)}[{a.width - 1}:{low}])"
        else:
            first = self.operand(made.a, made.a_shift, width, stage)
        second = self.operand(made.b, 0 if passes else low, width, stage)
        above = made.width - low - self.graph.values[made.b].width
        if made.minus and not offsets and above > 0:
            # Ones above what is subtracted: the next power of two less.
            zeros = f", {low}'d0" if low and not passes else ""
            second = f"{{{above}'d{(1 << above) - 1}, {self.name(made.b, stage)}{zeros}}}"
        found = f"{first} {'-' if made.minus else '|' if apart else '+'} {second}"
        return f"{{{found}, {self.name(made.a, stage)}[{low - 1}:0]}}" if passes else found

    def registers(self, stage: int) -> list[dict[str, str]]:
        """What the registers behind a stage hold."""
        return [
            {
                "declared": _declared(self.graph.values[number], self.name(number, stage + 1)),
                "name": self.name(number, stage + 1),
                "value": self.name(number, stage),
            }
            for number, behind in self.stages.kept()
            if behind == stage
        ]


def _cast(layer: Layer, text: _Text, a: Arithmetic, lane: int) -> dict[str, Any]:
    """How a sum becomes an output."""
    output, out = layer.graph.outputs[lane], a.formats["data_out_0"]
    if output is None:
        return {"lane": lane, "zero": True}
    number, shift = output
    made, drop = layer.graph.values[number], layer.frac - out.frac_width
    half = layer.halves[lane]
    width = made.width + (0 if made.signed else 1) + shift
    width = max(width, drop + 2) if half else width
    even = half and a.rounding is Rounding.HALF_EVEN
    stage = text.stages.count - 1
    return {
        "lane": lane,
        "zero": False,
        "width": width,
        "value": text.operand(number, shift, width, stage),
        "half": half,
        "even": even,
        "drop": drop,
        "in_width": width - drop if half else width,
        "in_frac": out.frac_width if half else layer.frac,
    }
