"""Run pip and show how far it is: one line that moves on a terminal, a line now and then elsewhere.

    python scripts/install.py LOG EXPECTED -- ARGUMENTS OF PIP INSTALL

What pip says goes to LOG; if it fails, its last lines are shown. EXPECTED is a file with one package a line, from which
the share is estimated. Uses nothing but the standard library: the environment is still empty.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

WIDTH = 30
EVERY_S = 15.0
"""Between two lines where nothing can be drawn over."""
LAST_LINES = 25


class Bar:
    """How far an installation is.

    Args:
        expected: Packages to come, about.
    """

    def __init__(self, expected: int) -> None:
        self.expected = max(1, expected)
        self.begin = self.said = time.monotonic()
        self.moves = sys.stdout.isatty()

    def show(self, done: int, what: str) -> None:
        """Draw the bar, or say a line if it is time for one."""
        share = min(done / self.expected, 1.0)
        seconds = time.monotonic() - self.begin
        if self.moves:
            filled = round(share * WIDTH)
            bar = "#" * filled + "." * (WIDTH - filled)
            print(
                f"\r    [{bar}] {done:3} of about {self.expected}  {seconds:4.0f} s  {what:<32.32}", end="", flush=True
            )
        elif time.monotonic() - self.said >= EVERY_S:
            self.said = time.monotonic()
            print(f"    {done} of about {self.expected} packages, {seconds:.0f} s: {what}", flush=True)

    def end(self) -> None:
        """Leave the line."""
        if self.moves:
            print(flush=True)


def main(arguments: list[str]) -> int:
    """Install; the exit code is pip's."""
    log, listing, pip = Path(arguments[0]), Path(arguments[1]), arguments[arguments.index("--") + 1 :]
    names = [line for line in listing.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-color", *pip]
    bar, seen, lines = Bar(len(names)), 0, []
    with log.open("a", encoding="utf-8") as file:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        assert child.stdout is not None  # a pipe was asked for
        for line in child.stdout:
            file.write(line)
            lines.append(line.rstrip())
            word, _, rest = line.partition(" ")
            if word == "Collecting":
                seen += 1
                bar.show(seen, rest.split(" ")[0].strip())
            elif word in ("Installing", "Building", "Preparing"):
                bar.show(seen, line.split(":")[0].strip().lower())
        code = child.wait()
    bar.end()
    if code:
        print("\n".join(lines[-LAST_LINES:]), file=sys.stderr)
        print(f"pip failed with exit code {code}; all it said is in {log}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
