"""A prefix before the names of a design's modules and memory files, so that two designs can be in one project.

Names are found in the syntax tree of slang, not by their spelling: a signal may have the name of a module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from pathlib import PurePosixPath
from typing import Any

import pyslang  # the module, not its classes: those that are still named when Python ends, it reports as leaks

from mase_hw.errors import ConfigError
from mase_hw.hardware.keywords import KEYWORDS
from mase_hw.host.documents import Json

PATTERN = r"^([A-Za-z][A-Za-z0-9_]{0,31})?$"
"""Prefixes that every language of a bundle takes; none is a prefix too."""
_CONDITION = re.compile(r"^\s*`(?:ifn?def|elsif)\s+(\w+)", re.MULTILINE)


def renamed(path: str, prefix: str) -> str:
    """The path of a file whose name gets the prefix."""
    return str(PurePosixPath(path).with_name(f"{prefix}{PurePosixPath(path).name}"))


def prefixed(manifest: Json, files: Mapping[str, bytes], prefix: str) -> tuple[Json, dict[str, bytes]]:
    """What a manifest says, and the RTL and memory files of its design, under a prefix.

    Args:
        manifest: Of a bundle without a prefix.
        files: Content of its RTL and memory files by path.
        prefix: Before every name.

    Raises:
        ConfigError: If a module has such a name already, or the name of one is made by a macro.
    """
    decode: Json = manifest.get("decode", {})
    generate: Json = decode.get("generate", {})
    rtl = [*manifest["rtl"], *generate.get("rtl", [])]
    declared = set().union(*(modules(files[path], path) for path in rtl))
    clash = sorted(declared & {prefix + name for name in declared} | {prefix + name for name in declared} & KEYWORDS)
    if clash:
        raise ConfigError(
            "under this prefix a module gets a name that is taken",
            field="prefix",
            got=f"{prefix!r}, which makes {clash}",
            remedy="choose another prefix",
        )
    external = manifest.get("external")
    memories = {entry["file"] for entry in (*manifest["memories"], *([external] if external else []))}
    found = {path: renamed(path, prefix) for path in (*rtl, *memories)}
    texts = {found[path]: with_prefix(files[path], path, declared, prefix, memories) for path in rtl}
    # As the top level gives them to its instances.
    named = {
        f'{{MEM_DIR, "/{PurePosixPath(a).name}"}}': f'{{MEM_DIR, "/{PurePosixPath(b).name}"}}' for a, b in found.items()
    }
    new = {
        **manifest,
        "prefix": prefix,
        "top": prefix + manifest["top"],
        "rtl": [found[path] for path in manifest["rtl"]],
        "instances": [
            {**entry, "parameters": {key: named.get(value, value) for key, value in entry["parameters"].items()}}
            for entry in manifest["instances"]
        ],
        "memories": [{**entry, "file": found[entry["file"]]} for entry in manifest["memories"]],
        **({"external": {**external, "file": found[external["file"]]}} if external else {}),
        **({"decode": {**decode, "generate": _renamed(generate, found, prefix)}} if generate else {}),
    }
    return new, {**texts, **{found[path]: files[path] for path in memories}}


def _renamed(generate: Json, found: Mapping[str, str], prefix: str) -> Json:
    """What a manifest says of a design that generates by itself, under a prefix."""
    return {**generate, "top": prefix + generate["top"], "rtl": [found[path] for path in generate["rtl"]]}


def modules(content: bytes, path: str) -> set[str]:
    """The modules, packages and interfaces that a SystemVerilog file declares.

    Args:
        content: Of the file.
        path: Its name in errors.
    """
    return {name for name, _, declares in _names(_text(content), path) if declares}


def with_prefix(content: bytes, path: str, names: Set[str], prefix: str, memories: Set[str] = frozenset()) -> bytes:
    """A SystemVerilog file with a prefix before some names.

    Args:
        content: Of the file.
        path: Its name in errors.
        names: Modules, packages and interfaces that get the prefix, wherever they are named.
        prefix: The prefix.
        memories: Paths of memory files that get it in strings.

    Raises:
        ConfigError: If a macro names one of them.
    """
    if not prefix:
        return content
    text = _text(content)
    strings = {f'"/{PurePosixPath(memory).name}"' for memory in memories}
    places: set[int] = set()
    for name, place, _ in _names(text, path):
        if name in names | strings:
            if place is None:
                raise ConfigError(
                    "a module is named inside a macro, where it cannot get a prefix",
                    node=path,
                    got=name,
                    remedy="write the name out in this file",
                )
            places.add(place + 2 * name.startswith('"'))
    raw = text.encode()
    for place in sorted(places, reverse=True):
        raw = raw[:place] + prefix.encode() + raw[place:]
    return raw.decode().encode("latin-1")


def _text(content: bytes) -> str:
    return content.decode("latin-1")  # any bytes; slang counts those of UTF-8


def _names(text: str, path: str) -> Iterator[tuple[str, int | None, bool]]:
    """Names of modules, packages and interfaces, and strings: where each is, if not in a macro, and if it declares."""
    macros = sorted(set(_CONDITION.findall(text)))
    # What a condition leaves out is not in the tree, so that each is taken both ways.
    for defined in ([], *([macro] for macro in macros), macros) if macros else ([],):
        options, manager = pyslang.parsing.PreprocessorOptions(), pyslang.SourceManager()
        options.predefines = defined
        tree = pyslang.syntax.SyntaxTree.fromText(text, manager, path, path, pyslang.Bag([options]))
        pending: list[Any] = [tree.root]
        while pending:
            node = pending.pop()
            pending += [child for child in node if isinstance(child, pyslang.syntax.SyntaxNode)]
            for token, declares in _tokens(node):
                where = token.location
                inside = manager.isFileLoc(where) and manager.getFileName(where) == path
                yield token.rawText, where.offset if inside else None, declares


def _tokens(node: Any) -> Iterator[tuple[Any, bool]]:
    """The tokens of a node that are such names, and whether they declare them."""
    kinds = pyslang.syntax.SyntaxKind
    match node.kind:
        case kinds.ModuleHeader | kinds.InterfaceHeader | kinds.PackageHeader | kinds.ProgramHeader:
            yield node.name, True
        case kinds.ModuleDeclaration | kinds.InterfaceDeclaration | kinds.PackageDeclaration | kinds.ProgramDeclaration:
            if node.blockName is not None:
                yield node.blockName.name, False
        case kinds.HierarchyInstantiation:
            yield node.type, False
        case kinds.PackageImportItem:
            yield node.package, False
        case kinds.InterfacePortHeader:
            yield node.nameOrKeyword, False
        case kinds.VirtualInterfaceType:
            yield node.name, False
        case kinds.StringLiteralExpression:
            yield node.literal, False
        case kinds.ScopedName | kinds.BindDirective | kinds.NamedType:
            name = {kinds.ScopedName: "left", kinds.BindDirective: "target"}.get(node.kind, "name")
            if (found := getattr(node, name)).kind == kinds.IdentifierName:
                yield found.identifier, False


def other_prefix(asked: str, has: str, remedy: str) -> ConfigError:
    """The error of modules that have another prefix than the one that is asked for."""
    message = "the modules of this bundle have another prefix"
    return ConfigError(message, field="prefix", got=repr(asked), expected=repr(has), remedy=remedy)
