"""The header of an RTL module, written from the record of its parameters and aligned as Verible does it."""

from __future__ import annotations

from collections.abc import Mapping

from mase_hw.errors import ConfigError, suggest
from mase_hw.hardware.params import Params, parameter_defaults, port_names


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
        rows = [("input", ("", ""), "clk"), ("input", ("", ""), "rst")]
        for name in names:
            forward, backward = ("output", "input") if name.startswith("data_out") else ("input", "output")
            count = lanes.get(name, "Lanes")
            outer = "0:0" if count == "1" else f"{count}-1:0"
            rows.append((forward, (outer, f"{carried[name].upper()}_PRECISION_0-1:0"), name))
            rows += [(forward, ("", ""), f"{name}_valid"), (backward, ("", ""), f"{name}_ready")]
        widths = [max(len(ranges[i]) for _, ranges, _ in rows) for i in (0, 1)]

        def packed(ranges: tuple[str, str]) -> str:
            texts = (f"[{r:>{w}}]" if r else " " * (w + 2) for r, w in zip(ranges, widths, strict=True))
            return "".join(texts)

        return ",\n".join(f"{direction:6} logic {packed(ranges)} {name}" for direction, ranges, name in rows)

    def _check(self, named: Mapping[str, object], known: Mapping[str, object], kind: str) -> None:
        for name in named:
            if name not in known:
                raise ConfigError(
                    f"a template names a {kind} that its record has not",
                    node=self._node,
                    field=self._record.__name__,
                    got=name,
                    expected=", ".join(known),
                    remedy=suggest(name, known),
                )
