"""A plugin of pytest that runs the collected tests on mutants of the goldens, each in a copy of this process.

Importing and collecting is paid once: the process forks for every mutant, the copy gives the live functions their
mutated code and runs the tests that call them, the shortest first, until one fails.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from mase_hw.host.resources import PACKAGE

from .golden_edits import function_at
from .golden_reach import Patches, clear_caches, recorded
from .ledger import Ledger, Outcome
from .mutant import Edit, Mutant

TRIAL = "tests"
"""What the ledger calls all tests together."""
Table = dict[str, tuple[float, list[tuple[str, str]], bool]]
"""By test: seconds of processor time, golden functions that it calls, whether it passes."""
PATIENCE = 40
"""Seconds of tests for a mutant: hundreds of slow ones would not notice what the first ones did not."""
SPARE_MEMORY = 3 << 30
"""Bytes that a mutant may want more than the original."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The request: a JSON file that :mod:`tests.mutation.golden_campaign` writes."""
    parser.addoption("--mutants")


def pytest_collection(session: pytest.Session) -> None:
    """A failure is enough; nobody reads a minimal example."""
    quick = settings(settings.default, phases=[Phase.explicit, Phase.generate])
    settings.register_profile("mutation", quick)
    settings.load_profile("mutation")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Instead of the tests themselves: first which test calls what, then every mutant."""
    request = json.loads(Path(session.config.getoption("--mutants")).read_text(encoding="utf-8"))
    covered = Path(request["coverage"])
    table = _read(covered)
    if missing := [item for item in session.items if item.nodeid not in table]:
        _in_a_copy(session, lambda: _cover(session, missing, covered))
        table = _read(covered)
    if failed := [item for item, (_, _, passed) in table.items() if not passed]:
        raise pytest.UsageError(f"the original fails: {failed[:3]}")
    ledger = Ledger(Path(request["ledger"]), request["key"])
    campaign = _Campaign(session, table, request["oracles"])
    for entry in request["mutants"]:
        mutant = Mutant(**(entry | {"edit": Edit(**entry["edit"])}))
        if not ledger.tried(mutant.id, TRIAL):
            ledger.add(TRIAL, {mutant.id: campaign.judge(mutant)})
    return True


def _read(path: Path) -> Table:
    """What is known of tests; the last line of an interrupted record may be half a line."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    rows = [json.loads(line) for line in lines if line.endswith("]")]
    return {item: (seconds, names, passed) for item, seconds, names, passed in rows}


def _cover(session: pytest.Session, items: list[pytest.Item], path: Path) -> int:
    """Run tests; write of each its seconds, the golden functions that it calls, and whether it passed."""
    for item in items:
        clear_caches()
        before, begin = session.testsfailed, time.process_time()
        with recorded() as names:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        row = [item.nodeid, time.process_time() - begin, sorted(names), session.testsfailed == before]
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    return 0


class _Campaign:
    """Collected tests, what they call, and the code that they call."""

    def __init__(self, session: pytest.Session, table: Table, oracles: dict[str, list[str]]) -> None:
        self._session, self._table, self._oracles = session, table, oracles
        self._patches = Patches()
        self._root = PACKAGE.parent
        self._callers: dict[tuple[str, str], list[pytest.Item]] = {}
        for item in sorted(session.items, key=lambda item: table[item.nodeid][0]):
            for file, name in table[item.nodeid][1]:
                self._callers.setdefault((file, name), []).append(item)

    def judge(self, mutant: Mutant) -> Outcome:
        """Run the tests that call the mutated function until one fails."""
        path = self._root / mutant.file
        original = path.read_text(encoding="utf-8")
        items = self._callers.get((mutant.file, function_at(original, mutant.line)), [])
        if starts := tuple(self._oracles.get(mutant.file, ())):
            items = [item for item in items if item.path.name.startswith(starts)]
        seconds = 0.0
        for number, item in enumerate(items):
            seconds += self._table[item.nodeid][0]
            if seconds > PATIENCE:
                items = items[: number + 1]
                break

        def test() -> int:
            limit = int(10 + 3 * seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            memory = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + SPARE_MEMORY
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            try:
                self._patches.install(path, original, mutant.apply(original))
            except ValueError:
                return len(items) + 2
            for number, item in enumerate(items):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                if self._session.testsfailed:
                    return number + 1
            return 0

        code, signal = _in_a_copy(self._session, test)
        if signal:
            return Outcome("killed", f"no end, or signal {signal}")
        if code == 0:
            return Outcome("survived", "")
        if code == len(items) + 2:
            return Outcome("refused", "its closure has other variables")
        return Outcome("killed", items[code - 1].nodeid)


def _in_a_copy(session: pytest.Session, work: Callable[[], int]) -> tuple[int, int]:
    """Fork, do something silently in the copy; return the number that it gave and the signal that ended it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            os.close(reader)
            session.config.pluginmanager.unregister(name="terminalreporter")
            os.write(writer, b"%d" % work())
            status = 0
        finally:
            # Nothing of the original may run its clean-up twice.
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        number = pipe.read()
    _, how = os.waitpid(child, 0)
    if os.WIFSIGNALED(how):
        return 0, os.WTERMSIG(how)
    if os.WEXITSTATUS(how) or not number:
        raise RuntimeError(f"the copy ended with {os.WEXITSTATUS(how)} and without a verdict")
    return int(number), 0
