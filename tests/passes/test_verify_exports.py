"""Every pass is a name of ``mase_hw.passes``, and any module of the package can be the first one imported."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import mase_hw.passes
from mase_hw.passes import GraphPass

MODULES = [m.name for m in pkgutil.walk_packages(mase_hw.passes.__path__, "mase_hw.passes.")]

OTHERS = ["mase_hw.compiler.stages", "mase_hw.emit.passes", "mase_hw.nn.values", "mase_hw.ops.linear"]
"""Modules of other packages that are likely to be the first one."""


def test_every_pass_is_exported() -> None:
    found = {
        name: value
        for module in map(importlib.import_module, MODULES)
        for name, value in vars(module).items()
        if isinstance(value, GraphPass)
    }
    assert len(found) >= 14
    for name, value in found.items():
        assert name == value.name and name in mase_hw.passes.__all__
        assert getattr(mase_hw.passes, name) is value
        assert value.__doc__ and value.__doc__.count("Returns:") <= 1
    assert sorted(mase_hw.passes.__all__, key=str.lower) == sorted(set(mase_hw.passes.__all__), key=str.lower)


def test_no_import_cycle() -> None:
    """No cycle that only works after another module: one process, the package forgotten before every import.

    A module of each package: the packages that a module is in are imported before it, so its neighbours begin alike.
    """
    firsts = {name.rpartition(".")[0]: name for name in reversed(MODULES)}.values()
    code = f"""
import importlib, sys
for first in {[*firsts, *OTHERS]}:
    for name in [n for n in sys.modules if n.split(".")[0] == "mase_hw"]:
        del sys.modules[name]
    importlib.import_module(first)
    from mase_hw.passes import quantize_transform_pass, verify_analysis_pass
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
