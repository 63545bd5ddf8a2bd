"""The RTL of a design, elaborated by slang in this process, so that no tool refuses it later.

The modules check their parameters with ``$fatal`` at elaboration; the netlist cannot, since it knows ports only. An
elaboration takes about 2 % of the time of a compilation, where Verilator's lint takes 20 %.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyslang  # the module, not its classes: those that are still named when Python ends, it reports as leaks

from mase_hw.catalogue import Catalogue
from mase_hw.emit.netlist import Instance, Netlist
from mase_hw.errors import ConfigError, EmitError, MaseHwError
from mase_hw.hardware.library import library_modules, modules_below, source
from mase_hw.host.resources import rtl_root

_WIDTHS = ("PortWidthTruncate", "PortWidthExpand")
_INSTANCE = re.compile(r"^  \) (\w+) \($", re.MULTILINE)
"""The line of the top level on which the ports of an instance begin."""


def check_elaboration(netlist: Netlist, sources: Mapping[str, str], catalogue: Catalogue) -> None:
    """Refuse RTL that is no design: a parameter check that fails, a port of another width, an unknown name.

    Args:
        netlist: What the RTL was made from.
        sources: The text of every RTL file by its path in the bundle, that of the top level among them.
        catalogue: Where its ops are.

    Raises:
        ConfigError: If a module is in none of the files of its op, or in two files.
        EmitError: With the node to which the module belongs, for the first other fault.
    """
    options = pyslang.ast.CompilationOptions()
    options.topModules = {netlist.name}
    bag, manager = pyslang.Bag([options]), pyslang.SourceManager()
    compilation = pyslang.ast.Compilation(bag)
    for path, text in sources.items():
        compilation.addSyntaxTree(pyslang.syntax.SyntaxTree.fromText(text, manager, path, path, bag))
    instances = {instance.name: instance for instance in netlist.instances}
    top = f"rtl/{netlist.name}.sv"
    for found in compilation.getAllDiagnostics():
        file, code = manager.getFileName(found.location), str(found.code)
        if "DuplicateDefinition" in code:
            module = str(found.args[0])
            raise _twice(module, [path for path, text in sources.items() if _declares(text, module)])
        # Inside modules the lint of the catalogue judges widths.
        if not found.isError() and not (file == top and any(name in code for name in _WIDTHS)):
            continue
        instance = instances.get(_instance(found, sources[top] if file == top else ""))
        if "UnknownModule" in code:
            module = str(found.args[0])
            owner = next((i for i in netlist.instances if i.module == module), instance)
            raise _missing(module, file.removeprefix("rtl/"), owner, catalogue)
        fatal = "FatalTask" in code
        message = (
            str(found.args[0]).removeprefix(": ") if fatal else pyslang.DiagnosticEngine(manager).formatMessage(found)
        )
        problem = "the parameters of a module contradict each other" if fatal else "a module does not elaborate"
        node = file if instance is None else instance.node
        got = message if fatal else f"{file}:{manager.getLineNumber(found.location)}: {message}"
        raise _changed(problem, node, got, "what its RTL takes", "`build`")


def check_beats(
    instance: Instance, came: Sequence[int], taken: Sequence[int], given: Sequence[int], passes: int
) -> None:
    """Refuse a module that takes or gives other beats than its ports have: its parameters contradict each other.

    Args:
        instance: The module.
        came: Beats per frame of what drives its data inputs.
        taken: Those that it takes, by its timing.
        given: Those that it gives.
        passes: How often a frame passes through it.

    Raises:
        EmitError: With its node.
    """
    # Connectors have words of any length.
    outs = [passes * p.frame_beats for p in instance.ports if p.name.startswith("data_") and p.direction == "out"]
    if list(taken) != list(came) or (outs and outs != list(given)):
        problem = "a module takes or gives other beats than its ports have"
        got = f"ports {list(came)} in, {outs} out; its schedule {list(taken)} in, {list(given)} out"
        raise _changed(problem, instance.node, got, "the same beats", "`latency` or `ports`")


def _changed(problem: str, node: str, got: str, expected: str, facets: str) -> EmitError:
    remedy = f"undo changes of verilog_param, and of a custom op correct {facets}; else please report this"
    return EmitError(problem, node=node, got=got, expected=expected, remedy=remedy)


def _missing(module: str, file: str, instance: Instance | None, catalogue: Catalogue) -> MaseHwError:
    """What to say of a module that is instantiated in a file and is in none."""
    op = None if instance is None else catalogue.get(instance.op)
    facets = None if op is None else op.hardware
    own = facets is not None and facets.module == module
    files: dict[str, str] = {}
    if facets is not None and facets.root is not None:
        files |= {name: source(facets.root / name) for name in modules_below(facets.root)}
    files |= {name: source(rtl_root() / name) for name in library_modules().values() if name not in files}
    there = next((name for name, text in files.items() if _declares(text, module)), None)
    return ConfigError(
        f"no file of an op declares the module {module!r}",
        node=file if instance is None else instance.op,
        field="dependence_files",
        got=("the op is this module" if own else f"{file} instantiates it")
        + ("" if facets is None else f"; files: {', '.join(facets.files)}"),
        expected="every module that a design instantiates, in one of the files of its op",
        remedy=f"add {there!r} to dependence_files"
        if there
        else "write the module, and name its file in dependence_files",
    )


def _twice(module: str, files: Sequence[str]) -> MaseHwError:
    return ConfigError(
        f"two files declare the module {module!r}",
        field="dependence_files",
        got=" and ".join(file.removeprefix("rtl/") for file in files),
        expected="a module in one file",
        remedy="leave one of them out, or rename one of the modules",
    )


def _declares(text: str, module: str) -> bool:
    return re.search(rf"^\s*(?:module|package|interface)\s+{re.escape(module)}\b", text, re.MULTILINE) is not None


def _instance(found: object, top: str) -> str:
    """The instance of the top level to which a diagnostic belongs; empty if that is not known."""
    path = str(getattr(getattr(found, "symbol", None), "hierarchicalPath", "")).split(".")
    if len(path) > 1:
        return path[1]
    begun = _INSTANCE.findall(top, 0, found.location.offset)  # type: ignore[attr-defined]
    return begun[-1] if begun else ""
