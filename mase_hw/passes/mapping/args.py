"""Arguments of the hardware metadata pass, and whether they fit the graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    StrictInt,
)

from mase_hw.errors import ConfigError, MaseHwError, suggest
from mase_hw.hardware.external import ExternalMemory, image_of
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ir.module_paths import became, nodes_inside, passed_through, translations
from mase_hw.passes.base import validate

T = TypeVar("T")

Lanes = StrictInt | list[StrictInt]
UNROLLED = "unrolled"
"""The implementation whose constants are its structure."""
TABLE = "table"
"""The implementation whose neurons are truth tables."""
MADE_FOR_WEIGHTS = (UNROLLED, TABLE)
"""Implementations that are made for their weights."""
WEIGHTS_FIRST = "weights_first"
"""The order in which every weight is used for all rows before the next."""
_AT_NODES = ("implementation", "fifo_depth", "memory")
_OF_TENSORS = ("fifo_depth", "memory", "parameters_at", "ahead")
"""Options by ``node.tensor``."""
_PLACES = {"LUT": "lut", "BRAM": "block"}
KERNEL = "kernel"
"""Key of the window elements of a step, beside the tensors whose lanes are given."""


class HardwareArgs(BaseModel):
    """Arguments of ``add_hardware_metadata_analysis_pass``; also the table ``hardware`` of a configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_parallelism: Lanes = Field(
        default=4,
        description="most lanes along the innermost dimension of any stream; each tensor takes the smaller of this and "
        "its size",
    )
    parallelism: dict[str, dict[str, Lanes]] = Field(
        default_factory=dict,
        examples=[{"fc1": {"data_in_0": 8, "data_out_0": 4}}],
        description="lanes by node and tensor (``data_in_0``, ``data_out_0``), which may exceed ``max_parallelism``; "
        "of a convolution also ``kernel``, the ``[height, width]`` of the window elements multiplied in one step",
    )
    positions: PositiveInt | dict[str, PositiveInt] = Field(
        default=1,
        examples=[2],
        description="neighbouring positions of an image or sequence in a beat, along its width: of all results, or by "
        "node (or input); a convolution has multipliers for each of them, and shares its weights; where a number does "
        "not divide a width, the whole design takes a divisor of it there, and a node refuses it; what takes one "
        "position a beat gets them one after the other",
    )
    fifo_depth: dict[str, NonNegativeInt] = Field(
        default_factory=dict,
        examples=[{"add.data_in_1": 32}],
        description="depth of the FIFO before a data input, by ``node.tensor``, instead of the computed depth; 0 for "
        "none; a depth with which the design would deadlock is refused",
    )
    share_requantisers: bool = Field(
        default=True,
        description="whether a requantisation with multipliers behind a layer whose beats come every few cycles takes "
        "their lanes one after the other, with as few multipliers as that needs; the rate stays, and the first result "
        "comes a few cycles later; of nodes under ``parallelism`` the lanes are as given",
    )
    rate_fifos: bool = Field(
        default=True,
        description="whether FIFOs are put on plain streams too where a design would be slower than its slowest stage, "
        "as bursts meet stages without room",
    )
    rate_fifo_bits: NonNegativeInt | None = Field(
        default=None,
        examples=[4096],
        description="most bits that these FIFOs have together; where they need more, what it costs is said",
    )
    fifo_slack: NonNegativeFloat = Field(
        default=0.0,
        examples=[0.01],
        description="by what share of its cycles the first frame may take longer, where FIFOs take fewer block RAMs "
        "then; the cycles per frame are the same",
    )
    family: Literal["", "xc7", "xcup", "ecp5", "nexus", "ice40", "gowin", "gatemate", "asic"] = Field(
        default="",
        examples=["xc7"],
        description="family of FPGAs for which implementations are chosen, named as for ``mase-hw synth``; without one "
        "nothing is chosen that only some families do well",
    )
    implementation: dict[
        str, Literal["tree", "chain", "packed", "logic", "unrolled", "table", "parallel", "shared", "in_turn"]
    ] = Field(
        default_factory=dict,
        examples=[{"fc1": "packed"}],
        description="how a linear layer or a convolution computes its products, by node, instead of what costs least: "
        "``tree`` (a multiplier each, sums in a tree of adders), ``chain`` (sums in the multiplier blocks), ``packed`` "
        "(output lanes share multipliers as well), ``logic`` (multipliers made of look-up tables, on Xilinx some 45 "
        "for 8 x 8 bits); the bits and the interval are the same; ``unrolled`` (the weights become shared shifts and "
        "additions, without multipliers: a whole vector, or window, per cycle), ``table`` (a truth table for every "
        "neuron, where each reads at most 12 bits, likewise); of a norm ``parallel``, ``shared`` (a block of 18 x 18 "
        "bits for each product, with logic beside it, and one for both of the root; chosen for ECP5) or ``in_turn`` "
        "(one such block for each lane, which has the squares, the root and the results in turn, so that a row enters "
        "when the one before has left)",
    )
    adder_levels: dict[str, NonNegativeInt] = Field(
        default_factory=dict,
        examples=[{"fc1": 2}],
        description="of an unrolled layer, by node: additions between two registers, 3 if nothing is said; 0 for a "
        "register at the output only; of a softmax the subtractions of its division, a bit of the quotient each, 1 if "
        "nothing is said",
    )
    order: dict[str, Literal["outputs_first", "inputs_first", "weights_first"]] = Field(
        default_factory=dict,
        examples=[{"fc2": "inputs_first"}],
        description="in which order a linear layer or a 1 x 1 convolution uses its multipliers, by node: "
        "``outputs_first`` (an output tile after the other, each over the whole input, which waits in a buffer) or "
        "``inputs_first`` (an input tile after the other as it comes, while all partial sums are kept), which overlaps "
        "with the layer before; or ``weights_first`` (an output tile after the other over all rows of the frame, which "
        "waits in a buffer, as do the results), which takes every weight once per frame; multipliers, bits and the "
        "interval are the same, and a layer with one tile of either kind has only one order",
    )
    unroll: Literal["", "frame"] = Field(
        default="",
        description="``frame``: a beat holds a whole tensor, and the network is one pipelined expression of its "
        "constants, without buffers, and with multipliers for products of data alone: a frame per cycle",
    )
    unroll_levels: NonNegativeInt = Field(
        default=3,
        description="of such a network: additions between two registers, wherever layers meet; 0 for a register at "
        "the output only",
    )
    unroll_mhz: PositiveFloat | None = Field(
        default=None,
        examples=[100.0],
        description="of such a network: clock for which registers are placed over all of it, by the delays of "
        "``family`` (``ecp5``) for additions, casts and tables of each width; in place of ``unroll_levels``",
    )
    unroll_carry_save: bool = Field(
        default=False,
        description="with ``unroll_mhz``: the latest sums of every layer save carries: fewer stages, more look-up "
        "tables",
    )
    unroll_beats: PositiveInt = Field(
        default=1,
        description="of such a network: beats of a frame, each of as many rows of an image or positions of a "
        "sequence; the expression is then that of a beat, with registers for what it needs of the beats around it",
    )
    unroll_first: str = Field(
        default="",
        examples=["conv1"],
        description="the node with which the part begins that is such an expression, where it is not the whole "
        "network; what is before it is folded",
    )
    unroll_last: str = Field(
        default="",
        examples=["relu2"],
        description="the node with which that part ends; what is behind it is folded",
    )
    fast_clock: bool | list[str] = Field(
        default=False,
        examples=[["fc1"]],
        description="whether modules get registers where their longest paths begin, or the nodes whose modules do: of "
        "a linear layer an activation is taken a cycle before its weights, so that a register enables the memory of "
        "the weights, and what sums start with is one too; of a softmax an exponential that is a product takes its "
        "factors and its parts from registers; a sum or a difference keeps its operands in registers, and so does "
        "the multiplier of a norm ``in_turn``; bits and interval are the same, but for a row of such a norm, which "
        "takes a cycle more; the latency is a cycle longer, or two of a softmax, for some flip-flops",
    )
    constant_solver: Literal["own", "da4ml"] = Field(
        default="own",
        description="what finds the additions of unrolled layers: our own solver, or ``da4ml`` (0.6), where it is "
        "installed",
    )
    memory: dict[str, Literal["lut", "block", "ultra"]] = Field(
        default_factory=dict,
        examples=[{"fc1.weight": "lut"}],
        description="where parameters are kept, by ``node.tensor``: in look-up tables or in block RAM, instead of where"
        " they cost least for the family; ``ultra`` is refused with its reason, as large RAMs start at zero",
    )
    parameters: Literal["rom", "ram", "external"] = Field(
        default="rom",
        description="where stored parameters come from: ``rom``; ``ram``, which is loaded while the design runs and "
        "holds the compiled ones at first, in the same cycles; or ``external``, a memory outside that weights and "
        "biases of linear layers and convolutions are read from in every frame, all others staying in ``rom``; the "
        "bits are the same",
    )
    parameters_at: dict[str, Literal["rom", "ram", "external"]] = Field(
        default_factory=dict,
        examples=[{"fc1.weight": "rom"}],
        description="the same of single parameters, by ``node.tensor``",
    )
    parameter_banks: Literal[1, 2] = Field(
        default=1,
        description="sets of parameters that ``ram`` holds: with 2 one is loaded while frames are computed with the "
        "other, and takes effect between two frames; with 1 frames wait while it is loaded",
    )
    external_bytes: Literal[4, 8, 16, 32, 64] = Field(
        default=8, description="bytes of a word of the external memory, which brings one word per cycle"
    )
    external_latency: PositiveInt = Field(
        default=40, description="cycles from a request to its first word, where none is on its way before it"
    )
    external_burst: PositiveInt = Field(default=16, description="words of a request at most")
    external_buffer: NonNegativeInt | None = Field(
        default=None,
        examples=[65536],
        description="most bits of the buffer of two sets of a parameter that is used several times per frame; one "
        "that needs more is read again for each use, but a tile of ``weights_first`` is not; by default each is read "
        "once per frame",
    )
    ahead: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(
        default_factory=dict,
        examples=[{"conv.weight": 0.5}],
        description="of what is used several times, by ``node.tensor``, how much of the next is held while one is in "
        "use, from 0 to 1, which is the default: parameters from external memory; of a layer in the order "
        "``weights_first`` its frame (``data_in_0``) and its results (``data_out_0``, where 0 is one frame in place of "
        "two); less needs less memory, and the interval may be longer",
    )
    shared: list[str] | dict[str, PositiveInt] = Field(
        default_factory=list,
        examples=[["encoder.layer"]],
        description="modules whose children are equal blocks, one after the other, such as the layers of a "
        "transformer: they share the hardware of one, through which every frame passes once per block; as a table, "
        "that of so many, each for as many blocks in a row",
    )
    block_cost: PositiveInt | None = Field(
        default=None,
        examples=[235],
        description="look-up tables that a block RAM counts for where memories are placed by cost; by default one for "
        "each bit of its widest word but those for parity, which is 32 for blocks of 18 Kbit",
    )
    slots: PositiveInt = Field(
        default=1,
        description="sequences in turn of a causal language model whose tokens come one at a time, a power of two; "
        "``compile`` sets what ``decode.slots`` says",
    )
    device: dict[str, NonNegativeInt] = Field(
        default_factory=dict,
        examples=[{"fc2": 1}],
        description="number of the device that a node is on, by node, for ``compile_devices``; one that is not named "
        "is where the last of those is that it reads, and the inputs of the model are on device 0",
    )
    device_id: int = Field(
        default=-1,
        description="number of the device that the design is for, kept in its metadata and manifest; -1 for none",
    )

    @property
    def external_memory(self) -> ExternalMemory:
        """The memory outside, as it is stated."""
        file = image_of(self.device_id)
        return ExternalMemory(8 * self.external_bytes, self.external_latency, self.external_burst, file)

    def is_fast(self, node: str) -> bool:
        """Whether a node gets registers for a fast clock."""
        return self.fast_clock if isinstance(self.fast_clock, bool) else node in self.fast_clock

    @property
    def reads_outside(self) -> bool:
        """Whether any parameter may be there."""
        return "external" in (self.parameters, *self.parameters_at.values())


def lane_dims(lanes: Lanes, field: str) -> tuple[int, ...]:
    """Configured lanes as a tuple, innermost dimension first.

    Args:
        lanes: A number for the innermost dimension, or a list.
        field: Key in the table ``hardware``, for the message.

    Raises:
        ConfigError: If a number is below 1, or an outer dimension has more than one lane.
    """
    values = tuple(lanes) if isinstance(lanes, list) else (lanes,)
    if not values or any(v < 1 for v in values):
        raise ConfigError("parallelism must be at least 1", field=f"hardware.{field}", got=lanes, expected="1 or more")
    if any(v != 1 for v in values[1:]):
        raise ConfigError(
            "only the innermost dimension can be parallel",
            field=f"hardware.{field}",
            got=lanes,
            expected="1 for every value after the first",
        )
    return values


def with_node_names(graph: MaseGraph, args: HardwareArgs) -> HardwareArgs:
    """Arguments with names of nodes in place of paths of modules, and with what was set in the metadata of nodes.

    Of several keys the name of the node wins.

    Raises:
        ConfigError: If the metadata of a node and an argument for it say different things.
    """
    tensors = {key: getattr(args, key) for key in _OF_TENSORS}
    places = [place.rpartition(".")[0] for given in tensors.values() for place in given]
    fast = [] if isinstance(args.fast_clock, bool) else args.fast_clock
    several = {} if isinstance(args.positions, int) else args.positions
    nodes = (args.parallelism, several, args.implementation, args.adder_levels, args.order)
    named = [*(name for given in nodes for name in given), *fast, *places]
    paths = translations(graph, named)
    devices = translations(graph, args.device, nodes_inside)
    if not paths and not devices:
        return with_metadata(graph, args, args)
    lanes: dict[str, dict[str, Lanes]] = {}
    for name, given in sorted(args.parallelism.items(), key=lambda item: (item[0] not in paths, item[0].count("."))):
        for node in paths.get(name, [name]):
            lanes[node] = {**lanes.get(node, {}), **given}

    translated = args.model_copy(
        update={
            "parallelism": lanes,
            **{key: by_tensor(graph, given) for key, given in tensors.items()},
            "implementation": _by_path(paths, args.implementation),
            "adder_levels": _by_path(paths, args.adder_levels),
            "positions": args.positions if isinstance(args.positions, int) else _by_path(paths, several),
            "order": _by_path(paths, args.order),
            "device": _by_path(devices, args.device),
            "fast_clock": args.fast_clock and (not fast or [n for name in fast for n in paths.get(name, [name])]),
        }
    )
    return with_metadata(graph, translated, args)


def by_tensor(graph: MaseGraph, given: Mapping[str, T]) -> dict[str, T]:
    """What is said of tensors, by the names of nodes in place of paths of modules."""
    parts = {place: place.rpartition(".") for place in given}
    paths = translations(graph, [name for name, _, _ in parts.values()])
    return {f"{n}.{parts[p][2]}": value for p, value in given.items() for n in paths.get(parts[p][0], [parts[p][0]])}


def orders(graph: MaseGraph, args: HardwareArgs) -> dict[str, str]:
    """The orders of sums that are asked for, by the names of nodes."""
    return _by_path(translations(graph, list(args.order)), args.order)


def _by_path(paths: Mapping[str, Sequence[str]], given: Mapping[str, T]) -> dict[str, T]:
    """What is said of modules by their paths, of nodes; what says more of a path counts more."""
    ordered = sorted(given.items(), key=lambda item: (item[0] not in paths, item[0].count(".")))
    return {n: value for name, value in ordered for n in paths.get(name, [name])}


def with_metadata(graph: MaseGraph, args: HardwareArgs, given: HardwareArgs | None = None) -> HardwareArgs:
    """Arguments with what was set in the metadata of nodes.

    Raises:
        ConfigError: If ``given`` says something else for the same place, or a value is none.
    """
    asked: dict[str, Json] = {key: {} for key in ("parallelism", *_AT_NODES)}
    for node in graph.nodes:
        op = graph.op_of(node)
        ways = op.hardware.delegates if op is not None and op.hardware is not None else {}
        # A module that only one implementation has asks for that one.
        modules = {found.module: way for way, name in ways.items() if (found := graph.catalogue[name].hardware)}
        given_here = graph.meta_of(node).hardware.get("given", {})
        kept = {t: _PLACES[e["storage"]] for t, e in given_here.get("interface", {}).items() if "storage" in e}
        for option, by_tensor in (("fifo_depth", given_here.get("fifo_depth", {})), ("memory", kept)):
            asked[option] |= {f"{node.name}.{tensor}": value for tensor, value in by_tensor.items()}
        if lanes := given_here.get("parallelism"):
            asked["parallelism"][node.name] = {tensor: list(value) for tensor, value in lanes.items()}
        if way := given_here.get("implementation", modules.get(given_here.get("module"))):
            asked["implementation"][node.name] = way
    if not any(asked.values()):
        return args
    made = validate("the hardware metadata of the nodes", HardwareArgs, asked)
    theirs, ours = {} if given is None else _by_place(given), _by_place(made)
    for place, value in ours.items():
        if theirs.get(place, value) != value:
            raise ConfigError(
                "the metadata of a node and the arguments of the hardware pass say different things",
                field=f"hardware.{place}",
                got=f"{value} in the metadata, {theirs[place]} in the arguments",
                remedy="leave the argument out, or set the same in the metadata",
            )
    lanes = {n: {**args.parallelism.get(n, {}), **each} for n, each in made.parallelism.items()}
    update = {key: {**getattr(args, key), **getattr(made, key)} for key in _AT_NODES}
    return args.model_copy(update={**update, "parallelism": {**args.parallelism, **lanes}})


def _by_place(args: HardwareArgs) -> Json:
    """What arguments say of single nodes and tensors, by key."""
    lanes = {
        f"{n}.{t}": lane_dims(value, "parallelism") for n, each in args.parallelism.items() for t, value in each.items()
    }
    settings = {"parallelism": lanes, **{key: getattr(args, key) for key in _AT_NODES}}
    return {f"{key}.{place}": value for key, places in settings.items() for place, value in places.items()}


def check_places(graph: MaseGraph, args: HardwareArgs) -> None:
    """Refuse lanes and depths for what is not in the graph; all of them at once.

    Raises:
        ConfigError: Naming the keys that stand for no node, tensor or data input.
    """
    raise_together(list(_strange(graph, args)))


def raise_together(problems: Sequence[MaseHwError]) -> None:
    """Raise what was found: one error as it is, several of one kind as one of that kind.

    Raises:
        MaseHwError: If there is any.
    """
    if len(problems) == 1:
        raise problems[0]
    if problems:
        lines = [f"{p.field or p.node}: {p.message}, got {p.got}, {p.expected or p.remedy}" for p in problems]
        raise type(problems[0])(
            f"{len(problems)} problems with what is configured for the hardware:\n  " + "\n  ".join(lines),
            field=", ".join(str(p.field) for p in problems),
            remedy="correct them all and run again",
        )


def _strange(graph: MaseGraph, args: HardwareArgs) -> Iterator[ConfigError]:
    ops = {n.name: op for n in graph.nodes if (op := graph.op_of(n)) is not None and op.hardware}
    ways = {name: op.hardware for name, op in ops.items() if op.hardware}
    ends = {name: graph.meta_of(graph.node(name)).common for name in ways}
    inputs = [f"{n}.{t}" for n, common in ends.items() for t in common.args.tensors if t.startswith("data_in_")]
    kept = [f"{n}.{t}" for n, hardware in ways.items() for t in hardware.static if t in ends[n].args]
    stored = [f"{n}.{t}" for n, common in ends.items() for t in common.args.tensors if not t.startswith("data_in_")]
    lanes = [*inputs, *(f"{n}.{t}" for n, common in ends.items() for t in common.results.tensors)]
    lanes += [f"{name}.{KERNEL}" for name, hardware in ways.items() if hardware.unrolls]
    given = [f"{name}.{tensor}" for name, tensors in args.parallelism.items() if name in ways for tensor in tensors]
    several = [name for name, hardware in ways.items() if hardware.implementations]
    unrolled = [name for name, kind in args.implementation.items() if kind == UNROLLED]
    made = [name for name, way in args.implementation.items() if way in MADE_FOR_WEIGHTS]
    orders = [name for name, hardware in ways.items() if hardware.orders and name not in made]
    fast = [] if isinstance(args.fast_clock, bool) else args.fast_clock
    again = [f"{n}.{t}" for n, o in args.order.items() if o == WEIGHTS_FIRST for t in ("data_in_0", "data_out_0")]
    again += [place for place in stored if args.parameters_at.get(place, args.parameters) == "external"]
    beside = {} if isinstance(args.positions, int) else args.positions
    enters = [n.all_input_nodes[0].name for n in graph.nodes if graph.meta_of(n).common.mase_op == "quantize"]
    tiled = [*enters, *(name for name, hardware in ways.items() if hardware.positions is not None)]
    levels = "registers are asked for between the additions of a node that is not unrolled"
    added = [*unrolled, *(name for name, hardware in ways.items() if hardware.levels)]
    for key, problem, places, known in (
        ("parallelism", "parallelism for a node that is not in hardware", args.parallelism, ways),
        ("parallelism", "parallelism for a tensor the node does not have", given, lanes),
        ("positions", "several positions are asked of a node whose beats have those of its input", beside, tiled),
        ("fifo_depth", "a FIFO is asked for where there is no data input", args.fifo_depth, inputs),
        ("implementation", "an implementation is asked of a node without several", args.implementation, several),
        ("adder_levels", levels, args.adder_levels, added),
        ("order", "an order is asked of a node that has only one", args.order, orders),
        ("device", "a device is given for a node that is not in hardware", args.device, ways),
        ("fast_clock", "a node has no registers for a fast clock", fast, [n for n, h in ways.items() if h.fast]),
        ("memory", "a memory is placed where no parameter is kept", args.memory, kept),
        ("parameters_at", "there is no such stored parameter", args.parameters_at, stored),
        ("ahead", "nothing that is used several times is held there", args.ahead, again),
    ):
        there = set(known)
        for place in places:
            if place not in there:
                name = place.rpartition(".")[0] if key in _OF_TENSORS else place
                yield _nowhere(graph, name, f"{key}.{place}", problem, known, place)


def _nowhere(graph: MaseGraph, name: str, field: str, problem: str, known: Iterable[str], wanted: str) -> ConfigError:
    gone = became(graph, name) or passed_through(graph, name)
    return ConfigError(
        problem,
        field=f"hardware.{field}",
        got=None if gone is None else f"{name}, which {gone}",
        remedy=suggest(wanted, list(known)),
    )
