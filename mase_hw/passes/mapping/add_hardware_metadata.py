"""Hardware metadata: for every node the RTL module, its parameters, its files and its lanes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import fx

from mase_hw.catalogue import Arithmetic, Hardware, OpDef, Request, verilog_params
from mase_hw.errors import ConfigError, MaseHwError, UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.hardware.latency import timing_of
from mase_hw.ir import MaseGraph, TensorMetadata
from mase_hw.ir.records import Entries
from mase_hw.layouts import Layout
from mase_hw.opdef import Latency
from mase_hw.passes.base import Info, graph_pass
from mase_hw.passes.mapping.args import HardwareArgs as HardwareArgs
from mase_hw.passes.mapping.args import check_places, lane_dims, raise_together, with_metadata, with_node_names
from mase_hw.passes.mapping.choices import asked_of, interface
from mase_hw.passes.mapping.lanes import check_given, chosen_lanes, fewer_lanes
from mase_hw.passes.mapping.orders import Orders, recorded, streamed
from mase_hw.passes.mapping.shared_blocks import engines
from mase_hw.streams import Stream, turned

DEFAULT_DEVICE = -1
_OF_ANY_NODE = ("device_id", "max_parallelism")
"""What may be set at nodes without hardware too: MASE's scripts set it at all of them."""
HARDWARE_ARGS = "hardware_args"
"""Key of ``graph.meta``: what the pass was asked for."""


@dataclass(frozen=True)
class Wanted:
    """What a node asks of the hardware, for some lanes.

    Args:
        hardware: The facets, of the implementation that was asked for.
        request: What they build parameters from.
        sizes: Shapes of its tensors, in the order in which the module streams them.
        layouts: Order of the elements of every data tensor.
    """

    hardware: Hardware
    request: Request
    sizes: Mapping[str, tuple[int, ...]]
    layouts: Mapping[str, Layout]


class _Mapper:
    def __init__(self, graph: MaseGraph, args: HardwareArgs) -> None:
        self.graph = graph
        self.args = with_node_names(graph, args)
        self.problems: list[MaseHwError] = []
        self.most = lane_dims(args.max_parallelism, "max_parallelism")[0]
        self.lanes: dict[str, tuple[int, ...]] = {}
        """Lanes of every node's result, by node name."""
        self.gaps: dict[str, int] = {}
        """Cycles at least between two beats of every node's result."""
        self.timed: dict[str, tuple[Latency, list[int]]] = {}
        """The timing of every node, and the cycles at least between two beats of each of its inputs."""
        self.orders = Orders(graph, self.args.positions)
        self.files: dict[int, tuple[str, ...]] = {}
        """Of every kind of hardware, by identity: its files, which are read to find out which others they need."""
        self.found: dict[str, Entries] = {}
        self.wanted: dict[str, Wanted] = {}
        shared = engines(graph, args.shared)
        self.twins = {node: nodes for blocks in shared for nodes in blocks.twins() for node in nodes}
        """Of every node of a shared block, those that share its module."""
        self.ends = {node for blocks in shared for node, _ in (blocks.enters, *blocks.results)}
        """What a pass through shared blocks begins with: it may come without a pause."""

    def run(self) -> None:
        check_places(self.graph, self.args)
        self.orders.enter()
        for node in self.graph.nodes:
            op = self.graph.op_of(node)
            shape_only = not self.graph.meta_of(node).common.results.tensors
            if op is None or self.graph.is_implicit(node) or shape_only:
                self._implicit(node)
            else:
                self._hardware_of(node, op)
            if node in self.ends:
                self.gaps.pop(node.name, None)
                self.timed.pop(node.name, None)
        raise_together(self.problems)
        devices = {each["device_id"]: name for name, each in self.found.items() if not each["is_implicit"]}
        if len(devices.keys() - {DEFAULT_DEVICE}) > 1:
            raise UnsupportedError(
                "a design is for one device",
                field="hardware.device_id",
                got=", ".join(f"{device} for {name}" for device, name in devices.items()),
                remedy="mase_hw.compile_devices makes a bundle for each device",
            )
        for node in self.graph.nodes:
            if self.graph.meta_of(node).common.mase_op == "quantize":
                self._check_positions(node, {"data_out_0": self.orders.found[node.name, "data_out_0"]})
                self._boundary(node)
            elif node.op == "placeholder" and not node.users and self.graph.meta_of(node).common.results.tensors:
                raise UnsupportedError(
                    "an input of the model is not used",
                    node=node.name,
                    remedy="remove it from the model's forward, or give its default instead of a tensor",
                )

    def _implicit(self, node: fx.Node) -> None:
        asked = self.graph.meta_of(node).hardware
        idle = [key for key in asked.get("given", {}) if key not in _OF_ANY_NODE]
        if idle:
            raise ConfigError(
                "a node without hardware of its own is asked for some",
                node=node.name,
                field=f"hardware.{idle[0]}",
                got=asked.asked(idle[0]),
                remedy="set it at the node before or after it that has a module",
            )
        found = self.found[node.name] = {"is_implicit": True, "device_id": self._asked(node, "device_id")}
        for producer in node.all_input_nodes:
            if producer.name in self.lanes:
                self.lanes[node.name] = self.lanes[producer.name]
                self.gaps[node.name] = self.gaps.get(producer.name, 1)
                if producer.name in self.timed:
                    self.timed[node.name] = self.timed[producer.name]
                break
        source = next(iter(self.graph.sources(node).values()), None)
        moves = bool(self.graph.meta_of(node).common.results.tensors) and node.op != "output"
        if moves and source is not None and (source[0].name, source[1]) in self.orders.found:
            found |= recorded(self.orders.implicit(node, self.orders.found[source[0].name, source[1]]))

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
        twins = [self.graph.meta_of(twin).module for twin in self.twins.get(node, (node,))]
        asked = asked_of(node, op.hardware, twins, self.args)
        hardware = self._facets(node, op.hardware)
        most = lane_dims(self._asked(node, "max_parallelism"), "max_parallelism")[0]
        formats = {name: _format(node, name, tensor) for name, tensor in tensors.items()}
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        layouts = self.orders.of(node, hardware, shapes)
        made = layouts["data_out_0"]
        sizes = {n: streamed(hardware, layouts[n], made) if n in layouts else shape for n, shape in shapes.items()}
        chosen = self.args.parallelism.get(node.name, {})
        # What is shared has the lanes that the first block needs, whatever comes before the blocks.
        first = self.twins.get(node, (node,))[0]
        before = [self.lanes[n.name][0] for n in first.all_input_nodes if n.name in self.lanes]
        if hardware.stretch is not None and before:
            piece = hardware.stretch(layouts["data_in_0"], common.args.attributes)
            sizes = {name: (*size[:-1], max(piece, size[-1])) if size else size for name, size in sizes.items()}
        arriving = self._positions_before(first)
        # Lanes of what looks at positions are channels, those of every other op all elements of a beat; and of one that
        # has as many out as in, in any order.
        as_it_comes = hardware.positions is None or (hardware.layout == "any" and hardware.follows_input)
        channels = not as_it_comes
        follows = [max(1, n // arriving) if channels else n for n in before] if hardware.follows_input else None
        each = 1 if channels else max(layout.beside for layout in layouts.values()) if "data_in_0" in layouts else 1
        if hardware.abreast and layouts["data_in_0"].beside > 1:
            each, several = 1, self.graph.catalogue[hardware.abreast].hardware
            assert several is not None  # an op names only one in hardware
            hardware = several
        parallelism = chosen_lanes(node.name, chosen, sizes, most * each, follows)
        self._check_positions(node, layouts)
        module = self.graph.meta_of(node).module
        arithmetic = getattr(module, "arithmetic", Arithmetic(formats))
        request = Request(
            node.name, arithmetic, shapes, parallelism, layouts, frozenset(chosen), slots=self.args.slots, **asked
        )
        self.wanted[node.name] = Wanted(hardware, request, sizes, layouts)
        params = hardware.build(request)
        check_given(node.name, chosen, hardware.ports(params))
        # An op may take fewer lanes than offered, where they have to divide.
        self.lanes[node.name] = next(s.lane_dims[:1] for s in hardware.ports(params) if s.name == "data_out_0")
        before_it = self._gaps_before(node)
        if hardware.time_multiplexed and not chosen and self.args.share_requantisers and hardware.multipliers(params):
            # What follows has the lanes of a whole beat again: it may have more beats, or several such inputs.
            params = self._shared(node, hardware, request, params, self._pace_before(node, before_it))
        latency = timing_of(node.name, hardware.latency, params)
        self.timed[node.name] = (latency, before_it)
        few = next(s.lane_dims[0] for s in hardware.ports(params) if s.name == "data_out_0")
        self.gaps[node.name] = max(latency.gap_after(before_it), self.lanes[node.name][0] // few * latency.gap)
        self.found[node.name] = {
            "is_implicit": False,
            "interface": self._interface(node, hardware, params),
            "toolchain": hardware.toolchain,
            "module": hardware.module,
            "device_id": self._asked(node, "device_id"),
            "dependence_files": list(self._files(hardware)),
            "verilog_param": verilog_params(params),
            "max_parallelism": self._asked(node, "max_parallelism"),
            "parallelism": {s.name: list(s.lane_dims) for s in hardware.ports(params)},
            "latency": {"fill": latency.fill, "interval": latency.interval},
            **self._fifo_depths(node),
            **recorded(layouts),
        }

    def _positions_before(self, node: fx.Node) -> int:
        """Positions of a beat that arrives at a node."""
        source = self.graph.sources(node).get("data_in_0")
        found = None if source is None else self.orders.found.get((source[0].name, source[1]))
        return 1 if found is None else found.beside

    def _check_positions(self, node: fx.Node, layouts: Mapping[str, Layout]) -> None:
        """Refuse positions that a node was asked for by name, and that do not divide the width of its result."""
        shape, op = layouts["data_out_0"].shape, self.graph.op_of(node)
        by_token = op is not None and op.hardware is not None and op.hardware.layout == "row_major"
        if (wished := self.orders.asked(node)) and layouts["data_out_0"].beside != wished:
            raise ConfigError(
                "a beat cannot have so many positions here",
                node=node.name,
                field=f"hardware.positions.{node.name}",
                got=wished,
                expected=f"a divisor of the {shape[1]} tokens"
                if by_token
                else f"a divisor of the {shape[-1]} positions of a row of the result",
                remedy="choose a divisor, or pad the input of the model",
            )

    def _files(self, hardware: Hardware) -> tuple[str, ...]:
        if id(hardware) not in self.files:
            self.files[id(hardware)] = hardware.files
        return self.files[id(hardware)]

    def _gaps_before(self, node: fx.Node) -> list[int]:
        """Cycles at least between two beats of every input that is data, in the lanes of the node's result."""
        lanes = self.lanes[node.name][0]
        inputs = [n.name for n in node.all_input_nodes if n.name in self.lanes]
        return [self.gaps.get(name, 1) if self.lanes[name][0] == lanes else 1 for name in inputs]

    def _pace_before(self, node: fx.Node, gaps: list[int]) -> int:
        """Cycles that a node may need for a beat without holding up the one before it."""
        timed = [self.timed[n.name] for n in node.all_input_nodes if n.name in self.timed]
        lanes, least = self.lanes[node.name][0], min(gaps, default=1)
        same = all(self.lanes[n.name][0] == lanes for n in node.all_input_nodes if n.name in self.lanes)
        if len(timed) != 1 or not same or least >= lanes:
            return least
        latency, before = timed[0]
        return max(least, latency.pace_after(before, lanes))

    def _shared(self, node: fx.Node, hardware: Hardware, request: Request, params: Any, gap: int) -> Any:
        """The parameters with as few lanes as keep up with what comes before; the lanes of an output stay."""
        lanes, size = self.lanes[node.name][0], request.stream_shapes["data_in_0"][-1]
        few = fewer_lanes(lanes, size, gap)
        if few == lanes or self._leaves(node):
            return params
        return hardware.build(dataclasses.replace(request, parallelism=dict.fromkeys(request.parallelism, (few,))))

    def _leaves(self, node: fx.Node) -> bool:
        """Whether a result of the model is this node's, perhaps in another shape."""
        return any(u.op == "output" or (self.graph.is_implicit(u) and self._leaves(u)) for u in node.users)

    def _asked(self, node: fx.Node, name: str) -> Any:
        """What the metadata of a node asks for, else what the arguments say for all nodes."""
        asked = self.graph.meta_of(node).hardware.asked(name)
        if asked is None and name == "device_id":
            asked = self.args.device.get(node.name)
        return getattr(self.args, name) if asked is None else asked

    def _facets(self, node: fx.Node, own: Hardware) -> Hardware:
        """The hardware facets of the implementation that was asked for.

        Raises:
            UnsupportedError: If the metadata of the node asks for a module or toolchain that it does not have.
        """
        others = {key: self.graph.catalogue[name].hardware or own for key, name in own.delegates.items()}
        asked = self.graph.meta_of(node).hardware.asked
        found = others.get(self.args.implementation.get(node.name, ""), own)
        for key, has in (("module", found.module), ("toolchain", found.toolchain)):
            if asked(key) not in (None, has):
                raise UnsupportedError(
                    f"the node has no such {key}",
                    node=node.name,
                    field=f"hardware.{key}",
                    got=asked(key),
                    expected=" or ".join(sorted({getattr(h, key) for h in (own, *others.values())})),
                    remedy="set one of these in its metadata",
                )
        return found

    def _interface(self, node: fx.Node, hardware: Hardware, params: Any) -> dict[str, Entries]:
        """What feeds parameters, with those turned that the metadata of the node asks to turn."""
        meta = self.graph.meta_of(node)
        sets, streams = len(self.twins.get(node, (node,))), {p.name: p for p in hardware.ports(params)}
        found = interface(node, meta.common.args, hardware, params, self.args, sets)
        for name, entry in (meta.hardware.asked("interface") or {}).items():
            if not entry.get("transpose"):
                continue
            if hardware.toolchain != "EXTERNAL" or name not in hardware.static or not _turns(streams[name]):
                raise UnsupportedError(
                    "only a matrix that an external module reads, in as many beats either way, is transposed",
                    node=node.name,
                    field=f"hardware.interface.{name}.transpose",
                    got=f"{name} of {hardware.module} ({hardware.toolchain})",
                    remedy="set it to False; modules of the package read every order",
                )
            found[name]["transpose"] = True
        return found

    def _fifo_depths(self, node: fx.Node) -> dict[str, dict[str, int]]:
        """The metadata of configured FIFOs; most nodes have none."""
        places = {tensor: f"{node.name}.{tensor}" for tensor in self.graph.meta_of(node).common.args.tensors}
        depths = {t: self.args.fifo_depth[place] for t, place in places.items() if place in self.args.fifo_depth}
        return {"fifo_depth": depths} if depths else {}

    def _boundary(self, node: fx.Node) -> None:
        """An input of the design has the lanes of the first module that reads it."""
        readers, at, leaves = [node], 0, False
        layout = self.orders.found[node.name, "data_out_0"]
        size = (layout.stream_shape[-1:] or (1,))[0]
        lanes = self.most
        if any(name in self.wanted and self.wanted[name].hardware.whole for name in (u.name for u in node.users)):
            size = math.prod(layout.shape)
        while at < len(readers):
            found = self.found[readers[at].name]
            if not found["is_implicit"]:
                # One that takes whole tensors has lanes of its own for each.
                taken = next(n for n, (source, _) in self.graph.sources(readers[at]).items() if source in readers)
                port = taken if self.wanted[readers[at].name].hardware.whole else "data_in"
                lanes = next(v for k, v in found["parallelism"].items() if k.startswith(port))[0]
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
        self.found[node.name] |= recorded({"data_out_0": layout})


def _turns(stream: Stream) -> bool:
    return len(stream.shape) == 2 and stream.layout is None and turned(stream).beats == stream.beats


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


def mapped(graph: MaseGraph, args: HardwareArgs) -> dict[str, Entries]:
    """What the pass would record of every node, without recording it.

    Raises:
        UnsupportedError: As the pass.
        ConfigError: As the pass.
    """
    return _mapped(graph, args).found


def wanted(graph: MaseGraph, args: HardwareArgs) -> dict[str, Wanted]:
    """What every node with a module asks of the hardware, by name, in order.

    Raises:
        UnsupportedError: As the pass.
        ConfigError: As the pass.
    """
    return _mapped(graph, args).wanted


def _mapped(graph: MaseGraph, args: HardwareArgs) -> _Mapper:
    mapper = _Mapper(graph, args)
    mapper.run()
    return mapper


@graph_pass(
    "add_hardware_metadata_analysis_pass",
    args=HardwareArgs,
    needs=("add_common_metadata_analysis_pass", "quantize_transform_pass"),
)
def add_hardware_metadata_analysis_pass(graph: MaseGraph, args: HardwareArgs) -> tuple[MaseGraph, Info]:
    """Choose module, parameters and lanes for every node.

    Returns:
        The same graph, and per node its module, multipliers, cycles per frame and lanes.

    Raises:
        UnsupportedError: A node in float, an op that is not in hardware, an impossible parallelism.
        ConfigError: A parallelism for a node or tensor that does not exist.
    """
    found = _record(graph, args)
    graph.meta[HARDWARE_ARGS] = args
    sources = [file for each in found.values() for file in each.get("dependence_files", ())]
    nodes = {name: each for name, each in found.items() if not each["is_implicit"]}
    return graph, {"nodes": nodes, "verilog_sources": list(dict.fromkeys(sources))}


def _record(graph: MaseGraph, args: HardwareArgs) -> dict[str, Entries]:
    found = mapped(graph, args)
    for node in graph.nodes:
        graph.meta_of(node).hardware.fill(found[node.name])
    return found


def map_what_was_set(graph: MaseGraph) -> None:
    """Map a graph again if anything was set in the hardware metadata of a node: after the pass it wins.

    Raises:
        UnsupportedError: As the pass.
        ConfigError: As the pass.
    """
    if any(graph.meta_of(node).hardware.get("given") for node in graph.nodes):
        _record(graph, with_metadata(graph, graph.note(HARDWARE_ARGS, HardwareArgs) or HardwareArgs()))
