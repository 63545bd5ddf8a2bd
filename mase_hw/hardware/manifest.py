"""The manifest of a bundle as records: what ``manifest.json`` holds, checked when it is read.

``docs/manifest.schema.json`` is the JSON schema of :class:`Manifest`. Fields that a design does not have are left out.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from mase_hw.errors import EmitError
from mase_hw.host.documents import Json

Whole = Annotated[int, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of the records of a manifest; fields that a later version adds are passed over."""


class Fixed(Entry, frozen=True, kw_only=True, tag_field="type", tag="fixed"):
    """Fixed point: an integer times ``scale``, which is a power of two."""

    width: Count
    frac_width: int
    signed: bool
    scale: float


class Scaled(Entry, frozen=True, kw_only=True, tag_field="type", tag="integer"):
    """Scaled integers: ``scale * (code - zero_point)``, with a scale for the tensor or for every index of ``axis``."""

    width: Count
    signed: bool
    scale: float | tuple[float, ...]
    zero_point: int
    limits: tuple[int, int]
    axis: int = 0
    odd_ties: bool = False


class Order(Entry, frozen=True, kw_only=True):
    """Where the elements of a tensor stand in the stream: see :class:`mase_hw.layouts.Layout`."""

    shape: tuple[Count, ...]
    factors: tuple[Count, ...]
    order: tuple[Whole, ...]
    row: Whole = 0


class Port(Entry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stream of the design.

    Args:
        name: The data port.
        direction: Seen from the design.
        valid: The valid signal.
        ready: The ready signal.
        tensor: Name of the model's input, or of the node that computes the result.
        path: Keys and positions on the way to the tensor in what the model takes or returns, joined by dots.
        source: What the file calls it from which the model was imported; empty of any other model.
        shape: Of the tensor of a frame, as PyTorch writes it.
        streamed: The same in the order of the stream, the slowest dimension first.
        layout: Where its elements stand in the stream, if not row-major.
        format: Of every element.
        lanes: Elements of a beat.
        parallelism: The same along each dimension, innermost first.
        beats: Of a frame.
        bits: Of a beat.
        beat_order: How beats and lanes are counted, in words.
    """

    name: str
    direction: Literal["in", "out"]
    valid: str
    ready: str
    tensor: str
    path: str
    source: str = ""
    shape: tuple[int, ...]
    streamed: tuple[int, ...]
    layout: Order | None
    format: Fixed | Scaled
    lanes: int
    parallelism: tuple[int, ...]
    beats: int
    bits: int
    beat_order: str


class Timing(Entry, frozen=True, kw_only=True):
    """Cycles of the whole design, from the first input beat accepted.

    Args:
        fill: To the first output beat valid.
        last: To the last output beat of the frame.
        interval: Between the first beats of frames, in steady state.
        bottleneck: The instance or port that decides it.
        exact: Whether the interval is met, or is a bound.
        steady: The frame from which on it is; None where that is not known.
        unit: In words.
    """

    fill: int
    last: int
    interval: Count
    bottleneck: str
    exact: bool
    steady: Count | None
    unit: str


class InstanceTiming(Entry, frozen=True):
    """Timing of an instance within the design.

    Args:
        first_in: Cycle in which the first beat is offered to it.
        first_out: Cycle in which its first beat is valid.
        interval: Cycles per frame in steady state, by itself.
    """

    first_in: int
    first_out: int
    interval: Count


class Instance(Entry, frozen=True, kw_only=True):
    """A module instance; ``work`` and ``multipliers`` of those that compute, ``custom_op`` of a user's own.

    One that several nodes share has all of them in ``shared_by``, in the order in which a frame passes through it.
    """

    name: str
    node: str
    module: str
    parameters: dict[str, int | str]
    shared_by: tuple[str, ...] = ()
    custom_op: str = ""
    timing: InstanceTiming | None = None
    work: Whole = 0
    multipliers: Whole = 0


class Memory(Entry, frozen=True, kw_only=True):
    """A file of ``mem`` and the instance that reads it; where it is placed, if that was chosen."""

    file: str
    instance: str
    words: Count
    bits: Count
    place: Literal["block", "lut", ""] = ""
    registers: Whole | None = None
    note: str = ""


class Image(Entry, frozen=True, kw_only=True):
    """What the design takes that loads its parameters; see :mod:`mase_hw.hardware.image`.

    Args:
        design: What is in it besides the words of the memories: a number for all of the design but the parameters.
        words: Of the memories, in the order of the instances.
        banks: Sets of parameters that the design holds.
    """

    design: str
    words: Count
    banks: Count


class External(Entry, frozen=True, kw_only=True):
    """External memory that parameters are read from; see :mod:`mase_hw.hardware.external`.

    Args:
        bits: Of a word.
        latency: Cycles from a request to its first word.
        burst: Words of a request at most.
        file: What is in it, a word per line.
        design: What is in it besides the words of the tensors: a number for all of the design but the parameters.
        words: Of the tensors.
        words_per_frame: Words that are read in a frame, and cycles that this takes.
        primed: Cycles from a reset until frames may begin, at most.
    """

    bits: Count
    latency: Count
    burst: Count
    file: str
    design: str
    words: Count
    words_per_frame: Count
    primed: Count


class Caches(Entry, frozen=True, kw_only=True):
    """External memory that keeps keys and values; see :mod:`mase_hw.ops.products._cache`.

    Args:
        bits: Of a word.
        latency: Cycles from a request to its first word, and from a word that is written until it is there.
        block: Rows that are written together; those of the last two blocks are in block RAM.
        words: Of the memory.
        flight: Requests on their way at most.
        read: Words that the token at every position reads.
    """

    bits: Count
    latency: Count
    block: Count
    words: Count
    flight: Count
    read: tuple[Whole, ...]


class OnDevice(Entry, frozen=True, kw_only=True):
    """One of several devices, in the design of all of them.

    Args:
        begins: What the names of its instances begin with; those of links begin with nothing.
        image: Of its parameters that are loaded, if any are.
        external: The memory outside that it reads its parameters from, if it does.
    """

    begins: str
    image: Image | None = None
    external: External | None = None

    @property
    def port(self) -> str:
        """What the names of its ports for parameters begin with at the top level of all devices."""
        return self.begins.replace(".", "_")

    @property
    def core(self) -> str:
        """Where the top level of its bundle is, seen from that of all devices."""
        return f"u_{self.begins}u_core"


class Fifo(Entry, frozen=True, omit_defaults=False):
    """A FIFO that balances two ways from a fork to a join, or that keeps up the rate of the design.

    Args:
        instance: Its instance.
        before: The data input it stands before, as ``node.port``.
        after: What drives it.
        depth: Beats it holds.
        bits: Bits of a beat.
        given: Whether the depth was given rather than computed.
        rate: Whether it is there for the rate: without it the design is slower than its slowest stage.
    """

    instance: str
    before: str
    after: str
    depth: Count
    bits: Count
    given: bool = False
    rate: bool = False


class Shortfall(Entry, frozen=True):
    """What FIFOs for the rate would take, where they may not have it.

    Args:
        interval: Cycles per frame that there would be with them.
        bits: Bits that they need.
        most: Bits that they may have.
    """

    interval: Count
    bits: Count
    most: Whole

    def __str__(self) -> str:
        return (
            f"with FIFOs of {self.bits:,} bits in all instead of at most {self.most:,} (hardware.rate_fifo_bits) the "
            f"design would take the {self.interval:,} cycles per frame of its slowest stage"
        )


class Top(Entry, frozen=True, kw_only=True):
    """A top level that can be integrated, and the list of its files."""

    name: str
    axis: bool
    list: str
    clock: str
    added_fill: Whole


class AxisPort(Entry, frozen=True, kw_only=True):
    """A port of the AXI4-Stream wrapper: ``tdata`` is ``bits`` rounded up to whole bytes."""

    port: str
    bus: str
    bits: Count
    tdata: Count


class Handoff(Entry, frozen=True, kw_only=True):
    """What is handed to other tools."""

    options: Json
    tops: tuple[Top, ...]
    axis_ports: tuple[AxisPort, ...]
    testbenches: tuple[str, ...]


class Hls(Entry, frozen=True, kw_only=True):
    """A node whose RTL an HLS tool makes of C++.

    Args:
        node: The node.
        module: The module that takes the RTL of the tool into the design.
        top: The top function; ``hls/<top>`` has what the tool takes.
        rtl: What the RTL of it in this bundle is: of the ``tool``, a ``stand-in`` for it, or ``missing``.
    """

    node: str
    module: str
    top: str
    rtl: Literal["tool", "stand-in", "missing"]


class Vectors(Entry, frozen=True, kw_only=True):
    """The test vectors: frames, files by port, and what is known of what they show."""

    frames: Count
    files: dict[str, str]
    sources: dict[str, Whole] = {}
    casts: Json = {}
    faults: Json = {}


class Reset(Entry, frozen=True, kw_only=True):
    """The reset of the design."""

    name: str
    active: Literal["high"]
    synchronous: bool


class Generation(Entry, frozen=True, kw_only=True):
    """The module around a design that gives it the tokens that it chooses.

    Args:
        top: Its name; it has the clock and the reset of the design.
        rtl: The files that it needs besides those of the design, its own last.
        ports: Prompts and sequences, token by token. The bit above those of an id marks the last token of a prompt, and
            of a sequence; of sequences in turn the bits above that are the slot.
        length: Most tokens that are chosen for a prompt.
        stop: The one that ends a sequence; -1: none.
        restart: Cycles from the last token of a sequence to when the next prompt enters; 0 of sequences in turn.
        vectors: A prompt and its sequence, each filled up to a frame; of sequences in turn some of them, each filled
            up with zeros of its slot.
        cycles: Of that sequence with what fills it up; 0 of sequences in turn, which depend on when prompts come.
    """

    top: str
    rtl: tuple[str, ...]
    ports: tuple[Port, Port]
    length: Count
    stop: int
    restart: Whole
    vectors: Vectors | None = None
    cycles: Whole = 0


class Decode(Entry, frozen=True, kw_only=True):
    """A causal language model whose tokens come one at a time: most tokens of a sequence, and the cycles of each.

    ``cycles[t]`` is what token ``t`` takes that is offered in the cycle after the last result of the one before. Of
    sequences in turn, ``slots`` of them: the input ``slot_port`` has the number of the slot of every token, plus
    ``slots`` where its sequence begins, and ``paces`` has pairs: so many sequences, and the cycles per token, on
    average, if each of them has a token in the design and stands at the last position. ``generate`` is of one that
    generates by itself.
    """

    context: Count
    cycles: tuple[Count, ...]
    slots: Count = 1
    slot_port: str = ""
    paces: tuple[tuple[Count, Count], ...] = ()
    generate: Generation | None = None


class Manifest(Entry, frozen=True, kw_only=True):
    """Everything that a tool or a person needs to use a design without reading its RTL.

    Args:
        format_version: Of this document.
        generator: Program and version.
        top: Module of the design.
        prefix: What the names of its modules and memory files begin with; instances have the names without it.
        clock: Its clock.
        reset: Its reset.
        parameters: Of the top level, with their defaults.
        ports: Its streams, inputs first.
        timing: Its cycles.
        family: The family of FPGAs that it was made for; empty for none in particular.
        device_id: The number of the device that it is for; -1 for the default one.
        streaming: Whether a frame depends on those before it.
        decode: Of a language model that generates token by token.
        instances: In topological order.
        memories: Contents of memories.
        image: Of parameters that are loaded while the design runs, if any are.
        external: The memory outside that parameters are read from, if any are.
        caches: The memory outside that keeps keys and values, if one does.
        fifos: Those that were inserted.
        shortfall: Whether FIFOs are smaller than the rate wants.
        devices: Of a design on several devices: each of them, by its module.
        edges: Every stream, as ``source to sink``.
        rtl: Files, dependencies first.
        hls: Nodes whose RTL an HLS tool makes of C++.
        vectors: Test vectors.
        handoff: What is handed to other tools.
        files: Every file and its SHA-256.
        digest: SHA-256 of the manifest without this field.
    """

    format_version: int
    generator: dict[str, str]
    top: str
    prefix: str = ""
    clock: str
    reset: Reset
    parameters: dict[str, str]
    ports: tuple[Port, ...]
    timing: Timing
    family: str
    device_id: int = -1
    streaming: bool
    decode: Decode | None = None
    instances: tuple[Instance, ...]
    memories: tuple[Memory, ...]
    image: Image | None = None
    external: External | None = None
    caches: Caches | None = None
    fifos: tuple[Fifo, ...]
    shortfall: Shortfall | None = None
    devices: dict[str, OnDevice] = {}
    edges: tuple[str, ...]
    rtl: tuple[str, ...]
    hls: tuple[Hls, ...] = ()
    vectors: Vectors | None = None
    handoff: Handoff | None = None
    files: dict[str, str]
    digest: str

    @property
    def outside(self) -> tuple[External, ...]:
        """The memories outside that parameters are read from: of the design, or of all its devices."""
        found = (self.external, *(device.external for device in self.devices.values()))
        return tuple(each for each in found if each is not None)


def typed(manifest: Any, node: str = "") -> Manifest:
    """The records of a manifest that was read as JSON, for a file that the error names.

    Raises:
        EmitError: A field is missing or of another kind, with its path.
    """
    try:
        return msgspec.convert(manifest, Manifest)
    except msgspec.ValidationError as error:
        raise EmitError(
            "the manifest is damaged",
            node=node,
            field=str(error).rpartition("at `$.")[2].rstrip("`"),
            got=str(error),
            expected="the fields of docs/manifest.schema.json",
            remedy="emit the bundle again; do not edit generated files",
        ) from error


def schema() -> Json:
    """The JSON schema of a manifest."""
    return msgspec.json.schema(Manifest)
