"""A definition that is incomplete, or contradicts another one, does not get into the catalogue."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw.ops
from mase_hw.catalogue import Catalogue, Hardware, OpDef, default_catalogue
from mase_hw.errors import CatalogueError

RELU = default_catalogue()["relu"]
SKID = default_catalogue()["skid_buffer"]


class PlainParams:
    """Neither a record nor a dataclass."""


@dataclass
class LooseParams:
    """A dataclass that can be changed."""

    WIDTH: int = 8


def with_hardware(**facets: Any) -> Hardware:
    """The hardware facets of relu with some replaced."""
    assert RELU.hardware is not None
    return dataclasses.replace(RELU.hardware, **facets)


BAD: dict[str, tuple[Callable[[], OpDef], str]] = {
    "no golden": (lambda: dataclasses.replace(RELU, golden=None), "golden"),
    "no primitive without hardware": (lambda: dataclasses.replace(SKID, hardware=None), "needs the hardware"),
    "params are not a dataclass": (
        lambda: dataclasses.replace(RELU, hardware=with_hardware(params=PlainParams)),
        "params is neither a record of parameters nor a dataclass",
    ),
    "params are not frozen": (
        lambda: dataclasses.replace(RELU, hardware=with_hardware(params=LooseParams)),
        "params is not frozen",
    ),
    "unknown mase_type": (lambda: dataclasses.replace(RELU, mase_type="module_related"), "mase_type"),
    "implicit, yet in hardware": (lambda: dataclasses.replace(RELU, implicit=True), "implicit"),
    "a primitive that matches": (lambda: dataclasses.replace(SKID, modules=(nn.Identity,)), "structural"),
}
FACETS = ("module", "build", "latency", "cases", "params")


@pytest.mark.parametrize("name", BAD)
def test_incomplete(name: str) -> None:
    make, message = BAD[name]
    with pytest.raises(CatalogueError, match=message) as caught:
        make()
    assert caught.value.node in ("relu", "skid_buffer")


@pytest.mark.parametrize("facet", FACETS)
def test_missing_facet(facet: str) -> None:
    """A facet that was left empty is named."""
    with pytest.raises(CatalogueError, match=facet):
        dataclasses.replace(RELU, hardware=with_hardware(**{facet: "" if facet == "module" else None}))


@pytest.mark.parametrize("facet", FACETS)
def test_forgotten_facet(facet: str) -> None:
    """None of them has a default that would hide that it was forgotten."""
    assert RELU.hardware is not None
    facets = {f.name: getattr(RELU.hardware, f.name) for f in dataclasses.fields(Hardware)}
    del facets[facet]
    with pytest.raises(TypeError, match=facet):
        Hardware(**facets)


def test_contradictions() -> None:
    catalogue = default_catalogue()
    with pytest.raises(CatalogueError, match="two ops are called 'relu'"):
        catalogue.extended([dataclasses.replace(RELU, modules=(), functions=(), methods=())])
    for targets in ({"modules": (nn.ReLU,)}, {"functions": (torch.relu,)}, {"methods": ("relu",)}):
        rival = OpDef(name="rival", mase_type="implicit_func", implicit=True, **targets)
        with pytest.raises(CatalogueError, match=r"'relu' and 'rival' both claim"):
            catalogue.extended([rival])
        assert "rival" not in catalogue


def test_a_base_class_is_found_and_a_declaration_wins() -> None:
    class Child(nn.ReLU):
        pass

    class Declared(nn.ReLU):
        mase_op = "cast"

    class Unknown(nn.ReLU):
        mase_op = "no such op"

    class Stranger(nn.Module):
        pass

    catalogue = default_catalogue()
    assert catalogue.of_module(Child()) is RELU
    assert catalogue.of_module(Declared()) is catalogue["cast"]
    assert catalogue.of_module(Unknown()) is None
    assert catalogue.of_module(Stranger()) is None


@pytest.fixture
def op_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that counts as part of ``mase_hw/ops``; what is imported from it is forgotten again."""
    before = set(sys.modules)
    monkeypatch.setattr(mase_hw.ops, "__path__", [*mase_hw.ops.__path__, str(tmp_path)])
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("mase_hw.ops."):
            del sys.modules[name]
            vars(mase_hw.ops).pop(name.rpartition(".")[2], None)


def test_one_file_is_one_more_op(op_folder: Path) -> None:
    (op_folder / "extra.py").write_text(
        "from mase_hw.catalogue import OpDef\n"
        'OPS = (OpDef(name="extra", mase_type="implicit_func", implicit=True, methods=("alias",)),)\n'
    )
    (op_folder / "_helper.py").write_text("raise RuntimeError('a private file is not an op')\n")
    (op_folder / "family").mkdir()
    (op_folder / "family/__init__.py").write_text("")
    (op_folder / "family/another.py").write_text(
        "from mase_hw.catalogue import OpDef\n"
        'OPS = (OpDef(name="another", mase_type="implicit_func", implicit=True, methods=("as_subclass",)),)\n'
    )
    found = default_catalogue.__wrapped__()
    assert set(found.names()) == {*default_catalogue().names(), "extra", "another"}
    assert found.of_target("alias") is found["extra"]
    assert isinstance(found, Catalogue)


@pytest.mark.parametrize("text", ["", "OPS = []\n", "OPS = ('relu',)\n"])
def test_a_file_without_ops_is_refused(op_folder: Path, text: str) -> None:
    (op_folder / "broken.py").write_text(text)
    with pytest.raises(CatalogueError, match=r"ops/broken\.py has no OPS"):
        default_catalogue.__wrapped__()


def test_a_name_without_arithmetic_gives_way(op_folder: Path) -> None:
    """An op that was known by name alone gets hardware in a file of its own, and nothing else is edited."""
    assert default_catalogue()["diff"].hardware is None
    (op_folder / "diff.py").write_text(
        "import dataclasses, torch\n"
        "from mase_hw.ops.relu import OPS as RELU\n"
        'OPS = (dataclasses.replace(RELU[0], name="diff", modules=(), functions=(torch.diff,), methods=()),)\n'
    )
    found = default_catalogue.__wrapped__()
    assert found["diff"].hardware is not None and found.of_target(torch.diff) is found["diff"]
    assert found.names().count("diff") == 1 and found.of_target("diff_") is None
    (op_folder / "again.py").write_text((op_folder / "diff.py").read_text())
    with pytest.raises(CatalogueError, match="two ops are called 'diff'"):
        default_catalogue.__wrapped__()
