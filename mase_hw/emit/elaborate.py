"""The RTL of a design, elaborated by slang in this process, so that no tool refuses it later.

The modules check their parameters with ``$fatal`` at elaboration; the netlist cannot, since it knows ports only. An
elaboration takes about 2 % of the time of a compilation, where Verilator's lint takes 20 %.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyslang import Bag, DiagnosticEngine, SourceManager, ast, syntax

from mase_hw.emit.netlist import Netlist
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


def _instance(found: object, top: str) -> str:
    """The instance of the top level to which a diagnostic belongs; empty if that is not known."""
    path = str(getattr(getattr(found, "symbol", None), "hierarchicalPath", "")).split(".")
    if len(path) > 1:
        return path[1]
    begun = _INSTANCE.findall(top, 0, found.location.offset)  # type: ignore[attr-defined]
    return begun[-1] if begun else ""
