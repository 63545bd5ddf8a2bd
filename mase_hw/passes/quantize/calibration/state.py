"""Calibration that can stop and go on: all observers of a graph, in memory or in a JSON file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import cast

from torch import nn

from mase_hw.errors import ConfigError
from mase_hw.host.disk import write_whole, writing
from mase_hw.host.documents import Json, parse_json
from mase_hw.passes.quantize.calibration.observers import OBSERVERS, MethodOptions, Observer, SampleState

_VERSION = 2


def weights_digest(model: nn.Module) -> str:
    """SHA-256 of the names, shapes and values of all parameters and buffers of a model."""
    found = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        found.update(tensor.detach().cpu().double().contiguous().numpy().tobytes())
    return found.hexdigest()


class CalibrationState:
    """Where a calibration stands; give it to :func:`calibrate_analysis_pass` again to go on with more data.

    Going on gives exactly what one run over all batches gives.
    """

    def __init__(self) -> None:
        self.method: str | None = None
        self.options = MethodOptions()
        self.batches = 0
        self.observers: dict[str, Observer] = {}
        """By ``node.result``."""
        self.weights: str | None = None
        """:func:`weights_digest` of the model whose values were observed."""
        self.frames: SampleState | None = None
        """The sample of the frames, as JSON types; see :class:`~mase_hw.passes.quantize.calibration.observers`."""

    def begin(self, method: str, options: MethodOptions) -> CalibrationState:
        """A copy to work on, so that a failure leaves this one as it is.

        Raises:
            ConfigError: If the calibration was begun with another method or other options.
        """
        if self.method is not None and (self.method, self.options) != (method, options):
            raise ConfigError(
                "this calibration was begun with another method",
                field="state",
                got=f"{method}, {options}",
                expected=f"{self.method}, {self.options}",
                remedy="go on with the same method and options, or begin with a new CalibrationState",
            )
        copy = CalibrationState.from_document(self.to_document())
        copy.method, copy.options = method, options
        return copy

    def observer(self, name: str) -> Observer:
        """The observer of a tensor, made if there is none yet."""
        assert self.method is not None  # set when the calibration begins
        if name not in self.observers:
            self.observers[name] = OBSERVERS[self.method](self.options)
        return self.observers[name]

    def take(self, other: CalibrationState) -> None:
        """Become what another state is."""
        self.__dict__.update(other.__dict__)

    def to_document(self) -> Json:
        """Plain numbers and texts."""
        return {
            "version": _VERSION,
            "method": self.method,
            "options": self.options.model_dump(),
            "batches": self.batches,
            "tensors": {name: observer.state() for name, observer in self.observers.items()},
            "weights": self.weights,
            "frames": self.frames or {},
        }

    @classmethod
    def from_document(cls, document: Json) -> CalibrationState:
        """The state of a :meth:`to_document`.

        Raises:
            ConfigError: If it is none.
        """
        made = cls()
        try:
            if document["version"] != _VERSION:
                raise ValueError(f"version {document['version']}")
            made.method, made.batches = document["method"], int(document["batches"])
            made.options = MethodOptions(**document["options"])
            for name, state in document["tensors"].items():
                made.observer(name).restore(state)
            made.weights, frames = document["weights"], dict(document["frames"])
            made.frames = cast(SampleState, frames) if frames else None
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, AssertionError) as error:
            raise ConfigError(
                "this is no state of a calibration",
                field="state",
                got=f"{type(error).__name__}: {error}",
                expected=f"a file that CalibrationState.save wrote, version {_VERSION}",
            ) from error
        return made

    def save(self, path: str | Path) -> None:
        """Write a JSON file, beside and renamed into place.

        Raises:
            EmitError: If it cannot be written.
        """
        path = Path(path)
        with writing("the state of a calibration", path):
            write_whole(path, json.dumps(self.to_document()))

    @classmethod
    def load(cls, path: str | Path) -> CalibrationState:
        """Read a file of :meth:`save`.

        Raises:
            ConfigError: If it cannot be read or is no such file.
        """
        try:
            document = parse_json(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError("the calibration state cannot be read", field="state", got=str(error)) from error
        if not isinstance(document, dict):
            raise ConfigError("this is no state of a calibration", field="state", got=type(document).__name__)
        return cls.from_document(document)
