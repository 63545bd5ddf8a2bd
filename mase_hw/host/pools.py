"""Sends jobs to an executor of the shape of ``concurrent.futures`` and loses none of them.

A process pool breaks as a whole when one of its workers is killed. Then a new pool is opened, what had finished
stays, and the jobs that were under way are tried again one at a time, so that one which kills its worker is found and
takes no other with it. A cluster gives the jobs of a lost worker to another one, and gives a job up that lost several;
it is tried again as well.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator
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
from pathlib import Path
from typing import Any, Protocol, TypeVar

from mase_hw.errors import ConfigError, ToolError
from mase_hw.host.documents import parse_json
from mase_hw.host.process import be_a_worker
from mase_hw.host.toolchain import of_extra

ATTEMPTS = 3
"""How often a job may take its worker with it."""


class Pool(Protocol):
    """Opens executors, one after another if they break, and says how many jobs one holds at a time."""

    width: int

    def open(self) -> Executor:
        """A new executor."""


class _Here(Executor):
    """Runs a job when it is submitted, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as problem:
            future.set_exception(problem)
        return future


class HerePool:
    """This process: one job at a time."""

    width = 1

    def open(self) -> Executor:
        """This process."""
        return _Here()


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
    distributed = of_extra("cluster", "distributed", "Dask is not installed")
    try:
        address = scheduler
        if scheduler.endswith(".json"):
            address = str(parse_json(Path(scheduler).read_text(encoding="utf-8"))["address"])
        client = distributed.Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise ToolError("the Dask scheduler does not answer", node=scheduler, got=str(problem)) from problem
    with client:
        yield DaskPool(client)


class Named(Protocol):
    """A job; no two have the same name."""

    @property
    def name(self) -> str:
        """What it is called."""


J = TypeVar("J", bound=Named)
R = TypeVar("R")


def carry_out(
    pool: Pool,
    run: Callable[[J], R],
    take: Callable[[], J | None],
    finish: Callable[[J, R], None],
    lose: Callable[[J, BaseException, int], None],
    attempts: int = ATTEMPTS,
) -> None:
    """Run jobs until there are none, and say of every one what came of it, once.

    Args:
        pool: Who runs them.
        run: What runs one, on a worker.
        take: The next job; None if there is none before another one has finished, or none at all.
        finish: Told every job's result.
        lose: Told of a job without a result why, and how often it was tried: it raised something, or took its worker
            with it as often as it may.
        attempts: How often a job may take its worker with it.
    """
    suspects = deque[J]()
    again = deque[J]()
    deaths: dict[str, int] = {}

    def next_job(running: int) -> J | None:
        if running >= pool.width:
            return None
        job = again.popleft() if again else take()
        return suspects.popleft() if job is None and suspects and not running else job

    more = True
    while more:
        executor = pool.open()
        running: dict[Future[R], J] = {}
        try:
            while True:
                while (job := next_job(len(running))) is not None:
                    try:
                        running[executor.submit(run, job)] = job
                    except BrokenExecutor:
                        again.appendleft(job)
                        raise
                if not running:
                    more = False
                    break
                broken = False
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    job = running.pop(future)
                    problem = _problem(future)
                    if problem is None:
                        finish(job, future.result())
                        continue
                    broken |= isinstance(problem, BrokenExecutor)
                    deaths[job.name] = deaths.get(job.name, 0) + 1
                    if took_its_worker(problem) and deaths[job.name] < attempts:
                        suspects.append(job)
                    else:
                        lose(job, problem, deaths[job.name])
                if broken:
                    raise BrokenExecutor
        except BrokenExecutor:
            for job in running.values():
                deaths[job.name] = deaths.get(job.name, 0) + 1
                suspects.append(job)
        finally:
            # Nothing waits in it: no more was handed over than it can run.
            executor.shutdown(wait=False)


def took_its_worker(problem: BaseException) -> bool:
    """Whether a job has no result because its worker was lost: a pool broke, or a cluster gave it up."""
    return isinstance(problem, BrokenExecutor) or type(problem).__name__ == "KilledWorker"


def _problem(future: Future[Any]) -> BaseException | None:
    """Why a job has no result. A cluster that goes away cancels what it was given."""
    return CancelledError("the cluster gave it up") if future.cancelled() else future.exception()
