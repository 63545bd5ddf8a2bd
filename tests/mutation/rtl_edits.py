"""Faults for SystemVerilog: every place of a module, as slang parses it for synthesis, and what may go wrong there.

What is no hardware is left out: assertions (absent where SYNTHESIS is defined), default values of parameters (every
instance sets them), the text of messages, widths in declarations (Verilator compares all widths), sinks of unused
signals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyslang import Bag, SourceManager, parsing, syntax

from .mutant import Edit

Node = syntax.SyntaxNode
Kind = syntax.SyntaxKind

OTHER = {
    "arithmetic": {"+": ("-",), "-": ("+",), "*": ("+",), "/": ("*",), "%": ("/",)},
    "shift": {"<<": (">>",), ">>": ("<<",), "<<<": (">>>",), ">>>": ("<<<", ">>")},
    "relational": {
        "==": ("!=",), "!=": ("==",),
        "<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"),
    },
    "logical": {"&&": ("||",), "||": ("&&",), "&": ("|",), "|": ("&",), "^": ("|",)},
}  # fmt: skip
"""Binary operators, by the kind of fault, and what may stand in their place."""
SWAPPED = {"-", "/", "%", "<<", ">>", "<<<", ">>>", "<", "<=", ">", ">="}
COMPARISON = re.compile(r"[^&|?]*(?:[=!]=|[<>]=?)[^&|?]*|!\w+")
UNARY = {"!": ("",), "~": ("",), "-": ("",), "&": ("|",), "|": ("&",)}
CHECKS = {"invariant", "unread"}
"""Modules of which nothing is left in synthesis: what must always be true, and what nothing reads."""
NO_HARDWARE = {Kind.ElabSystemTask, Kind.RangeDimensionSpecifier, Kind.EventControlWithExpression}


class Source:
    """One parsed file."""

    def __init__(self, name: str, text: str) -> None:
        preprocessor = parsing.PreprocessorOptions()
        preprocessor.predefines = ["SYNTHESIS=1"]
        self.raw = text.encode()
        self.tree = syntax.SyntaxTree.fromText(text, SourceManager(), name, name, Bag([preprocessor]))

    def text(self, node: Node | parsing.Token) -> str:
        """What stands in the file for a node."""
        start, end = span(node)
        return self.raw[start:end].decode()

    def nodes(self) -> list[Node]:
        """Every node, in order."""
        found: list[Node] = []
        self.tree.root.visit(lambda node: found.append(node) if isinstance(node, Node) else None)
        return found

    def blocks(self) -> list[tuple[int, int]]:
        """Extent of the module and of every generate block; an outer one comes before those inside."""
        kinds = (Kind.ModuleDeclaration, Kind.GenerateBlock)
        return [span(node) for node in self.nodes() if node.kind in kinds]

    def guards(self) -> list[tuple[Node, int]]:
        """Every check of parameters, and the line of its ``if``."""
        found = [node for node in self.nodes() if is_guard(node)]
        return [(node, self.raw.count(b"\n", 0, span(node)[0]) + 1) for node in found]


def span(node: Node | parsing.Token) -> tuple[int, int]:
    """Offsets of the first byte, and behind the last one."""
    extent = node.range if isinstance(node, parsing.Token) else node.sourceRange
    return extent.start.offset, extent.end.offset


def is_guard(node: Node) -> bool:
    """Whether a generate block exists only to stop elaboration."""
    if node.kind != Kind.IfGenerate or node.block.kind != Kind.GenerateBlock:
        return False
    return any(member.kind == Kind.ElabSystemTask for member in node.block.members)


def edits(name: str, text: str) -> list[Edit]:
    """Every fault that is known for a file."""
    source = Source(name, text)
    found: list[Edit] = []
    for node in source.nodes():
        where = _context(node, source)
        if where is not None:
            found += [
                Edit(start, end, new, kind, guard=where == "guard")
                for start, end, new, kind in _faults(source, node, where)
                if source.raw[start:end].decode() != new
            ]
    return found


def _context(node: Node, source: Source) -> str | None:
    """Whether a node is part of a guard or of hardware; None if it is neither."""
    below: Node | None = None
    at: Node | None = node
    while at is not None:
        kind = at.kind
        if kind in NO_HARDWARE:
            return None
        if kind == Kind.SimpleRangeSelect and at is not node:
            return None  # both ends move together, or Verilator sees another width
        if kind == Kind.ParameterDeclaration and at.keyword.valueText == "parameter":
            return None
        if kind == Kind.HierarchyInstantiation and source.text(at.type) in CHECKS:
            return None
        if is_guard(at):
            # What follows in `else` is hardware.
            return "guard" if below is not None and below == at.condition else None
        below, at = at, at.parent
    return "hardware"


Fault = tuple[int, int, str, str]


def _faults(source: Source, node: Node, where: str) -> Iterator[Fault]:
    if isinstance(node, syntax.BinaryExpressionSyntax):
        yield from _binary(source, node, where)
    elif isinstance(node, syntax.PrefixUnaryExpressionSyntax):
        token = node.operatorToken
        for new in UNARY.get(token.rawText, ()):
            yield (*span(token), new, "unary")
    elif isinstance(node, syntax.LiteralExpressionSyntax):
        yield from _literal(source, node)
    elif isinstance(node, syntax.IntegerVectorExpressionSyntax):
        yield from _sized(source, node)
    elif isinstance(node, (syntax.ConditionalExpressionSyntax, syntax.ConditionalStatementSyntax)):
        yield from _condition(source, node.predicate)
    elif node.kind == Kind.IfGenerate and where == "hardware":
        yield from _condition(source, node.condition)
    elif node.kind == Kind.ConcatenationExpression and len(parts := _expressions(node)) > 1:
        texts = [source.text(part) for part in parts]
        yield (*span(node), "{" + ", ".join(reversed(texts)) + "}", "swap")
    elif node.kind == Kind.ExpressionStatement and re.search(r"[^<>=!]=[^=]|<=", source.text(node)):
        yield (*span(node), ";", "drop")
    elif node.kind in (Kind.BitSelect, Kind.SimpleRangeSelect, Kind.AscendingRangeSelect):
        yield from _select(source, node)


def _condition(source: Source, node: Node) -> Iterator[Fault]:
    text = source.text(node)
    if text == "rst":
        yield (*span(node), "1'b0", "reset")
    elif not COMPARISON.fullmatch(text.strip("()")):
        # The opposite of a comparison, or of what is negated already, is a fault of that operator.
        yield (*span(node), f"!({text})", "condition")


def _binary(source: Source, node: syntax.BinaryExpressionSyntax, where: str) -> Iterator[Fault]:
    token = node.operatorToken
    if node.kind in (Kind.AssignmentExpression, Kind.NonblockingAssignmentExpression):
        return
    operator = token.rawText
    for kind, table in OTHER.items():
        for new in table.get(operator, ()):
            yield (*span(token), new, kind)
    left, right = source.text(node.left), source.text(node.right)
    # Swapped operands of a comparison are the opposite comparison, of which a guard has enough.
    if operator in SWAPPED and left != right and where == "hardware":
        yield (*span(node), f"({right}) {operator} ({left})", "swap")


def _literal(source: Source, node: Node) -> Iterator[Fault]:
    text = source.text(node)
    if node.kind == Kind.IntegerLiteralExpression and text.isdigit():
        for value in (int(text) + 1, int(text) - 1):
            if value >= 0:
                yield (*span(node), str(value), "constant")
    elif node.kind == Kind.UnbasedUnsizedLiteralExpression:
        yield (*span(node), "'1" if text == "'0" else "'0", "constant")


def _sized(source: Source, node: Node) -> Iterator[Fault]:
    match = re.fullmatch(r"(\d+)'([bdh])(\w+)", source.text(node))
    if match is None:
        return
    width, base = int(match[1]), {"b": 2, "d": 10, "h": 16}[match[2]]
    value = int(match[3], base)
    for other in {(value + 1) % 2**width, (value - 1) % 2**width}:
        digits = f"{other:{match[2].replace('h', 'x')}}"
        yield (*span(node), f"{width}'{match[2]}{digits}", "constant")


def _select(source: Source, node: Node) -> Iterator[Fault]:
    if node.kind == Kind.BitSelect:
        ends = [node.expr]
        if ends[0].kind == Kind.IntegerLiteralExpression:
            return  # a constant like any other
    else:
        ends = [node.left, node.right] if node.kind == Kind.SimpleRangeSelect else [node.left]
    for sign in "+-":
        start, end = span(ends[0])[0], span(ends[-1])[1]
        text = source.raw[start:end].decode()
        pieces = [source.text(part) for part in ends]
        # Both ends of a range move, so that its width stays.
        between = text[len(pieces[0]) : len(text) - len(pieces[-1])] if len(ends) > 1 else ""
        yield (start, end, between.join(f"({piece}) {sign} 1" for piece in pieces), "select")


def _expressions(node: Node) -> list[Node]:
    return [part for part in node.expressions if isinstance(part, Node)]
