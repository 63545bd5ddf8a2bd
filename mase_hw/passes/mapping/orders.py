"""The order in which every tensor of a design streams: as it arrives, or as the module that reads it takes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import fx

from mase_hw.catalogue import Hardware
from mase_hw.errors import UnsupportedError
from mase_hw.formats import BlockFormat
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotated import INPUT_ORDERS
from mase_hw.layouts import Layout
from mase_hw.opdef import Positions


class Orders:
    """Chooses the orders of a graph, node after node.

    Args:
        graph: A graph with common metadata.
        positions: Positions of a beat that are wished for, of all results or by the name of a node.

    Attributes:
        found: Order of the elements of every result so far, by node and result.
    """

    def __init__(self, graph: MaseGraph, positions: int | Mapping[str, int] = 1) -> None:
        self.graph = graph
        self.positions = positions
        self.found: dict[tuple[str, str], Layout] = {}

    def enter(self) -> None:
        """Choose the order in which inputs of the model enter: as they are said to, or as their first reader wants."""
        given = self.graph.meta.get(INPUT_ORDERS, {})
        for node in self.graph.nodes:
            if self.graph.meta_of(node).common.mase_op != "quantize":
                continue
            if (order := given.get(str(node.all_input_nodes[0].target))) is not None:
                self.found[node.name, "data_out_0"] = order
                continue
            shape = tuple(self.graph.tensor(node, "data_out_0").shape)
            choices = [Layout.row_major(shape), Layout.channels_last(shape)]
            suits = [layout for layout in choices if self._suits(node, layout)]
            if (wished := self._wished(node)) > 1 and len(shape) > 2:
                reader, of_rows = self._reader(node), Layout.abreast(shape, math.gcd(wished, shape[-2]))
                rows = reader is not None and (reader.abreast or reader.layout == "rows")
                if of_rows is not None and (rows or self._by_token(node, of_rows)):
                    suits = [of_rows]
                elif reader is not None and reader.layout == "row_major":
                    suits = [Layout.tokens(shape, math.gcd(wished, shape[-3]))]
                elif reader is not None:
                    suits = [Layout.tiled(shape, math.gcd(wished, shape[-1]))]
            self.found[node.name, "data_out_0"] = (suits or choices)[0]

    def _wished(self, node: fx.Node) -> int:
        """Positions of a beat of a node's result that are wished for."""
        return self.positions if isinstance(self.positions, int) else self.asked(node) or 1

    def asked(self, node: fx.Node) -> int:
        """What was said of a node by its name, or of an input of the model; 0 if nothing was."""
        enters = self.graph.meta_of(node).common.mase_op == "quantize"
        name = node.all_input_nodes[0].name if enters else node.name
        return 0 if isinstance(self.positions, int) else self.positions.get(name, 0)

    def _reader(self, node: fx.Node) -> Hardware | None:
        """The first module behind a node that looks at positions, if it takes several of them in a beat."""
        for user in node.users:
            op, common = self.graph.op_of(user), self.graph.meta_of(user).common
            if op is None or not common.results.tensors:
                continue
            if op.hardware is not None and op.hardware.layout != "any":
                return op.hardware if op.hardware.positions is not None or op.hardware.abreast else None
            same = tuple(common.results["data_out_0"].shape) == tuple(self.graph.tensor(node, "data_out_0").shape)
            part = op.hardware is not None and op.hardware.positions is not None
            return self._reader(user) if part or (same and op.arranged is None) else None
        return None

    def _by_token(self, node: fx.Node, layout: Layout) -> bool:
        """Whether the first module behind a node takes the tokens of a beat, whatever they are called on the way."""
        for user in node.users:
            op, common = self.graph.op_of(user), self.graph.meta_of(user).common
            if op is None or not common.results.tensors:
                continue
            if op.implicit:
                wanted, made = self._renamed(user, layout)
                return wanted == layout and self._by_token(user, made)
            if op.hardware is None or op.hardware.positions is None or op.hardware.layout != "row_major":
                return False
            return layout.beside > 1 and layout == Layout.tokens(layout.shape, layout.beside)
        return False

    def implicit(self, node: fx.Node, arriving: Layout) -> dict[str, Layout]:
        """The orders of a node without a module, which only names the elements anew.

        Raises:
            UnsupportedError: If that would take another order than any that can be had.
        """
        wanted, made = self._renamed(node, arriving)
        self.found.setdefault((node.name, "data_out_0"), made)
        return {"data_in_0": wanted, "data_out_0": made}

    def of(self, node: fx.Node, hardware: Hardware, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Layout]:
        """The order of every data tensor of a node with a module; those of its results are kept in ``found``."""
        arriving = {
            name: self.found.get((producer.name, result), Layout.row_major(shapes[name]))
            for name, (producer, result) in self.graph.sources(node).items()
            if name.startswith("data_in_") and name in shapes
        }
        op = self.graph.op_of(node)
        if op is not None and op.relayout is not None:
            wanted, made = self._renamed(node, arriving["data_in_0"])
            self.found[node.name, "data_out_0"] = made
            return {"data_in_0": wanted, "data_out_0": made}
        if op is not None and op.arranged is not None:
            common_args = self.graph.meta_of(node).common.args
            attributes = common_args.attributes
            wishes = self._wishes(node, shapes["data_out_0"])
            taken, made = op.arranged(arriving["data_in_0"], shapes["data_out_0"], attributes, wishes)
            self.found[node.name, "data_out_0"] = made
            return {"data_in_0": taken, "data_out_0": made}
        if hardware.abreast and (rows := arriving["data_in_0"].of_rows(shapes["data_out_0"][-1])) is not None:
            self.found[node.name, "data_out_0"] = rows
            return {"data_in_0": arriving["data_in_0"], "data_out_0": rows}
        if hardware.positions is not None and hardware.layout == "row_major":
            layouts = self._tokens(node, hardware.positions, shapes, arriving)
            self.found[node.name, "data_out_0"] = layouts["data_out_0"]
            return layouts
        if hardware.positions is not None:
            attributes = self.graph.meta_of(node).common.args.attributes
            joined = None if hardware.joined is None else _joined(arriving, shapes, hardware.joined(attributes))
            if joined is not None:
                self.found[node.name, "data_out_0"] = joined["data_out_0"]
                return joined
            wished = self._wished(node)
            come = max(_positions_of(layout, wished) for layout in arriving.values())
            taken_in, given = hardware.positions(attributes, shapes, come, wished)
            made = self.found[node.name, "data_out_0"] = Layout.tiled(shapes["data_out_0"], given)
            return {**{name: Layout.tiled(shapes[name], taken_in) for name in arriving}, "data_out_0": made}
        layouts = {name: self._wanted(node, hardware, layout) for name, layout in arriving.items()}
        common = next(iter(layouts.values()), None)
        if hardware.layout == "any" and common is not None:
            layouts = {name: common if common.shape == shapes[name] else layouts[name] for name in layouts}
        for name, shape in shapes.items():
            if not name.startswith("data_out_"):
                continue
            if hardware.layout == "any" and common is not None and common.shape == shape:
                layouts[name] = common
            elif hardware.layout in ("any", "channels_last"):
                layouts[name] = Layout.channels_last(shape) if hardware.layout != "any" else Layout.row_major(shape)
            else:
                layouts[name] = Layout.row_major(shape)
            self.found[node.name, name] = layouts[name]
        return layouts

    def _tokens(
        self,
        node: fx.Node,
        positions: Positions,
        shapes: Mapping[str, tuple[int, ...]],
        arriving: Mapping[str, Layout],
    ) -> dict[str, Layout]:
        """The orders of an op that takes its inputs token by token, several of them in a beat if they come so.

        One that makes tokens of their numbers gives as many as are wished for.
        """
        attributes = self.graph.meta_of(node).common.args.attributes
        ids, made = shapes["data_in_0"], shapes["data_out_0"]
        if len(made) > len(ids):
            rows = Layout.abreast(made, positions(attributes, shapes, 1, self._wished(node))[1])
            return {"data_in_0": Layout.row_major(ids), "data_out_0": rows or Layout.row_major(made)}
        come = [layout.beside for _, layout in sorted(arriving.items())]
        first, other = positions(attributes, shapes, self.asked(node) or come[0], come[-1])
        taken = {name: Layout.tokens(shapes[name], first if name == "data_in_0" else other) for name in arriving}
        return {**taken, "data_out_0": Layout.tokens(shapes["data_out_0"], first)}

    def _wishes(self, node: fx.Node, shape: tuple[int, ...]) -> list[Layout]:
        """The orders in which readers would take a node's result as it is, as far as they are known."""
        wishes: list[Layout] = []
        for user in node.users:
            op = self.graph.op_of(user)
            if op is None or op.hardware is None or op.relayout is not None or op.arranged is not None:
                continue
            if op.hardware.layout == "channels_last":
                wishes.append(Layout.channels_last(shape))
            elif op.hardware.layout != "any":
                wishes.append(Layout.row_major(shape))
            else:
                beside = [self.found.get((other.name, result)) for other, result in self.graph.sources(user).values()]
                wishes += [layout for layout in beside if layout is not None and layout.shape == shape]
        return wishes

    def _suits(self, node: fx.Node, layout: Layout) -> bool:
        """Whether the first module behind a node takes a layout as it is."""
        for user in node.users:
            op = self.graph.op_of(user)
            if op is None or not self.graph.meta_of(user).common.results.tensors:
                continue
            if op.implicit or op.relayout is not None:
                wanted, made = self._renamed(user, layout)
                return wanted == layout and self._suits(user, made)
            return op.hardware is None or self._wanted(user, op.hardware, layout) == layout
        return True

    def _wanted(self, node: fx.Node, hardware: Hardware, arriving: Layout) -> Layout:
        """The order in which a module takes a tensor that arrives in some order."""
        if hardware.layout == "channels_last":
            return Layout.channels_last(arriving.shape)
        if hardware.layout == "row_major" or (hardware.layout == "rows" and not arriving.rows_in_order()):
            return Layout.row_major(arriving.shape)
        given = self.graph.meta_of(node).common.args.tensors
        # Columns that share a shift stay together.
        together = any(name in given and isinstance(given[name].fmt, BlockFormat) for name in hardware.permuted)
        return Layout.row_major(arriving.shape) if together and "weight_shift" in given else arriving

    def _renamed(self, node: fx.Node, arriving: Layout) -> tuple[Layout, Layout]:
        """What an implicit node wants and what it makes of it; another order only if renaming cannot do it."""
        op, common = self.graph.op_of(node), self.graph.meta_of(node).common
        shape = tuple(self.graph.tensor(node, "data_out_0").shape)
        attributes = common.args.attributes
        hardware = None if op is None else op.hardware
        tiles = op is not None and (op.implicit or (hardware is not None and hardware.positions is not None))
        rows = hardware is not None and hardware.layout == "rows" and tiles
        abreast = Layout.abreast(arriving.shape, arriving.beside) if rows and _divides(arriving) else None
        several = [layout for layout in (arriving, abreast) if tiles and layout is not None]
        fewer = [n for n in range(arriving.beside // 2, 1, -1) if arriving.beside % n == 0] if tiles else []
        for layout in [*several, *map(arriving.fewer, fewer), *_choices(arriving.one_by_one)]:
            if op is not None and op.relayout is not None:
                made = op.relayout(layout, shape, attributes)
            else:
                made = layout.reshaped(shape)
            if made is not None:
                return layout, made
        raise UnsupportedError("this op moves data in a way that is not in hardware", node=node.name)


def _divides(tile: Layout) -> bool:
    """Whether as many rows of the last dimension as a tile has positions can be in a beat."""
    rows = math.prod(tile.shape[:-1])
    return tile.beside > 1 and rows % tile.beside == 0


def _positions_of(arriving: Layout, wished: int) -> int:
    """Positions of a beat that can be had: what has to change places anyway leaves in tiles."""
    if wished == 1 or len(arriving.shape) < 3 or arriving.positions > 1 or arriving.one_by_one == _last(arriving):
        return arriving.positions
    return math.gcd(wished, arriving.shape[-1])


def _joined(
    arriving: Mapping[str, Layout], shapes: Mapping[str, tuple[int, ...]], dim: int
) -> dict[str, Layout] | None:
    """The orders of inputs and of all of them behind each other along a dimension; None if they share none.

    They are taken as they come, or with as many tokens in a beat as all of them can have.
    """
    most = math.gcd(*(layout.beside for layout in arriving.values()))
    images = any(layout.positions > 1 for layout in arriving.values())
    for beside in [0] if images else [0, *(n for n in range(most, 0, -1) if most % n == 0)]:
        taken = {name: layout.fewer(beside) if beside else layout for name, layout in arriving.items()}
        if (made := _behind_each_other(taken, shapes, dim)) is not None:
            return {**taken, "data_out_0": made}
    return None


def _behind_each_other(
    arriving: Mapping[str, Layout], shapes: Mapping[str, tuple[int, ...]], dim: int
) -> Layout | None:
    """The order of inputs behind each other that come in the same one; None if they do not."""
    shape = shapes["data_out_0"]
    dim %= len(shape)
    found = (layout.resized(dim, shape[dim]) for layout in arriving.values())
    made = next((layout for layout in found if layout is not None), None)
    alike = made is not None and all(made.resized(dim, shapes[name][dim]) == arriving[name] for name in arriving)
    return made if alike else None


def _last(layout: Layout) -> Layout:
    return Layout.channels_last(layout.shape)


def _choices(arriving: Layout) -> list[Layout]:
    """The orders in which an op may take a tensor, the cheapest first: as it comes, images also channels last."""
    shape = arriving.shape
    others = [Layout.row_major(shape)]
    if len(shape) > 3 or (len(shape) == 3 and arriving.order[-1:] == tuple(arriving.factors_of(1)[-1:])):
        others.insert(0, Layout.channels_last(shape))
    return [arriving, *others]


def streamed(hardware: Hardware, layout: Layout, result: Layout) -> tuple[int, ...]:
    """Sizes of a tensor in the order in which a module streams it.

    Args:
        hardware: Its facets.
        layout: Order of the tensor.
        result: That of the result, of which a tensor may be a single row.
    """
    made = result.one_by_one
    if hardware.joined is not None and made != Layout.channels_last(result.shape):
        innermost = next(dim for dim in range(len(made.shape)) if made.order[-1] in made.factors_of(dim)[-1:])
        shape = layout.one_by_one.stream_shape
        return shape if layout.shape[innermost] > 1 else (*shape, 1)
    if hardware.layout == "channels_last" and len(layout.shape) > 2:
        batch, channels, *spatial = layout.shape
        return (batch, *spatial, channels)
    return layout.shape if hardware.layout in ("rows", "row_major") else layout.stream_shape


def recorded(layouts: Mapping[str, Layout]) -> dict[str, Any]:
    """The metadata of layouts; row-major is what nothing is said of."""
    moved = {name: layout.to_dict() for name, layout in layouts.items() if layout.row or not layout.is_row_major}
    return {"layouts": moved} if moved else {}
