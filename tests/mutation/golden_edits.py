"""Faults for Python: every expression and statement of a function that decides about bits, and what may go wrong there.

Left out: docstrings, annotations, defaults and decorators, what is raised (refusals have tests of their own), strings.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .mutant import Edit

BINARY: dict[type[ast.operator], tuple[str, ...]] = {
    ast.Add: ("-",), ast.Sub: ("+",), ast.Mult: ("+",), ast.Div: ("*",), ast.FloorDiv: ("*",), ast.Mod: ("//",),
    ast.Pow: ("*",), ast.LShift: (">>",), ast.RShift: ("<<",), ast.BitAnd: ("|",), ast.BitOr: ("&",),
    ast.BitXor: ("|",),
}  # fmt: skip
COMPARE: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Eq: ("!=",), ast.NotEq: ("==",), ast.Lt: ("<=", ">="), ast.LtE: ("<", ">"), ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"), ast.Is: ("is not",), ast.IsNot: ("is",), ast.In: ("not in",), ast.NotIn: ("in",),
}  # fmt: skip
KIND = {ast.LShift: "shift", ast.RShift: "shift", ast.BitAnd: "logical", ast.BitOr: "logical", ast.BitXor: "logical"}
EITHER_WAY = {"isinstance", "getattr", "max", "min", "math.gcd"}
"""Calls whose arguments may be swapped, or never are by mistake."""
ORDERED = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift)

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Text:
    """A source whose nodes can be cut out by offset."""

    def __init__(self, text: str) -> None:
        self.raw = text.encode()
        self._lines = [0]
        for line in self.raw.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Offsets of the first byte of a node, and behind its last one."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: ast.expr | ast.stmt) -> str:
        """What stands there, in parentheses if it has several lines."""
        start, end = self.span(node)
        text = self.raw[start:end].decode()
        return f"({text})" if "\n" in text else text


def functions(tree: ast.Module) -> dict[str, Function]:
    """Every function and method outside others, by its qualified name."""
    found: dict[str, Function] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, Function):
                found[prefix + node.name] = node
            elif isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")

    visit(tree.body, "")
    return found


def function_at(text: str, line: int) -> str:
    """The qualified name of the function that a line belongs to."""
    around = (
        name for name, node in functions(ast.parse(text)).items() if node.lineno <= line <= (node.end_lineno or 0)
    )
    return next(around)


def edits(text: str, names: set[str]) -> list[Edit]:
    """Every fault that is known for the functions of these qualified names."""
    source, found = Text(text), []
    for name, function in functions(ast.parse(text)).items():
        if name in names:
            known = {argument.arg for argument in ast.walk(function) if isinstance(argument, ast.arg)}
            for statement in function.body:
                found += _statement(source, statement, known)
    return [edit for edit in found if source.raw[edit.start : edit.end].decode() != edit.text]


def _statement(source: Text, node: ast.stmt, known: set[str]) -> Iterator[Edit]:
    """Faults of a statement and all inside it; ``known`` are the names that have a value before it."""
    if isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        return
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    target = isinstance(node, ast.AugAssign | ast.Expr) or (isinstance(node, ast.Assign) and names <= known)
    if target and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield | ast.Await)):
        yield Edit(*source.span(node), "pass", "drop")
    if isinstance(node, ast.AugAssign):
        for new in BINARY.get(type(node.op), ()):
            target_text, value = source.of(node.target), source.of(node.value)
            yield Edit(*source.span(node), f"{target_text} {new}= {value}", KIND.get(type(node.op), "arithmetic"))
    if isinstance(node, ast.If | ast.While):
        yield from _negated(source, node.test)
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "args", "msg"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.stmt):
                yield from _statement(source, child, known)
                known |= {n.id for n in ast.walk(child) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            elif isinstance(child, ast.expr):
                yield from _expression(source, child)
            elif isinstance(child, ast.withitem | ast.ExceptHandler | ast.match_case):
                for part in ast.iter_child_nodes(child):
                    if isinstance(part, ast.stmt):
                        yield from _statement(source, part, known)
                    elif isinstance(part, ast.expr):
                        yield from _expression(source, part)
    known |= names


def _expression(source: Text, node: ast.expr) -> Iterator[Edit]:
    if isinstance(node, ast.JoinedStr):
        return
    span = source.span(node)
    if isinstance(node, ast.BinOp):
        left, right = source.of(node.left), source.of(node.right)
        for new in BINARY.get(type(node.op), ()):
            yield Edit(*span, f"(({left}) {new} ({right}))", KIND.get(type(node.op), "arithmetic"))
        if isinstance(node.op, ORDERED) and left != right:
            yield Edit(*span, f"(({right}) {_symbol(node.op)} ({left}))", "swap")
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for new in COMPARE.get(type(node.ops[0]), ()):
            yield Edit(*span, f"({source.of(node.left)} {new} {source.of(node.comparators[0])})", "relational")
    elif isinstance(node, ast.BoolOp):
        other = " or " if isinstance(node.op, ast.And) else " and "
        yield Edit(*span, "(" + other.join(f"({source.of(value)})" for value in node.values) + ")", "logical")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        if not isinstance(node.operand, ast.Constant):
            yield Edit(*span, f"({source.of(node.operand)})", "unary")
    elif isinstance(node, ast.IfExp):
        yield from _negated(source, node.test)
    elif isinstance(node, ast.Constant):
        yield from (Edit(*span, new, "constant") for new in _other(node.value))
    elif isinstance(node, ast.Call) and len(node.args) == 2 and ast.unparse(node.func) not in EITHER_WAY:
        first, second = node.args
        yield Edit(source.span(first)[0], source.span(second)[1], f"{source.of(second)}, {source.of(first)}", "swap")
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield from _expression(source, child)
        elif isinstance(child, ast.keyword):
            yield from _expression(source, child.value)
        elif isinstance(child, ast.comprehension):
            for part in (child.iter, *child.ifs):
                yield from _expression(source, part)


def _symbol(operator: ast.operator) -> str:
    return ast.unparse(ast.BinOp(ast.Name("a"), operator, ast.Name("b"))).split()[1]


def _negated(source: Text, test: ast.expr) -> Iterator[Edit]:
    # The opposite of one comparison, or of what is negated already, is a fault of that operator.
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1) and not isinstance(test, ast.UnaryOp):
        yield Edit(*source.span(test), f"not ({source.of(test)})", "condition")


def _other(value: object) -> list[str]:
    if isinstance(value, bool):
        return [str(not value)]
    if isinstance(value, int):
        return [str(value + 1), str(value - 1)] if value else ["1"]
    if isinstance(value, float):
        return [repr(value + 1.0), repr(value - 1.0)]
    return []
