"""Sends jobs to an executor of the shape of ``concurrent.futures`` and loses none of them.

A process pool breaks as a whole when one of its workers is killed. Then a new pool is opened, what had finished
stays, and the jobs that were under way are tried again one at a time, so that one which kills its worker is found and
takes no other with it.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from mase_hw.errors import ConfigError, ToolError
from mase_hw.host.documents import parse_json
from mase_hw.host.process import be_a_worker
from mase_hw.regress.job import Place, Result, blank, run_job
from mase_hw.regress.matrix import Job

ATTEMPTS = 3
"""How often a job may take its worker with it."""


class Pool(Protocol):
    """Opens executors, one after another if they break, and says how many jobs one holds at a time."""

    width: int

    def open(self) -> Executor:
        """A new executor."""


class LocalPool:
    """Processes of this machine.

    Args:
        width: How many.
    """

    def __init__(self, width: int) -> None:
        if width < 1:
            raise ConfigError("at least one process is needed", field="jobs", got=width, expected="1 or more")
        self.width = width

    def open(self) -> Executor:
        """Processes started afresh: torch and its threads do not survive a fork."""
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self.width, mp_context=context, initializer=be_a_worker)


class DaskPool:
    """The workers of a Dask cluster.

    Args:
        client: A ``distributed.Client``; its scheduler may have been started by dask-jobqueue.
        width: Jobs handed to the cluster at a time; more than it has workers, as workers may join.
    """

    def __init__(self, client: Any, width: int = 10_000) -> None:
        self.client, self.width = client, width

    def open(self) -> Executor:
        """The client as an executor; Dask itself gives the jobs of a lost worker to another one."""
        executor: Executor = self.client.get_executor(pure=False, retries=0)
        return executor


@contextmanager
def dask_pool(scheduler: str, timeout: float = 30.0) -> Iterator[DaskPool]:
    """Connect to a scheduler by address, or by the path of its scheduler file (``.json``).

    Raises:
        ToolError: If Dask is not installed or the scheduler does not answer in time.
    """
    try:
        distributed = import_module("distributed")
    except ImportError as problem:
        remedy = "pip install 'mase-hw[cluster]'"
        raise ToolError("Dask is not installed", got=str(problem), remedy=remedy) from problem
    try:
        address = scheduler
        if scheduler.endswith(".json"):
            address = str(parse_json(Path(scheduler).read_text(encoding="utf-8"))["address"])
        client = distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise ToolError("the Dask scheduler does not answer", node=scheduler, got=str(problem)) from problem
    with client:
        yield DaskPool(client)


def run_all(jobs: Iterable[Job], place: Place, pool: Pool, tell: Callable[[Result], None]) -> list[Result]:
    """Run every job; every job has a result.

    Args:
        jobs: The jobs.
        place: Where they run.
        pool: Who runs them.
        tell: Told every result when it comes.

    Returns:
        The results in the order of the jobs.
    """
    ordered = list(jobs)
    fresh, suspects = deque(ordered), deque[Job]()
    deaths: dict[str, int] = {}
    results: dict[str, Result] = {}

    def finish(job: Job, result: Result) -> None:
        results[job.name] = result
        tell(result)

    while fresh or suspects:
        executor = pool.open()
        running: dict[Future[Result], Job] = {}
        try:
            while fresh or suspects or running:
                width = pool.width if fresh or not suspects else 1
                queue = fresh or suspects
                while queue and len(running) < width:
                    job = queue.popleft()
                    try:
                        running[executor.submit(run_job, job, place)] = job
                    except BrokenExecutor:
                        queue.appendleft(job)
                        raise
                broken = False
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    job = running.pop(future)
                    problem = _problem(future)
                    if problem is None:
                        finish(job, future.result())
                        continue
                    broken |= isinstance(problem, BrokenExecutor)
                    deaths[job.name] = deaths.get(job.name, 0) + 1
                    if isinstance(problem, BrokenExecutor) and deaths[job.name] < ATTEMPTS:
                        suspects.append(job)
                    else:
                        finish(job, _lost(job, place, problem, deaths[job.name]))
                if broken:
                    raise BrokenExecutor
        except BrokenExecutor:
            for job in running.values():
                deaths[job.name] = deaths.get(job.name, 0) + 1
                suspects.append(job)
        finally:
            # Nothing waits in it: no more was handed over than it can run.
            executor.shutdown(wait=False)
    return [results[job.name] for job in ordered]


def _problem(future: Future[Result]) -> BaseException | None:
    """Why a job has no result. A cluster that goes away cancels what it was given."""
    return CancelledError("the cluster gave it up") if future.cancelled() else future.exception()


def _lost(job: Job, place: Place, problem: BaseException, deaths: int) -> Result:
    result = blank(job, place)
    result["kind"] = type(problem).__name__
    result["message"] = f"no result after {deaths} attempts, its worker was lost: {problem or type(problem).__name__}"
    return result
