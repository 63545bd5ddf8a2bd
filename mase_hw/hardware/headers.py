"""The header of an RTL module and its checks of single parameters, laid out as Verible does it."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Mapping, Sequence

from mase_hw.errors import refuse_unknown
from mase_hw.hardware.params import Params, parameter_defaults, port_names

_LIMITS = re.compile(r"([\w\[\]]+(?:, [\w\[\]]+)*): (-?\d+)(?: (?:(up)|to (-?\d+)))?")
_COMMENT = re.compile(r"//[^\n]*")
_PARAMETER = re.compile(r"\bparameter\b[^=]*?(\w+)\s*=")
_PORT = re.compile(r"\b(?:input|output)\b[^,]*?(\w+)\s*(?:,|\)$)")
_COLUMNS = 98
"""Of 100, without the indentation of what stands in a module."""


def limits(module: str, *texts: str) -> str:
    """Checks of parameters that have bounds of their own: each stops elaboration with a message.

    Args:
        module: The name of the module.
        texts: Such as ``"WIDTH, DEPTH: 1 up; SIGNED: 0 to 1; LANES_[12]: 1"``: from 1, 0 or 1, and 1 alone, of both.

    Raises:
        ValueError: If a text is written in another way.
    """
    checks = []
    for text in (part.strip() for part in "; ".join(texts).split(";")):
        if (found := _LIMITS.fullmatch(text)) is None:
            raise ValueError(f"limits of parameters are such as `WIDTH, DEPTH: 1 up; SIGNED: 0 to 1`, not {text!r}")
        least = int(found[2])
        most = None if found[3] else int(found[4] or least)
        names = [name for pattern in found[1].split(", ") for name in _names(pattern)]
        checks += [_limit(module, name, least, most) for name in names]
    return "\n".join(checks)


def _names(pattern: str) -> list[str]:
    before, bracket, rest = pattern.partition("[")
    choices, _, after = rest.partition("]")
    return [before + choice + name for choice in choices for name in _names(after)] if bracket else [pattern]


def _limit(module: str, name: str, least: int, most: int | None) -> str:
    if least == most:
        condition, said, refused, taken = f"{name} != {least}", f"{least}", [least + 1], []
    elif most is None:
        condition, said, refused, taken = f"{name} < {least}", f"at least {least}", [least - 1], [least]
    else:
        condition, refused, taken = f"{name} < {least} || {name} > {most}", [least - 1, most + 1], [least, most]
        said = f"{least} {'or' if most == least + 1 else 'to'} {most}"
    sets = [f"{name}={value}" for value in refused] + [f"takes {name}={value}" for value in taken]
    message = f"{module}: {name} must be {said}, got %0d"
    return refuse(f"bad_{name.lower()}", condition, "; ".join(sets), message, name)


def refuse(label: str, condition: str, refused: str, message: str, *values: str) -> str:
    """A check of parameters that stops elaboration.

    Args:
        label: Of its block, without ``g_``.
        condition: What no design can have.
        refused: Parameters that it refuses while the others have their defaults, and that it just ``takes``; the
            tests of the checks read them.
        message: With a ``%0d`` or ``%s`` for each value.
        values: What the message names.
    """
    # The block and its label stay together.
    begin = f"begin\0:\0g_{label}"
    lines = textwrap.wrap(f"if ({condition}) {begin}", _COLUMNS, subsequent_indent="    ")
    lines = [line.replace("\0", " ") for line in lines]
    lines += [f"  // {line}" for line in textwrap.wrap(f"Refuses {refused}", _COLUMNS - len("  // "))]
    given = ["1", f'"{message}"', *values]
    whole, inner = f"  $fatal({', '.join(given)});", f"      {', '.join(given)}"
    if len(whole) > _COLUMNS:
        parts = [inner] if len(inner) <= _COLUMNS else ",\n".join(f"      {each}" for each in given).splitlines()
        whole = "\n".join(["  $fatal(", *parts, "  );"])
    return "\n".join([*lines, whole, "end"])


def streams(taken: str, given: str, *flags: str) -> str:
    """The declarations of clock, reset and two streams, ``in`` and ``out``.

    Args:
        taken: The packed dimensions of ``in_data``, such as ``"LANES-1:0, WIDTH-1:0"``.
        given: Those of ``out_data``.
        flags: Further bits of a beat of ``out``.
    """
    rows: list[Row] = [("input", (), "clk"), ("input", (), "rst")]
    rows += [("input", taken.split(", "), "in_data"), ("input", (), "in_valid"), ("output", (), "in_ready")]
    rows += [("output", given.split(", "), "out_data"), *(("output", (), f"out_{flag}") for flag in flags)]
    return _aligned([*rows, ("output", (), "out_valid"), ("input", (), "out_ready")])


def instance(text: str, module: str, name: str, connections: Mapping[str, object]) -> str:
    """An instance of a module: what is not connected otherwise is connected to what has the same name.

    Args:
        text: The SystemVerilog of the module.
        module: Its name.
        name: That of the instance.
        connections: Expressions by parameter and port; None leaves a parameter at its default.

    Raises:
        ValueError: If the module has no such parameter or port.
    """
    header = _COMMENT.sub("", text).partition(f"module {module}")[2].partition(";")[0]
    declared = [_PARAMETER.findall(header), _PORT.findall(header)]
    known = [each for names in declared for each in names]
    if unknown := connections.keys() - known:
        raise ValueError(f"{module} has no {min(unknown)}, but {', '.join(known)}")
    listed = []
    for names in declared:
        taken = {each: connections.get(each, each) for each in names}
        kept = {each: value for each, value in taken.items() if value is not None}
        longest = max(map(len, kept), default=0)
        listed.append(",\n".join(f"    .{each:{longest}}({value})" for each, value in kept.items()))
    parameters, ports = (f"(\n{lines}\n)" if lines else "" for lines in listed)
    return f"{module} {f'#{parameters} ' if parameters else ''}{name} {ports or '()'};"


Row = tuple[str, Sequence[str], str]
"""A port: its direction, its packed dimensions and its name."""


def _aligned(rows: Sequence[Row]) -> str:
    columns = itertools.zip_longest(*(ranges for _, ranges, _ in rows), fillvalue="")
    widths = [max(map(len, column)) for column in columns]

    def packed(ranges: Sequence[str]) -> str:
        texts = zip([*ranges, *[""] * len(widths)], widths, strict=False)
        return "".join(f"[{text:>{width}}]" if text else " " * (width + 2) for text, width in texts)

    return ",\n".join(f"{direction:6} logic {packed(ranges)} {name}" for direction, ranges, name in rows)


class Header:
    """What a template of a module prints of its record.

    Args:
        record: The record of the parameters.
        node: The template, for errors.
    """

    def __init__(self, record: type[Params], node: str) -> None:
        self._record, self._node = record, node

    def parameters(self, *files: str, also: Mapping[str, int] | None = None, **defaults: int) -> str:
        """The declarations of all parameters.

        Args:
            files: Parameters besides those of the record, which take the path of a memory's file; they come last.
            also: Those that the entry of a custom op adds, and their defaults.
            defaults: Those that are not as :func:`~mase_hw.hardware.params.parameter_defaults` has them, for a module
                that refuses these.
        """
        values = parameter_defaults(self._record)
        self._check(defaults, values, "parameter")
        rows = [("int", name, str(defaults.get(name, value))) for name, value in values.items()]
        rows += [("int", name, str(value)) for name, value in (also or {}).items()]
        rows += [("", name, '""') for name in files]
        longest = max(len(name) for _, name, _ in rows)
        return ",\n".join(f"parameter {kind:3} {name:{longest}} = {value}" for kind, name, value in rows)

    def lanes(self, port: str = "data_in_0") -> str:
        """``Lanes``: the elements in a beat of a port, all its dimensions together."""
        names = [n for n in parameter_defaults(self._record) if n.startswith(f"{port.upper()}_PARALLELISM_DIM_")]
        rows = [" * ".join(names[at : at + 2]) for at in range(0, len(names), 2)]
        declaration = "localparam int Lanes = "
        return declaration + f"\n{' ' * (len(declaration) - 2)}* ".join(rows)

    def ports(self, also: Mapping[str, str] | None = None, **lanes: str) -> str:
        """The declarations of clock, reset and all streams, results last.

        Args:
            also: Ports that carry what another one else does, by name: the field of that one.
            lanes: By port, the number of elements in a beat, if it is not ``Lanes``.
        """
        fields = port_names(self._record)
        carried = {name: name for name in fields} | dict(also or {})
        self._check(lanes, carried, "port")
        names = sorted(carried, key=lambda name: name.startswith("data_out"))
        rows: list[Row] = [("input", (), "clk"), ("input", (), "rst")]
        for name in names:
            forward, backward = ("output", "input") if name.startswith("data_out") else ("input", "output")
            count = lanes.get(name, "Lanes")
            outer = "0:0" if count == "1" else f"{count}-1:0"
            rows.append((forward, (outer, f"{carried[name].upper()}_PRECISION_0-1:0"), name))
            rows += [(forward, (), f"{name}_valid"), (backward, (), f"{name}_ready")]
        return _aligned(rows)

    def _check(self, named: Mapping[str, object], known: Mapping[str, object], kind: str) -> None:
        for name in named:
            message = f"a template names a {kind} that its record has not"
            refuse_unknown(name, known, message, node=self._node, field=self._record.__name__)
