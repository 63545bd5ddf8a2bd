"""Custom ops that are incomplete, wrong or in the way of others: each is refused, and says what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.catalogue import Arithmetic, OpDef, default_catalogue
from mase_hw.errors import CatalogueError, ConfigError, EmitError, MaseHwError, UnsupportedError
from mase_hw.hardware.library import with_dependences
from mase_hw.ir import MaseGraph, custom_op
from mase_hw.ir.custom.ops import with_custom_ops
from mase_hw.numerics import cast
from mase_hw.opdef import SUPPORT
from mase_hw.passes import add_common_metadata_analysis_pass, init_metadata_analysis_pass

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "custom_op"


class Absolute(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.abs()


class Scaled(nn.Module):
    def __init__(self, factor: Any) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def twice(x: Tensor, times: int = 2) -> Tensor:
    return x * times


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {"data_out_0": cast(t["data_in_0"].abs(), a.formats["data_in_0"].frac_width, a.formats["data_out_0"])}


def with_ports(module: str, body: str = "") -> str:
    """A module with the parameters and ports of an elementwise op, all the same to what is in it."""
    text = (EXAMPLE / "rtl/leaky_shift.sv").read_text(encoding="utf-8")
    header = text[: text.index(");\n") + 3].replace("leaky_shift", module)
    return f"{header}  assign data_in_0_ready = 1'b0;\n{body}endmodule\n"


@pytest.fixture
def rtl(tmp_path: Path) -> Path:
    folder = tmp_path / "rtl"
    (folder / "parts").mkdir(parents=True)
    (folder / "my_abs.sv").write_text(with_ports("my_abs"))
    (folder / "parts/helper.sv").write_text("module helper;\nendmodule\n")
    return folder


def entry(rtl: Path, **keys: Any) -> dict[str, Any]:
    return {"module": "my_abs", "root": rtl, "golden": golden, "like": "relu", **keys}


def ops(rtl: Path, target: Any = Absolute, **keys: Any) -> dict[str, Any]:
    return {"modules": {target: entry(rtl, **keys)}}


def test_defaults(rtl: Path) -> None:
    op = custom_op(Absolute, entry(rtl, dependence_files=["lib/register_slice.sv", "parts/helper.sv"]))
    assert (op.name, op.mase_type, op.modules, op.formats) == (
        "absolute",
        "module_related_func",
        (Absolute,),
        ("data_in_0", "data_out_0"),
    )
    hardware = op.hardware
    assert hardware is not None and hardware.toolchain == "EXTERNAL"
    assert hardware.files == (*SUPPORT, "lib/register_slice.sv", "external/parts/helper.sv", "external/my_abs.sv")
    assert hardware.external("external/parts/helper.sv") == rtl / "parts/helper.sv"
    assert hardware.external("lib/register_slice.sv") is None


def test_a_function(rtl: Path) -> None:
    op = custom_op(twice, entry(rtl, args={"x": "data_in", "times": "config"}))
    assert op.functions == (twice,) and op.mase_type == "builtin_func"

    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return twice(x, times=3)

    made = MaseGraph(Net(), custom_ops={"functions": {twice: op}})
    assert [n.name for n in made.nodes] == ["x", "twice", "output"]
    made, _ = init_metadata_analysis_pass(made)
    made, _ = add_common_metadata_analysis_pass(made, {"dummy_in": {"x": torch.ones(1, 4)}})
    assert made.node("twice").meta["mase"]["common"]["args"]["times"] == 3


def test_the_package_is_as_it_was(rtl: Path) -> None:
    before = default_catalogue().names()
    assert "absolute" in with_custom_ops(None, ops(rtl)).names()
    assert default_catalogue().names() == before


WRONG: dict[str, tuple[Callable[[Path], Any], type[MaseHwError], str]] = {
    "missing golden": (
        lambda r: {"modules": {Absolute: {"module": "my_abs", "root": r, "like": "relu"}}},
        ConfigError,
        r"Absolute\.golden: missing",
    ),
    "unknown key": (lambda r: ops(r, modul="x"), ConfigError, "did you mean 'module'"),
    "unknown toolchain": (lambda r: ops(r, toolchain="HSL"), ConfigError, r"toolchain: .*'EXTERNAL'"),
    "toolchain without C++": (lambda r: ops(r, toolchain="HLS"), ConfigError, r"C\+\+ of an HLS op is missing"),
    "missing file": (lambda r: ops(r, file="other.sv"), ConfigError, r"rtl/other\.sv"),
    "template as a file": (lambda r: ops(r, file="my_abs.sv.j2"), ConfigError, "say 'my_abs.sv'"),
    "missing dependence": (lambda r: ops(r, dependence_files=["parts/helpr.sv"]), ConfigError, "parts/helper.sv"),
    "missing folder": (lambda r: ops(r / "none"), ConfigError, "no such folder"),
    "no folder": (
        lambda r: {"modules": {Absolute: {"module": "my_abs", "golden": golden, "like": "relu"}}},
        ConfigError,
        "root",
    ),
    "file outside": (lambda r: ops(r, dependence_files=["../x.sv"]), ConfigError, "relative"),
    "absolute file": (lambda r: ops(r, dependence_files=[str(r / "my_abs.sv")]), ConfigError, "relative"),
    "file twice": (lambda r: ops(r, dependence_files=["my_abs.sv"]), ConfigError, "twice"),
    "file without the module": (lambda r: ops(r, module="my_other", file="my_abs.sv"), ConfigError, "does not define"),
    "module that is no identifier": (lambda r: ops(r, module="my-abs"), ConfigError, "module"),
    "module of the package": (lambda r: ops(r, module="fixed_relu"), CatalogueError, "fixed_relu"),
    "package's module as external": (lambda r: ops(r, file="ops/fixed_relu.sv"), ConfigError, "INTERNAL"),
    "internal with a folder": (lambda r: ops(r, toolchain="INTERNAL"), ConfigError, "root"),
    "like nothing": (lambda r: ops(r, like="rleu"), ConfigError, "did you mean 'relu'"),
    "like an op without hardware": (lambda r: ops(r, like="flatten"), ConfigError, "in hardware"),
    "no facets": (lambda r: ops(r, like=None), ConfigError, r"Absolute\.ports"),
    "name taken": (lambda r: ops(r, name="linear"), CatalogueError, "linear"),
    "class taken": (lambda r: ops(r, target=nn.ReLU, name="mine"), CatalogueError, "both claim"),
    "argument of nothing": (lambda r: ops(r, args={"y": "data_in"}), ConfigError, "did you mean|known: x"),
    "argument of no kind": (lambda r: ops(r, args={"x": "stream"}), ConfigError, "args"),
    "config that is a parameter": (
        lambda r: ops(r, args={"x": "data_in", "rounding": "config"}),
        ConfigError,
        "parameter already",
    ),
    "not a module": (lambda r: ops(r, target=twice), ConfigError, "torch.nn.Module"),
    "not a function": (lambda r: {"functions": {Absolute: entry(r)}}, ConfigError, "a function"),
    "unknown group": (lambda r: {"module": {}}, ConfigError, "did you mean 'modules'"),
    "not a dict": (lambda r: [Absolute], ConfigError, "not a dict"),
    "entry not a dict": (lambda r: {"modules": {Absolute: 3}}, ConfigError, "not a dict"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_entries(name: str, rtl: Path) -> None:
    make, kind, message = WRONG[name]
    with pytest.raises(kind, match=message) as caught:
        MaseGraph(Absolute(), custom_ops=make(rtl))
    assert caught.value.field or caught.value.node


def test_a_file_that_could_be_either(rtl: Path) -> None:
    (rtl / "lib").mkdir()
    (rtl / "lib/register_slice.sv").write_text("module register_slice;\nendmodule\n")
    with pytest.raises(ConfigError, match="yours or the package's"):
        custom_op(Absolute, entry(rtl, dependence_files=["lib/register_slice.sv"]))


def test_two_ops_with_one_module(rtl: Path) -> None:
    with pytest.raises(CatalogueError, match="both use a SystemVerilog module 'my_abs'"):
        MaseGraph(Absolute(), custom_ops={"modules": {Absolute: entry(rtl), Scaled: entry(rtl)}})


def test_a_config_argument_that_is_no_whole_number(rtl: Path, tmp_path: Path) -> None:
    custom = ops(rtl, target=Scaled, args={"x": "data_in", "factor": "config"})
    with pytest.raises(UnsupportedError, match="whole number") as caught:
        mase_hw.compile(nn.Sequential(Scaled(0.5)), torch.ones(1, 4), out=tmp_path / "out", custom_ops=custom)
    assert caught.value.field == "factor" and not (tmp_path / "out").exists()


def test_a_file_that_is_gone_when_it_is_needed(rtl: Path, tmp_path: Path) -> None:
    custom: dict[str, Any] = {"modules": {Absolute: custom_op(Absolute, entry(rtl))}}
    assert isinstance(custom["modules"][Absolute], OpDef)
    (rtl / "my_abs.sv").unlink()
    with pytest.raises(EmitError, match=r"my_abs\.sv"):
        mase_hw.compile(nn.Sequential(Absolute()), torch.ones(1, 4), out=tmp_path / "out", custom_ops=custom)
    assert not (tmp_path / "out").exists()


TEMPLATE = """\
{% set header = record("mase_hw.catalogue:ElementwiseParams") %}
module my_abs #(
    {{ header.parameters(also={"TIMES": 3}) }},

    {{ header.lanes() }}
) (
    {{ header.ports() }}
);

  {{ rtl.elementwise_check() }}
  {{ rtl.cast_slice("data_in_0", "data_in_0", of="DATA_IN_0") }}
  if (TIMES != 5) begin : g_times
    $fatal(1, "my_abs: TIMES is not that of the entry");
  end

endmodule
"""
FILES: dict[str, tuple[dict[str, str], list[str], str, str]] = {
    "a file of one's own": (
        {"my_abs.sv": with_ports("my_abs", "  if (1) begin : g_one helper u_a[3:0] (); end\n")}, [],
        r"'helper'.*external/my_abs\.sv instantiates it", "add 'parts/helper.sv' to dependence_files",
    ),
    "a module that is nowhere": (
        {"my_abs.sv": with_ports("my_abs", "  nowhere u_a (.x(1));\n")}, [], "'nowhere'", "write the module",
    ),
    "a module that is there twice": (
        {"my_abs.sv": with_ports("my_abs") + "module helper;\nendmodule\n"}, ["parts/helper.sv"],
        r"two files declare the module 'helper'.*external/parts/helper\.sv and external/my_abs\.sv",
        "leave one of them out",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "instance", ["register_slice #(.WIDTH(8)) s", "fixed_dot_product #(.N(4)) u_d", "skid_buffer s"]
)
def test_files_of_the_package_are_found(instance: str, rtl: Path, tmp_path: Path) -> None:
    """With what they instantiate, and without being named."""
    (rtl / "my_abs.sv").write_text(with_ports("my_abs", f"  {instance} ();\n"))
    design = mase_hw.compile(nn.Sequential(Absolute()), torch.ones(1, 4), out=tmp_path / "out", custom_ops=ops(rtl))
    name = instance.partition(" ")[0]
    below = with_dependences([f"lib/{name}.sv"])
    assert design.manifest["rtl"].index(f"rtl/{below[-1]}") < design.manifest["rtl"].index("rtl/external/my_abs.sv")
    assert {f"rtl/{file}" for file in below} <= set(design.manifest["rtl"])


def test_a_template_becomes_the_module(rtl: Path, tmp_path: Path) -> None:
    """With the parameters of the op that it is like and those of the entry, and what its macros instantiate."""
    (rtl / "my_abs.sv").unlink()
    (rtl / "my_abs.sv.j2").write_text(TEMPLATE)

    def times(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
        fmt = a.formats["data_in_0"]
        return {
            "data_out_0": cast(t["data_in_0"] * int(a.attributes["times"]), fmt.frac_width, a.formats["data_out_0"])
        }

    custom = {"functions": {twice: entry(rtl, args={"x": "data_in", "times": "config"}) | {"golden": times}}}

    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return twice(x, times=5)

    design = mase_hw.compile(Net(), torch.ones(1, 4), out=tmp_path / "out", custom_ops=custom)
    text = (design.path / "rtl/external/my_abs.sv").read_text()
    assert "    parameter int TIMES                        = 3,\n" in text and "{{" not in text
    files = design.manifest["rtl"]
    assert files.index("rtl/lib/fixed_cast_slice.sv") < files.index("rtl/external/my_abs.sv")
    assert {"rtl/lib/elementwise_check.sv", "rtl/lib/fixed_cast_unit.sv"} < set(files)


@pytest.mark.parametrize("name", FILES)
def test_files_that_do_not_make_a_whole(name: str, rtl: Path, tmp_path: Path) -> None:
    """Refused before anything is written; what is to be done is in the message, and does."""
    texts, files, message, remedy = FILES[name]
    for file, text in texts.items():
        (rtl / file).write_text(text)
    out = tmp_path / "out"

    def compiled(dependence_files: list[str]) -> object:
        custom = ops(rtl, dependence_files=dependence_files)
        return mase_hw.compile(nn.Sequential(Absolute()), torch.ones(1, 4), out=out, custom_ops=custom)

    with pytest.raises(ConfigError, match=f"(?s){message}") as caught:
        compiled(files)
    assert caught.value.node in ("absolute", None) and caught.value.field == "dependence_files" and not out.exists()
    assert caught.value.remedy is not None and remedy in caught.value.remedy
    for _ in range(20):  # what it says, until it says no more
        added = re.fullmatch("add '(.*)' to dependence_files", caught.value.remedy or "")
        if added is None:
            break
        files = [added[1], *files]
        try:
            compiled(files)
        except ConfigError as problem:
            caught.value.remedy = problem.remedy
        else:
            assert out.is_dir()
            break


def test_the_op_is_in_none_of_its_files(rtl: Path, tmp_path: Path) -> None:
    op = custom_op(Absolute, entry(rtl))
    (rtl / "my_abs.sv").write_text("module my_absolute;\nendmodule\n")
    with pytest.raises(ConfigError, match=r"(?s)declares the module 'my_abs'.*the op is this module"):
        mase_hw.compile(
            nn.Sequential(Absolute()), torch.ones(1, 4), out=tmp_path / "out", custom_ops={"modules": {Absolute: op}}
        )


def test_files_of_two_ops_with_the_same_name(rtl: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "parts").mkdir(parents=True)
    (other / "my_scale.sv").write_text(with_ports("my_scale"))
    (other / "parts/helper.sv").write_text("module helper; /* another one */\nendmodule\n")
    custom = {
        "modules": {
            Absolute: entry(rtl, dependence_files=["parts/helper.sv"]),
            Scaled: entry(other, module="my_scale", dependence_files=["parts/helper.sv"]),
        }
    }
    model = nn.Sequential(Absolute(), Scaled(1))
    with pytest.raises(EmitError, match="different files of the same name"):
        mase_hw.compile(model, torch.ones(1, 4), out=tmp_path / "out", custom_ops=custom)
    (other / "parts/helper.sv").write_bytes((rtl / "parts/helper.sv").read_bytes())
    design = mase_hw.compile(model, torch.ones(1, 4), out=tmp_path / "out", custom_ops=custom)
    assert design.manifest["rtl"].count("rtl/external/parts/helper.sv") == 1
