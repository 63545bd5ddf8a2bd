"""The trials of a search: which is next, who runs it, and what is kept of it.

A trial depends on its number, the seed, and what the trials gave whose numbers are lower by a window or more. So the
same search makes the same trials in one process and on a cluster, in one go and in pieces, whatever is killed.
A trial is written down once, when it is done, in one line of Optuna's journal; one that was under way when everything
stopped is made again, and is the same.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import Timeout

from mase_hw.errors import ConfigError
from mase_hw.host.documents import Json
from mase_hw.host.locks import locked
from mase_hw.host.pools import Pool, carry_out, took_its_worker
from mase_hw.search.history import REDRAWS, History, Params, digest_of, quiet, seed_of

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages.journal import BaseJournalBackend

ATTEMPTS = 5
"""How often a trial may take its worker with it."""
JOURNAL = "trials.journal"
STUDY = "search"
MOST_LINE = 1 << 24
"""Bytes of the journal's last line, which may have been cut off."""

Option = int | str
Chosen = Mapping[str, Option]
Tell = Callable[[str], object]


@dataclass(frozen=True)
class Trial:
    """A configuration that is to be tried.

    Args:
        number: From 0.
        seed: Of the sampler that drew it.
        chosen: What was chosen, by variable.
        digest: Of the search and what was chosen: the same for the same hardware.
    """

    number: int
    seed: int
    chosen: Chosen
    digest: str

    @property
    def name(self) -> str:
        """What a pool calls it."""
        return f"trial {self.number}"


@dataclass(frozen=True)
class Outcome:
    """What came of a trial.

    Args:
        score: The criterion; None if it was pruned or lost.
        measures: What was measured besides, by name.
        hardware: Arguments of the hardware that were chosen, where lanes were.
        reason: Why there is no score.
        lost: Whether that is because its workers died.
        seconds: How long it took.
    """

    score: float | None
    measures: Mapping[str, float] = field(default_factory=dict)
    hardware: Json = field(default_factory=dict)
    reason: str = ""
    lost: bool = False
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Rules:
    """What a search is.

    Args:
        choices: Options of every variable.
        ordered: Variables whose neighbouring options are alike.
        starts: What is tried first.
        against: Measures that are to be least, beside the score.
        higher_is_better: Whether a larger score is better.
        sampler: A name of :data:`mase_hw.search.history.SAMPLERS`.
        seed: Of the sampler.
        window: Trials that may be under way at a time.
        identity: Of everything that a trial's outcome depends on.
        settle: Gives variables without effect, beside what else is chosen, always the same option.
    """

    choices: Mapping[str, tuple[Option, ...]]
    ordered: frozenset[str]
    starts: Sequence[Chosen]
    against: tuple[str, ...]
    higher_is_better: bool
    sampler: str
    seed: int
    window: int
    identity: str
    settle: Callable[[Chosen], Chosen] = lambda chosen: chosen

    def values(self, outcome: Outcome) -> tuple[float, ...] | None:
        """The objectives of an outcome, all to be least; None without a score."""
        if outcome.score is None:
            return None
        score = -outcome.score if self.higher_is_better else outcome.score
        return (score, *(outcome.measures[name] for name in self.against))

    def trial(self, number: int, params: Params, attempt: int = 0) -> Trial:
        """The trial of a number with some choices, which the sampler drew at some attempt."""
        chosen = dict(self.settle({name: options[params[name]] for name, options in self.choices.items()}))
        digest = digest_of(self.identity, json.dumps(chosen, sort_keys=True))
        return Trial(number, seed_of(self.seed, number, attempt), chosen, digest)

    def params(self, chosen: Chosen) -> Params:
        """Choices as indices of options."""
        return {name: options.index(chosen[name]) for name, options in self.choices.items()}


Records = dict[int, tuple[Trial, Outcome]]


def run_trials(
    rules: Rules,
    trials: int,
    run: Callable[[Trial], Outcome],
    pool: Pool,
    folder: Path | None,
    tell: Tell,
) -> Records:
    """Make the trials that are not made yet.

    Args:
        rules: What the search is.
        trials: Trials in all.
        run: Makes one, on a worker.
        pool: Who does.
        folder: Where trials are kept, and found again; None for nowhere.
        tell: Told after every trial.

    Returns:
        All trials with what came of them, by number.

    Raises:
        ConfigError: If the folder holds another search.
        EmitError: If another search runs in it.
    """
    history = History({n: len(o) for n, o in rules.choices.items()}, rules.ordered, 1 + len(rules.against),
                      rules.sampler, rules.seed)  # fmt: skip
    with _store(rules, folder, history.distributions) as store:
        _Making(rules, trials, history, store, tell).run(run, pool)
        return {number: store.records[number] for number in range(trials)}


class _Making:
    """Trials in the making."""

    def __init__(self, rules: Rules, trials: int, history: History, store: _Store, tell: Tell) -> None:
        self.rules, self.trials, self.history, self.store, self.tell = rules, trials, history, store, tell
        self.records = store.records
        self.next = self.included = 0
        self.drawn: set[str] = set()
        self.outcomes: dict[str, Outcome] = {}
        self.waiting: dict[str, list[Trial]] = {}

    def run(self, run: Callable[[Trial], Outcome], pool: Pool) -> None:
        carry_out(pool, run, self._take, self._finish, self._lose, ATTEMPTS)

    def _take(self) -> Trial | None:
        """The next trial, if what it depends on is there."""
        while self.next < self.trials:
            if self.next in self.records:
                trial, outcome = self.records[self.next]
                self.outcomes.setdefault(trial.digest, outcome)
            else:
                if not self._include(self.next + 1 - self.rules.window):
                    return None
                trial = self._draw(self.next)
                if trial.digest in self.waiting:
                    self.waiting[trial.digest].append(trial)
                elif trial.digest in self.outcomes:
                    self._keep(trial, self.outcomes[trial.digest])
                else:
                    self.waiting[trial.digest] = []
                    self._past(trial)
                    return trial
            self._past(trial)
        return None

    def _past(self, trial: Trial) -> None:
        self.drawn.add(trial.digest)
        self.next += 1

    def _include(self, until: int) -> bool:
        """Whether all trials before a number are done, which the history then has."""
        while self.included < until and self.included in self.records:
            trial, outcome = self.records[self.included]
            self.history.add(self.rules.params(trial.chosen), self.rules.values(outcome))
            self.included += 1
        return self.included >= until

    def _draw(self, number: int) -> Trial:
        if number < len(self.rules.starts):
            return self.rules.trial(number, self.rules.params(self.rules.starts[number]))
        for attempt in range(REDRAWS + 1):
            trial = self.rules.trial(number, self.history.propose(number, attempt), attempt)
            if trial.digest not in self.drawn:
                break
        return trial

    def _finish(self, trial: Trial, outcome: Outcome) -> None:
        self.outcomes[trial.digest] = outcome
        for each in (trial, *self.waiting.pop(trial.digest)):
            self._keep(each, outcome)

    def _lose(self, trial: Trial, problem: BaseException, deaths: int) -> None:
        if not took_its_worker(problem):
            raise problem
        self._finish(trial, Outcome(None, reason=f"lost {deaths} workers", lost=True))

    def _keep(self, trial: Trial, outcome: Outcome) -> None:
        self.store.add(trial, outcome)
        said = f"score {outcome.score:.6g}" if outcome.score is not None else f"pruned, {outcome.reason}"
        more = "".join(f", {n} {outcome.measures[n]:,.6g}" for n in self.rules.against if n in outcome.measures)
        self.tell(f"trial {trial.number + 1} of {self.trials}: {said}{more}")


class _Store:
    """Trials that are done: in memory, and in a study of Optuna if there is one."""

    def __init__(self, rules: Rules, study: Study | None, distributions: Mapping[str, Any]) -> None:
        self.rules, self.study, self.distributions = rules, study, distributions
        self.records: Records = {}
        for each in study.get_trials(deepcopy=False) if study is not None else ():
            trial = Trial(**each.user_attrs["trial"])
            if trial.number in self.records:
                raise ConfigError("the storage holds a trial twice", field="storage", got=trial.name)
            self.records[trial.number] = trial, Outcome(**each.user_attrs["outcome"])

    def add(self, trial: Trial, outcome: Outcome) -> None:
        """Keep a trial."""
        self.records[trial.number] = trial, outcome
        if self.study is None:
            return
        from optuna.trial import TrialState, create_trial

        done = TrialState.PRUNED if not outcome.lost else TrialState.FAIL
        values = None if outcome.score is None else [outcome.score, *(outcome.measures[n] for n in self.rules.against)]
        self.study.add_trial(
            create_trial(
                state=done if values is None else TrialState.COMPLETE,
                params=self.rules.params(trial.chosen),
                distributions=dict(self.distributions),
                values=values,
                user_attrs={"trial": asdict(trial), "outcome": asdict(outcome)},
            )
        )


@contextmanager
def _store(rules: Rules, folder: Path | None, distributions: Mapping[str, Any]) -> Iterator[_Store]:
    if folder is None:
        yield _Store(rules, None, distributions)
        return
    try:
        with locked(folder / ".lock", "the storage of a search", ConfigError, wait=False):
            yield _Store(rules, _study(folder, rules), distributions)
    except Timeout as problem:
        raise ConfigError(
            "another search runs in this folder",
            node=str(folder),
            field="storage",
            remedy="wait for it, or choose another folder",
        ) from problem


def _study(folder: Path, rules: Rules) -> Study:
    import optuna

    file, least = folder / JOURNAL, optuna.study.StudyDirection.MINIMIZE
    try:
        _cut(file)
        place = optuna.storages.JournalStorage(_journal(file))
        better = optuna.study.StudyDirection.MAXIMIZE if rules.higher_is_better else least
        with quiet():
            study = optuna.create_study(
                study_name=STUDY,
                storage=place,
                directions=[better, *(least for _ in rules.against)],
                load_if_exists=True,
            )
    except (OSError, ValueError) as error:
        raise ConfigError(
            "the storage of a search cannot be used", node=str(file), field="storage", got=str(error)
        ) from error
    kept = study.user_attrs.get("identity")
    if kept is None:
        study.set_user_attr("identity", rules.identity)
    elif kept != rules.identity:
        raise ConfigError(
            "the storage holds the search of another network, configuration, criterion, measure, space or seed",
            node=str(folder),
            field="storage",
            remedy="name another folder, or delete this one",
        )
    return study


def _cut(file: Path) -> None:
    """Take away a last line that was not written whole."""
    with suppress(FileNotFoundError), file.open("rb+") as opened:
        end = opened.seek(0, 2)
        opened.seek(max(0, end - MOST_LINE))
        content = opened.read()
        if content and not content.endswith(b"\n"):
            opened.truncate(end - len(content) + content.rfind(b"\n") + 1)


class _Locked:
    """In place of Optuna's lock, which outlives a process that is killed."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None: ...


def _journal(file: Path) -> BaseJournalBackend:
    """A journal whose entries are written whole, also when Ctrl-C comes meanwhile; the folder is locked already."""
    from optuna.storages.journal import JournalFileBackend

    locked: Any = _Locked()
    journal = JournalFileBackend(str(file), locked)
    write = journal.append_logs

    def append(logs: list[dict[str, object]]) -> None:
        with _uninterrupted():
            write(logs)

    journal.append_logs = append
    return journal


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C is answered behind the block; outside the main thread nothing has to be done, as it is answered there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda *what: came.append(what))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came and callable(before):
        before(*came[0])
