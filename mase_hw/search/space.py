"""The space of a search: what is chosen, among what, and what a choice means for every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx

from mase_hw.errors import ConfigError, refuse_unknown
from mase_hw.formats import MAX_WIDTH, MINIFLOATS
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.passes.mixed_precision.candidates import check_graph
from mase_hw.passes.mixed_precision.groups import groups_of
from mase_hw.passes.mixed_precision.plan import compose, settings_of
from mase_hw.passes.quantize.config import QuantizeArgs
from mase_hw.search.study import Chosen, Option

VARIED = ("widths", "formats", "folding", "implementation")
FORMATS = ("fixed", "integer", "binary", "ternary", "mxint", "mxfp", "groups")
"""Of weights: the names that ``quantize`` has for them."""
SIGNS = {"binary": 1, "ternary": 2}
INTERVAL = "interval"
"""The variable of the folding: cycles per frame at most, for which the solver then chooses lanes."""
SOLVER = "solver"
"""The implementation that the solver chooses, or the default one where there is no solver."""
Widths = Sequence[int] | Mapping[str, Sequence[int]]


class Space:
    """Variables of a search, and their options.

    ``NODE.weight``, ``NODE.data_out``, and ``INPUT.data_in`` for every input of the model are widths; ``NODE.format``
    is that of its weights. A node that takes its format from its input has no variable of its own, and no node has one
    for its inputs: each takes its input as the producer gives it, the widest if there are several. ``interval`` and
    ``NODE.implementation`` are added with :meth:`with_hardware`.

    Args:
        graph: The float graph.
        base: Everything that is not searched.
        vary: Names of :data:`VARIED`.
        widths: Widths to choose from: one list for all variables, or lists by variable, ``default`` for the others.
        formats: Formats of weights to choose from.

    Raises:
        ConfigError: If a name, a width or a variable does not exist, or a width would be searched whose fraction width
            is configured.
    """

    def __init__(
        self, graph: MaseGraph, base: QuantizeArgs, vary: Sequence[str], widths: Widths, formats: Sequence[str]
    ) -> None:
        check_graph(graph, "a search")
        _known("vary", vary, VARIED)
        self.graph, self.vary, self.given = graph, tuple(vary), base
        self.document: Json = {"vary": list(vary), "widths": widths, "formats": list(formats)}
        self.base = settings_of(graph, base)
        self.groups = groups_of(graph, self.base)
        self.owner = {name: head for head, members in self.groups.items() for name in members}
        self.choices: dict[str, tuple[Option, ...]] = {}
        self.ordered: set[str] = set()
        if "widths" in vary:
            self._add_widths(widths)
        if "formats" in vary:
            _known("formats", formats, FORMATS)
            self.choices |= {f"{name}.format": tuple(formats) for name in self.groups if self._weighted(name)}

    def with_hardware(self, intervals: Sequence[int], implementations: Mapping[str, Sequence[str]]) -> None:
        """Add what is chosen of the hardware.

        Args:
            intervals: Cycles per frame, in rising order; empty if lanes stay as they are.
            implementations: Of every node that has several.
        """
        if intervals:
            self.choices[INTERVAL] = tuple(intervals)
            self.ordered.add(INTERVAL)
        self.choices |= {f"{n}.implementation": (SOLVER, *each) for n, each in implementations.items()}

    def check(self) -> None:
        """Refuse a space of one point.

        Raises:
            ConfigError: If there is nothing to choose.
        """
        if all(len(options) == 1 for options in self.choices.values()):
            raise ConfigError(
                "there is nothing to search: every variable has one option",
                field="widths" if "widths" in self.vary else "vary",
                got=self.choices,
            )

    @property
    def widest(self) -> dict[str, Option]:
        """A choice with the most bits everywhere."""
        return {name: options[-1] if name in self.ordered else options[0] for name, options in self.choices.items()}

    @property
    def starts(self) -> list[dict[str, Option]]:
        """What is tried first: for each width that all tensors may have that one everywhere, the widest first.

        The formats are the first ones, lanes those for the interval in the middle, implementations the solver's.
        """
        widths = [options for name, options in self.choices.items() if _is_width_of(name)]
        common = set.intersection(*(set(options) for options in widths)) if widths else {0}
        rest = {
            name: options[len(options) // 2] if name == INTERVAL else options[0]
            for name, options in self.choices.items()
        }
        every = sorted(common, key=lambda width: -int(width))
        return [{n: width if _is_width_of(n) else rest[n] for n in self.choices} for width in every]

    def settled(self, chosen: Chosen) -> Chosen:
        """The same choice, with the first option of what has no effect: formats that say how many bits weights have."""
        found = dict(chosen)
        for name, kind in chosen.items():
            node, _, of = name.rpartition(".")
            if of != "format" or kind not in (*SIGNS, "mxfp"):
                continue
            # Signs need no multiplier, so there is none to implement.
            idle = (f"{node}.weight", *([f"{node}.implementation"] if kind in SIGNS else []))
            found |= {each: self.choices[each][0] for each in idle if each in found}
        return found

    def quantize(self, chosen: Chosen) -> Json:
        """Arguments of ``quantize_transform_pass`` for a choice."""
        settings = dict(self.base)
        for name, head in self.owner.items():
            values: dict[str, Any] = {}
            if "widths" in self.vary:
                values |= {"data_out_width": chosen[f"{head}.data_out"]}
                given = [w for source in self._inputs(self.graph.node(name)) if (w := self._width(source, chosen))]
                values |= {"data_in_width": max(given)} if given else {}
                values |= {"weight_width": chosen[f"{name}.weight"]} if f"{name}.weight" in chosen else {}
            kind = chosen.get(f"{name}.format")
            if kind is not None:
                values |= {"name": kind, **self._bits(name, str(kind))}
            settings[name] = settings[name].replaced(**values)
        return compose(self.graph, settings)

    def hardware(self, chosen: Chosen) -> dict[str, str]:
        """Implementations that are chosen, by node."""
        found = {name.removesuffix(".implementation"): str(o) for name, o in chosen.items() if _implements(name)}
        return {name: option for name, option in found.items() if option != SOLVER}

    def _bits(self, name: str, kind: str) -> dict[str, int]:
        """The width of a format that has no other."""
        if kind == "mxfp":
            element = self.base[name].values.get("weight_element", "e4m3")
            return {"weight_width": MINIFLOATS[element].bits}
        return {"weight_width": SIGNS[kind]} if kind in SIGNS else {}

    def _weighted(self, name: str) -> bool:
        return "weight" in self.graph.meta_of(self.graph.node(name)).common.args.tensors

    def _width(self, source: fx.Node, chosen: Chosen) -> int | None:
        """Width in which a result is given; None of one that has none, such as a constant."""
        while self.graph.is_implicit(source) and self._inputs(source):
            source = self._inputs(source)[0]
        if source.op == "placeholder":
            return int(chosen[f"{source.target}.data_in"])
        return int(chosen[f"{self.owner[source.name]}.data_out"]) if source.name in self.owner else None

    def _inputs(self, node: fx.Node) -> list[fx.Node]:
        return [source for name, (source, _) in self.graph.sources(node).items() if name.startswith("data_in_")]

    def _read(self, node: fx.Node) -> bool:
        """Whether a quantised node reads an input, directly or through implicit ones."""
        return any(u.name in self.owner or (self.graph.is_implicit(u) and self._read(u)) for u in node.users)

    def _add_widths(self, widths: Widths) -> None:
        names = [f"{n.target}.data_in" for n in self.graph.nodes if n.op == "placeholder" and self._read(n)]
        for head in self.groups:
            names += [f"{head}.weight"] * self._weighted(head) + [f"{head}.data_out"]
        self._refuse_fixed()
        if not names:
            raise ConfigError("there is nothing to search: no node is quantised", field="base")
        given = dict(widths) if isinstance(widths, Mapping) else {"default": widths}
        _known("widths", [key for key in given if key != "default"], names)
        for name in names:
            listed = given.get(name, given.get("default"))
            fits = isinstance(listed, Sequence) and listed and all(_is_width(w) for w in listed)
            if not fits or listed is None:
                raise ConfigError(
                    "no widths to choose from" if not listed else "these are no widths",
                    field=f"widths.{name}",
                    got=listed,
                    expected=f"whole numbers from 1 to {MAX_WIDTH}",
                )
            self.choices[name] = tuple(sorted(set(listed)))
            self.ordered.add(name)

    def _refuse_fixed(self) -> None:
        for name in self.owner:
            keys = [k for k in self.base[name].values if k.endswith("_frac_width") and not k.startswith("bias_")]
            if keys:
                raise ConfigError(
                    "a fraction width is configured for a tensor whose width is searched",
                    node=name,
                    field=", ".join(keys),
                    remedy="leave it to the calibration",
                )


def _known(field: str, given: Sequence[str], known: Sequence[str]) -> None:
    for key in given:
        place = f"{field}.{key}" if field == "widths" else field
        refuse_unknown(key, known, "there is nothing of that name", field=place)
    if not given and field != "widths":
        raise ConfigError("nothing is named", field=field, expected=f"some of {', '.join(known)}")


def _is_width_of(variable: str) -> bool:
    return variable.rpartition(".")[2] in ("weight", "data_out", "data_in")


def _implements(variable: str) -> bool:
    return variable.endswith(".implementation")


def _is_width(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_WIDTH
