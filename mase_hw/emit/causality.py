"""How much of a frame must have come before its results may leave.

Of its first result, for the monitors of a simulation; of every token of a causal language model, whose tokens come one
at a time, each when the result of the one before has left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from mase_hw.beat_times import BeatNetwork, Cycles
from mase_hw.catalogue import Catalogue
from mase_hw.emit.netlist import TOP, Netlist, Pin
from mase_hw.emit.schedule import Part, Timeline
from mase_hw.errors import ConfigError, GraphError, UnsupportedError
from mase_hw.ir import MaseGraph, TensorMetadata
from mase_hw.ops._slots import not_in_turn
from mase_hw.passes.mapping.add_hardware_metadata import HARDWARE_ARGS
from mase_hw.passes.mapping.args import HardwareArgs
from mase_hw.steps import Steps
from mase_hw.streams import Stream

STATES = frozenset({"recurrence", "linear_recurrence", "cumsum"})
"""Ops whose state goes from token to token."""
MARGINS = frozenset({"pad", "slice", "cat", "cat_part"})
"""Ops that shift tokens, where streams of their results have another number of them than those of their inputs."""


def refuse_states(graph: MaseGraph, netlist: Netlist) -> None:
    """Refuse sequences in turn where anything but attention passes values from one token on to the next.

    Args:
        graph: With hardware metadata.
        netlist: What was built of it.

    Raises:
        ConfigError: If none does.
        UnsupportedError: If an op has a state, a window of tokens, or a margin of tokens.
    """
    args = graph.note(HARDWARE_ARGS, HardwareArgs)
    slots = 1 if args is None else args.slots
    if slots == 1:
        return
    # Tokens come one after the other, so the slowest dimension of a stream is theirs.
    shifting = {i.node for i in netlist.instances if i.op in MARGINS and len({_slowest(p) for p in i.ports}) > 1}
    for node in graph.nodes:
        op, meta = graph.op_of(node), graph.meta_of(node).common
        if op is None or not meta.results:
            continue
        weight = meta.args.get("weight")
        windows = [weight.shape[2:]] if isinstance(weight, TensorMetadata) else []
        windows += [np.atleast_1d(meta.args["kernel_size"]).tolist()] if "kernel_size" in meta.args else []
        window = any(size > 1 for sizes in windows for size in sizes)
        if op.name in STATES or window or node.name in shifting:
            raise not_in_turn(
                "an op passes values from one token on to the next, and sequences in turn would share them",
                node=node.name,
                got=f"{op.name}, with {slots} sequences",
                expected="attention as all that tokens know of each other",
            )
    if netlist.slot is None:
        raise ConfigError(
            "nothing of this model keeps anything of a sequence, so that sequences need no slots",
            field="decode.slots",
            got=str(slots),
            expected="a model with attention",
            remedy="leave decode.slots out",
        )


def _slowest(stream: Stream) -> int:
    """The size of its slowest dimension of more than one."""
    return next((size for size in stream.shape if size > 1), 1)


def needed(netlist: Netlist, catalogue: Catalogue) -> Iterator[tuple[str, str, int]]:
    """Every output and input that it depends on, and the beats of the frame without which the frame does not begin.

    They follow from the steps of the modules alone, whatever waits for what: the step that completes a beat comes after
    those before it, and needs what they need. A number of 0 or below counts back from the begin of the frame: an output
    that begins with another input, as a concatenation does, needs only frames before.

    Args:
        netlist: The design.
        catalogue: Where the latency facets of its parts are.
    """
    timeline = Timeline(netlist, catalogue)
    for output in netlist.outputs:
        for name, beats in _inputs(timeline, _needed(timeline, output.name, 1)).items():
            yield output.name, name, beats


def _needed(timeline: Timeline, output: str, beats: int) -> dict[Pin, int]:
    """Beats of every edge that an output depends on, without which it does not give so many beats of a frame."""
    wanted = {timeline.into[Pin(TOP, output)]: beats}
    for part in reversed(timeline.parts.values()):
        for pin, count in _of_part(part, wanted).items():
            wanted[pin] = max(wanted.get(pin, count), count)
    return wanted


def _inputs(timeline: Timeline, wanted: Mapping[Pin, int]) -> dict[str, int]:
    """Those of the inputs of the design."""
    pins = ((stream.name, Pin(TOP, stream.name)) for stream in timeline.netlist.inputs)
    return {name: wanted[pin] for name, pin in pins if pin in wanted}


def _of_part(part: Part, wanted: dict[Pin, int]) -> dict[Pin, int]:
    """Beats of what a part reads, counted from the begin of the frame, for those that are wanted of it."""
    name = part.instance.name
    ports = [port.name for port in part.instance.ports if port.direction == "out"]
    if part.instance.branches:
        asked = [beats for pin, beats in wanted.items() if pin.instance == name]
        return {part.inputs[0]: max(asked)} if asked else {}
    outputs = [wanted.get(Pin(name, port)) for port in ports]
    if all(beats is None for beats in outputs):
        return {}
    if not part.known:
        # Nothing is known of what it needs, but that a frame of its only input begins before the frame of its result,
        # and that it does not run a whole frame ahead of one of several.
        (steps,) = part.stages
        frame = (max(beats for beats in outputs if beats is not None) - 1) // steps.beats_out[0]
        ahead = [0 if len(part.inputs) == 1 else beats for beats in steps.beats_in]
        frames = zip(part.inputs, steps.beats_in, ahead, strict=True)
        return {pin: frame * size + 1 - less for pin, size, less in frames}
    counts = outputs
    for steps in reversed(part.stages):
        counts = [_of_stage(steps, counts, index) for index in range(len(steps.need_steps))]
    found: dict[Pin, int] = {}
    for pin, beats in zip(part.inputs, counts, strict=True):
        if beats is not None:
            found[pin] = max(found.get(pin, beats), beats)
    return found


def _of_stage(steps: Steps, outputs: list[int | None], index: int) -> int | None:
    """Beats of an input that a stage needs for so many of its outputs; None if it needs none at all."""
    needs = steps.need_steps[index]
    if not len(needs):
        return None
    found = []
    for beats, emits in zip(outputs, steps.emit_steps, strict=True):
        if beats is None:
            continue
        frame, beat = divmod(beats - 1, len(emits))
        begun = int(np.searchsorted(needs, emits[beat], side="right"))
        # Where none of this frame is needed yet, those of the frame before are.
        whole = frame * steps.beats_in[index]
        found.append(whole + begun if begun else whole - steps.beats_in[index] + len(needs))
    return max(found, default=None)


WHOLE_SEQUENCES = (
    "let forward take whole sequences, ids (1, tokens), and give a result for each token: attention over all of them "
    "with is_causal=True, or mase_hw.nn.recurrence.linear_recurrence, in place of a loop and of caches, as in "
    "docs/transformers.md; the design keeps keys and values itself, and takes its tokens one at a time"
)
"""What is said of a model that is written for one token at a time."""
FAR = 1 << 32
"""Cycles, more than any turn takes."""


class Tokens:
    """A design whose frame is a sequence of tokens, and what it takes to give them one at a time.

    Args:
        netlist: The design.
        catalogue: Where the latency facets of its parts are.
        context: Tokens of a frame.

    Raises:
        GraphError: If a result of a token is made of tokens behind it, or leaves after them.
        UnsupportedError: If the cycles of a part are not known.
    """

    def __init__(self, netlist: Netlist, catalogue: Catalogue, context: int) -> None:
        self.context = context
        self._catalogue = catalogue
        self._timeline = Timeline(netlist, catalogue)
        if not self._timeline.exact:
            unknown = [name for name, part in self._timeline.parts.items() if not part.known]
            raise UnsupportedError(
                "the steps of a module are not known, so it is not known which tokens it waits for",
                node=unknown[0],
                expected="latency facets with steps",
                remedy="let `latency` of this custom op say its steps; docs/custom_ops.md shows how",
            )
        self.beats = {s.name: _per_token(s, context) for s in netlist.ports}
        for output in netlist.outputs:
            for token in range(context):
                asked = _needed(self._timeline, output.name, (token + 1) * self.beats[output.name])
                for name, beats in _inputs(self._timeline, asked).items():
                    if beats > (token + 1) * self.beats[name]:
                        raise _not_by_token(
                            "the result of a token waits for tokens that come after it",
                            output.name,
                            got=f"token {token} needs {beats} beats of {name}, {self.beats[name]} per token",
                            expected="a causal model, each of whose tokens sees those before it alone",
                            remedy="compile a causal language model (is_causal=True), or leave decode out",
                        )

    def cycles(self, turns: Sequence[int]) -> list[int]:
        """Cycles of every turn of a sequence: from offering its first beat to taking the last one of its results.

        Args:
            turns: Tokens of every turn; they are offered at once, in the cycle after the last result of the turn before
                was taken.
        """
        return [int(n) for n in self._solved(turns, range(-1, len(turns) - 1))[0]]

    def silent(self, turns: Sequence[int]) -> int:
        """Cycles from offering the last turn of a sequence to its first result; arguments as for :meth:`cycles`."""
        return int(self._solved(turns, range(-1, len(turns) - 1))[1])

    def interleaved(self, turns: Sequence[tuple[int, int, int]]) -> list[int]:
        """Cycles of every turn of sequences in turn, from when it was allowed to taking the last one of its results.

        Args:
            turns: Of every turn, in the order in which they enter: its tokens, the position of the first of them, and
                the number of the turn that it follows. It is allowed in the cycle after the last result of that one was
                taken; from the first cycle on if the number is below 0.
        """
        counts, first, after = zip(*turns, strict=True)
        positions = [p % self.context for begin, n in zip(first, counts, strict=True) for p in range(begin, begin + n)]
        positions += [0] * (-len(positions) % self.context)
        timeline = Timeline(self._timeline.netlist, self._catalogue, self._timeline.solved, positions)
        return [int(n) for n in self._solved(counts, after, timeline)[0]]

    def pace(self, slots: int, position: int) -> int:
        """Cycles per token where so many sequences take turns, all at one position, on average of the last rounds."""
        rounds = 4
        turns = [(1, position, number - slots) for number in range(rounds * slots)]
        cycles = self.interleaved(turns)
        ends = np.array(cycles)
        for number in range(slots, len(turns)):
            ends[number] += ends[number - slots]
        return int(-(-(ends[-1] - ends[-1 - slots]) // slots))

    def _solved(
        self, turns: Sequence[int], after: Sequence[int], timeline: Timeline | None = None
    ) -> tuple[Cycles, int]:
        """The cycles of every turn, and those of the last one to its first result.

        When a turn is allowed follows from the turns before it. If those before turn ``k`` are allowed when they should
        be, their cycles are right, and so is what follows from turn ``k``; so it is repeated until nothing changes.
        Turns that are far apart are a good guess, because mostly the design is idle again when the last result has
        left; those that need not wait for each other are together.
        """
        timeline = self._timeline if timeline is None else timeline
        turn = np.repeat(np.arange(len(turns)), turns)
        before, last = np.array(after), np.cumsum(turns) - 1
        begins = np.zeros(len(turns), dtype=np.int64)
        for number, other in enumerate(after):
            begins[number] = begins[other] + FAR if other >= 0 else 0
        begins = np.maximum.accumulate(begins)
        while True:
            # What follows behind the last turn comes long after it.
            tokens = -(-len(turn) // self.context) * self.context
            token = np.concatenate((begins[turn], np.full(tokens - len(turn), begins.max() + FAR)))
            network, edges = timeline.network({n: np.repeat(token, beats) for n, beats in self.beats.items()})
            network.advance()
            ends, firsts = [], []
            for stream in timeline.netlist.outputs:
                offers = network.edges[edges[timeline.into[Pin(TOP, stream.name)]]].offered
                results = offers.reshape(-1, self.beats[stream.name])[:tokens]
                ends.append(results[last, -1])
                firsts.append(results[len(turn) - turns[-1], 0])
            cycles = np.max(np.array(ends), axis=0) - begins + 1
            late = np.flatnonzero(cycles[:-1] >= FAR)
            if len(late) and timeline is self._timeline:  # turns of one sequence, in order
                raise self._waits(int(np.cumsum(turns)[late[0]]), network, edges)
            found = np.where(before >= 0, (begins + cycles)[before], 0)
            if np.array_equal(found, begins):
                return cycles, min(firsts) - begins[-1]
            begins = found

    def _waits(self, tokens: int, network: BeatNetwork, edges: Mapping[Pin, int]) -> GraphError:
        """What is said of a design in which so many tokens do not leave before the next one comes."""
        found = TOP
        for output in self._timeline.netlist.outputs:
            for pin, beats in _needed(self._timeline, output.name, tokens * self.beats[output.name]).items():
                if pin in edges and beats > 0 and network.edges[edges[pin]].offered[beats - 1] >= FAR * tokens:
                    found = pin.instance  # the one that is furthest from the output
        return _not_by_token(
            "the result of a token stays in the design until the next one comes: what both need fills a FIFO",
            found,
            got=f"{tokens} tokens enter, and not all of their results leave",
            expected="results that leave, whatever comes behind them",
            remedy=f"{WHOLE_SEQUENCES}; a recurrence is one op as well, such as nn.GRU",
        )


def _not_by_token(problem: str, node: str, got: str, expected: str, remedy: str = WHOLE_SEQUENCES) -> GraphError:
    return GraphError(problem, node=node, field="decode", got=got, expected=expected, remedy=remedy)


def _per_token(stream: Stream, context: int) -> int:
    """Beats per token of a port, whose tensor must have the tokens as dimension 1 and give them one after the other."""
    shape = stream.tensor_shape
    beats = stream.beats // context
    tokens = range(context) if len(shape) > 1 and shape[0] == 1 and shape[1] == context else ()
    firsts = [index for token in tokens if (index := stream.index_of(token * beats, 0)) is not None]
    if stream.beats % context or [index[1] for index in firsts] != list(range(context)):
        raise _not_by_token(
            "a port of the design does not carry one token after the other",
            stream.name,
            got=f"a tensor of shape {list(shape)}" + (", whose beats have some of every token first" if tokens else ""),
            expected=f"[1, {context}, ...]: one sequence, its tokens in dimension 1, whole tokens one after the other",
        )
    return beats
