"""The RTL of a design, elaborated by slang in this process, so that no tool refuses it later.

The modules check their parameters with ``$fatal`` at elaboration; the netlist cannot, since it knows ports only. An
elaboration takes about 2 % of the time of a compilation, where Verilator's lint takes 20 %.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pyslang import Bag, DiagnosticEngine, SourceManager, ast, syntax

from mase_hw.emit.netlist import Instance, Netlist
from mase_hw.errors import EmitError

_WIDTHS = ("PortWidthTruncate", "PortWidthExpand")
_INSTANCE = re.compile(r"^  \) (\w+) \($", re.MULTILINE)
"""The line of the top level on which the ports of an instance begin."""


def check_elaboration(netlist: Netlist, sources: Mapping[str, str]) -> None:
    """Refuse RTL that is no design: a parameter check that fails, a port of another width, an unknown name.

    Args:
        netlist: What the RTL was made from.
        sources: The text of every RTL file by its path in the bundle, that of the top level among them.

    Raises:
        EmitError: With the node to which the module belongs, for the first fault.
    """
    options = ast.CompilationOptions()
    options.topModules = {netlist.name}
    bag, manager = Bag([options]), SourceManager()
    compilation = ast.Compilation(bag)
    for path, text in sources.items():
        compilation.addSyntaxTree(syntax.SyntaxTree.fromText(text, manager, path, path, bag))
    nodes = {instance.name: instance.node for instance in netlist.instances}
    top = f"rtl/{netlist.name}.sv"
    for found in compilation.getAllDiagnostics():
        file = manager.getFileName(found.location)
        # Inside modules the lint of the catalogue judges widths.
        if not found.isError() and not (file == top and any(name in str(found.code) for name in _WIDTHS)):
            continue
        fatal = "FatalTask" in str(found.code)
        message = str(found.args[0]).removeprefix(": ") if fatal else DiagnosticEngine(manager).formatMessage(found)
        instance = _instance(found, sources[top] if file == top else "")
        raise EmitError(
            "the parameters of a module contradict each other" if fatal else "a module does not elaborate",
            node=nodes.get(instance, instance) or file,
            got=message if fatal else f"{file}:{manager.getLineNumber(found.location)}: {message}",
            expected="what its RTL takes",
            remedy="undo changes of verilog_param, and of a custom op correct `build`; else please report this",
        )


def check_beats(instance: Instance, came: Sequence[int], taken: Sequence[int], given: Sequence[int]) -> None:
    """Refuse a module that takes or gives other beats than its ports have: its parameters contradict each other.

    Args:
        instance: The module.
        came: Beats per frame of what drives its data inputs.
        taken: Those that it takes, by its timing.
        given: Those that it gives.

    Raises:
        EmitError: With its node.
    """
    # Connectors have words of any length.
    outs = [p.frame_beats for p in instance.ports if p.name.startswith("data_") and p.direction == "out"]
    if list(taken) != list(came) or (outs and outs != list(given)):
        raise EmitError(
            "a module takes or gives other beats than its ports have",
            node=instance.node,
            got=f"ports {list(came)} in, {outs} out; its schedule {list(taken)} in, {list(given)} out",
            expected="the same beats",
            remedy="undo changes of verilog_param; of a custom op correct `latency` or `ports`; else report this",
        )


def _instance(found: object, top: str) -> str:
    """The instance of the top level to which a diagnostic belongs; empty if that is not known."""
    path = str(getattr(getattr(found, "symbol", None), "hierarchicalPath", "")).split(".")
    if len(path) > 1:
        return path[1]
    begun = _INSTANCE.findall(top, 0, found.location.offset)  # type: ignore[attr-defined]
    return begun[-1] if begun else ""
