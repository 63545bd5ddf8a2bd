"""Bad input to compile and simulate: a clear error of the right kind, and nothing written."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import mase_hw
from mase_hw.emit.passes import (
    emit_bram_transform_pass,
    emit_cocotb_transform_pass,
    emit_internal_rtl_transform_pass,
    emit_verilog_top_transform_pass,
)
from mase_hw.errors import ConfigError, EmitError, FormatError, PassOrderError, ToolError, UnsupportedError
from tests.e2e.refusal import X, refused
from tests.unit.pipeline import EIGHT, MLP, WIDTHS, mapped, quantised, rule, seeded

UNKNOWN_KEYS = [
    ("tpo = 'x'", ["tpo: unknown key; did you mean 'top'?"]),
    ("[hardware]\nmax_paralelism = 3", ["hardware.max_paralelism: unknown key; did you mean 'max_parallelism'?"]),
    ("[quantize.default.config]\nwidth = 8", ["quantize.default.config.width: unknown key"]),
    ("[quantize.linaer.config]\nname = 'fixed'", ["linaer: no such op (did you mean 'linear'?)"]),
    ("[quantise]\nby = 'type'", ["quantise: unknown key; did you mean 'quantize'?"]),
    (
        "a = 1\nb = 2\n[hardware]\nc = 3",
        ["3 problem(s)", "a: unknown key", "b: unknown key", "hardware.c: unknown key"],
    ),
]


@pytest.mark.parametrize(("toml", "texts"), UNKNOWN_KEYS)
def test_unknown_key(out: Path, tmp_path_factory: pytest.TempPathFactory, toml: str, texts: list[str]) -> None:
    import tomllib

    refused(out, ConfigError, texts, seeded(MLP), X, tomllib.loads(toml))
    file = tmp_path_factory.mktemp("config") / "net.toml"
    file.write_text(toml)
    refused(out, ConfigError, texts, seeded(MLP), X, file)
    refused(out, ConfigError, texts, seeded(MLP), X, str(file))


def test_files_that_are_no_configuration(out: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("config")
    (folder / "broken.toml").write_text("[quantize\n")
    (folder / "binary.toml").write_bytes(b"\xff\xfe\x00")
    refused(out, ConfigError, ["is not TOML", "broken.toml"], seeded(MLP), X, folder / "broken.toml")
    for name in ("binary.toml", "missing.toml", "."):
        refused(out, ConfigError, ["cannot be read", "a TOML file"], seeded(MLP), X, folder / name)
    refused(out, ConfigError, ["not a dict"], seeded(MLP), X, 8)


@pytest.mark.parametrize("width", [0, -1, -8])
@pytest.mark.parametrize("key", list(WIDTHS))
def test_widths(out: Path, key: str, width: int) -> None:
    config = {"quantize": {"default": rule(**{**WIDTHS, key: width})}}
    refused(
        out,
        ConfigError,
        [f"quantize.default.config.{key}", "greater than or equal to 1", f"got {width}"],
        seeded(MLP),
        X,
        config,
    )


@pytest.mark.parametrize("width", [60, 200])
def test_widths_that_nothing_computes_exactly(out: Path, width: int) -> None:
    """The limits of the reference are refused by name, not found out by overflow."""
    config = {"quantize": {"default": rule(**{**WIDTHS, "weight_width": width})}}
    refused(out, FormatError, ["fc1.weight", "at most"], seeded(MLP), X, config)


def test_exact_results_that_are_too_wide_name_the_node(out: Path) -> None:
    """A bias that is finer than the products by more bits than two tensors of int64 have."""
    config = {"quantize": {"default": rule(**WIDTHS, bias_frac_width=130)}}
    refused(out, FormatError, ["does not fit the widest carrier", "where: fc1\n"], seeded(MLP), X, config)


@pytest.mark.parametrize("frac", [5000, -5000])
def test_fraction_widths_beyond_reason(out: Path, frac: int) -> None:
    config = {"quantize": {"default": rule(**WIDTHS, weight_frac_width=frac)}}
    refused(out, ConfigError, ["weight_frac_width"], seeded(MLP), X, config)


def test_a_node_left_in_float(out: Path) -> None:
    config = {"quantize": {**EIGHT, "overrides": {"fc1": {"config": {"name": None}}}}}
    refused(out, UnsupportedError, ["in float", "fc1", "quantize_transform_pass"], seeded(MLP), X, config)


EMIT = (
    emit_verilog_top_transform_pass,
    emit_internal_rtl_transform_pass,
    emit_bram_transform_pass,
    emit_cocotb_transform_pass,
)


@pytest.mark.parametrize("emit", EMIT, ids=lambda e: str(e.name))
def test_wrong_order(out: Path, emit: Any) -> None:
    graph = quantised(seeded(MLP), X)[0]
    args = {"project_dir": out, **({"inputs": X} if emit is emit_cocotb_transform_pass else {})}
    with pytest.raises(PassOrderError, match=f"(?s){emit.name} needs the result of.*first"):
        emit(graph, args)
    if emit is not emit_verilog_top_transform_pass:
        with pytest.raises(PassOrderError, match="run emit_verilog_top_transform_pass first"):
            emit(mapped(seeded(MLP), X)[0], args)


def test_a_stale_netlist_is_not_emitted(out: Path) -> None:
    """Quantising again takes back everything that was derived from the first time."""
    graph = mapped(seeded(MLP), X)[0]
    graph, _ = emit_verilog_top_transform_pass(graph)
    graph.meta["passes"] = [p for p in graph.completed if p != "add_hardware_metadata_analysis_pass"]
    with pytest.raises(PassOrderError, match="run add_hardware_metadata_analysis_pass first"):
        emit_verilog_top_transform_pass(graph, {"project_dir": out})


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    for target, text in ((tmp_path / "file", "is a file"), (tmp_path / "file/below/bundle", "cannot be written")):
        with pytest.raises(EmitError, match=text) as caught:
            mase_hw.compile(seeded(MLP), X, out=target)
        assert str(target) in str(caught.value) and "choose another output folder" in str(caught.value)
    assert (tmp_path / "file").read_text() == "kept" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("stalls", [-0.1, 1.0, 1.5, math.nan])
def test_impossible_stalls(tmp_path: Path, stalls: float) -> None:
    design = mase_hw.compile(seeded(MLP), X, out=tmp_path / "b")
    with pytest.raises(ConfigError, match="stall probability out of range"):
        design.simulate(X, stalls=stalls)
    assert [p.name for p in tmp_path.iterdir()] == ["b"]


@pytest.mark.parametrize(
    ("variables", "texts"),
    [({"PATH": ""}, ["no g++, c++ or clang++"]), ({"CXX": "no-such-compiler"}, ["no-such-compiler"])],
)
def test_missing_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], texts: list[str]
) -> None:
    """Emission needs none; simulation says which is missing and what to install, before it builds anything."""
    monkeypatch.delenv("CXX", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    design = mase_hw.compile(seeded(MLP), X, out=tmp_path / "b")
    with pytest.raises(ToolError) as caught:
        design.simulate(X)
    for text in [*texts, "c++", "not found on PATH", "apt-get install g++"]:
        assert text in str(caught.value), str(caught.value)
    assert "c++" in (caught.value.node or "")
    assert [p.name for p in tmp_path.iterdir()] == ["b"]
