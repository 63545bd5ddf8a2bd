"""Sequences that a design of a language model continues, token by token, beside those of the quantised model.

A token is chosen from the result of the one before, so it enters when that has left. The reference chooses the tokens;
the hardware is given each of them in its turn, and every bit of its results is compared. As long as all are equal it
would have chosen the same ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch

from mase_hw.design.attempts import Attempts, Progress
from mase_hw.design.vectors import Played
from mase_hw.emit.causality import Tokens
from mase_hw.emit.reference import Reference
from mase_hw.errors import ConfigError, MismatchError
from mase_hw.hardware.manifest import Generation
from mase_hw.ir import MaseGraph
from mase_hw.ops._slots import code, slots_of
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.plan import Limits, SimulationOptions, Turn
from mase_hw.simulate.result import SimResult
from mase_hw.streams import IntArray, Stream

Scores = npt.NDArray[np.float64]
MOST_TURNS = 256
"""Turns of sequences in slots whose cycles are predicted: the time that takes grows with their square."""
Choose = Callable[[Scores], int]
"""From the scores of all tokens to the next one."""


def greedy(scores: Scores) -> int:
    """The token with the highest score, the first one of equals."""
    return int(np.argmax(scores))


@dataclass(frozen=True)
class Written:
    """One sequence.

    Args:
        tokens: Ids that enter the design: the prompt, and all that were chosen but the last one.
        prompt: How many of them are the prompt.
        chosen: The ids that were chosen.
        scores: What each of them was chosen from.
    """

    tokens: tuple[int, ...]
    prompt: int
    chosen: tuple[int, ...]
    scores: tuple[Scores, ...] = field(repr=False)

    @property
    def turns(self) -> list[int]:
        """Tokens that enter at once: the prompt, and then one after the other."""
        return [self.prompt, *[1] * (len(self.tokens) - self.prompt)]


@dataclass(frozen=True)
class Generated:
    """What a model wrote.

    Args:
        sequences: In the order of the prompts.
        result: Of the simulation; None if there was none.
        predicted: Cycles of every turn of every sequence; none of more than ``MOST_TURNS`` turns of sequences in slots.
        measured: The same in the simulation; only of one at full rate they must be as predicted.
    """

    sequences: tuple[Written, ...]
    result: SimResult | None = None
    predicted: list[list[int]] = field(default_factory=list)
    measured: list[list[int]] = field(default_factory=list)

    @property
    def tokens(self) -> list[list[int]]:
        """The tokens that were chosen, of every prompt."""
        return [list(each.chosen) for each in self.sequences]


def generate(
    graph: MaseGraph,
    context: int,
    prompts: Sequence[Sequence[int]],
    tokens: int,
    choose: Choose = greedy,
    loop: Generation | None = None,
) -> tuple[Written, ...]:
    """Continue prompts with the quantised model.

    Args:
        graph: A quantised graph of ids ``(1, context)`` to scores ``(1, context, ids)`` or to the next ids
            ``(1, context)``.
        context: Tokens of a frame.
        prompts: Ids, one at least.
        tokens: How many to choose.
        choose: From scores to the next token; of a model that gives ids it is not asked.
        loop: Of a design that generates by itself, which ends sequences as it says; ``tokens`` is not asked then.

    What stands behind the last token changes nothing before it, because the model is causal.

    Raises:
        ConfigError: If a sequence would be longer than the context, or the model takes something else.
    """
    reference = Reference(graph)
    (source, *more), sink = reference.inputs, reference.outputs[0]
    if more or source.shape != (1, context) or len(sink.shape) > 3:
        raise ConfigError(
            "the model does not take ids and give scores",
            field="generate",
            got=[list(port.shape) for port in (*reference.inputs, *reference.outputs)],
            expected=f"[1, {context}] to [1, {context}, ids]",
            remedy="simulate whole sequences with design.simulate",
        )
    if loop is not None:
        prompts, tokens = [prompt[:context] for prompt in prompts], 1
    lengths = [len(prompt) for prompt in prompts]
    if not lengths or min(lengths) < 1 or tokens < 1 or max(lengths) + tokens - 1 > context:
        raise ConfigError(
            "the sequences do not fit the context",
            field="prompts",
            got=f"prompts of {lengths} tokens, and {tokens} to choose",
            expected=f"a prompt of at least one token, and at most {context} tokens that enter the design",
            remedy="choose fewer tokens, keep the end of the prompt alone, or compile with a larger decode.context",
        )
    ids = _rows(prompts, context)
    scores: list[list[Scores]] = [[] for _ in prompts]
    chosen: list[list[int]] = [[] for _ in prompts]
    counts = [tokens if loop is None else min(loop.length, context - length + 1) for length in lengths]
    for step in itertools.takewhile(lambda step: step < max(counts), itertools.count()):
        found = reference.run(torch.from_numpy(ids))[1][sink.port]
        for number, length in enumerate(lengths):
            if step >= counts[number]:
                continue
            values = np.asarray(sink.fmt.values(found[number, 0, length + step - 1]), np.float64)
            scores[number].append(values)
            chosen[number].append(choose(values) if values.ndim else int(values))
            if loop is not None and chosen[number][-1] == loop.stop:
                counts[number] = step + 1
            if step + 1 < counts[number]:
                ids[number, length + step] = chosen[number][-1]
    entered = [tuple(map(int, row[: sum(n) - 1])) for row, *n in zip(ids, lengths, counts, strict=True)]
    each = zip(entered, lengths, map(tuple, chosen), map(tuple, scores), strict=True)
    return tuple(Written(*parts) for parts in each)


def _rows(sequences: Sequence[Sequence[int]], context: int) -> npt.NDArray[np.int64]:
    """Ids of sequences, each filled up to the context."""
    ids = np.zeros((len(sequences), context), np.int64)
    for row, tokens in zip(ids, sequences, strict=True):
        row[: len(tokens)] = tokens
    return ids


@dataclass(frozen=True)
class _Entry:
    """A turn of a sequence.

    Args:
        sequence: Its number.
        begin: The first token.
        count: How many tokens enter.
        reset: Whether a reset comes before it.
        wait: Cycles after which a reset gives it up; 0: it gives its results.
        after: The number of the turn that it follows, as of :class:`~mase_hw.simulate.plan.Turn`.
        slot: Where the sequence is.
        counts: Whether its cycles are those of the sequence.
    """

    sequence: int
    begin: int
    count: int
    reset: bool = False
    wait: int = 0
    after: int | None = None
    slot: int = 0
    counts: bool = True


@dataclass(frozen=True)
class Bench:
    """Plays sequences one after the other, each token when the results of those before it have left.

    A sequence that does not fill the context is followed by a reset. A full one needs none: the token behind it is the
    first one of the next.

    Args:
        dut: The design.
        graph: Its model.
        streams: Its ports by name.
        tokens: How its tokens travel.
        options: Of the simulation, with the batch engine in one process.
        watchdog: Cycles without a handshake after which it hangs.
        tell: Told what is being done.
    """

    dut: Dut
    graph: MaseGraph
    streams: Mapping[str, Stream]
    tokens: Tokens
    options: SimulationOptions
    watchdog: int
    tell: Progress

    def play(self, written: Sequence[Written], abort: int = 0, order: Sequence[int] = ()) -> Generated:
        """Play what the model wrote.

        Args:
            written: The sequences.
            order: Of a design with slots: the sequence of every turn, each as often as it has turns. Without it each
                slot has the next turn of its sequence, one slot after the other, and then of the next sequence.
            abort: Before each of them it is played once more up to its last token, which a reset gives up so many
                cycles after it entered, before its first result; 0: not.

        Raises:
            ConfigError: If the last token would have given results before the reset, or the options do not fit.
        """
        options = self.options
        self._check(resets=False)
        reference = Reference(self.graph)
        if reference.slot is not None:
            if abort:
                raise ConfigError(
                    "a reset would end all sequences that are in turn", field="abort", got=abort, expected="0",
                    remedy="leave abort out; a sequence ends when another one begins in its slot",
                )  # fmt: skip
            plan, predicted = self._in_turn(written, slots_of(reference.slot.fmt), order)
        else:
            plan, predicted = self._one_by_one(written, abort)
        ids = torch.from_numpy(_rows([each.tokens for each in written], self.tokens.context))
        stimulus, expected = reference.run(ids)
        frames = {name: self._by_token(name, values) for name, values in {**stimulus, **expected}.items()}
        if reference.slot is not None:
            # The first token of a sequence begins it anew; the others go on.
            for number, slot in {turn.sequence: turn.slot for turn in plan}.items():
                codes = frames[reference.slot.port][number]
                codes[:] = code(slot, False, slots_of(reference.slot.fmt))
                codes[0] = code(slot, True, slots_of(reference.slot.fmt))
        joined = {
            name: np.concatenate(
                [
                    values[turn.sequence, turn.begin : turn.begin + turn.count].reshape(-1, self.streams[name].lanes)
                    for turn in plan
                    if name in stimulus or not turn.wait
                ]
            )
            for name, values in frames.items()
        }
        turns = [
            Turn(
                {n: turn.count * self.tokens.beats[n] for n in (stimulus if turn.wait else frames)},
                int(turn.reset), turn.wait, turn.after,
            )
            for turn in plan
        ]  # fmt: skip
        limits, cycles = self._limits(len(turns))
        options = replace(options, turns=tuple(turns))
        sides = ({name: joined[name] for name in stimulus}, {name: joined[name] for name in expected})
        result = Attempts(self.dut, options, limits, cycles, len(written), self.tell).run(
            Played(stimulus, *sides, len(written))
        )
        measured: list[list[int]] = []
        if result.passed:
            measured = [[] for _ in written]
            for turn, found in zip(plan, _cycles(result, turns), strict=True):
                if turn.counts:
                    measured[turn.sequence].append(found)
        return Generated(tuple(written), result, predicted, measured)

    def _check(self, resets: bool) -> None:
        """Refuse options that do not fit, resets among them if there may be none."""
        options = self.options
        if options.engine != "batch" or options.jobs != 1 or options.intervene or (options.reset_at and not resets):
            raise ConfigError(
                "a source that waits for results is in the batch engine alone",
                field="generate",
                got=f"engine {options.engine!r}, {options.jobs} processes, resets {options.reset_at}",
                expected='engine="batch", jobs=1, no reset_at',
                remedy="leave these arguments out; abort gives resets amid sequences",
            )

    def by_itself(self, loop: Generation, prompts: Sequence[Sequence[int]], written: Sequence[Written]) -> Generated:
        """Let a design that is the one around another continue prompts, each in its slot when the one before has ended.

        Args:
            loop: What is around the design.
            prompts: What the sequences begin with.
            written: What the model wrote.

        Raises:
            ConfigError: If the options do not fit.
        """
        self._check(resets=True)
        reference = Reference(self.graph)
        slots = 1 if reference.slot is None else slots_of(reference.slot.fmt)
        plan, predicted = self._in_turn(written, slots, ()) if slots > 1 else self._one_by_one(written, 0)
        slot = {turn.sequence: turn.slot for turn in plan}
        high = 1 << (next(iter(reference.inputs)).fmt.width)
        marked = [
            [
                [token + high * (at == len(tokens) - 1) + 2 * high * slot[number] for at, token in enumerate(tokens)]
                for number, tokens in enumerate(sequences)
            ]
            for sequences in (prompts, [each.chosen for each in written])
        ]
        came = [token for tokens in marked[0] for token in tokens]
        left = [iter(tokens) for tokens in marked[1]]
        went = [next(left[turn.sequence]) for turn in plan]
        beats = [np.array(tokens, np.int64)[:, None] for tokens in (came, went)]
        taken, given = (port.name for port in loop.ports)
        limits, cycles = self._limits(len(plan) + loop.restart * len(written))
        options = replace(self.options, turns=(Turn({taken: len(came), given: len(went)}),))
        sides = ({taken: beats[0]}, {given: beats[1]})
        result = Attempts(self.dut, options, limits, cycles, len(written), self.tell).run(
            Played({taken: beats[0][:, None]}, *sides, len(written))
        )
        if slots > 1 and not options.at_full_rate:
            result = _in_any_order(result, given, went, 2 * high)
        measured: list[list[int]] = []
        if result.passed:
            measured = [[] for _ in written]
            times = result.ports[given].cycles.accepted.tolist()
            begins = [int(result.ports[taken].cycles.presented[0])] * slots
            for turn_of, time in zip(plan, times, strict=True):
                measured[turn_of.sequence].append(time - begins[turn_of.slot] + 1)
                ended = len(measured[turn_of.sequence]) == len(written[turn_of.sequence].chosen)
                begins[turn_of.slot] = time + (loop.restart if ended and slots == 1 else 1)
        return Generated(tuple(written), result, predicted, measured)

    def _limits(self, turns: int) -> tuple[Limits, int]:
        """How long to wait for so many turns, and their cycles at most."""
        options = self.options
        slow = 1.0 if options.at_full_rate else 4 * options.stalls.slowdown
        slow *= 1.0 if options.inner is None else options.inner.slowdown
        # No turn takes longer than a whole sequence at once.
        longest = self.tokens.cycles([self.tokens.context])[0] * turns
        cycles = int(slow * longest) + 4 * self.watchdog + 64 * turns
        return Limits(self.watchdog, cycles, tail_cycles=self.watchdog // 4), cycles

    def _one_by_one(self, written: Sequence[Written], abort: int) -> tuple[list[_Entry], list[list[int]]]:
        """The turns of sequences one after the other, and the cycles of each."""
        predicted = [self.tokens.cycles(each.turns) for each in written]
        # The token that is given up is the first one of its turn.
        most = min(self.tokens.silent([*each.turns[:-1], 1]) for each in written) - 2 if abort else 1
        if not 0 <= abort < most:
            raise ConfigError(
                "a token that is given up must not have given results", field="abort", got=abort,
                expected=f"0 to {most - 1} cycles", remedy="give fewer cycles",
            )  # fmt: skip
        plan: list[_Entry] = []
        full = True
        for number, each in enumerate(written):
            for given_up in (True, False) if abort else (False,):
                begin = 0
                for count in each.turns[:-1] if given_up else each.turns:
                    plan.append(_Entry(number, begin, count, reset=begin == 0 and not full, counts=not given_up))
                    begin += count
                if given_up:
                    plan.append(_Entry(number, begin, 1, reset=begin == 0 and not full, wait=abort, counts=False))
                full = begin == self.tokens.context
        return plan, predicted

    def _in_turn(
        self, written: Sequence[Written], slots: int, order: Sequence[int]
    ) -> tuple[list[_Entry], list[list[int]]]:
        """The turns of sequences in slots, and the cycles of each."""
        left = [list(each.turns) for each in written]
        in_slots: list[int | None] = [None] * slots
        last = [-1] * slots
        waiting = iter(range(len(written)))
        plan: list[_Entry] = []
        chosen = iter(order)
        at = -1
        while any(left):
            if order:
                number = next(chosen)
                if number not in in_slots:
                    free = [s for s, held in enumerate(in_slots) if held is None or not left[held]]
                    in_slots[free[len(plan) % len(free)]] = number
                at = in_slots.index(number)
            else:
                at = (at + 1) % slots
                held = in_slots[at]
                if held is None or not left[held]:
                    in_slots[at] = next(waiting, None)
                if (following := in_slots[at]) is None:
                    continue
                number = following
            begin = sum(written[number].turns) - sum(left[number])
            plan.append(_Entry(number, begin, left[number].pop(0), after=last[at], slot=at))
            last[at] = len(plan) - 1
        if len(plan) > MOST_TURNS:
            return plan, []
        cycles = self.tokens.interleaved(
            [(turn.count, turn.begin, -1 if turn.after is None else turn.after) for turn in plan]
        )
        predicted: list[list[int]] = [[] for _ in written]
        for turn, each in zip(plan, cycles, strict=True):
            predicted[turn.sequence].append(each)
        return plan, predicted

    def _by_token(self, name: str, values: IntArray) -> IntArray:
        """Beats of a port, ``(sequences, tokens, beats per token, lanes)``."""
        packed = self.streams[name].pack(values)
        return packed.reshape(len(values), self.tokens.context, self.tokens.beats[name], -1)


def _in_any_order(result: SimResult, name: str, expected: Sequence[int], slot: int) -> SimResult:
    """A result that passed if each slot has the tokens that are expected of it, whatever the others did in between.

    Args:
        result: Of a design whose slots take turns as prompts come.
        name: Its output.
        expected: Tokens of all slots.
        slot: What the number of a slot is multiplied by in a token.
    """
    if not isinstance(result.failure, MismatchError):
        return result
    port, found = result.ports[name], result.outputs[name].reshape(-1).tolist()
    if sorted(found, key=lambda token: token // slot) != sorted(expected, key=lambda token: token // slot):
        return result
    return replace(result, failure=None, ports={**result.ports, name: replace(port, mismatches=0, first=None)})


def _cycles(result: SimResult, turns: Sequence[Turn]) -> list[int]:
    """Cycles of every turn: from when it was allowed to the last result taken; 0 of one without results.

    A turn is allowed in the cycle after the last result of the one that it follows was taken, and else with its first
    beat; behind a reset the first beat comes as soon as it is allowed.
    """
    found: list[int] = []
    ends: list[int] = []
    moved = dict.fromkeys(result.ports, 0)
    start = min(int(p.cycles.presented[0]) for p in result.ports.values() if p.stream.direction == "in")
    for number, turn in enumerate(turns):
        begins, last = [], [-1]
        for name, count in turn.beats.items():
            port = result.ports[name]
            first, moved[name] = moved[name], moved[name] + count
            if port.stream.direction == "in":
                begins.append(int(port.cycles.presented[first]))
            else:
                last.append(int(port.cycles.accepted[moved[name] - 1]))
        begin = min(begins)
        if turn.after is not None:
            begin = ends[turn.after] + 1 if turn.after >= 0 else start
        ends.append(max(last))
        found.append(max(0, ends[number] - begin + 1))
    return found
