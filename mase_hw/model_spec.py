"""A model named on the command line: a file or a module, and a function in it."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mase_hw.errors import ConfigError
from mase_hw.host.user_code import user_code
from mase_hw.importers import file_of_model, import_model
from mase_hw.ir import MaseGraph
from mase_hw.ir.export import is_program
from mase_hw.ir.inputs import as_tensor, frame_tensor
from mase_hw.ir.trace.nested import Nested

MOST_NUMBERS = 1 << 28
"""Random numbers of test inputs: a gigabyte of float32."""
MOST_SEED = 1 << 64
_SEED = 0
_PICKLED = (".pt2", ".pt", ".pth")
FORMS = "FILE.py:FUNCTION, PACKAGE.MODULE:FUNCTION, FILE.onnx or FILE.tflite"
_PACKAGES_ONLY = "attempted relative import"
_RUN = "mase_hw_model_"
"""Begins the names of the modules that files are run as."""


@dataclass(frozen=True)
class ModelSpec:
    """What the function of a model specification returned.

    Args:
        model: The model.
        example_inputs: One frame: a tensor, tensors in order, or tensors by name.
        calibration: Batches from which value ranges are observed; None if the function gave none.
        test_inputs: Frames stacked along the first dimension; None if the function gave none.
        labelled: Batches of ``(inputs, targets)``, by which the model is judged; None if the function gave none.
    """

    model: nn.Module
    example_inputs: Any
    calibration: Any = None
    test_inputs: Any = None
    labelled: Any = None

    def vectors(self, frames: int, seed: int) -> Any:
        """The test inputs; if there are none, random frames that span the range of the example's values.

        Args:
            frames: Random frames.
            seed: Of the random values.

        Raises:
            ConfigError: If the number of frames is not positive, or beyond reason, or the seed is; if the example is
                none.
        """
        if self.test_inputs is not None:
            return self.test_inputs
        example = self.example_inputs
        nested = Nested.of(self.model, example)
        if nested is not None:
            given = nested.flat(example, "example_inputs")
            named: dict[Any, Any] = {name: self._example(value, name) for name, value in given.items()}
        elif isinstance(example, Mapping):
            named = {name: self._example(value, str(name)) for name, value in example.items()}
        else:
            alone = isinstance(example, Tensor | np.ndarray) or not isinstance(example, Sequence)
            named = {i: self._example(value, i) for i, value in enumerate([example] if alone else example)}
        numbers = frames * sum(value.numel() for value in named.values())
        if frames < 1 or numbers > MOST_NUMBERS:
            raise ConfigError(
                "a number of frames that cannot be",
                field="frames",
                got=frames if frames < 1 << 64 else "a number of more than 64 bits",
                expected=f"1 or more, of at most {MOST_NUMBERS} numbers together",
            )
        if not MOST_SEED // -2 <= seed < MOST_SEED:
            raise ConfigError("a seed of more bits than a generator has", field="seed", expected="at most 64 bits")
        generator = torch.Generator().manual_seed(seed)

        def draw(example: Tensor) -> Tensor:
            shape = (frames * example.shape[0], *example.shape[1:])
            if not example.dtype.is_floating_point:  # ids, or true and false
                ends = (0, 1) if example.dtype is torch.bool else (int(example.min()), int(example.max()))
                return torch.randint(ends[0], ends[1] + 1, shape, generator=generator).to(example.dtype)
            low, high = float(example.min()), float(example.max())
            low, high = (low, high) if low < high else (-1.0, 1.0)
            return torch.rand(shape, generator=generator).to(example.dtype) * (high - low) + low

        drawn = {name: draw(value) for name, value in named.items()}
        if nested is not None or isinstance(example, Mapping):
            return drawn
        return drawn[0] if isinstance(example, Tensor | np.ndarray) else tuple(drawn.values())

    def _example(self, value: Any, name: object) -> Tensor:
        where = f"example_inputs[{name!r}]"
        return frame_tensor(as_tensor(value, self.model, None, where), where)


def load_model(spec: str, host: bool = False) -> ModelSpec:
    """Import the function a specification names and call it, or import the model of another tool.

    Random numbers of Python, NumPy and PyTorch begin with the same seed, so that a function that draws, or trains with
    what it draws, gives the same model to every command. What the model's code imports is looked for first in the
    folder of its file, or in the current folder for a module, as ``python FILE`` and ``python -m MODULE`` do.

    Args:
        spec: ``path/to/file.py:function`` or ``package.module:function``. The function takes no arguments and returns
            ``(model, example_inputs)``, where the model is a module, a program of ``torch.export`` or a graph, then
            optionally calibration batches, test inputs and batches of labelled data, each of them None if there are
            none. Or a file that :func:`mase_hw.importers.import_model` takes, with the names of its results behind a
            colon if they are others than those of the file; the example is random.
        host: As for :func:`mase_hw.importers.import_model`.

    Raises:
        ConfigError: If the specification, the file or what the function returns is not as said.
    """
    random.seed(_SEED)
    np.random.seed(_SEED)
    torch.manual_seed(_SEED)
    file = file_of_model(spec)
    if file is not None:
        graph = import_model(file[0], outputs=file[1], host=host)
        return ModelSpec(graph.model, graph.example)
    if spec.lower().endswith(_PICKLED):
        raise ConfigError(
            "an archive of PyTorch is not opened: loading it may run code of the file",
            field="MODEL",
            got=f"{spec:.200}",
            expected=FORMS,
            remedy="if you trust it, load it in a function of yours, such as `def build(): return "
            f'torch.export.load("{Path(spec).name:.80}"), example_inputs`, and name that: FILE.py:build',
        )
    place, _, name = spec.rpartition(":")
    if not place or not name.isidentifier():
        raise ConfigError("not a model specification", field="MODEL", got=f"{spec:.200}", expected=FORMS)
    module = _from_file(Path(place), spec) if place.endswith(".py") else _from_package(place, spec)
    function = getattr(module, name, None)
    if not callable(function):
        there = sorted(n for n, value in vars(module).items() if callable(value) and not n.startswith("_"))
        raise ConfigError(
            f"{place} has no function {name[:80]!r}",
            field="MODEL",
            got=f"{spec:.200}",
            expected=", ".join(there) or "a function",
        )
    return _checked(function, spec)


def _checked(function: Callable[[], Any], spec: str) -> ModelSpec:
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError) as error:
        raise ConfigError(
            "the function of the model cannot be called without arguments", node=spec, field="MODEL", got=str(error)
        ) from error
    with user_code("the function of the model failed", ConfigError, node=spec, field="MODEL"):
        returned = function()
    if isinstance(returned, tuple) and returned and (isinstance(returned[0], MaseGraph) or is_program(returned[0])):
        first = returned[0] if isinstance(returned[0], MaseGraph) else import_model(returned[0])
        returned = (first.model, *returned[1:])
    if not isinstance(returned, tuple) or not 2 <= len(returned) <= 5 or not isinstance(returned[0], nn.Module):
        kinds = [type(item).__name__ for item in returned] if isinstance(returned, tuple) else type(returned).__name__
        raise ConfigError(
            "the function of the model returned something else",
            node=spec,
            field="MODEL",
            got=kinds,
            expected="(torch.nn.Module, example_inputs[, calibration_batches[, test_inputs[, labelled_batches]]])",
        )
    return ModelSpec(*returned)


class _FromText(SourceFileLoader):
    """Runs a file as it is now: bytecode is found by the time and the size of a file, which an edit need not change."""

    def path_stats(self, path: str) -> Mapping[str, object]:
        """Nothing by which bytecode could be found, or kept."""
        raise OSError(path)


def _from_file(path: Path, spec: str) -> ModuleType:
    if not _is_file(path):
        raise ConfigError(
            "there is no such file", field="MODEL", got=f"{spec:.200}", expected="an existing Python file"
        )
    _BESIDE.search(path.resolve().parent)
    name = f"{_RUN}{path.stem}"
    module_spec = importlib.util.spec_from_file_location(name, path, loader=_FromText(name, str(path)))
    if module_spec is None or module_spec.loader is None:
        raise ConfigError("not a Python file", field="MODEL", got=spec, expected=FORMS)
    module = importlib.util.module_from_spec(module_spec)
    # Registered, because dataclasses and pickles in the file look their module up by name.
    sys.modules[name] = module
    try:
        # The user's code may raise anything, a syntax error and sys.exit included.
        with user_code("the model's file cannot be run", ConfigError, node=spec, field="MODEL"):
            module_spec.loader.exec_module(module)
    except ConfigError as error:
        del sys.modules[name]
        if _PACKAGES_ONLY in str(error.got):
            error.remedy = (
                "a file that is run by itself belongs to no package: from the folder that holds the package, name "
                f"its module, PACKAGE.{path.stem}:{spec.rpartition(':')[2]}"
            )
        raise
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _Beside:
    """The folder in which modules are looked for first: that of the last model that was loaded.

    What the model before imported from its own folder is forgotten, since this one may have modules of the same names.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._known: set[str] = set()

    def search(self, folder: Path) -> None:
        """Look here first, and no longer in the folder of the model before."""
        if self._folder is not None and str(self._folder) in sys.path:
            sys.path.remove(str(self._folder))
        known = {name.partition(".")[0] for name in sys.modules}
        since = {name for name in known - self._known if not name.startswith(_RUN)}
        gone = {name for name in since if self._folder in _folders(name)}
        for name in [name for name in sys.modules if name.partition(".")[0] in gone]:
            del sys.modules[name]
        importlib.invalidate_caches()  # Python lists a folder anew only where its time has changed
        self._folder, self._known = folder, known - gone
        sys.path.insert(0, str(folder))


_BESIDE = _Beside()


def _folders(module: str) -> list[Path]:
    """Where a module was found that no package holds."""
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return [] if spec is None else [Path(p).parent for p in spec.submodule_search_locations or [spec.origin or ""]]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file system takes
        return False


def _from_package(place: str, spec: str) -> ModuleType:
    if not all(part.isidentifier() for part in place.split(".")):
        raise ConfigError("not a model specification", field="MODEL", got=f"{spec:.200}", expected=FORMS)
    _BESIDE.search(Path.cwd())
    with user_code("the model's module cannot be imported", ConfigError, node=spec, field="MODEL"):
        try:
            return importlib.import_module(place)
        except ModuleNotFoundError as error:
            # A missing dependency of the user's module is reported at its line.
            if error.name is None or not f"{place}.".startswith(f"{error.name}."):
                raise
            top = f"{error.name:.80}".partition(".")[0]
            raise ConfigError(
                f"there is no module {error.name[:200]!r}", field="MODEL", got=f"{spec:.200}", expected=FORMS,
                remedy=f"run it in the folder that holds {top}, install it, or name a file instead",
            ) from error  # fmt: skip
