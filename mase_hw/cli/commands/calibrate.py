"""The subcommand ``calibrate``."""

from __future__ import annotations

import argparse
import itertools
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from mase_hw.cli._common import INTERRUPTED, OK, loaded, model_arguments, path, settle
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice
from mase_hw.errors import ConfigError

HELP = "observe value ranges once and save them, for compile and all that quantises"


class Batches:
    """Batches from some place on, until the consumer stops.

    Args:
        data: All batches.
        skip: Those that were looked at earlier.
    """

    def __init__(self, data: Iterable[Any], skip: int) -> None:
        self._data, self._skip, self.stopped = data, skip, False

    def __iter__(self) -> Iterator[Any]:
        for batch in itertools.islice(self._data, self._skip, None):
            if self.stopped:
                return
            yield batch

    @contextmanager
    def until_interrupted(self) -> Iterator[None]:
        """Ctrl-C ends the data behind the batch that is being looked at; a second one ends the command."""

        def stop(*_: object) -> None:
            self.stopped = True
            signal.signal(signal.SIGINT, before)

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    model_arguments(parser)
    parser.add_argument("--out", type=path, required=True, metavar="FILE.json", help="where the ranges are saved")
    parser.add_argument("--resume", action="store_true", help="go on behind the batches that the file has")


def run(arguments: argparse.Namespace) -> int:
    """Calibrate, and save the state; 130 if only a part of the data was looked at.

    Raises:
        MaseHwError: If the model, the configuration, the data or the file is not usable.
    """
    from mase_hw.compiler.quantised_graph import calibrated_graph
    from mase_hw.passes import CalibrationState

    settle(arguments)
    there = arguments.out.exists()
    if there and not arguments.resume:
        raise ConfigError(
            "there is a file already",
            field="--out",
            got=str(arguments.out),
            remedy="name another file, delete it, or go on with --resume",
        )
    if not arguments.out.parent.is_dir():
        raise ConfigError("there is no such folder", field="--out", got=str(arguments.out.parent))
    state = CalibrationState.load(arguments.out) if there else CalibrationState()
    settings, spec = loaded(arguments)
    if spec.calibration is None:
        raise ConfigError(
            "the function of the model gives no calibration data",
            node=arguments.model,
            expected="(model, example_inputs, calibration_batches)",
            remedy="return batches of real data; the example alone needs no saved state",
        )
    before = state.batches
    batches = Batches(spec.calibration, before)
    total = len(spec.calibration) if hasattr(spec.calibration, "__len__") else None
    if total is not None and before >= total:
        raise ConfigError(
            "all batches were looked at already", field="--resume", got=f"{before} of {total}", node=str(arguments.out)
        )
    arguments.kept = lambda: f"nothing was written to {arguments.out}"
    with voice(arguments, aside=True) as say, batches.until_interrupted():
        graph = calibrated_graph(
            spec.model, spec.example_inputs, settings, calibration=batches, state=state, progress=say
        )
    state.save(arguments.out)
    say.quiet()
    found = {
        "file": arguments.out,
        "method": state.method,
        "batches": state.batches,
        "batches_before": before,
        "complete": not batches.stopped,
        "ranges": {name: observer.range() for name, observer in state.observers.items() if observer.count},
        "nodes": len(list(graph.nodes)),
    }
    of = "" if total is None else f" of {total}"
    text = f"{state.batches}{of} batches are in {arguments.out}"
    if batches.stopped:
        text = f"interrupted; {text}, and --resume goes on behind them"
    return answer(arguments, INTERRUPTED if batches.stopped else OK, found, text)
