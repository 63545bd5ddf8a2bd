"""Templates of modules: the header that a record gives, and what is wrong with a template."""

import re
from pathlib import Path

import pytest

from mase_hw import cli
from mase_hw.errors import ConfigError
from mase_hw.hardware.library import content, exists, library_modules, modules_below, render, source
from mase_hw.hardware.params import Cast, Matrix, Params, Vector
from mase_hw.host.resources import rtl_root
from tests.rtl import LIBRARY


class ScaleParams(Params, frozen=True):
    """A matrix, a factor for every column, and what a record may have besides."""

    data_in_0: Matrix
    has_factor: bool
    factor: Vector
    data_out_0: Matrix
    depth: int
    cast: Cast


BEGIN = '// A comment.\n{% set header = record("tests.unit.test_templates:ScaleParams") %}\n'
TEMPLATE = """\
module scale #(
    {{ header.parameters("TABLE_FILE", also={"SHIFT": 3}, DEPTH=2, FACTOR_SIGNED=0) }},

    {{ header.lanes() }}
) (
    {{ header.ports(also={"spare": "factor"}, factor="1") }}
);
"""
WRITTEN = """\
// A comment.
module scale #(
    parameter int DATA_IN_0_PRECISION_0        = 8,
    parameter int DATA_IN_0_PRECISION_1        = 0,
    parameter int DATA_IN_0_SIGNED             = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_0  = 1,
    parameter int DATA_IN_0_TENSOR_SIZE_DIM_1  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_0  = 1,
    parameter int DATA_IN_0_PARALLELISM_DIM_1  = 1,
    parameter int HAS_FACTOR                   = 0,
    parameter int FACTOR_PRECISION_0           = 8,
    parameter int FACTOR_PRECISION_1           = 0,
    parameter int FACTOR_SIGNED                = 0,
    parameter int FACTOR_TENSOR_SIZE_DIM_0     = 1,
    parameter int FACTOR_PARALLELISM_DIM_0     = 1,
    parameter int DATA_OUT_0_PRECISION_0       = 8,
    parameter int DATA_OUT_0_PRECISION_1       = 0,
    parameter int DATA_OUT_0_SIGNED            = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_0 = 1,
    parameter int DATA_OUT_0_TENSOR_SIZE_DIM_1 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_0 = 1,
    parameter int DATA_OUT_0_PARALLELISM_DIM_1 = 1,
    parameter int DEPTH                        = 2,
    parameter int ROUNDING                     = 0,
    parameter int OVERFLOW                     = 0,
    parameter int SHIFT                        = 3,
    parameter     TABLE_FILE                   = "",

    localparam int Lanes = DATA_IN_0_PARALLELISM_DIM_0 * DATA_IN_0_PARALLELISM_DIM_1
) (
    input  logic                                         clk,
    input  logic                                         rst,
    input  logic [Lanes-1:0][ DATA_IN_0_PRECISION_0-1:0] data_in_0,
    input  logic                                         data_in_0_valid,
    output logic                                         data_in_0_ready,
    input  logic [      0:0][    FACTOR_PRECISION_0-1:0] factor,
    input  logic                                         factor_valid,
    output logic                                         factor_ready,
    input  logic [Lanes-1:0][    FACTOR_PRECISION_0-1:0] spare,
    input  logic                                         spare_valid,
    output logic                                         spare_ready,
    output logic [Lanes-1:0][DATA_OUT_0_PRECISION_0-1:0] data_out_0,
    output logic                                         data_out_0_valid,
    input  logic                                         data_out_0_ready
);
"""


def test_a_header_as_one_would_write_it(tmp_path: Path) -> None:
    (tmp_path / "scale.sv.j2").write_text(BEGIN + TEMPLATE, encoding="utf-8")
    (tmp_path / "scale.svh").touch()
    assert source(tmp_path / "scale.sv") == WRITTEN
    assert modules_below(tmp_path) == ["scale.sv"] and not exists(tmp_path / "scale.svh.sv")


INSTANCES = """\
  {{ instance("stream_fifo", "u_fifo", WIDTH="Lanes * 8", LUT_DEPTH=none, in_data="data", count="unused_count") }}
  {{ instance("window_check", "u_check", NAME='"a, b"', CEIL_MODE=none, PAD_W=0, PAD_H=0) }}
"""
CONNECTED = """\
  stream_fifo #(
      .WIDTH(Lanes * 8),
      .DEPTH(DEPTH)
  ) u_fifo (
      .clk      (clk),
      .rst      (rst),
      .in_data  (data),
      .in_valid (in_valid),
      .in_ready (in_ready),
      .out_data (out_data),
      .out_valid(out_valid),
      .out_ready(out_ready),
      .count    (unused_count)
  );
  window_check #(
      .NAME      ("a, b"),
      .IN_W      (IN_W),
      .IN_H      (IN_H),
      .OUT_W     (OUT_W),
      .OUT_H     (OUT_H),
      .KERNEL_W  (KERNEL_W),
      .KERNEL_H  (KERNEL_H),
      .STRIDE_W  (STRIDE_W),
      .STRIDE_H  (STRIDE_H),
      .PAD_W     (0),
      .PAD_H     (0),
      .DILATION_W(DILATION_W),
      .DILATION_H(DILATION_H),
      .ADAPTIVE  (ADAPTIVE)
  ) u_check ();
"""


def test_an_instance_connects_what_has_the_same_name(tmp_path: Path) -> None:
    """In the order of the module, whose own header may come from a template; one without ports has none."""
    (tmp_path / "scale.sv.j2").write_text(INSTANCES, encoding="utf-8")
    assert source(tmp_path / "scale.sv") == CONNECTED


REFUSED = """\
if (DEPTH < LONG_NAME_OF_A_PARAMETER + ANOTHER_LONG_NAME_OF_A_PARAMETER && DEPTH != 0 && WIDTH !=
    0) begin : g_bad_depth
  // Refuses DEPTH=1; takes DEPTH=0
  $fatal(
      1,
      "scale: DEPTH %0d is less than LONG_NAME_OF_A_PARAMETER %0d and WIDTH is %0d, not 0",
      DEPTH,
      LONG_NAME_OF_A_PARAMETER,
      WIDTH
  );
end
"""


def test_a_check_of_parameters(tmp_path: Path) -> None:
    """Lines of at most 100 columns, in a module whose indentation is 2."""
    condition = "DEPTH < LONG_NAME_OF_A_PARAMETER + ANOTHER_LONG_NAME_OF_A_PARAMETER && DEPTH != 0 && WIDTH != 0"
    message = "scale: DEPTH %0d is less than LONG_NAME_OF_A_PARAMETER %0d and WIDTH is %0d, not 0"
    values = '"DEPTH", "LONG_NAME_OF_A_PARAMETER", "WIDTH"'
    call = f'{{{{ refuse("bad_depth", "{condition}", "DEPTH=1; takes DEPTH=0", "{message}", {values}) }}}}\n'
    (tmp_path / "scale.sv.j2").write_text(call, encoding="utf-8")
    assert source(tmp_path / "scale.sv") == REFUSED


def test_a_file_is_what_it_is(tmp_path: Path) -> None:
    """Byte for byte, whatever it is written in."""
    (tmp_path / "theirs.sv").write_bytes(b"module theirs;\r\n// {{ \xe9\r\nendmodule\r\n")
    assert content(tmp_path / "theirs.sv") == (tmp_path / "theirs.sv").read_bytes()


@pytest.mark.parametrize(
    ("text", "said", "got"),
    [
        ("{{ header.parameters(DEPHT=2) }}", "a parameter that its record has not", "DEPHT"),
        ('{{ header.ports(data_in_1="2") }}', "a port that its record has not", "data_in_1"),
        ("{{ header.parameter() }}", "cannot be rendered", "has no attribute 'parameter'"),
        ("{{ rtl.cast_slize() }}", "cannot be rendered", "has no attribute 'cast_slize'"),
        ("{{ rtl.counter( }}", "cannot be rendered", "unexpected '}'"),
        ('{{ rtl.counter("u_tile") }}', "cannot be rendered", "'count' was not provided"),
        ("{{ rtl.elementwise_check(1) }}", "cannot be rendered", "takes not more than 0 argument"),
        ('{{ record("mase_hw.opdef:Hardware") }}', "no record of parameters", "it is none"),
        ('{{ record("mase_hw.opdef:Hardwares") }}', "no record of parameters", "Hardwares"),
        ('{{ record("tests") }}', "no record of parameters", ""),
        ('{{ instance("register_slize", "u") }}', "cannot be rendered", "did you mean 'register_slice'?"),
        ('{{ instance("register_slice", "u", DEPTH=1) }}', "cannot be rendered", "has no DEPTH, but WIDTH"),
        ('{{ limits("WIDTH at least 1") }}', "cannot be rendered", "'WIDTH at least 1'"),
    ],
)
def test_a_wrong_template(tmp_path: Path, text: str, said: str, got: str) -> None:
    (tmp_path / "scale.sv.j2").write_text(BEGIN + text, encoding="utf-8")
    with pytest.raises(ConfigError, match=said) as caught:
        source(tmp_path / "scale.sv")
    assert str(caught.value.node).startswith(str(tmp_path / "scale.sv.j2")) and got in str(caught.value.got)


def test_a_file_beside_its_template(tmp_path: Path) -> None:
    for name in ("scale.sv", "scale.sv.j2"):
        (tmp_path / name).write_text(BEGIN + TEMPLATE, encoding="utf-8")
    with pytest.raises(ConfigError, match="there twice"):
        source(tmp_path / "scale.sv")


def test_nothing_of_a_record_is_written_by_hand() -> None:
    """The modules of ops are templates, and neither parameters nor ports stand in them."""
    templates = sorted((rtl_root() / "ops").iterdir())
    assert {path.name for path in templates} > {"fixed_linear.sv.j2", "fixed_relu.sv.j2"}
    for path in templates:
        text = path.read_text(encoding="utf-8")
        assert path.name.endswith(".sv.j2"), path
        if "= record(" in text:  # the other one is made for its constants
            header = text.partition("\nmodule ")[2].partition("\n);")[0]
            assert not re.findall(r"^ *(?:parameter|input|output)\b.*", header, re.MULTILINE), path


def test_the_library_as_files(tmp_path: Path) -> None:
    """What is there and right stays untouched, what is no module of the library goes."""
    render(tmp_path)
    assert modules_below(tmp_path) == sorted(library_modules().values()) == modules_below(LIBRARY)
    one, other = tmp_path / "ops/fixed_relu.sv", tmp_path / "lib/loop_counter.sv"
    before = one.stat().st_mtime_ns
    other.write_text("changed")
    (tmp_path / "ops/fixed_gone.sv").write_text("module fixed_gone; endmodule")
    render(tmp_path)
    assert one.stat().st_mtime_ns == before and other.read_bytes() == content(rtl_root() / "lib/loop_counter.sv")
    assert not (tmp_path / "ops/fixed_gone.sv").exists()


def test_a_template_is_linted_as_it_is_rendered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = tmp_path / "scale.sv.j2"
    module.write_text(BEGIN + TEMPLATE + "\nlogic x;\n\nendmodule\n", encoding="utf-8")
    assert cli.main(["lint", str(tmp_path)]) == cli.FAILED
    assert f"{module}: not formatted (as rendered" in capsys.readouterr().out
    assert cli.main(["lint", str(module), "--out", str(tmp_path / "made")]) == cli.FAILED
    written = tmp_path / "made" / "scale.sv"
    assert f"verible-verilog-format --inplace {written}" in capsys.readouterr().out
    assert written.read_text(encoding="utf-8") == WRITTEN + "\nlogic x;\n\nendmodule\n"
