"""Run pip and show how far it is: one line that moves on a terminal, a line now and then elsewhere.

    python scripts/install.py LOG EXPECTED -- ARGUMENTS OF PIP INSTALL

What pip says goes to LOG; if it fails, its last lines are shown. EXPECTED is a file with one package a line, those that
will be there afterwards; ``-`` if that is not known. Uses nothing but the standard library: the environment is still
empty.
"""

from __future__ import annotations

import queue
import re
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

WIDTH = 30
EVERY_S = 15.0
"""Between two lines where nothing can be drawn over."""
TICK_S = 0.5
"""Between two looks at what is installed, and two drawings of the time."""
LAST_LINES = 25
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._]*(?:-[A-Za-z0-9._]+)*")


class Bar:
    """How far an installation is."""

    def __init__(self) -> None:
        self.begin = self.said = time.monotonic()
        self.moves = sys.stdout.isatty()

    def show(self, doing: str, done: int, of: int, what: str = "") -> None:
        """Draw the bar, or say a line if it is time for one.

        Args:
            doing: What is done with packages, as a past participle.
            done: How many are done.
            of: How many there will be; 0 if that is not known.
            what: The last one.
        """
        seconds = time.monotonic() - self.begin
        count = f"{done:3} of {of} {doing}" if of else f"{done:3} {doing}"
        if self.moves:
            filled = round(min(done / of, 1.0) * WIDTH) if of else 0
            bar = f"[{'#' * filled}{'.' * (WIDTH - filled)}] " if of else ""
            print(f"\r    {bar}{count}  {seconds:4.0f} s  {what:<24.24}\x1b[K", end="", flush=True)
        elif time.monotonic() - self.said >= EVERY_S:
            self.said = time.monotonic()
            print(f"    {count.strip()} after {seconds:.0f} s", flush=True)

    def end(self, said: str) -> None:
        """Leave one line that says what was done."""
        seconds = time.monotonic() - self.begin
        print(f"{chr(13) if self.moves else ''}    {said} in {seconds:.0f} s{chr(27) + '[K' if self.moves else ''}")


class Reader:
    """What pip says, line by line.

    Args:
        expected: Names of packages that will be there; empty if that is not known.
    """

    def __init__(self, expected: set[str]) -> None:
        self.expected = expected
        self.found: set[str] = set()
        self.last = ""
        self.to_install = 0

    def read(self, line: str) -> None:
        """Note what a line says of a package."""
        word, _, rest = line.partition(" ")
        if word == "Collecting" or line.startswith("Requirement already satisfied: "):
            self._found(rest.rpartition("satisfied: ")[2])
        elif word == "Processing" and ".whl" in rest:
            # A file's name begins with that of the package, in which there is no dash.
            self._found(rest.partition(".whl")[0].rpartition("/")[2].partition("-")[0])
        elif line.startswith("Installing collected packages: "):
            self.to_install = line.count(",") + 1

    def _found(self, text: str) -> None:
        name = _NAME.match(text.strip())
        if name and (not self.expected or normal(name[0]) in self.expected):
            self.found.add(normal(name[0]))
            self.last = name[0]


def normal(name: str) -> str:
    """A package's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main(arguments: list[str]) -> int:
    """Install; the exit code is pip's."""
    log, listing, pip = Path(arguments[0]), arguments[1], arguments[arguments.index("--") + 1 :]
    lines = [] if listing == "-" else Path(listing).read_text(encoding="utf-8").splitlines()
    names = {normal(found[0]) for line in lines if (found := _NAME.match(line))}
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-color", *pip]
    bar, reader, kept = Bar(), Reader(names), list[str]()
    before = _installed()
    with log.open("a", encoding="utf-8") as file:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        assert child.stdout is not None  # a pipe was asked for
        for line in _lines(child.stdout):
            if line is not None:
                file.write(line)
                kept.append(line.rstrip())
                reader.read(kept[-1])
            if reader.to_install:
                bar.show("installed", min(max(_installed() - before, 0), reader.to_install), reader.to_install)
            else:
                bar.show("found", len(reader.found), len(names), reader.last)
        code = child.wait()
    bar.end("stopped" if code else f"{reader.to_install} packages installed")
    if code:
        print("\n".join(kept[-LAST_LINES:]), file=sys.stderr)
        print(f"pip failed with exit code {code}; all it said is in {log}", file=sys.stderr)
    return code


def _lines(pipe: IO[str]) -> Iterator[str | None]:
    """The lines of a pipe, and None whenever nothing came for a while."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in pipe:
            lines.put(line)
        lines.put(None)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    while True:
        try:
            line = lines.get(timeout=TICK_S)
        except queue.Empty:
            yield None
            continue
        if line is None:
            return
        yield line


def _installed() -> int:
    """Packages of this environment."""
    return sum(1 for _ in Path(sysconfig.get_paths()["purelib"]).glob("*.dist-info"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
