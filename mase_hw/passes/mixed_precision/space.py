"""The space of a width search: which tensors have a width of their own, and what a choice means for every node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx

from mase_hw.errors import ConfigError, suggest
from mase_hw.formats import MAX_WIDTH
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.passes.mixed_precision.groups import groups_of
from mase_hw.passes.mixed_precision.plan import compose, settings_of
from mase_hw.passes.quantize.config import QuantizeArgs

Widths = Sequence[int] | Mapping[str, Sequence[int]]


class WidthSpace:
    """Variables of a search: ``NODE.weight``, ``NODE.data_out``, and ``INPUT.data_in`` for every input of the model.

    A node that takes its format from its input has no variable of its own, and no node has one for its inputs: each
    takes its input as the producer gives it, the widest if there are several.

    Args:
        graph: The float graph.
        base: Everything but the widths that are searched.
        widths: Widths to choose from: one list for all variables, or lists by variable, ``default`` for the others.

    Raises:
        ConfigError: If a width or variable does not exist, a width would be searched whose fraction width is
            configured, or there is nothing to search.
    """

    def __init__(self, graph: MaseGraph, base: QuantizeArgs, widths: Widths) -> None:
        self.graph = graph
        self.base = settings_of(graph, base)
        self.groups = groups_of(graph, self.base)
        self.owner = {name: head for head, members in self.groups.items() for name in members}
        names = [f"{n.target}.data_in" for n in graph.nodes if n.op == "placeholder" and self._read(n)]
        for head in self.groups:
            has_weight = "weight" in graph.meta_of(graph.node(head)).common.args.tensors
            names += [f"{head}.weight"] * has_weight + [f"{head}.data_out"]
        self._refuse_fixed()
        self.choices = self._choices(names, widths)

    @property
    def uniform(self) -> list[dict[str, int]]:
        """Choices in which every variable has the same width, for each width that all of them have; widest first."""
        common = set.intersection(*(set(c) for c in self.choices.values()))
        return [dict.fromkeys(self.choices, width) for width in sorted(common, reverse=True)]

    def quantize(self, chosen: Mapping[str, int]) -> Json:
        """Arguments of ``quantize_transform_pass`` for a width of every variable."""
        settings = dict(self.base)
        for name, head in self.owner.items():
            node = self.graph.node(name)
            values = {"data_out_width": chosen[f"{head}.data_out"]}
            given = [w for source in self._inputs(node) if (w := self._width(source, chosen)) is not None]
            values |= {"data_in_width": max(given)} if given else {}
            values |= {"weight_width": chosen[f"{name}.weight"]} if f"{name}.weight" in chosen else {}
            settings[name] = settings[name].replaced(**values)
        return compose(self.graph, settings)

    def _width(self, source: fx.Node, chosen: Mapping[str, int]) -> int | None:
        """Width in which a result is given; None of one that has none, such as a constant."""
        while self.graph.is_implicit(source) and self._inputs(source):
            source = self._inputs(source)[0]
        if source.op == "placeholder":
            return chosen[f"{source.target}.data_in"]
        return chosen.get(f"{self.owner[source.name]}.data_out") if source.name in self.owner else None

    def _inputs(self, node: fx.Node) -> list[fx.Node]:
        return [source for name, (source, _) in self.graph.sources(node).items() if name.startswith("data_in_")]

    def _read(self, node: fx.Node) -> bool:
        """Whether a quantised node reads an input, directly or through implicit ones."""
        return any(u.name in self.owner or (self.graph.is_implicit(u) and self._read(u)) for u in node.users)

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

    def _choices(self, names: list[str], widths: Widths) -> dict[str, tuple[int, ...]]:
        if not names:
            raise ConfigError("there is nothing to search: no node is quantised", field="base")
        given = dict(widths) if isinstance(widths, Mapping) else {"default": widths}
        for key in given:
            if key not in (*names, "default"):
                raise ConfigError(
                    "no tensor of that name is searched", field=f"widths.{key}", remedy=suggest(key, names)
                )
        found = {}
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
            found[name] = tuple(sorted(set(listed)))
        if all(len(choice) == 1 for choice in found.values()):
            raise ConfigError("there is nothing to search: every tensor has one width", field="widths", got=found)
        return found


def _is_width(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_WIDTH
