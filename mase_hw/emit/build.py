"""Graph with hardware metadata -> netlist: one instance per node, connectors where streams need them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import torch.fx as fx

from mase_hw.beat_times import Solved
from mase_hw.catalogue import EXTERNAL, Hardware, verilog_params
from mase_hw.emit.constants import valued
from mase_hw.emit.contents import arithmetic_of, memories_of, stored
from mase_hw.emit.fifos import insert_fifos
from mase_hw.emit.loops import close_loop
from mase_hw.emit.memory.slots import LEAST, hold_slots, wait_for_slots
from mase_hw.emit.netlist import TOP, Instance, Net, Netlist, Pin, word_port
from mase_hw.emit.reference import slot_tensor
from mase_hw.emit.schedule import Followed
from mase_hw.errors import EmitError, UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.hardware.external import FETCHED, held_beats, source_size
from mase_hw.hardware.image import LOADED, ROM
from mase_hw.hardware.library import content, with_dependences
from mase_hw.hardware.manifest import Fifo
from mase_hw.ir import MaseGraph
from mase_hw.layouts import Layout
from mase_hw.ops._slots import SLOT, not_in_turn, slot_format
from mase_hw.ops.movement._words import Step, changes
from mase_hw.ops.reorder import reorder_lanes, reorder_params
from mase_hw.ops.structural import RepackParams
from mase_hw.passes.mapping.add_hardware_metadata import HARDWARE_ARGS
from mase_hw.passes.mapping.args import WEIGHTS_FIRST, HardwareArgs, by_tensor, orders
from mase_hw.passes.mapping.choices import OUTSIDE, tiled
from mase_hw.passes.mapping.shared_blocks import Shared, engines, not_shared
from mase_hw.streams import SIDES, Direction, Stream, plain_stream, turned

_SIGNALS = ("", "_valid", "_ready")
OF_POSITIONS = "slot_rom"
"""What streams values of positions, of sequences in turn."""
SOURCE_FILES = {
    ROM: ("lib/rom_source.sv",),
    OF_POSITIONS: ("lib/slot_rom.sv",),
    LOADED: ("lib/ram_source.sv", "lib/frame_gate.sv", "lib/parameter_load.sv"),
    FETCHED: (
        *("lib/external_source.sv", "lib/external_reader.sv", "lib/external_image.sv", "lib/external_memory.sv"),
        "lib/frame_gate.sv",
    ),
}
"""What a design has with parameters from such a source."""


@dataclasses.dataclass
class _Source:
    """A pin that drives a stream, and everything that wants it."""

    pin: Pin
    stream: Stream
    label: str
    uses: list[_Use] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class _Use:
    """One reader of a source: its port, the node it reads, the order in which elements come and that it wants."""

    sink: Pin
    stream: Stream
    node: str = ""
    have: Layout | None = None
    want: Layout | None = None


class NetlistBuilder:
    """Builds the netlist of one graph.

    Args:
        graph: A graph on which the hardware metadata pass has run.
        name: Module name of the top level.
    """

    def __init__(self, graph: MaseGraph, name: str) -> None:
        self.graph = graph
        self.netlist = Netlist(name)
        self._sources: dict[Pin, _Source] = {}
        self._of_node: dict[tuple[str, str], _Source] = {}
        """What drives a result, by node and result."""
        self._taken: set[str] = set()
        self._filed: set[str] = set()
        """Ops whose files are in the netlist."""
        self._args = args = graph.note(HARDWARE_ARGS, HardwareArgs) or HardwareArgs()
        self._orders, self._ahead = orders(graph, args), by_tensor(graph, args.ahead)
        self.slots = args.slots
        self.tokens = slot_tensor(graph, self.slots).shape[1] if self.slots > 1 else 0
        self._slot: _Source | None = None
        """What says of every token whose it is, of sequences in turn."""
        self.shared = engines(graph, args.shared, is_mapped=True)
        self._twins = {node: nodes for blocks in self.shared for nodes in blocks.twins() for node in nodes}
        """Of every node of a shared block, those that share its instance."""
        self.ends: list[tuple[Pin, Pin]] = []
        """What drives the first of shared blocks, and what drives all that reads a block."""

    def build(self) -> Netlist:
        """Return the verified netlist.

        Raises:
            EmitError: If the netlist would be broken.
            UnsupportedError: If an input is unused or a result does not come from hardware.
        """
        for node in self.graph.nodes:
            if node.op == "output":
                self._outputs(node)
            elif self._twins.get(node, (node,))[0] is node:
                self._node(node)
            for blocks in self.shared:
                (first, name), (last, _) = blocks.results[0], blocks.results[-1]
                if node is last:
                    self._of_node[last.name, name] = self._of_node[first.name, name]
        self.netlist.twins |= {nodes[0].name: tuple(n.name for n in nodes) for nodes in self._twins.values()}
        for blocks in self.shared:
            self._check_ends(blocks)
        self._put_in_order()
        for source in list(self._sources.values()):
            self._connect(source)
        self.netlist.read_outside(self._args.external_memory)
        self.netlist.verify()
        return self.netlist

    def _node(self, node: fx.Node) -> None:
        meta = self.graph.meta_of(node)
        if meta.hardware.is_implicit:
            if meta.common.mase_op == "quantize":
                self._input(node)
            else:
                self._rename(node)
            return
        op = self.graph.hardware_op(node)
        if op is None or op.hardware is None:
            raise UnsupportedError("this node has no hardware", node=node.name)
        facets = op.hardware
        params = facets.record(meta.hardware.verilog_param)
        ports = tuple(self._permuted(node, facets, port) for port in valued(meta, facets.ports(params)))
        whole = arithmetic_of(self.graph, node, self._layouts(node), ports)
        made = None if facets.generated is None or whole is None else facets.generated(node.name, params, whole)
        for other in self._twins.get(node, ())[1:]:
            theirs = arithmetic_of(self.graph, other, self._layouts(other), ports)
            kept = [[m for _, m in memories_of(n, facets, a).values()] for n, a in ((node, whole), (other, theirs))]
            if made is not None or kept[0] != kept[1]:
                raise not_shared(
                    "blocks that share hardware have other constants inside a module",
                    node=other.name,
                    got=f"{facets.module}, which holds them itself",
                    expected=f"those of {node.name}, or parameters in a memory of their own",
                    remedy="choose another implementation, or let the blocks have hardware of their own",
                )
        tiles = 1
        if self._orders.get(node.name) == WEIGHTS_FIRST:
            params, tiles = tiled(node.name, facets, params)
            ports = tuple(self._by_tile(node, facets, port, tiles, facets.ports(params)) for port in ports)
        instance = Instance(
            self._free(f"u_{node.name}"),
            facets.module if made is None else made.module,
            verilog_params(params),
            ports,
            node.name,
            op.name,
            0,
            facets.tied(params),
            memories_of(node, facets, whole),
        )
        producers = self.graph.sources(node)
        layouts = self._layouts(node)
        for port in ports:
            pin = Pin(instance.name, port.name)
            if port.direction == "out":
                continue
            if port.name == SLOT:
                self._slot_for(node, pin, port)
            elif port.name in facets.static:
                self._memory(node, port).uses.append(_Use(pin, port))
            elif port.name in producers:
                end, taken = self._replayed(node, pin, port, tiles) if tiles > 1 else (pin, port)
                self._use(producers[port.name], _Use(end, taken, want=layouts.get(port.name)))
            else:
                raise EmitError("an input stream has no producer", node=f"{node.name}.{port.name}")
        self.netlist.instances.append(instance)
        for port in (port for port in ports if port.direction == "out"):
            pin, want = Pin(instance.name, port.name), layouts.get(port.name, port.layout)
            stream = port if tiles > 1 else dataclasses.replace(port, layout=want)
            source = self._sources[pin] = _Source(pin, stream, node.name)
            if stream.layout is not None and want is not None and stream.layout != want:
                banks = self._held(f"{node.name}.{port.name}", 1)
                source = self._reordered(source, stream.layout, want, node.name, node.name, port.lanes, banks)
            self._of_node[node.name, port.name] = source
        if op.name not in self._filed:
            self._filed.add(op.name)
            for file in facets.files:
                self._file(file)
                if (path := facets.external(file)) is not None:
                    self._external(file, path)
        if made is not None:
            for file in with_dependences(made.files, made.files.get):
                self._file(file)
                if file in made.files:
                    self._external(file, made.files[file])
            for file in made.texts:
                self._file(file)
            file = f"ops/{made.module}.sv"
            self._file(file)
            self.netlist.generated[file] = made

    def _by_tile(self, node: fx.Node, facets: Hardware, port: Stream, tiles: int, of_one: Sequence[Stream]) -> Stream:
        """A port of a layer that takes the whole frame for one tile of its output channels after the other."""
        if port.name in facets.static:
            return dataclasses.replace(port, parts=tiles)
        if port.direction == "in":
            return dataclasses.replace(next(each for each in of_one if each.name == port.name), layout=None)
        layout = self._layouts(node)[port.name].cut_first(tiles)
        return dataclasses.replace(port, shape=layout.stream_shape, parallelism=port.lane_dims[:1], layout=layout)

    def _replayed(self, node: fx.Node, pin: Pin, port: Stream, tiles: int) -> tuple[Pin, Stream]:
        """Send the frames that a port reads so often to it; what the frames go to instead."""
        name, once = self._free(f"u_{node.name}_replay"), (port.shape[0] // tiles, *port.shape[1:])
        taken = dataclasses.replace(port, name="in_data", valid="in_valid", ready="in_ready", shape=once)
        given = dataclasses.replace(port, name="out_data", valid="out_valid", ready="out_ready", direction="out")
        held = self._held(f"{node.name}.{port.name}", taken.beats)
        parameters = {"WIDTH": port.bits, "LEN": taken.beats, "REPEATS": tiles, "DEPTH": held}
        self.netlist.instances.append(Instance(name, "replay_buffer", parameters, (taken, given), node.name, "replay"))
        self.netlist.add_files("lib/replay_buffer.sv")
        source = self._sources[Pin(name, "out_data")] = _Source(Pin(name, "out_data"), given, f"{node.name}_replay")
        source.uses.append(_Use(pin, port))
        return Pin(name, "in_data"), taken

    def _held(self, place: str, beats: int) -> int:
        """Beats that a buffer holds of what is used several times: those of one use, and as much of the next."""
        return held_beats(beats, self._ahead.get(place, 1.0))

    def _layouts(self, node: fx.Node) -> dict[str, Layout]:
        """The order of each of a node's tensors; the hardware metadata pass names those that are not row-major."""
        meta = self.graph.meta_of(node)
        tensors = {**meta.common.args.tensors, **meta.common.results.tensors}
        layouts = {name: Layout.row_major(tensor.shape) for name, tensor in tensors.items()}
        return layouts | {name: Layout.from_dict(found) for name, found in meta.hardware.layouts.items()}

    def _use(self, producer: tuple[fx.Node, str], use: _Use) -> None:
        """Note that a port reads a result."""
        source = self._of_node.get((producer[0].name, producer[1]))
        if source is None:
            raise EmitError("an input stream has no producer", node=str(use.sink))
        source.uses.append(
            dataclasses.replace(use, node=producer[0].name, have=self._layouts(producer[0])[producer[1]])
        )

    def _rename(self, node: fx.Node) -> None:
        """An implicit node passes its source on; only where renaming cannot do it, elements change places."""
        producer = next((p for p in self.graph.sources(node).values() if (p[0].name, p[1]) in self._of_node), None)
        if producer is None or not self.graph.meta_of(node).common.results.tensors:
            return  # a question about the shape moves nothing
        source = self._of_node[producer[0].name, producer[1]]
        have, want = self._layouts(producer[0])[producer[1]], self._layouts(node).get("data_in_0")
        if want is not None and have != want:
            source = self._reordered(source, have, want, node.name, producer[0].name)
        self._of_node[node.name, "data_out_0"] = source

    def _reordered(
        self, source: _Source, have: Layout, want: Layout, label: str, node: str, lanes: int = 1, banks: int = 2
    ) -> _Source:
        """Buffer what changes places, and read it in another order, or only turn beats of several positions.

        Args:
            source: What drives the tensor.
            have: Order in which its elements come.
            want: Order in which they leave.
            label: Reader, for names.
            node: Node whose result it is.
            lanes: Of the reader.
            banks: Blocks that are held.
        """
        for step in changes(have, want, max(source.stream.lanes, lanes)):
            source = self._moved(source, step, (label, node), lanes, banks)
        return source

    def _moved(self, source: _Source, step: Step, names: tuple[str, str], lanes: int, banks: int) -> _Source:
        """One step, with elements that stay together as a word; the names are those of the reader and the node."""
        (label, node), width, turn = names, source.stream.fmt.width, step.turn
        have, want = step.have, step.want
        if turn is not None:
            op, module, together = "turn", "beat_turn", turn.lanes
            parameters = verilog_params(turn.params(width))
        else:
            op, module = "reorder", "stream_reorder"
            together = reorder_lanes(have, want, max(source.stream.lanes, lanes), source.stream.sizes[0])
            parameters = verilog_params(reorder_params(label, width, have, want, together, banks))
        words = math.prod(want.shape) // together
        shape, fmt = (words, together), source.stream.fmt
        taken, given = (plain_stream(side, shape, fmt, together) for side in SIDES)
        name = self._free(f"u_{label}_{op}")
        self._insert(Instance(name, module, parameters, (taken, given), node, op), source.pin)
        self.netlist.add_files(f"lib/{module}.sv")
        source.uses.append(_Use(Pin(name, taken.name), taken))
        pin = Pin(name, given.name)
        stream = dataclasses.replace(given, layout=want)
        self._sources[pin] = _Source(pin, stream, f"{label}_{op}")
        return self._sources[pin]

    def _permuted(self, node: fx.Node, facets: Hardware, port: Stream) -> Stream:
        """A parameter whose columns follow the order of the input, or that the module wants transposed."""
        if self.graph.meta_of(node).hardware.interface.get(port.name, {}).get("transpose"):
            return turned(port)
        data = self._layouts(node).get("data_in_0")
        if port.name not in facets.permuted or data is None or data.is_row_major:
            return port
        row = data.last_dimension()
        # Dimensions of size 1 have no factor.
        kept = [size for size in port.shape[:-1] if size > 1]
        order = (*range(len(kept)), *(len(kept) + i for i in row.order))
        return dataclasses.replace(port, layout=Layout(port.shape, (*kept, *row.factors), order))

    def _input(self, node: fx.Node) -> None:
        result = self.graph.tensor(node, "data_out_0")
        assert result.fmt is not None  # the quantisation pass made this node
        index = len(self.netlist.inputs)
        lanes = self.graph.meta_of(node).hardware.parallelism["data_out_0"]
        stream = _boundary(f"data_in_{index}", "in", self._layouts(node)["data_out_0"], result.fmt, lanes[0])
        self.netlist.inputs.append(stream)
        pin = Pin(TOP, stream.name)
        self._sources[pin] = self._of_node[node.name, "data_out_0"] = _Source(pin, stream, stream.name)

    def _outputs(self, node: fx.Node) -> None:
        for index, (result, name) in enumerate(self.graph.sources(node).values()):
            source = self._of_node.get((result.name, name))
            if source is None and result.op == "get_attr":
                raise UnsupportedError(
                    "a result of the model does not depend on its inputs: it is a stored tensor",
                    node=result.name,
                    remedy="leave it out of what forward returns; the program that runs the hardware has it already",
                )
            if source is None:
                raise UnsupportedError(
                    "a result of the model is not computed in hardware",
                    node=result.name,
                    remedy="every output must come from a quantised op",
                )
            layout = self._layouts(result)[name]
            op, lanes = self.graph.hardware_op(result), source.stream.lane_dims[0]
            if op is None or op.hardware is None or not op.hardware.whole:
                lanes = min(lanes, (layout.stream_shape or (1,))[-1])
            stream = _boundary(f"data_out_{index}", "out", layout, source.stream.fmt, lanes)
            self.netlist.outputs.append(stream)
            source.uses.append(_Use(Pin(TOP, stream.name), stream, result.name, layout, layout))

    def _memory(self, node: fx.Node, port: Stream) -> _Source:
        """What streams a parameter: a ROM, a memory that is loaded, or one outside."""
        name = f"{node.name}_{port.name}"
        out = word_port("out", port.beats, port.bits)
        kept = self.graph.meta_of(node).hardware.interface.get(port.name, {})
        blocks = len(self._twins.get(node, (node,)))
        if kept.get("storage") == OUTSIDE:
            return self._outside(node, port, name, blocks)
        module, parameters = stored(port, kept, blocks, f'{{MEM_DIR, "/{name}.mem"}}')
        ports: tuple[Stream, ...] = (out,)
        place = self._free(f"u_{name}")
        if self._of_positions(node, port):
            module = OF_POSITIONS
            parameters = {k: v for k, v in parameters.items() if k not in ("REGISTERS", "BANKS")}
            parameters |= {"SLOTS": self.slots, "ROWS": self.tokens}
            ports = (word_port("in", self.tokens, slot_format(self.slots).width), out)
            self._slot_for(node, Pin(place, "in_data"), ports[0])
        return self._source(name, Instance(place, module, parameters, ports, node.name, module))

    def _outside(self, node: fx.Node, port: Stream, name: str, blocks: int) -> _Source:
        """What streams a parameter from external memory; the rest of its parameters follow once all are known."""
        ahead = self._ahead.get(f"{node.name}.{port.name}", 1.0)
        parameters: dict[str, int | str] = {**source_size(port, blocks, self._args.external_buffer, ahead)}
        ports, place = (word_port("out", port.beats, port.bits),), self._free(f"u_{name}")
        return self._source(name, Instance(place, FETCHED, parameters, ports, node.name, FETCHED))

    def _source(self, name: str, instance: Instance) -> _Source:
        """Put what streams a parameter into the netlist; its last port is the stream."""
        self.netlist.instances.append(instance)
        self.netlist.memories[instance.name] = f"{name}.mem"
        self.netlist.add_files(*SOURCE_FILES[instance.module])
        pin = Pin(instance.name, "out_data")
        source = self._sources[pin] = _Source(pin, instance.ports[-1], name)
        return source

    def _slot_for(self, node: fx.Node, sink: Pin, port: Stream) -> None:
        """Give an instance the slots of tokens, in a FIFO of its own: it takes them when their tokens come."""
        if self._slot is None:
            tensor = slot_tensor(self.graph, self.slots)
            stream = self.netlist.slot = Stream(tensor.port, "in", tensor.shape, tensor.fmt, (1,))
            self._slot = _Source(Pin(TOP, stream.name), stream, stream.name)
            self._sources[self._slot.pin] = self._slot
        taken, given = (word_port(side, port.beats, port.bits) for side in SIDES)
        name = self._free(f"u_{node.name}_slots")
        parameters: dict[str, int | str] = {"WIDTH": port.bits, "DEPTH": LEAST}
        unread = {"count": LEAST.bit_length()}
        self.netlist.instances.append(
            Instance(name, "stream_fifo", parameters, (taken, given), node.name, "fifo", unread=unread)
        )
        self.netlist.aside.add(name)
        before = f"{sink.instance.removeprefix('u_')}.{sink.port}"
        self.netlist.fifos.append(Fifo(name, before, self._slot.label, LEAST, port.bits))
        self.netlist.add_files("lib/stream_fifo.sv")
        self._slot.uses.append(_Use(Pin(name, taken.name), self._slot.stream))
        pin = Pin(name, given.name)
        self._sources[pin] = _Source(pin, port, name.removeprefix("u_"), [_Use(sink, port)])

    def _of_positions(self, node: fx.Node, port: Stream) -> bool:
        """Whether a stored operand has other values for every position of a sequence, of sequences in turn."""
        op = self.graph.op_of(node)
        if self.slots == 1 or op is None or op.hardware is None or port.name not in op.hardware.broadcast:
            return False
        # Tokens come one after the other: the elements of one follow those of the one before.
        elements, size = math.prod(self._layouts(node)["data_in_0"].shape), math.prod(port.shape)
        of_token, rest = divmod(elements, self.tokens)
        if rest or (size != elements and of_token % size):
            raise not_in_turn(
                "a stored operand has values neither for every position nor for every token",
                node=f"{node.name}.{port.name}",
                got=f"{size} values that repeat",
                expected=f"a divisor of {of_token}, or {elements}",
            )
        return of_token % size > 0

    def _check_ends(self, blocks: Shared) -> None:
        """Refuse blocks whose result could not be what they read."""
        ends = blocks.enters, blocks.results[0]
        enters, leaves = (self._of_node.get((node.name, name)) for node, name in ends)
        if enters is None or leaves is None:
            raise EmitError("an end of blocks that share hardware has no stream", node=blocks.path)
        readers = {self.netlist.instance(use.sink.instance).node if use.sink.instance else "" for use in enters.uses}
        outside = sorted(readers - {node.name for node in blocks.copies[0]})
        if outside:
            raise not_shared(
                "what enters blocks that share hardware is read elsewhere too",
                node=ends[0][0].name,
                got=f"read by {', '.join(outside) or 'an output'}",
                expected="nothing else to read it",
                remedy="let the blocks have hardware of their own",
            )
        orders = [self._layouts(node)[name] for node, name in ends]
        blocks.check_ends("format", enters.stream.fmt, leaves.stream.fmt)
        blocks.check_ends("order of elements", *orders)
        self.ends.append((enters.pin, leaves.pin))

    def _put_in_order(self) -> None:
        """Give readers that want the elements in another order what they want; those that want the same share it.

        Orders are of the tensor that a reader has, and one may read the transpose of another one's: of equal sizes it
        wants the same order of other elements.
        """
        for source in list(self._sources.values()):
            made: dict[tuple[Layout, Layout], _Source] = {}
            for use in list(source.uses):
                if use.have is None or use.want is None or use.have == use.want:
                    continue
                orders = (use.have, use.want)
                if orders not in made:
                    label = use.sink.instance.removeprefix("u_") or use.sink.port
                    made[orders] = self._reordered(source, *orders, label, use.node, use.stream.lanes)
                source.uses.remove(use)
                made[orders].uses.append(dataclasses.replace(use, have=use.want))

    def _connect(self, source: _Source) -> None:
        if not source.uses and source.pin.instance == TOP:
            self.netlist.drained.append(source.pin.port)
            return
        if not source.uses:
            raise UnsupportedError(
                "nothing uses this stream", node=source.label, remedy="remove the unused input or node from the model"
            )
        pin = source.pin
        if len(source.uses) > 1:
            pin = self._fork(source)
            if source is self._slot:
                self.netlist.aside.add(pin.instance)
        for branch, use in enumerate(source.uses):
            end = dataclasses.replace(pin, branch=branch) if len(source.uses) > 1 else pin
            suffix = f"_{branch}" if len(source.uses) > 1 else ""
            name = self._free(f"net_{source.label}{suffix}", _SIGNALS)
            if source.pin.instance in self.netlist.memories or source.stream.same_beats(use.stream):
                self.netlist.nets.append(Net(name, end, use.sink, source.stream))
            else:
                self._repack(name, end, use.sink, source.stream, use.stream)

    def _fork(self, source: _Source) -> Pin:
        bits, count = source.stream.bits, len(source.uses)
        ports = (word_port("in", source.stream.beats, bits), word_port("out", source.stream.beats, bits))
        name = self._free(f"u_{source.label}_fork")
        self._insert(
            Instance(name, "stream_fork", {"WIDTH": bits, "N": count}, ports, source.label, "fork", count), source.pin
        )
        self.netlist.add_files("lib/stream_fork.sv")
        net = self._free(f"net_{source.label}", _SIGNALS)
        self.netlist.nets.append(Net(net, source.pin, Pin(name, "in_data"), source.stream))
        return Pin(name, "out_data")

    def _repack(self, name: str, end: Pin, sink: Pin, have: Stream, want: Stream) -> None:
        if any(p != 1 for p in (*have.lane_dims[1:], *want.lane_dims[1:])):
            raise UnsupportedError("tiles of several dimensions cannot be re-packed", node=str(sink))
        params = RepackParams(have.fmt.width, have.lanes, want.lanes, have.sizes[0], want.sizes[0])
        sink_name = sink.instance.removeprefix("u_") or sink.port
        instance = Instance(
            self._free(f"u_{sink_name}_repack"),
            "stream_repack",
            verilog_params(params),
            params.streams(),
            sink_name,
            "repack",
        )
        self._insert(instance, end)
        self.netlist.add_files("lib/stream_repack.sv")
        self.netlist.nets.append(Net(name, end, Pin(instance.name, "in_data"), have))
        repacked = dataclasses.replace(want, name="out_data", direction="out", layout=have.layout)
        self.netlist.nets.append(
            Net(self._free(f"{name}_repacked", _SIGNALS), Pin(instance.name, "out_data"), sink, repacked)
        )

    def _free(self, name: str, declared: Sequence[str] = ("",)) -> str:
        """A name under which neither a net with its handshake nor an instance stands yet.

        A node ``relu`` may be forked into ``relu_1`` beside a node of that name.

        Args:
            name: The name that is wanted.
            declared: What follows it in the names that are taken with it.
        """
        while any(f"{name}{suffix}" in self._taken for suffix in _SIGNALS):
            name += "_"
        self._taken.update(f"{name}{suffix}" for suffix in declared)
        return name

    def _insert(self, instance: Instance, after: Pin) -> None:
        """Put a connector right behind the instance it follows, so that the list stays topological."""
        names = [i.name for i in self.netlist.instances]
        at = names.index(after.instance) + 1 if after.instance != TOP else 0
        self.netlist.instances.insert(at, instance)

    def _file(self, file: str) -> None:
        if file not in self.netlist.files:
            self.netlist.files.append(file)

    def _external(self, file: str, path: Path) -> None:
        """A file of a user; two of them cannot take the same place in the bundle."""
        other = self.netlist.external.setdefault(file, path)
        if other != path and content(other) != content(path):
            raise EmitError(
                "two custom ops have different files of the same name",
                node=file.removeprefix(EXTERNAL),
                got=f"{other} and {path}",
                remedy="rename one of them",
            )


def _boundary(name: str, direction: Direction, layout: Layout, fmt: FixedFormat, lanes: int) -> Stream:
    """A port of the design; it names its layout only if the tensor is not streamed as it lies in memory."""
    whole = lanes > (layout.stream_shape or (1,))[-1]
    shape = (math.prod(layout.shape),) if whole else layout.stream_shape
    plain = layout.is_row_major and shape == layout.shape
    return Stream(name, direction, shape, fmt, (lanes,), layout=None if plain else layout)


def build_netlist(graph: MaseGraph, name: str = "top") -> Netlist:
    """The netlist of :func:`build_followed`."""
    return build_followed(graph, name)[0]


def build_followed(
    graph: MaseGraph, name: str = "top", solved: Solved | None = None
) -> tuple[Netlist, Followed | None]:
    """Build and verify the netlist of a graph, FIFOs included.

    Args:
        graph: A graph on which the hardware metadata pass has run.
        name: Module name of the top level.
        solved: What was computed before for networks with the same modules.

    Returns:
        The netlist, and what was found of its timing (see :func:`mase_hw.emit.fifos.insert_fifos`).

    Raises:
        ConfigError: If a configured depth of a FIFO would deadlock the design.
        EmitError: If the netlist would be broken.
        UnsupportedError: If an input is unused or a result does not come from hardware.
    """
    builder = NetlistBuilder(graph, name)
    netlist = builder.build()
    wait_for_slots(netlist, graph.catalogue)
    followed = insert_fifos(netlist, graph, solved)
    hold_slots(netlist, graph.catalogue)
    # Of two in a row the one behind first: what drives it is then still what the one before gives.
    for blocks, (enters, leaves) in reversed(list(zip(builder.shared, builder.ends, strict=True))):
        close_loop(netlist, enters, leaves, blocks.passes)
    return netlist, None if builder.shared else followed
