"""Names a test that intervenes in a run of the fast engine; ``sim/intervention.py`` says what it can do."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from mase_hw.errors import ConfigError

FUNCTION = "intervene"
"""The function of the file if none is named."""


@dataclass(frozen=True)
class Intervention:
    """A coroutine function that runs beside the harness, inside the simulator.

    Args:
        file: Where it is.
        function: Its name.
    """

    file: Path
    function: str = FUNCTION

    @classmethod
    def parse(cls, text: str | Path) -> Intervention:
        """Read ``FILE.py`` or ``FILE.py:FUNCTION``.

        Raises:
            ConfigError: If there is no such file, or no coroutine function of that name at its top level.
        """
        name, _, function = str(text).rpartition(":")
        if not name:
            name, function = function, FUNCTION
        file = Path(name).resolve()
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError) as problem:
            raise ConfigError(
                "the test that intervenes cannot be read",
                field="intervene",
                got=f"{text}: {problem}",
                expected="FILE.py or FILE.py:FUNCTION",
                remedy="give a Python file that exists and has no syntax error",
            ) from problem
        # Looked at without running it: its imports belong to the simulator.
        found = [node.name for node in tree.body if isinstance(node, ast.AsyncFunctionDef)]
        if function not in found:
            raise ConfigError(
                "the file has no such test",
                node=str(file),
                field="intervene",
                got=function,
                expected=" | ".join(found) or f"async def {function}(bench)",
            )
        return cls(file, function)
