"""Starts cocotb without pytest, whose import takes longer than everything else that a short run does.

cocotb asks pytest for the exceptions by which a test skips itself or fails, which the benches here do not raise, and
for what rewrites assertions, which is switched off. It is given modules with these names and nothing else; whatever
asks for more gets the real pytest. A run with code of the user in it starts with the real one at once
(``mase_hw/simulate/run.py``).
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from typing import Any

_MATCHERS = ("RaisesExc", "RaisesGroup")
"""cocotb does without them: older versions of pytest have none."""


def _outcome(name: str) -> types.SimpleNamespace:
    """What cocotb takes of a function such as ``pytest.skip``: its exception."""
    return types.SimpleNamespace(Exception=type(name, (Exception,), {}))


_STANDS_IN: dict[str, dict[str, Any]] = {
    "pytest": {name: _outcome(name) for name in ("raises", "skip", "xfail")},
    "_pytest": {},
    "_pytest.assertion": {"install_importhook": None},
    "_pytest.config": {"Config": None},
}
"""Modules, and what is in them."""


def _real(name: str) -> Any:
    """An attribute of pytest itself, which is loaded now and is there from now on."""
    if name in _MATCHERS or name.startswith("__"):
        raise AttributeError(name)
    for module in _STANDS_IN:
        sys.modules.pop(module, None)
    return getattr(importlib.import_module("pytest"), name)


def start() -> None:
    """Do what cocotb does if it is not told where to begin."""
    for module, names in _STANDS_IN.items():
        sys.modules[module] = types.ModuleType(module)
        vars(sys.modules[module]).update(names)
    sys.modules["pytest"].__getattr__ = _real  # type: ignore[method-assign]
    del os.environ["PYGPI_USERS"]
    importlib.import_module("pygpi.entry").load_entry()
