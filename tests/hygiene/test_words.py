"""Home-made phrases do not come back: the table in the glossary says which, and what is said instead."""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.hygiene.test_style import sources

GLOSSARY = "docs/glossary.md"
# Words of Python and of other people's interfaces, and the table itself.
PROSE = {".md", ".j2", ".txt"}
SLASHES = {".sv", ".v", ".h", ".cpp"}
SKIPPED = {GLOSSARY, "CHANGELOG.md", "constraints.txt", "LICENSE", "tests/hygiene/test_words.py"}


def banned(root: Path) -> dict[str, str]:
    """Every phrase that is not used, spelt out, with what is said instead."""
    table = (root / GLOSSARY).read_text(encoding="utf-8").split("## Words that are not used")[1]
    found = {}
    for left, right in re.findall(r"^\| (?!not \||---)(.+?) \| (.+?) \|$", table, re.MULTILINE):
        # A comma in braces separates endings, one outside separates phrases.
        for phrase in re.findall(r"(?:[^,{]|\{[^}]*\})+", left):
            parts = re.split(r"\{([^}]*)\}", phrase.strip())
            choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
            found |= {"".join(words).lower(): right for words in itertools.product(*choices)}
    return found


def texts(path: Path, content: str) -> Iterator[tuple[int, str]]:
    """What people read of a file, with line numbers: prose, comments and strings; code in quotes aside."""
    if path.suffix in PROSE:
        yield 1, re.sub(r"```.*?```|`[^`\n]*`", lambda m: "\n" * m[0].count("\n"), content, flags=re.DOTALL)
    elif path.suffix in SLASHES:
        for match in re.finditer(r"(?:^[ \t]*//[^\n]*\n)+|//[^\n]*|/\*.*?\*/", content, re.MULTILINE | re.DOTALL):
            yield content.count("\n", 0, match.start()) + 1, re.sub(r"`[^`\n]*`|//", " ", match[0])
    elif path.suffix == ".py":
        yield from python_texts(content)


def python_texts(content: str) -> Iterator[tuple[int, str]]:
    """Comments, and every string literal, without what is quoted as code and without names of arguments.

    Reading a file token by token takes far longer than all the rest, so that is done only where a comment may have one
    of the phrases: what follows some ``#`` of a line.
    """
    if any(RULE.search(rest) for rest in re.findall(r"#(.*)", content.lower())):
        for token in tokenize.generate_tokens(io.StringIO(content).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string[1:]
    if not RULE.search(without_quotes(content.lower())):
        return
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            text = re.sub(r"``[^`]*``|:\w+:`[^`]*`", " ", node.value)
            yield node.lineno, re.sub(ARGUMENT, r"\1", text, flags=re.MULTILINE)


ARGUMENT = r"^( +)(?:\w+, )*\w+: "
"""Names of arguments in a docstring."""


def without_quotes(content: str) -> str:
    """A file of Python as if all of it were one string: what a literal of it says, by itself or joined to the next.

    Taking a file apart takes far longer than looking through it.
    """
    text = re.sub(r"``[^`\"']*``|:\w+:`[^`\"']*`", " ", content)
    text = re.sub(ARGUMENT, r"\1", text, flags=re.MULTILINE)
    return re.sub(r"\\n|\b[rbf]{0,2}[\"']|[\"'\\]", lambda match: "\n" if match[0] == "\\n" else " ", text)


def pattern(phrases: Iterable[str]) -> re.Pattern[str]:
    """Phrases as they may stand in a text of small letters: over the end of a line, not inside a longer word.

    Small letters, because Python compares hundreds of choices in any case ten times as slowly.
    """
    between = r"(?:[ \t]+|[ \t]*\n[ \t#*/]*)"
    any_of = "|".join(between.join(map(re.escape, phrase.split())) for phrase in sorted(phrases, key=len, reverse=True))
    return re.compile(rf"(?<![\w-])(?:{any_of})(?![\w-])")


PHRASES = banned(ROOT)
RULE = pattern(PHRASES)


def test_no_banned_phrase(root: Path) -> None:
    found = []
    for path in sources(root):
        name = path.relative_to(root).as_posix()
        if name in SKIPPED or path.suffix not in PROSE | SLASHES | {".py"}:
            continue
        for line, text in texts(path, path.read_text(encoding="utf-8")):
            for match in RULE.finditer(text.lower()):
                at = line + text.count("\n", 0, match.start())
                said = " ".join(re.sub(r"[#*/]", " ", match[0]).lower().split())
                found.append(f"{name}:{at}: {said!r}; say: {PHRASES[said]}")
    assert not found, "\n".join(sorted(set(found)))


def test_the_table_is_read(root: Path) -> None:
    phrases = banned(root)
    assert len(phrases) > 60
    assert "beats a frame" in phrases and "meets again" in phrases and "ways that part and meet" in phrases
    assert phrases["last place"] == "LSB, LSBs"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "It has 4 beats a\nframe.\n"),
        ("a.py", "# Waits in the\nx = 1  # queue\n"),
        ("a.py", "def f():\n    '''Four beats\n    a frame.'''\n"),
        ("a.py", "raise E('the queue is full')\n"),
        ("a.py", "f'{n} beats a frame'\n"),
        ("a.py", "raise E(\n    'four beats '\n    'a frame'\n)\n"),
        ("a.py", "x = 'four beats\\na frame'\n"),
        ("a.py", "x = 'four beats ' f'a frame {x}'\n"),
        ("a.py", 'def f():\n    """Four beats ``n`` a frame."""\n'),
        ("a.sv", "// four beats\n// a frame\nmodule a;\n"),
        ("a.sv", "logic a;  // a queue\n"),
        ("a.cpp", "/* stands\n * still */\n"),
    ],
)
def test_a_phrase_is_seen(name: str, text: str) -> None:
    assert any(RULE.search(part.lower()) for _, part in texts(Path(name), text))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "`queue=1` and\n```python\nqueue = 1\n```\n"),
        ("a.py", "queue = deque()\nqueue.append('queue')\n"),
        ("a.py", "'''Steps.\n\nArgs:\n    queue: Slots.\n    one, queue: As ``queue``.\n'''\n"),
        ("a.sv", "logic queue;  // `queue`\n"),
        ("a.md", "# Values\n\nA bit is a bit.\n"),
        ("a.md", "Understand still waters, a queued job, last placement.\n"),
    ],
)
def test_code_is_not_prose(name: str, text: str) -> None:
    assert not any(RULE.search(part.lower()) for _, part in texts(Path(name), text))
