"""The hardware branch of a node's metadata: every field is an input, which takes effect, or a result, which is kept.

An input that is set is checked and remembered under ``given``. The hardware pass maps the node accordingly; what is set
after the pass is mapped, and checked against the module, before anything is emitted. A result follows from something
else, and an assignment to it says from what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, NoReturn

from mase_hw.errors import ConfigError
from mase_hw.ir.records import Branch, Entries, Record, place, record, refuse_key
from mase_hw.ir.tensors import KNOWN_STORAGE, KNOWN_TOOLCHAIN

Check = Callable[[Any], Any]
Path = tuple[str, ...]


def _kind(kind: type, expected: str) -> tuple[Check, str]:
    return lambda value: value if type(value) is kind else None, expected


def _one_of(known: tuple[str, ...]) -> tuple[Check, str]:
    return lambda value: value if value in known else None, " | ".join(known)


def _lanes(value: Any) -> Any:
    lanes = [value] if type(value) is int else list(value) if isinstance(value, list | tuple) else []
    return lanes if lanes and all(type(n) is int and n > 0 for n in lanes) else None


_LANES = (_lanes, "a number of lanes, or a list of them with the innermost dimension first")
INPUTS: Mapping[str, tuple[Check, str]] = {
    "toolchain": _one_of(KNOWN_TOOLCHAIN),
    "module": _kind(str, "the name of a module that the op has"),
    "implementation": _kind(str, "an implementation that the op has, as in `hardware.implementation`"),
    "device_id": (
        lambda value: value if type(value) is int and value >= -1 else None,
        "the number of a device, the same for all nodes of a design; -1 for the default one",
    ),
    "max_parallelism": _LANES,
    "parallelism.*": _LANES,
    "fifo_depth.*": (lambda value: value if type(value) is int and value >= 0 else None, "a depth, 0 for no FIFO"),
    "interface.*.storage": _one_of(KNOWN_STORAGE),
    "interface.*.transpose": _kind(bool, "true or false; only parameters of external modules can be transposed"),
}
"""Fields that may be set, ``*`` for any tensor: what makes the value one that can be kept, and what is expected."""
RESULTS: Mapping[str, str] = {
    "is_implicit": "the op of the catalogue that the node is",
    "dependence_files": "the module; of a custom op, its `dependence_files`",
    "verilog_param": "the formats (`quantize`), the lanes (`parallelism`) and the `implementation`",
    "latency": "the module and its lanes (`parallelism`)",
    "layouts": "the order in which the nodes before it stream",
    "interface.*.registers": "`hardware.family` and the `storage`",
    "given": "the other fields: what was set there by hand",
}
"""Fields that follow from something else, and from what."""
_HOLDERS = ("interface", "interface.*", "parallelism", "fifo_depth")


def _refuse_change(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise ConfigError(
        "of what the hardware branch holds nothing is taken out, and lists are not changed in place",
        got=repr(self)[:80],
        remedy="assign a whole value to a key",
    )


class FixedList(list[Any]):
    """A list that is not changed in place: a change would go unnoticed. Copies of it are plain lists."""

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse_change
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse_change

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return list, (list(self),)


class Setting(Branch):
    """A dict inside the branch, which hands on what is set in it. Copies of it are plain dicts."""

    def __init__(self, owner: HardwareMetadata, path: Path, items: Mapping[str, object]) -> None:
        super().__init__()
        self._owner, self._path = owner, path
        for key, value in items.items():
            dict.__setitem__(self, key, self._placed(key, owner.held((*path, str(key)), value)))

    def __setitem__(self, key: str, value: Any) -> None:
        self._owner.put((*self._path, key), value)

    __delitem__ = pop = popitem = clear = _refuse_change

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return dict, (dict(self),)


@record
class HardwareMetadata(Record):
    """How a node is built: what was asked for, and what the hardware metadata pass made of it.

    Args:
        is_implicit: No hardware of its own.
        interface: Parameter name -> where it is kept, whether its memory image is transposed, registers behind it.
        toolchain: ``INTERNAL``, ``EXTERNAL`` or ``HLS``.
        module: Name of the SystemVerilog module.
        implementation: How products are computed, where that was asked for.
        device_id: Device the node is mapped to, -1 for the default one.
        dependence_files: Files of the module, dependencies first.
        verilog_param: The instantiation's parameters, in order.
        max_parallelism: Upper bound of lanes, innermost dimension first.
        parallelism: Tensor name -> lanes along each dimension, innermost first.
        latency: Timing of the module.
        fifo_depth: Data input -> depth of the FIFO before it, where one is configured.
        layouts: Tensor name -> order of its elements in the stream (:meth:`mase_hw.layouts.Layout.to_dict`).
        given: What was set by hand, by field.
    """

    is_implicit: bool | None = None
    interface: Entries = field(default_factory=dict)
    toolchain: str | None = None
    module: str | None = None
    implementation: str | None = None
    device_id: int | None = None
    dependence_files: list[str] = field(default_factory=list)
    verilog_param: Entries = field(default_factory=dict)
    max_parallelism: Any = None
    parallelism: Entries = field(default_factory=dict)
    latency: Any = None
    fifo_depth: dict[str, int] = field(default_factory=dict)
    layouts: Entries = field(default_factory=dict)
    given: Entries = field(default_factory=dict)

    @classmethod
    def filled(cls, found: Entries) -> HardwareMetadata:
        """A branch with these fields, see :meth:`fill`."""
        made = cls()
        made.fill(found)
        return made

    def fill(self, found: Entries) -> None:
        """Replace all results by others; what was set by hand stays."""
        given = {**self.get("given", {}), **found.get("given", {})}
        unknown = found.keys() - self.__dataclass_fields__.keys()
        if unknown:
            refuse_key(self, min(unknown), self.fields())
        dict.clear(self)
        for key, value in {**given, **found, "given": given}.items():
            self._store((key,), value)

    def asked(self, name: str) -> Any:
        """What was set by hand under a field; None if nothing was."""
        return self.get("given", {}).get(name)

    def coerce(self, name: str, value: Any) -> Any:
        """See :meth:`held`."""
        return self.held((name,), value)

    def held(self, path: Path, value: Any) -> Any:
        """A value as it stands here: dicts and lists notice, or refuse, what is changed in them."""
        if isinstance(value, Mapping):
            return Setting(self, path, value)
        return FixedList(value) if isinstance(value, list | tuple) else value

    def put(self, path: Path, value: Any) -> None:
        """Set an input by hand.

        Raises:
            ConfigError: If it is a result, or the value is none for it.
            MetadataKeyError: If there is no such field.
        """
        name = _pattern(path)
        if name in _HOLDERS and isinstance(value, Mapping):
            for key, item in value.items():
                self.put((*path, str(key)), item)
            return
        rule = INPUTS.get(name)
        wanted = value if rule is None else rule[0](value)
        if wanted is not None and self._found(path) == wanted:
            return
        if rule is None:
            self._refuse(path, value)
        if wanted is None:
            raise ConfigError(
                f"unknown {path[-1]} in metadata",
                node=place(self),
                field=".".join(path),
                got=repr(value),
                expected=rule[1],
            )
        self._store(path, wanted)
        self._store(("given", *path), wanted)

    def __setitem__(self, key: str, value: Any) -> None:
        self.put((key,), value)

    __delitem__ = pop = popitem = clear = _refuse_change

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return HardwareMetadata.filled, (dict(self),)

    def _found(self, path: Path) -> Any:
        here: Any = self
        for key in path:
            here = here.get(key) if isinstance(here, dict) else None
        return here

    def _holder(self, path: Sequence[str]) -> Branch:
        here: Branch = self
        for index, key in enumerate(path):
            if key not in here:
                made = Setting(self, tuple(path[: index + 1]), {})
                dict.__setitem__(here, key, here._placed(key, made))
            here = dict.__getitem__(here, key)
        return here

    def _store(self, path: Path, value: Any) -> None:
        here = self._holder(path[:-1])
        dict.__setitem__(here, path[-1], here._placed(path[-1], self.held(path, value)))

    def _refuse(self, path: Path, value: Any) -> NoReturn:
        name, dotted = _pattern(path), ".".join(path)
        decided = RESULTS.get(name) or RESULTS.get(path[0])
        if decided is None:
            beside = {known.split(".")[-1] for known in (*INPUTS, *RESULTS) if known.startswith(f"{path[0]}.*.")}
            refuse_key(self._holder(path[:-1]), path[-1], beside if path[1:] else self.fields())
        raise ConfigError(
            f"{dotted} is a result, which cannot be set",
            node=place(self),
            field=dotted,
            got=repr(value)[:80],
            remedy=f"change what decides it: {decided}",
        )


def _pattern(path: Path) -> str:
    """The key of a field in the tables: ``interface.*.storage``."""
    return ".".join((path[0], *("*" for _ in path[1:2]), *path[2:]))
