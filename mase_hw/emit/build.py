"""Graph with hardware metadata -> netlist: one instance a node, connectors where streams need them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch.fx as fx

from mase_hw.catalogue import EXTERNAL, verilog_params
from mase_hw.emit.netlist import TOP, Instance, Net, Netlist, Pin
from mase_hw.errors import EmitError, UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.ops.structural import RepackParams, repack_ports
from mase_hw.streams import Direction, Stream

_SIGNALS = ("", "_valid", "_ready")


@dataclasses.dataclass
class _Source:
    """A pin that drives a stream, and everything that wants it."""

    pin: Pin
    stream: Stream
    label: str
    uses: list[tuple[Pin, Stream]] = dataclasses.field(default_factory=list)


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
        self._of_node: dict[str, _Source] = {}

    def build(self) -> Netlist:
        """Return the verified netlist.

        Raises:
            EmitError: If the netlist would be broken.
            UnsupportedError: If an input is unused or a result does not come from hardware.
        """
        for node in self.graph.nodes:
            if node.op == "output":
                self._outputs(node)
            else:
                self._node(node)
        for source in list(self._sources.values()):
            self._connect(source)
        self.netlist.verify()
        return self.netlist

    def _node(self, node: fx.Node) -> None:
        meta = self.graph.meta_of(node)
        if meta.hardware.is_implicit:
            if meta.common.mase_op == "quantize":
                self._input(node)
            elif (driver := self._driver(node)) is not None:
                self._of_node[node.name] = driver
            return
        op = self.graph.op_of(node)
        if op is None or op.hardware is None:
            raise UnsupportedError("this node has no hardware", node=node.name)
        facets = op.hardware
        params = facets.params(**meta.hardware.verilog_param)
        ports = facets.ports(params)
        instance = Instance(
            self._free(f"u_{node.name}"),
            facets.module,
            verilog_params(params),
            ports,
            node.name,
            op.name,
            0,
            facets.tied(params),
        )
        activations = iter(n for n in node.all_input_nodes if n.name in self._of_node)
        roms = []
        for port in ports:
            pin = Pin(instance.name, port.name)
            if port.direction == "out":
                source = self._sources[pin] = _Source(pin, port, node.name)
                self._of_node[node.name] = source
            elif port.name in facets.static:
                roms.append(self._rom(node, port))
                self._sources[roms[-1].pin].uses.append((pin, port))
            else:
                producer = next(activations, None)
                if producer is None:
                    raise EmitError("an input stream has no producer", node=f"{node.name}.{port.name}")
                self._of_node[producer.name].uses.append((pin, port))
        self.netlist.instances.append(instance)
        for file in facets.files:
            self._file(file)
            if (path := facets.external(file)) is not None:
                self._external(file, path)

    def _driver(self, node: fx.Node) -> _Source | None:
        return next((self._of_node[n.name] for n in node.all_input_nodes if n.name in self._of_node), None)

    def _input(self, node: fx.Node) -> None:
        result = self.graph.tensor(node, "data_out_0")
        assert result.fmt is not None  # the quantisation pass made this node
        index = len(self.netlist.inputs)
        lanes = self.graph.meta_of(node).hardware.parallelism["data_out_0"]
        stream = Stream(f"data_in_{index}", "in", tuple(result.shape), result.fmt, tuple(lanes))
        self.netlist.inputs.append(stream)
        pin = Pin(TOP, stream.name)
        self._sources[pin] = self._of_node[node.name] = _Source(pin, stream, stream.name)

    def _outputs(self, node: fx.Node) -> None:
        for index, (result, _) in enumerate(self.graph.sources(node).values()):
            source = self._of_node.get(result.name)
            if source is None:
                raise UnsupportedError(
                    "a result of the model is not computed in hardware",
                    node=result.name,
                    remedy="every output must come from a quantised op",
                )
            shape = tuple(self.graph.tensor(result, "data_out_0").shape)
            lanes = source.stream.lane_dims[0]
            if shape != source.stream.shape:
                lanes = min(lanes, shape[-1] if shape else 1)
            stream = Stream(f"data_out_{index}", "out", shape, source.stream.fmt, (lanes,))
            self.netlist.outputs.append(stream)
            source.uses.append((Pin(TOP, stream.name), stream))

    def _rom(self, node: fx.Node, port: Stream) -> _Source:
        name = f"{node.name}_{port.name}"
        out = _word_port("out", port.beats, port.bits)
        parameters: dict[str, int | str] = {
            "WIDTH": port.bits,
            "DEPTH": port.beats,
            "MEM_FILE": f'{{MEM_DIR, "/{name}.mem"}}',
        }
        instance = Instance(self._free(f"u_{name}"), "rom_source", parameters, (out,), node.name, "rom_source")
        self.netlist.instances.append(instance)
        self.netlist.memories[instance.name] = f"{name}.mem"
        self._file("lib/rom_source.sv")
        source = self._sources[Pin(instance.name, "out_data")] = _Source(Pin(instance.name, "out_data"), out, name)
        return source

    def _connect(self, source: _Source) -> None:
        if not source.uses:
            raise UnsupportedError(
                "nothing uses this stream", node=source.label, remedy="remove the unused input or node from the model"
            )
        pin = source.pin
        if len(source.uses) > 1:
            pin = self._fork(source)
        for branch, (sink, wanted) in enumerate(source.uses):
            end = dataclasses.replace(pin, branch=branch) if len(source.uses) > 1 else pin
            suffix = f"_{branch}" if len(source.uses) > 1 else ""
            name = self._free(f"net_{source.label}{suffix}")
            if source.stream.name == "out_data" or source.stream.same_beats(wanted):
                self.netlist.nets.append(Net(name, end, sink, source.stream))
            else:
                self._repack(name, end, sink, source.stream, wanted)

    def _fork(self, source: _Source) -> Pin:
        bits, count = source.stream.bits, len(source.uses)
        ports = (_word_port("in", source.stream.beats, bits), _word_port("out", source.stream.beats, bits))
        name = self._free(f"u_{source.label}_fork")
        self._insert(
            Instance(name, "stream_fork", {"WIDTH": bits, "N": count}, ports, source.label, "fork", count), source.pin
        )
        self._file("lib/stream_fork.sv")
        net = self._free(f"net_{source.label}")
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
            repack_ports(params),
            sink_name,
            "repack",
        )
        self._insert(instance, end)
        self._file("lib/stream_repack.sv")
        self.netlist.nets.append(Net(name, end, Pin(instance.name, "in_data"), have))
        repacked = dataclasses.replace(want, name="out_data", direction="out")
        self.netlist.nets.append(Net(self._free(f"{name}_repacked"), Pin(instance.name, "out_data"), sink, repacked))

    def _free(self, name: str) -> str:
        """A name under which neither a net with its handshake nor an instance stands yet.

        A node ``relu`` may be forked into ``relu_1`` beside a node of that name.
        """
        taken = {f"{n.name}{suffix}" for n in self.netlist.nets for suffix in _SIGNALS}
        taken |= {i.name for i in self.netlist.instances}
        while any(f"{name}{suffix}" in taken for suffix in _SIGNALS):
            name += "_"
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
        if other != path and other.read_bytes() != path.read_bytes():
            raise EmitError(
                "two custom ops have different files of the same name",
                node=file.removeprefix(EXTERNAL),
                got=f"{other} and {path}",
                remedy="rename one of them",
            )


def _word_port(direction: Direction, beats: int, bits: int) -> Stream:
    """A port of a primitive: beats of plain bits."""
    bit = FixedFormat(1, 0, signed=False)
    return Stream(
        f"{direction}_data", direction, (beats, bits), bit, (bits,), f"{direction}_valid", f"{direction}_ready"
    )


def build_netlist(graph: MaseGraph, name: str = "top") -> Netlist:
    """Build and verify the netlist of a graph; see :class:`NetlistBuilder`."""
    return NetlistBuilder(graph, name).build()
