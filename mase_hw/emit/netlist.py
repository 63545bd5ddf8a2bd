"""The typed netlist: instances and point-to-point streams, verified before a line is rendered."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mase_hw.catalogue import Memory
from mase_hw.errors import EmitError
from mase_hw.formats import FixedFormat
from mase_hw.hardware.external import FETCHED, ExternalMemory, Tensor, arranged
from mase_hw.hardware.image import LOADED, Part
from mase_hw.hardware.library import with_dependences
from mase_hw.hardware.manifest import Fifo, Shortfall
from mase_hw.opdef import SUPPORT, Generated
from mase_hw.streams import Direction, Stream

TOP = ""
"""Instance name of the design's own ports."""
LOOP_ENTRY, LOOP_EXIT = "loop_entry", "loop_exit"
CONNECTORS = ("fork", "repack", "fifo", "reorder", "replay", "turn", "link", LOOP_ENTRY, LOOP_EXIT)
"""Ops of the instances that pass a tensor on as it is."""


@dataclass(frozen=True)
class Pin:
    """One end of a net: a stream port of an instance, or of the design itself.

    Args:
        instance: Instance name, :data:`TOP` for the design's ports.
        port: Name of the data port.
        branch: Output number of a fork, else None.
    """

    instance: str
    port: str
    branch: int | None = None

    def __str__(self) -> str:
        name = f"{self.instance}.{self.port}" if self.instance else self.port
        return name if self.branch is None else f"{name}[{self.branch}]"


@dataclass(frozen=True)
class Net:
    """A valid/ready stream from one source to one sink.

    Args:
        name: Signal name; ``<name>_valid`` and ``<name>_ready`` go with it.
        source: Where beats come from.
        sink: Where they go.
        stream: What they carry, as the source gives them.
    """

    name: str
    source: Pin
    sink: Pin
    stream: Stream


@dataclass(frozen=True)
class Instance:
    """One module instance.

    Args:
        name: Instance name.
        module: SystemVerilog module.
        parameters: Parameter values; strings are rendered as they are (expressions).
        ports: Its streams.
        node: Graph node it belongs to.
        op: Name of the op in the catalogue, or of the primitive.
        branches: Outputs, of a fork.
        tied: Ports without a stream and the expressions they are tied to, empty for outputs.
        unread: Bits of the outputs of more than one bit that nobody reads.
        memories: Memories inside the module: file below ``mem`` and content, by the parameter that takes the path.
    """

    name: str
    module: str
    parameters: Mapping[str, int | str]
    ports: tuple[Stream, ...]
    node: str
    op: str
    branches: int = 0
    tied: Mapping[str, str] = field(default_factory=dict)
    memories: Mapping[str, tuple[str, Memory]] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Netlist:
    """A whole design.

    Args:
        name: Module name of the top level.
        inputs: Streams into the design, in the order of the model's inputs.
        outputs: Streams out of it, in the order of the model's results.
        drained: Names of the inputs that nothing reads: they are always ready, and their beats go nowhere.
        instances: All instances, in topological order.
        nets: All stream nets.
        memories: File name below ``mem`` by instance name of its ROM.
        files: RTL files below ``rtl_templates``, or ``external/`` for those of a user, dependencies first.
        external: Where the files of users lie.
        generated: The modules that are made for their constants, by the names of their files.
        fifos: FIFOs on reconvergent paths, and for the rate.
        twins: The nodes that share an instance, in the order in which frames pass through them, by the first.
        slot: The input that says of every token of sequences in turn whose it is; None if there are none.
        aside: Instances through which that goes. It is known before it is needed, so nothing waits for it.
        outside: The external memory, if parameters come from one.
        cached: The external memory that keeps keys and values, if one does.
        shortfall: Why it is slower than its slowest stage; None if it is not, or if nothing was to be done about it.
    """

    name: str
    inputs: list[Stream] = field(default_factory=list)
    outputs: list[Stream] = field(default_factory=list)
    instances: list[Instance] = field(default_factory=list)
    nets: list[Net] = field(default_factory=list)
    memories: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=lambda: list(SUPPORT))
    external: dict[str, Path] = field(default_factory=dict)
    generated: dict[str, Generated] = field(default_factory=dict)
    fifos: list[Fifo] = field(default_factory=list)
    drained: list[str] = field(default_factory=list)
    twins: dict[str, tuple[str, ...]] = field(default_factory=dict)
    slot: Stream | None = None
    aside: set[str] = field(default_factory=set)
    outside: ExternalMemory | None = None
    cached: ExternalMemory | None = None
    shortfall: Shortfall | None = None
    _at: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Where instances were, by name, when one was last looked for in vain: the lists change under it."""
    _into: dict[Pin, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The same of nets, by sink."""

    def instance(self, name: str) -> Instance:
        """The instance of that name."""
        at = self._at.get(name)
        if at is None or at >= len(self.instances) or self.instances[at].name != name:
            self._at = {i.name: index for index, i in enumerate(self.instances)}
            at = self._at[name]
        return self.instances[at]

    @property
    def ports(self) -> list[Stream]:
        """All streams of the design, in the order of its ports."""
        return [*self.inputs, *([] if self.slot is None else [self.slot]), *self.outputs]

    def ahead(self, instance: str) -> bool:
        """Whether what an instance drives is there before it is needed: of a memory, or on the way of the slot."""
        return instance in self.memories or instance in self.aside

    @property
    def tables(self) -> list[tuple[Instance, str, Memory]]:
        """Every memory inside a module: the instance, the file below ``mem``, the content."""
        return [(i, file, memory) for i in self.instances for file, memory in i.memories.values()]

    @property
    def loaded(self) -> list[tuple[Instance, Part]]:
        """The memories that are loaded while the design runs, in the order in which they are."""
        found = (i for i in self.instances if i.module == LOADED)
        return [
            (i, Part(f"mem/{self.memories[i.name]}", int(i.parameters["DEPTH"]), int(i.parameters["WIDTH"])))
            for i in found
        ]

    @property
    def outside_sources(self) -> list[tuple[Instance, Tensor]]:
        """The sources that read external memory, in the order in which their tensors lie there."""
        return [(i, Tensor.of(i.parameters)) for i in self.instances if i.module == FETCHED]

    def read_outside(self, memory: ExternalMemory) -> None:
        """Say of all sources from external memory where their tensors lie and when they are read, if there are any."""
        found = [(at, i) for at, i in enumerate(self.instances) if i.module == FETCHED]
        passes = [len(self.twins.get(i.node, (i.node,))) for _, i in found]
        made = arranged([i.parameters for _, i in found], passes, memory) if found else []
        for (at, source), more in zip(found, made, strict=True):
            self.instances[at] = dataclasses.replace(source, parameters={**source.parameters, **more})
        self.outside = memory if found else None

    def add_files(self, *files: str) -> None:
        """Add files of the library, each once, and before it those of the modules that it instantiates."""
        self.files += [file for file in with_dependences(files) if file not in self.files]

    def signals(self) -> set[str]:
        """Every name declared inside the top level."""
        handshakes = {f"{n.name}{suffix}" for n in self.nets for suffix in ("", "_valid", "_ready")}
        ports = {name for s in self.ports for name in (s.name, s.valid, s.ready)}
        return {"clk", "rst", "MEM_DIR"} | handshakes | ports | {i.name for i in self.instances}

    def free(self, name: str, taken: set[str] | None = None) -> str:
        """A name like this one under which nothing is declared, nor its handshake.

        Args:
            name: The name that is wanted.
            taken: What :meth:`signals` gave, where several names are asked for; the name is added to it.
        """
        taken = self.signals() if taken is None else taken
        while any(f"{name}{suffix}" in taken for suffix in ("", "_valid", "_ready")):
            name += "_"
        taken |= {name, f"{name}_valid", f"{name}_ready"}
        return name

    def net_into(self, instance: str, port: str) -> Net:
        """The net that drives a port of an instance."""
        sink = Pin(instance, port)
        at = self._into.get(sink)
        if at is None or at >= len(self.nets) or self.nets[at].sink != sink:
            self._into = {n.sink: index for index, n in enumerate(self.nets)}
            at = self._into[sink]
        return self.nets[at]

    def verify(self) -> None:
        """Check that every port has exactly one net and that both ends carry the same beats.

        Raises:
            EmitError: With the first fault found: duplicate names, an unconnected or doubly driven port, unequal
                widths or unequal beats.
        """
        for kind, names in (
            ("instance", [i.name for i in self.instances]),
            ("net", [n.name for n in self.nets]),
            ("port", [s.name for s in self.ports]),
        ):
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                raise EmitError(f"two {kind}s have the same name", node=twice[0])
        sources, sinks = self._pins()
        self._check_pins("source", sources, Counter(n.source for n in self.nets))
        self._check_pins("sink", sinks, Counter(n.sink for n in self.nets))
        for net in self.nets:
            a, b = sources[net.source], sinks[net.sink]
            if a.bits != b.bits:
                raise _unlike(net, "of different widths", f"{a.bits} bits", f"{b.bits} bits")
            if not (self._typed(net.source) and self._typed(net.sink)):
                continue
            if a.fmt != b.fmt:
                cast = "run quantize_transform_pass, which puts a cast where formats meet"
                raise _unlike(net, "of different formats", str(a.fmt), str(b.fmt), cast)
            if not a.same_beats(b):
                cut = [f"shape {list(end.shape)}, {end.lanes} lanes" for end in (a, b)]
                raise _unlike(net, "that cut the tensor into different beats", *cut)

    def _typed(self, pin: Pin) -> bool:
        """Whether a pin's stream carries a tensor; primitives carry beats of bits."""
        return pin.instance == TOP or not pin.port.startswith(("in_", "out_", "back_"))

    def _pins(self) -> tuple[dict[Pin, Stream], dict[Pin, Stream]]:
        sources = {Pin(TOP, s.name): s for s in self.ports if s.direction == "in" and s.name not in self.drained}
        sinks = {Pin(TOP, s.name): s for s in self.outputs}
        for instance in self.instances:
            for stream in instance.ports:
                if stream.direction == "in":
                    sinks[Pin(instance.name, stream.name)] = stream
                elif instance.branches:
                    for branch in range(instance.branches):
                        sources[Pin(instance.name, stream.name, branch)] = stream
                else:
                    sources[Pin(instance.name, stream.name)] = stream
        return sources, sinks

    @staticmethod
    def _check_pins(kind: str, pins: Mapping[Pin, Stream], used: Counter[Pin]) -> None:
        for pin in used:
            if pin not in pins:
                raise EmitError(f"a net names a {kind} that does not exist", node=str(pin))
        for pin in pins:
            if used[pin] != 1:
                problem = "is not connected" if used[pin] == 0 else f"has {used[pin]} nets"
                raise EmitError(f"a {kind} port {problem}", node=str(pin), got=used[pin], expected="exactly one net")


def word_port(side: Direction, beats: int, bits: int) -> Stream:
    """A port of a primitive: beats of plain bits."""
    bit = FixedFormat(1, 0, signed=False)
    return Stream(f"{side}_data", side, (beats, bits), bit, (bits,), f"{side}_valid", f"{side}_ready")


def _unlike(net: Net, what: str, source: str, sink: str, remedy: str | None = None) -> EmitError:
    message = f"a net joins ports {what}"
    got, expected = f"{net.sink}: {sink}", f"{net.source}: {source}"
    return EmitError(message, node=net.name, got=got, expected=expected, remedy=remedy)
