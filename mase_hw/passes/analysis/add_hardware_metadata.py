"""Hardware metadata: for every node the RTL module, its parameters, its files and its lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx

from mase_hw.catalogue import Arithmetic, Hardware, OpDef, Request, verilog_params
from mase_hw.errors import ConfigError, MaseHwError, UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph, TensorMetadata
from mase_hw.layouts import Layout
from mase_hw.passes.analysis.hardware_args import (
    KERNEL,
    Lanes,
    check_places,
    lane_dims,
    raise_together,
    with_node_names,
)
from mase_hw.passes.analysis.hardware_args import HardwareArgs as HardwareArgs
from mase_hw.passes.base import graph_pass
from mase_hw.streams import Stream

HARDWARE_ARGS = "hardware_args"
"""Key of ``graph.meta``: what the pass was asked for."""


class _Mapper:
    def __init__(self, graph: MaseGraph, args: HardwareArgs) -> None:
        self.graph = graph
        self.args = with_node_names(graph, args)
        self.problems: list[MaseHwError] = []
        self.most = lane_dims(args.max_parallelism, "max_parallelism")[0]
        self.lanes: dict[str, tuple[int, ...]] = {}
        """Lanes of every node's result, by node name."""
        self.layouts: dict[tuple[str, str], Layout] = {}
        """Order of the elements of every result, by node and result."""
        self.found: dict[str, dict[str, Any]] = {}

    def run(self) -> None:
        check_places(self.graph, self.args)
        self._enter()
        for node in self.graph.nodes:
            op = self.graph.op_of(node)
            shape_only = not self.graph.meta_of(node).common.results.tensors
            if op is None or self.graph.is_implicit(node) or shape_only:
                self._implicit(node)
            else:
                self._hardware_of(node, op)
        raise_together(self.problems)
        for node in self.graph.nodes:
            if self.graph.meta_of(node).common.mase_op == "quantize":
                self._boundary(node)
            elif node.op == "placeholder" and not node.users and self.graph.meta_of(node).common.results.tensors:
                raise UnsupportedError(
                    "an input of the model is not used",
                    node=node.name,
                    remedy="remove it from the model's forward, or give its default instead of a tensor",
                )

    def _implicit(self, node: fx.Node) -> None:
        found = self.found[node.name] = {"is_implicit": True, "device_id": self.args.device_id}
        for producer in node.all_input_nodes:
            if producer.name in self.lanes:
                self.lanes[node.name] = self.lanes[producer.name]
                break
        source = next(iter(self.graph.sources(node).values()), None)
        moves = bool(self.graph.meta_of(node).common.results.tensors) and node.op != "output"
        if moves and source is not None and (source[0].name, source[1]) in self.layouts:
            arriving = self.layouts[source[0].name, source[1]]
            wanted, made = self._renamed(node, arriving)
            self.layouts.setdefault((node.name, "data_out_0"), made)
            found |= _recorded({"data_in_0": wanted, "data_out_0": made})

    def _renamed(self, node: fx.Node, arriving: Layout) -> tuple[Layout, Layout]:
        """What an implicit node wants and what it makes of it; another order only if renaming cannot do it."""
        op, common = self.graph.op_of(node), self.graph.meta_of(node).common
        shape = tuple(self.graph.tensor(node, "data_out_0").shape)
        attributes = {k: v for k, v in common.args.items() if k not in common.args.tensors}
        for layout in _choices(arriving):
            if op is not None and op.relayout is not None:
                made = op.relayout(layout, shape, attributes)
            else:
                made = layout.reshaped(shape)
            if made is not None:
                return layout, made
        raise UnsupportedError("this op moves data in a way that is not in hardware", node=node.name)

    def _enter(self) -> None:
        """Choose the order in which inputs of the model enter: the one that their first reader wants."""
        for node in self.graph.nodes:
            if self.graph.meta_of(node).common.mase_op != "quantize":
                continue
            shape = tuple(self.graph.tensor(node, "data_out_0").shape)
            choices = [Layout.row_major(shape), Layout.channels_last(shape)]
            suits = [layout for layout in choices if self._suits(node, layout)]
            self.layouts[node.name, "data_out_0"] = (suits or choices)[0]

    def _suits(self, node: fx.Node, layout: Layout) -> bool:
        """Whether the first module behind a node takes a layout as it is."""
        for user in node.users:
            op = self.graph.op_of(user)
            if op is None or not self.graph.meta_of(user).common.results.tensors:
                continue
            if op.implicit or op.relayout is not None:
                wanted, made = self._renamed(user, layout)
                return wanted == layout and self._suits(user, made)
            return op.hardware is None or _wanted(op.hardware, layout) == layout
        return True

    def _hardware_of(self, node: fx.Node, op: OpDef) -> None:
        """Map a node; lanes that are impossible are kept for later, so that all of them are named together."""
        try:
            self._hardware(node, op)
        except (ConfigError, UnsupportedError) as error:
            if "parallelism" not in (error.field or "") or node.name not in self.args.parallelism:
                raise
            self.problems.append(error)
            others = {name: lanes for name, lanes in self.args.parallelism.items() if name != node.name}
            self.args = self.args.model_copy(update={"parallelism": others})
            self._hardware(node, op)

    def _hardware(self, node: fx.Node, op: OpDef) -> None:
        common = self.graph.meta_of(node).common
        tensors = {**common.args.tensors, **common.results.tensors}
        if op.hardware is None:
            raise UnsupportedError(
                f"op {op.name!r} is known but not in hardware",
                node=node.name,
                expected="one of: " + ", ".join(o.name for o in self.graph.catalogue if o.hardware and o.mase_type),
                remedy="replace it in the model, or compile only the part of the model before or after it",
            )
        formats = {name: _format(node, name, tensor) for name, tensor in tensors.items()}
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        layouts = self._layouts(node, op.hardware, shapes)
        streamed = {n: _streamed(op.hardware, layouts[n]) if n in layouts else shape for n, shape in shapes.items()}
        parallelism = self._parallelism(node, op.hardware, streamed)
        module = self.graph.meta_of(node).module
        arithmetic = getattr(module, "arithmetic", Arithmetic(formats))
        chosen = self.args.parallelism.get(node.name, {})
        params = op.hardware.build(Request(node.name, arithmetic, shapes, parallelism, layouts, frozenset(chosen)))
        self._check_chosen(node, chosen, op.hardware.ports(params))
        latency = op.hardware.latency(params)
        # An op may take fewer lanes than offered, where they have to divide.
        self.lanes[node.name] = next(s.lane_dims[:1] for s in op.hardware.ports(params) if s.name == "data_out_0")
        self.found[node.name] = {
            "is_implicit": False,
            "interface": _interface(common.args, op.hardware),
            "toolchain": op.hardware.toolchain,
            "module": op.hardware.module,
            "device_id": self.args.device_id,
            "dependence_files": list(op.hardware.files),
            "verilog_param": verilog_params(params),
            "max_parallelism": self.args.max_parallelism,
            "parallelism": {s.name: list(s.lane_dims) for s in op.hardware.ports(params)},
            "latency": {"fill": latency.fill, "interval": latency.interval},
            **self._fifo_depths(node),
            **_recorded(layouts),
        }

    def _check_chosen(self, node: fx.Node, chosen: Mapping[str, Lanes], ports: Sequence[Stream]) -> None:
        """Refuse lanes that were asked for and could not be given."""
        for port in ports:
            if port.name in chosen and lane_dims(chosen[port.name], f"parallelism.{node.name}")[0] != port.lane_dims[0]:
                raise UnsupportedError(
                    "these lanes are not possible here",
                    node=node.name,
                    field=f"hardware.parallelism.{node.name}.{port.name}",
                    got=chosen[port.name],
                    expected=f"{port.lane_dims[0]} or another number that divides what the op works on",
                )

    def _fifo_depths(self, node: fx.Node) -> dict[str, dict[str, int]]:
        """The metadata of configured FIFOs; most nodes have none."""
        places = {tensor: f"{node.name}.{tensor}" for tensor in self.graph.meta_of(node).common.args.tensors}
        depths = {t: self.args.fifo_depth[place] for t, place in places.items() if place in self.args.fifo_depth}
        return {"fifo_depth": depths} if depths else {}

    def _layouts(self, node: fx.Node, hardware: Hardware, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Layout]:
        """The order of every data tensor of a node."""
        arriving = {
            name: self.layouts.get((producer.name, result), Layout.row_major(shapes[name]))
            for name, (producer, result) in self.graph.sources(node).items()
            if name.startswith("data_in_") and name in shapes
        }
        op = self.graph.op_of(node)
        if op is not None and op.relayout is not None:
            wanted, made = self._renamed(node, arriving["data_in_0"])
            self.layouts[node.name, "data_out_0"] = made
            return {"data_in_0": wanted, "data_out_0": made}
        if op is not None and op.arranged is not None:
            common_args = self.graph.meta_of(node).common.args
            attributes = {k: v for k, v in common_args.items() if k not in common_args.tensors}
            wishes = self._wishes(node, shapes["data_out_0"])
            made = op.arranged(arriving["data_in_0"], shapes["data_out_0"], attributes, wishes)
            self.layouts[node.name, "data_out_0"] = made
            return {"data_in_0": arriving["data_in_0"], "data_out_0": made}
        layouts = {name: _wanted(hardware, layout) for name, layout in arriving.items()}
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
            self.layouts[node.name, name] = layouts[name]
        return layouts

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
                beside = [self.layouts.get((other.name, result)) for other, result in self.graph.sources(user).values()]
                wishes += [layout for layout in beside if layout is not None and layout.shape == shape]
        return wishes

    def _parallelism(
        self, node: fx.Node, hardware: Hardware, shapes: Mapping[str, tuple[int, ...]]
    ) -> dict[str, tuple[int, ...]]:
        chosen = self.args.parallelism.get(node.name, {})
        lanes: dict[str, tuple[int, ...]] = {}
        streams = {name: shape for name, shape in shapes.items() if name.startswith("data_")}
        follow = self._following(node, chosen, streams) if hardware.follows_input else None
        if KERNEL in chosen:
            window = chosen[KERNEL]
            height, width = window if isinstance(window, list) and len(window) == 2 else (1, window)
            if isinstance(width, list):
                raise ConfigError(
                    "a window has a height and a width",
                    field=f"hardware.parallelism.{node.name}.{KERNEL}",
                    got=window,
                    expected="[height, width], or one number in one dimension",
                )
            lanes["weight"] = (1, width, height, 1)
        for name, shape in streams.items():
            if follow is not None:
                lanes[name] = follow
            elif name in chosen:
                lanes[name] = lane_dims(chosen[name], f"parallelism.{node.name}.{name}")
            else:
                lanes[name] = (min(self.most, shape[-1] if shape else 1),)
        return lanes

    def _following(
        self, node: fx.Node, chosen: Mapping[str, Lanes], streams: Mapping[str, tuple[int, ...]]
    ) -> tuple[int, ...]:
        """The lanes of an op that has as many on every side."""
        given = {name: lane_dims(lanes, f"parallelism.{node.name}.{name}") for name, lanes in chosen.items()}
        if len(set(given.values())) > 1:
            raise ConfigError(
                "this op has as many lanes out as in",
                node=node.name,
                field=f"hardware.parallelism.{node.name}",
                got={k: list(v) for k, v in given.items()},
                remedy="set only one of them, or all to the same number",
            )
        if given:
            return next(iter(given.values()))
        size = min((shape[-1] if shape else 1) for shape in streams.values())
        producers = [self.lanes[n.name][0] for n in node.all_input_nodes if n.name in self.lanes]
        return (min(max(producers, default=self.most), size),)

    def _boundary(self, node: fx.Node) -> None:
        """An input of the design has the lanes of the first module that reads it."""
        readers, at, leaves = [node], 0, False
        layout = self.layouts[node.name, "data_out_0"]
        size = (layout.stream_shape[-1:] or (1,))[0]
        lanes = self.most
        while at < len(readers):
            found = self.found[readers[at].name]
            if not found["is_implicit"]:
                lanes = next(v for k, v in found["parallelism"].items() if k.startswith("data_in"))[0]
                break
            for user in readers[at].users:
                # Questions about the shape read no data.
                if user.op == "output":
                    leaves = True
                elif user not in readers and self.graph.meta_of(user).common.results.tensors:
                    readers.append(user)
            at += 1
        unread = not node.users
        if at == len(readers) and not leaves and not unread:
            raise UnsupportedError(
                "an input goes nowhere in hardware",
                node=node.name,
                remedy="remove the unused input, or quantise what reads it",
            )
        self.found[node.name]["parallelism"] = {"data_out_0": [min(lanes, size)]}
        self.found[node.name] |= _recorded({"data_out_0": layout})


def _choices(arriving: Layout) -> list[Layout]:
    """The orders in which an op may take a tensor, the cheapest first: as it comes, images also channels last."""
    shape = arriving.shape
    others = [Layout.row_major(shape)]
    if len(shape) > 3 or (len(shape) == 3 and arriving.order[-1:] == tuple(arriving.factors_of(1)[-1:])):
        others.insert(0, Layout.channels_last(shape))
    return [arriving, *others]


def _streamed(hardware: Hardware, layout: Layout) -> tuple[int, ...]:
    """Sizes of a tensor in the order in which a module streams it."""
    if hardware.layout == "channels_last" and len(layout.shape) > 2:
        batch, channels, *spatial = layout.shape
        return (batch, *spatial, channels)
    return layout.shape if hardware.layout in ("rows", "row_major") else layout.stream_shape


def _recorded(layouts: Mapping[str, Layout]) -> dict[str, Any]:
    """The metadata of layouts; row-major is what nothing is said of."""
    moved = {name: layout.to_dict() for name, layout in layouts.items() if not layout.is_row_major}
    return {"layouts": moved} if moved else {}


def _wanted(hardware: Hardware, arriving: Layout) -> Layout:
    """The order in which a module takes a tensor that arrives in some order."""
    if hardware.layout == "channels_last":
        return Layout.channels_last(arriving.shape)
    if hardware.layout == "row_major" or (hardware.layout == "rows" and not arriving.rows_in_order()):
        return Layout.row_major(arriving.shape)
    return arriving


def _format(node: fx.Node, name: str, tensor: TensorMetadata) -> FixedFormat:
    fmt = tensor.fmt
    if fmt is None:
        raise UnsupportedError(
            "the node is in float; hardware needs fixed point",
            node=node.name,
            field=name,
            got=f"{tensor.type} {tensor.precision}",
            expected="type fixed",
            remedy="run quantize_transform_pass with a rule that covers this node",
        )
    return fmt


def _interface(args: Mapping[str, Any], hardware: Hardware) -> dict[str, dict[str, Any]]:
    """What feeds every argument that is not an activation, as MASE lists it."""
    storage = {"storage": "BRAM", "transpose": False}
    return {name: dict(storage) if name in hardware.static else {} for name in args if not name.startswith("data_in_")}


def mapped(graph: MaseGraph, args: HardwareArgs) -> dict[str, dict[str, Any]]:
    """What the pass would record of every node, without recording it.

    Raises:
        UnsupportedError: As the pass.
        ConfigError: As the pass.
    """
    mapper = _Mapper(graph, args)
    mapper.run()
    return mapper.found


@graph_pass(
    "add_hardware_metadata_analysis_pass",
    args=HardwareArgs,
    needs=("add_common_metadata_analysis_pass", "quantize_transform_pass"),
)
def add_hardware_metadata_analysis_pass(graph: MaseGraph, args: HardwareArgs) -> tuple[MaseGraph, dict[str, Any]]:
    """Choose module, parameters and lanes for every node.

    Returns:
        The same graph, and per node its module, multipliers, cycles per frame and lanes.

    Raises:
        UnsupportedError: A node in float, an op that is not in hardware, an impossible parallelism.
        ConfigError: A parallelism for a node or tensor that does not exist.
    """
    mapper = _Mapper(graph, args)
    mapper.run()
    graph.meta[HARDWARE_ARGS] = args
    sources: list[str] = []
    for node in graph.nodes:
        hardware = graph.meta_of(node).hardware
        for key, value in mapper.found[node.name].items():
            setattr(hardware, key, value)
        sources += [file for file in hardware.dependence_files if file not in sources]
    nodes = {name: found for name, found in mapper.found.items() if not found["is_implicit"]}
    return graph, {"nodes": nodes, "verilog_sources": sources}
