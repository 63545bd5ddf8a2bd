"""What a check found, as text and as JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from rich.table import Table

from mase_hw.cost.devices import RESOURCES, missing
from mase_hw.emit.estimate import FAMILY, basis
from mase_hw.errors import MaseHwError
from mase_hw.hardware.memories import FAMILIES
from mase_hw.host.documents import Json
from mase_hw.host.shown import Shown, paper
from mase_hw.preflight.budget import Need
from mase_hw.preflight.layers import Layer

MEASURED = "every module as Yosys maps it where it stands in the design"
"""What measured counts rest on."""
_PARTS = ("node", "field", "got", "expected", "remedy")


@dataclass(frozen=True)
class Problem:
    """Why the model would be refused.

    Args:
        kind: Class of the error.
        message: One sentence.
        node: Where.
        field: Which key of the configuration, or argument.
        got: What was found.
        expected: What would have been accepted.
        remedy: What to do.
    """

    kind: str
    message: str
    node: str | None = None
    field: str | None = None
    got: str | None = None
    expected: str | None = None
    remedy: str | None = None

    @classmethod
    def of(cls, error: MaseHwError) -> Problem:
        """What an error says."""
        said = {name: getattr(error, name) for name in _PARTS}
        texts = {name: None if value is None else str(value) for name, value in said.items()}
        return cls(type(error).__name__, error.message, **texts)

    def __str__(self) -> str:
        labels = ("where", "field", "got", "expected", "what to do")
        said = [(label, getattr(self, name)) for label, name in zip(labels, _PARTS, strict=True)]
        return "\n".join([self.message, *(f"  {label}: {value}" for label, value in said if value is not None)])


@dataclass(frozen=True, repr=False)
class Check(Shown):
    """What would become of a model.

    Args:
        problems: Why it would be refused; empty if it would not.
        complete: Whether every layer was looked at.
        layers: Every layer of the model, in order of execution, then what stands between them.
        timing: Of the whole design: ``fill``, ``interval``, ``bottleneck`` and so on, without ``steady``; None if it
            would be refused.
        estimate: Look-up tables, flip-flops, DSP blocks and block RAMs of what maps, and what is not estimated; see
            :func:`mase_hw.emit.estimate.estimate`.
        needs: What it needs of a device or budget.
        device: The device that was asked for.
        family: What was estimated for.
        measured: Whether Yosys has mapped all modules, so that nothing of what they take is estimated.
    """

    problems: tuple[Problem, ...]
    complete: bool
    layers: tuple[Layer, ...]
    timing: Json | None
    estimate: Json
    needs: tuple[Need, ...] = ()
    device: str | None = None
    family: str = FAMILY
    measured: bool = False

    @property
    def accepted(self) -> bool:
        """Whether ``compile`` would take it, as far as mapping goes."""
        return not self.problems

    @property
    def fits(self) -> bool:
        """Whether there is enough of everything that was asked about, and the estimate can say so."""
        return all(need.fits for need in self.needs)

    @property
    def passed(self) -> bool:
        """Whether it would be taken, and fits."""
        return self.accepted and self.fits

    def to_json(self) -> Json:
        """JSON types; the same model gives the same."""
        return {
            "accepted": self.accepted,
            "complete": self.complete,
            "problems": [dataclasses.asdict(problem) for problem in self.problems],
            "layers": [dataclasses.asdict(layer) for layer in self.layers],
            "timing": None if self.timing is None else dict(self.timing),
            "estimate": {
                **self.estimate,
                "family": self.family,
                "measured": self.measured,
                "basis": MEASURED if self.measured else basis(self.family),
            },
            "device": self.device,
            "needs": [{**dataclasses.asdict(need), "fits": need.fits} for need in self.needs],
            "fits": self.fits if self.needs else None,
        }

    def headline(self) -> str:
        """Whether it would be taken, and how fast it is."""
        cycles = "" if self.timing is None else f"; {self.timing['interval']} cycles per frame"
        return f"{self._sentences()[-1]}{cycles}"

    def text(self) -> str:
        """Tables and sentences for people."""
        console, buffer = paper(140)
        if self.layers:
            console.print(self._table())
        for number, problem in enumerate(self.problems, 1):
            console.print(f"\nproblem {number} of {len(self.problems)}: {problem}", highlight=False, markup=False)
        for line in self._sentences():
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        return "\n".join(line.rstrip() for line in buffer.getvalue().rstrip().splitlines())

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for column in ("layer", "is", "becomes"):
            table.add_column(column, overflow="fold")
        for column in ("lanes", "cycles", "multipliers", "memory bits", "LUT", "FF", "DSP", "BRAM"):
            table.add_column(column, justify="right")
        if self.measured:
            table.add_column("counts")
        for each in self.layers:
            figures: list[str] = []
            if each.status == "hardware":
                counts = (each.cycles, each.multipliers, each.memory_bits, each.lut, each.ff, each.dsp, each.bram)
                figures = [each.lanes, *("?" if count is None else str(count) for count in counts)]
                figures += ["measured" if each.measured else "estimated"] if self.measured else []
            becomes = f"REFUSED: {each.detail}" if each.status == "refused" else each.detail
            table.add_row(*(_plain(text) for text in (each.name, each.what, becomes)), *figures)
        return table

    def _sentences(self) -> list[str]:
        said = [""]
        if self.timing is not None:
            exact = "" if self.timing["exact"] else " (a module has no exact schedule)"
            said.append(
                f"{self.timing['interval']} cycles per frame, the first result after {self.timing['fill']}{exact}; "
                f"{self.timing['bottleneck']} needs most"
            )
        if total := self.estimate:
            of = "measured" if self.measured else "estimate"
            of += "" if self.accepted else " of what maps"
            left = total["not_estimated"]
            least = "at least " if left else ""
            counts = ", ".join(f"{total[name]} {name.upper()}" for name in RESOURCES)
            bits = FAMILIES[self.family].block.bits
            size = f"{bits // 1024} Kbit" if bits > 1 else "a bit; LUT are gates"
            said.append(f"{of}: {least}{counts} of {size}")
            if left:
                number = sum(left.values())
                said.append(
                    f"{number} module{'s are' if number > 1 else ' is'} not estimated, but for the multipliers and "
                    f"memories that {'they declare' if number > 1 else 'it declares'}: {missing(left)}"
                )
        said += [f"  {need}" for need in self.needs]
        if not self.complete:
            said.append("not everything was looked at: what lies behind the last problem is not known")
        if self.problems:
            said.append(f"compile would refuse it: {len(self.problems)} problem{'s' * (len(self.problems) > 1)}")
        elif any(need.exceeds for need in self.needs):
            said.append("compile would take it, but it does not fit")
        elif not self.fits:
            said.append("compile would take it; whether it fits is not known before `mase-hw synth`")
        else:
            said.append("compile would take it")
        return said


def _plain(text: str) -> str:
    """Text that the table does not take for markup."""
    return text.replace("[", r"\[")
