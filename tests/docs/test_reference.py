"""The generated parts of the documentation are those that the code makes, and nothing that can be set is left out."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import fastjsonschema
import pytest
import torch
from pydantic import BaseModel
from torch import nn

import mase_hw
from mase_hw import cli
from mase_hw.cli.main import COMMANDS
from mase_hw.compiler.config import CompileConfig, default_file, load_config, schema
from mase_hw.errors import ConfigError
from mase_hw.options import models_below, options_of
from mase_hw.passes.analysis.statistics import StatisticsConfig
from scripts import reference, reference_code, reference_rtl
from scripts.reference_options import all_passes, models
from tests.docs.pages import PAGES, ROOT, blocks
from tests.rtl import LIBRARY

REGIONS = [
    (page, match["words"]) for page in PAGES for match in reference.REGION.finditer(page.read_text(encoding="utf-8"))
]


def regions(kind: str) -> list[str]:
    """What stands behind a kind, of every generated part of all pages."""
    return [words.removeprefix(f"{kind} ") for _, words in REGIONS if words.split()[0] == kind]


@pytest.mark.parametrize("file", reference.FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_generated_parts_are_up_to_date(file: Path) -> None:
    assert file.read_text(encoding="utf-8") == reference.expected(file), "run `make docs`"


def test_what_is_not_described_is_named(tmp_path: Path) -> None:
    @dataclass
    class Facets:
        """A definition.

        Args:
            one: Described.
        """

        one: int
        two: int = 0

    with pytest.raises(ValueError, match=r"Facets does not describe two$"):
        reference_code._all_described(Facets, ("one", "two"))
    module = tmp_path / "thing.sv"
    module.write_text("// SPDX\n//\n// thing: does it.\n//\n// Latency:    1 cycle.\nmodule thing;\nendmodule\n")
    with pytest.raises(ValueError, match=r"thing\.sv has no line for Throughput$"):
        reference_rtl.comment_of(module)
    module.write_text("// SPDX\n//\n// Does it.\nmodule thing;\nendmodule\n")
    with pytest.raises(ValueError, match="does not begin with 'thing: '"):
        reference_rtl.comment_of(module)


def test_every_marked_part_is_read() -> None:
    """A part with a typing error in its marks would be kept as it is."""
    marks = sum(p.read_text(encoding="utf-8").count("\n<!-- generated:") for p in PAGES)
    ends = sum(p.read_text(encoding="utf-8").count("\n<!-- end -->") for p in PAGES)
    assert len(REGIONS) == marks == ends > 30


@pytest.mark.parametrize("change", [("`true`", "`false`"), ("at least 1", "at least 0"), ("| `axis`", "| `axes`")])
def test_a_changed_table_is_seen(change: tuple[str, str]) -> None:
    for page in (ROOT / "docs" / "handoff.md", ROOT / "docs" / "passes.md"):
        text = page.read_text(encoding="utf-8")
        if change[0] in text:
            assert reference.renewed(text.replace(*change, 1)) == text != text.replace(*change, 1)
            return
    raise AssertionError(change)


def test_every_model_of_arguments_is_described_once() -> None:
    shown = [words.split()[0] for words in regions("options")]
    assert len(shown) == len(set(shown))
    statistics = {m for below in models_below(StatisticsConfig) for m in below.__mro__} - {StatisticsConfig}
    expected = {name for name, model in models().items() if model.model_fields and model not in statistics}
    assert set(shown) == expected
    assert regions("statistics") == ["statistics"]


def test_inherited_options_are_described_where_they_are_left_out() -> None:
    pairs = [words.split() for words in regions("options") if " " in words]
    assert pairs
    for child, parent in pairs:
        assert issubclass(models()[child], models()[parent]) and parent in [w.split()[0] for w in regions("options")]


@pytest.mark.parametrize("name", sorted(models()))
def test_every_option_says_what_it_does(name: str) -> None:
    for option in options_of(models()[name]):
        assert len(option.description) > 5, f"{name}.{option.name} needs Field(description=...)"
        assert not option.description.endswith("."), f"{name}.{option.name}: a phrase without a period"


def test_every_pass_is_described() -> None:
    assert regions("passes") == ["passes"]
    table = reference.generated("passes")
    assert re.findall(r"^\| `(\w+_pass)`", table, re.MULTILINE)[0] == "init_metadata_analysis_pass"
    for name, one in all_passes().items():
        row = next(line for line in table.splitlines() if line.startswith(f"| `{name}`"))
        assert row.split(" | ")[1].strip(), name
        assert [n for n in all_passes() if f"| `{n}` |" in row] == [name]
        for need in one.needs:
            for either in (need,) if isinstance(need, str) else need:
                assert either.removesuffix("_analysis_pass").removesuffix("_transform_pass") in row


def test_every_facet_is_described() -> None:
    assert set(regions("facets")) == {"OpDef", "Hardware", "Case"}
    for name in ("OpDef", "Hardware", "Case"):
        rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", reference.generated(f"facets {name}"), re.MULTILINE)
        assert [facet for facet, _ in rows] == list(getattr(mase_hw.catalogue, name).__dataclass_fields__)
        assert all(len(says) > 5 for _, says in rows)


def test_every_module_is_described() -> None:
    page = (ROOT / "docs" / "rtl_library.md").read_text(encoding="utf-8")
    described = re.findall(r"^- \*\*`(\w+)`\*\*", page, re.MULTILINE)
    files = [*(LIBRARY / "lib").glob("*.sv"), *(LIBRARY / "ops").glob("*.sv")]
    assert sorted(described) == sorted(file.stem for file in files)
    words = " ".join(page.split())
    assert words.count("*Latency*: ") == words.count("*Throughput*: ") == len(files)


def test_every_command_is_described() -> None:
    page = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    shown = [w for p, w in REGIONS if p.name == "command_line.md" and w.startswith("command ")]
    assert shown == [f"command {name}" for name in COMMANDS]
    for name in COMMANDS:
        assert f"\n## {name}\n" in page


def test_the_printed_configuration_is_the_default(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["config"]) == cli.OK
    file = tmp_path / "all.toml"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    assert load_config(file) == load_config(None)


def test_the_printed_configuration_makes_the_same_bundle(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, data = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2)), torch.rand(8, 6)
    file = tmp_path / "all.toml"
    file.write_text(default_file(), encoding="utf-8")
    digests = [
        mase_hw.compile(net, data[:1], config, out=tmp_path / "out", calibration=[data]).manifest["digest"]
        for config in (None, file)
    ]
    assert digests[0] == digests[1]


def test_the_printed_configuration_has_every_option() -> None:
    """Also those without a default: as examples, which are valid."""
    text = re.sub(r"^#(?! |$)", "", default_file(), flags=re.MULTILINE)
    config = CompileConfig.model_validate(tomllib.loads(text))

    def unset(model: BaseModel, path: str) -> list[str]:
        found = []
        for name in type(model).model_fields:
            value = getattr(model, name)
            if isinstance(value, BaseModel):
                found += unset(value, f"{path}.{name}")
            elif name not in model.model_fields_set or value is None:
                found.append(f"{path}.{name}")
        return found

    assert not unset(config, "")
    assert config.quantize.rules() and config.quantize.overrides and config.hardware.fifo_depth


VALID = {f"{b.page.name}:{b.line}": b.text for b in blocks("toml")} | {"default": default_file()}


@pytest.mark.parametrize("text", VALID.values(), ids=list(VALID))
def test_the_schema_accepts_what_is_valid(text: str) -> None:
    fastjsonschema.compile(schema())(tomllib.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        "tops = 1",
        "top = 1",
        "fold_batch_norm = 'perhaps'",
        "[hardware]\nmax_paralelism = 4",
        "[hardware.fifo_depth]\n'add.data_in_1' = -1",
        "[handoff]\nclock_mhz = 0",
        "[handoff]\nversion = '1'",
        "[calibrate]\nmethod = 'max'",
        "[calibrate.options]\npercentile = 50",
        "[quantize]\nby = 'kind'",
        "[quantize.relu.config]\ndata_in_width = 257",
        "[quantize.overrides.fc1.config]\nrounding = 'nearest'",
        "[quantize.default.config]\noverflow = 7",
        "[quantize.relu]\nwidth = 8",
    ],
)
def test_the_schema_refuses_what_is_refused(text: str) -> None:
    document = tomllib.loads(text)
    with pytest.raises(fastjsonschema.JsonSchemaValueException):
        fastjsonschema.compile(schema())(document)
    with pytest.raises(ConfigError):
        load_config(document)


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "--schema"]) == cli.OK
    assert capsys.readouterr().out == reference.expected(reference.SCHEMA)


def test_a_constant_is_described_by_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the type of its value, and not silently by nothing."""
    (tmp_path / "with_limits.py").write_text('LIMIT = 3\n"""How many\nthere may be."""\nSILENT = 4\n', encoding="utf-8")
    (tmp_path / "passing_on.py").write_text("from with_limits import LIMIT\n__all__ = ['LIMIT']\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert "| `LIMIT` | How many there may be. |" in reference_code.exports("passing_on")
    (tmp_path / "silent.py").write_text("from with_limits import SILENT\n__all__ = ['SILENT']\n", encoding="utf-8")
    with pytest.raises(ValueError, match="with_limits does not say what SILENT is"):
        reference_code.exports("silent")
