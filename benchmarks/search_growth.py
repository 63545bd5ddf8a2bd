"""What a trial costs the process that draws and keeps trials, against how many there were, with a stub as objective.

    python -m benchmarks.search_growth --trials 100000 --out build/search_growth

Optuna's own study, whose samplers read every trial there was, is measured beside it as far as ``--plain``. Times are of
the processor, so that they hold on a machine that is busy.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import optuna

from mase_hw.host.pools import HerePool
from mase_hw.search.history import POPULATION, History
from mase_hw.search.study import JOURNAL, Chosen, Outcome, Rules, run_trials

SIZES = {**{f"node{i}.weight": 7 for i in range(7)}, **{f"node{i}.format": 3 for i in range(3)}, "interval": 18}
"""Variables as those of the digits CNN."""
AGAINST = ("interval", "lut", "dsp")


def stub(chosen: Chosen) -> Outcome:
    """A smooth score and three costs that pull in other directions, with noise by configuration."""
    values = [int(value) for value in chosen.values()]
    noise = random.Random(str(values)).random()
    bits = sum(values[:-1])
    costs = {
        "interval": 64.0 * 2 ** (values[-1] / 2),
        "lut": 100.0 * bits / (1 + values[-1]) + noise,
        "dsp": bits * 0.5,
    }
    return Outcome(bits - 0.02 * bits**2 * noise, costs)


def main(arguments: list[str]) -> int:
    """Measure, and print a row for every so many trials."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--filled", type=int, default=0, help="trials that the journal has before, of random choices")
    parser.add_argument("--step", type=int, default=5000, help="trials between two rows")
    parser.add_argument("--plain", type=int, default=4000)
    parser.add_argument("--sampler", default="nsga2")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    choices: dict[str, Any] = {name: tuple(range(size)) for name, size in SIZES.items()}
    ordered = frozenset(name for name in SIZES if not name.endswith("format"))
    rules = Rules(choices, ordered, [], AGAINST, True, given.sampler, 0, 16, "growth")
    rows: list[dict[str, Any]] = []
    begun, count, proposals = time.process_time(), given.filled, 0
    propose = History.propose

    def counted(self: History, number: int, attempt: int = 0) -> Any:
        nonlocal proposals
        proposals += 1
        return propose(self, number, attempt)

    def tell(_: str) -> None:
        nonlocal begun, count, proposals
        if count == given.filled and count:
            print(f"{count:8,} trials read again in {time.process_time() - begun:.1f} s of the processor", flush=True)
            begun = time.process_time()
        count += 1
        if count % given.step == 0:
            spent = (time.process_time() - begun) / given.step * 1e3
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            rows.append({"trials": count, "ms": spent, "proposals": proposals / given.step, "mib": memory})
            print(
                f"{count:8,} trials: {spent:6.2f} ms of the processor a trial, {proposals / given.step:.2f} proposals, "
                f"{memory} MiB",
                flush=True,
            )
            begun, proposals = time.process_time(), 0

    if given.filled:
        _fill(given.out, rules, given.filled)
    setattr(History, "propose", counted)  # noqa: B010 - mypy refuses to assign a method
    begun = time.process_time()
    run_trials(rules, given.trials, lambda trial: stub(trial.chosen), HerePool(), given.out, tell)
    (given.out / "growth.json").write_text(
        json.dumps({"rows": rows, "plain": _plain(given.plain, given.sampler)}, indent=1), encoding="utf-8"
    )
    return 0


def _fill(folder: Path, rules: Rules, count: int) -> None:
    """Write a journal as a search would, with choices drawn at random, without a sampler."""
    run_trials(rules, 1, lambda trial: stub(trial.chosen), HerePool(), folder, lambda _: None)
    file, draw = folder / JOURNAL, random.Random(0)
    record = json.loads(file.read_text(encoding="utf-8").splitlines()[-1])
    with file.open("a", encoding="utf-8") as opened:
        for number in range(1, count):
            trial = rules.trial(number, {name: draw.randrange(size) for name, size in SIZES.items()})
            outcome = stub(trial.chosen)
            record["values"] = [outcome.score, *(outcome.measures[name] for name in AGAINST)]
            record["params"] = rules.params(trial.chosen)
            record["user_attrs"] = {"trial": asdict(trial), "outcome": asdict(outcome)}
            opened.write(json.dumps(record, separators=(",", ":")) + "\n")


def _plain(trials: int, sampler: str) -> list[dict[str, Any]]:
    """The same with a study of Optuna that has all trials."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    kinds: dict[str, Any] = {
        "nsga2": lambda: optuna.samplers.NSGAIISampler(population_size=POPULATION, seed=0),
        "tpe": lambda: optuna.samplers.TPESampler(seed=0),
        "random": lambda: optuna.samplers.RandomSampler(seed=0),
    }
    study = optuna.create_study(directions=["maximize", *["minimize"] * len(AGAINST)], sampler=kinds[sampler]())
    distributions: dict[str, Any] = {name: optuna.distributions.IntDistribution(0, n - 1) for name, n in SIZES.items()}
    rows, begun = [], time.process_time()
    for number in range(1, trials + 1 if trials else 1):
        trial = study.ask(dict(distributions))
        outcome = stub(trial.params)
        study.tell(trial, [outcome.score, *(outcome.measures[name] for name in AGAINST)])
        if number % max(1, trials // 8) == 0:
            now = time.process_time()
            rows.append({"trials": number, "ms": round((now - begun) / (trials // 8) * 1e3, 2)})
            print(f"Optuna alone, {number:8,} trials: {rows[-1]['ms']:7.2f} ms", flush=True)
            begun = time.process_time()
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
