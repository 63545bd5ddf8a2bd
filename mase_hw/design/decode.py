"""Sequences that a design of a language model continues, token by token, beside those of the quantised model.

A token is chosen from the result of the one before, so it enters when that has left. The reference chooses the tokens;
the hardware is given each of them in its turn, and every bit of its results is compared. As long as all are equal it
would have chosen the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch

from mase_hw.design.attempts import Attempts, Progress
from mase_hw.design.vectors import Played
from mase_hw.emit.causality import Tokens
from mase_hw.emit.reference import Reference
from mase_hw.errors import ConfigError
from mase_hw.ir import MaseGraph
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.plan import Limits, SimulationOptions, Turn
from mase_hw.simulate.result import SimResult
from mase_hw.streams import IntArray, Stream

Scores = npt.NDArray[np.float64]
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
        predicted: Cycles of every turn of every sequence.
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
    graph: MaseGraph, context: int, prompts: Sequence[Sequence[int]], tokens: int, choose: Choose = greedy
) -> tuple[Written, ...]:
    """Continue prompts with the quantised model.

    Args:
        graph: A quantised graph of ids ``(1, context)`` to scores ``(1, context, ids)`` or to the next ids
            ``(1, context)``.
        context: Tokens of a frame.
        prompts: Ids, one at least.
        tokens: How many to choose.
        choose: From scores to the next token; of a model that gives ids it is not asked.

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
    for step in range(tokens):
        found = reference.run(torch.from_numpy(ids))[1][sink.port]
        for number, length in enumerate(lengths):
            values = np.asarray(sink.fmt.values(found[number, 0, length + step - 1]), np.float64)
            scores[number].append(values)
            chosen[number].append(choose(values) if values.ndim else int(values))
            if step + 1 < tokens:
                ids[number, length + step] = chosen[number][-1]
    entered = [tuple(map(int, row[: length + tokens - 1])) for row, length in zip(ids, lengths, strict=True)]
    each = zip(entered, lengths, map(tuple, chosen), map(tuple, scores), strict=True)
    return tuple(Written(*parts) for parts in each)


def _rows(sequences: Sequence[Sequence[int]], context: int) -> npt.NDArray[np.int64]:
    """Ids of sequences, each filled up to the context."""
    ids = np.zeros((len(sequences), context), np.int64)
    for row, tokens in zip(ids, sequences, strict=True):
        row[: len(tokens)] = tokens
    return ids


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

    def play(self, written: Sequence[Written], abort: int = 0) -> Generated:
        """Play what the model wrote.

        Args:
            written: The sequences.
            abort: Before each of them it is played once more up to its last token, which a reset gives up so many
                cycles after it entered, before its first result; 0: not.

        Raises:
            ConfigError: If the last token would have given results before the reset, or the options do not fit.
        """
        options = self.options
        if options.engine != "batch" or options.jobs != 1 or options.reset_at or options.intervene:
            raise ConfigError(
                "a source that waits for results is in the batch engine alone",
                field="generate",
                got=f"engine {options.engine!r}, {options.jobs} processes, resets {options.reset_at}",
                expected='engine="batch", jobs=1, no reset_at',
                remedy="leave these arguments out; abort gives resets amid sequences",
            )
        predicted = [self.tokens.cycles(each.turns) for each in written]
        # The token that is given up is the first one of its turn.
        most = min(self.tokens.silent([*each.turns[:-1], 1]) for each in written) - 2
        if not 0 <= abort < most:
            raise ConfigError(
                "a token that is given up must not have given results", field="abort", got=abort,
                expected=f"0 to {most - 1} cycles", remedy="give fewer cycles",
            )  # fmt: skip
        ids = torch.from_numpy(_rows([each.tokens for each in written], self.tokens.context))
        stimulus, expected = Reference(self.graph).run(ids)
        frames = {name: self._by_token(name, values) for name, values in {**stimulus, **expected}.items()}
        beats: dict[str, list[IntArray]] = {name: [] for name in frames}
        turns: list[Turn] = []
        counted: list[int] = []

        def turn(number: int, begin: int, count: int, names: Sequence[str], reset: bool, wait: int = 0) -> None:
            for name in names:
                beats[name].append(frames[name][number, begin : begin + count].reshape(-1, self.streams[name].lanes))
            turns.append(Turn({name: count * self.tokens.beats[name] for name in names}, int(reset), wait))

        full = True
        for number, each in enumerate(written):
            for given_up in (True, False) if abort else (False,):
                begin, first = 0, len(turns)
                for count in each.turns[:-1] if given_up else each.turns:
                    turn(number, begin, count, list(frames), begin == 0 and not full)
                    begin += count
                if given_up:
                    turn(number, begin, 1, list(stimulus), begin == 0 and not full, abort)
                full = begin == self.tokens.context
            counted.append(first)
        joined = {name: np.concatenate(parts) for name, parts in beats.items()}
        slow = 1.0 if options.at_full_rate else 4 * options.stalls.slowdown
        slow *= 1.0 if options.inner is None else options.inner.slowdown
        cycles = int(slow * (2 if abort else 1) * sum(map(sum, predicted))) + 4 * self.watchdog + 64 * len(turns)
        options = replace(options, turns=tuple(turns))
        limits = Limits(self.watchdog, cycles, tail_cycles=self.watchdog // 4)
        sides = ({name: joined[name] for name in stimulus}, {name: joined[name] for name in expected})
        result = Attempts(self.dut, options, limits, cycles, len(written), self.tell).run(
            Played(stimulus, *sides, len(written))
        )
        measured = []
        if result.passed:
            found = _cycles(result, turns)
            measured = [found[first : first + len(each.turns)] for first, each in zip(counted, written, strict=True)]
        return Generated(tuple(written), result, predicted, measured)

    def _by_token(self, name: str, values: IntArray) -> IntArray:
        """Beats of a port, ``(sequences, tokens, beats per token, lanes)``."""
        packed = self.streams[name].pack(values)
        return packed.reshape(len(values), self.tokens.context, self.tokens.beats[name], -1)


def _cycles(result: SimResult, turns: Sequence[Turn]) -> list[int]:
    """Cycles of every turn: from the first beat offered to the last result taken; 0 of one without results."""
    found = []
    moved = dict.fromkeys(result.ports, 0)
    for turn in turns:
        begins, ends = [], [-1]
        for name, count in turn.beats.items():
            port = result.ports[name]
            first, moved[name] = moved[name], moved[name] + count
            if port.stream.direction == "in":
                begins.append(int(port.cycles.presented[first]))
            else:
                ends.append(int(port.cycles.accepted[moved[name] - 1]))
        found.append(max(0, max(ends) - min(begins) + 1))
    return found
