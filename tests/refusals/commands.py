"""Command lines that are refused, and what each must say; the files are those of :mod:`tests.refusals.files`."""

from __future__ import annotations

from dataclasses import dataclass

from mase_hw import cli
from tests.refusals.files import DIGITS, LONG

FORTY = "1" * 40


@dataclass(frozen=True)
class Line:
    """A command line.

    Args:
        words: What is typed after ``mase-hw``.
        says: What the message must contain, each.
        code: Its exit code.
    """

    words: tuple[str, ...]
    says: tuple[str, ...]
    code: int = cli.UNUSABLE

    @property
    def name(self) -> str:
        """What the test is called."""
        return " ".join(word if len(word) < 40 else f"{word[:12]}({len(word)})" for word in self.words) or "nothing"


OUT = ("--out", "parent/bundle")
SAID = "node '_0' cannot be evaluated"

MODELS: dict[str, tuple[str, ...]] = {
    "m.py": ("not a model specification", "FILE.py:FUNCTION"),
    "m.py:": ("not a model specification",),
    "": ("not a model specification",),
    ":build": ("not a model specification",),
    ".x:build": ("not a model specification",),
    "x.:build": ("not a model specification",),
    "a..b:build": ("not a model specification",),
    "1:build": ("not a model specification",),
    "nowhere.py:build": ("there is no such file",),
    "folder.py:build": ("there is no such file",),
    "/dev/null.py:build": ("there is no such file",),
    f"{LONG}.py:build": ("there is no such file",),
    "no.such.package:build": ("there is no module 'no'",),
    f"{LONG}:build": ("there is no module",),
    "m.py:absent": ("has no function 'absent'", "build"),
    f"m.py:{LONG}": ("has no function",),
    "m.py:EXAMPLES": ("has no function",),
    "m.py:fail_of_": ("has no function",),
    "m.py:batches": ("cannot be called without arguments", "'end'"),
    "nothing.py:build": ("has no function",),
    "exits.py:build": ("the model's file cannot be run", "exits.py:2: sys.exit(0)", "it asks Python to end"),
    "raises.py:build": ("the model's file cannot be run", "raises.py:2: raise RuntimeError('no')", "RuntimeError: no"),
    "syntax.py:build": ("the model's file cannot be run", "syntax.py:1: def build(:", "SyntaxError"),
    "nul.py:build": ("the model's file cannot be run", "null bytes"),
    "binary.py:build": ("the model's file cannot be run",),
    "imports.py:build": ("the model's file cannot be run", "imports.py:1: import no_such", "no_such_thing_at_all"),
    "deep.py:build": ("the model's file cannot be run", "deep.py:1", "SyntaxError"),
    "recursion.py:build": ("the model's file cannot be run", "recursion.py:2: f()", "RecursionError"),
    "m.py:exit_of_zero": ("the function of the model failed", "# in build", "sys.exit(0)"),
    "m.py:exit_of_words": ("the function of the model failed", "# in build", "sys.exit('bye')"),
    "m.py:raise_of_base": ("the function of the model failed", "TypeError"),
    "m.py:ends_of_traced": ("cannot be traced", "m.py:", "sys.exit(0)  # in forward", "it asks Python to end"),
    "m.py:ends_of_run": ("cannot be run on the example", "sys.exit(0)  # in forward", "it asks Python to end"),
    "m.py:fails_of_always": ("cannot be traced: no such thing", "# in forward"),
    "m.py:calibration_of_exit": ("calibration data cannot be read, at batch 1", "sys.exit(0)", "asks Python to end"),
    "m.py:calibration_of_fail": ("at batch 1", "# in the generator", "LookupError: no such thing", "data[1]"),
    "m.py:returns_of_none": ("returned something else", "NoneType"),
    "m.py:returns_of_one": ("returned something else", "['Sequential']"),
    "m.py:returns_of_six": ("returned something else",),
    "m.py:net": ("returned something else", "Sequential"),
    "m.py:model_of_int": ("returned something else", "['int', 'Tensor']"),
    "m.py:model_of_class": ("returned something else",),
    "m.py:model_of_script": ("the model is TorchScript", "before torch.jit.script"),
    "m.py:long_of_name": ("a longer name than file systems take", "shorter names"),
}

EXAMPLES: dict[str, tuple[str, ...]] = {
    "none": ("the example is no input of a model", "NoneType"),
    "number": ("the example is no input of a model", "float"),
    "numbers": ("more example inputs than the model takes",),
    "nested": ("not a tensor but list",),
    "empty": ("input: missing",),
    "string": ("the example is no input of a model", "str"),
    "bytes": ("the example is no input of a model", "bytes"),
    "strings": ("not a tensor but str",),
    "nothing": ("not a tensor but NoneType",),
    "tuples": ("cannot be run on the example", "not tuple"),
    "unnamed": ("cannot be run on the example", "not dict"),
    "named": ("not a tensor but str",),
    "complex": ("a tensor holds no frames", "complex64"),
    "meta": ("a tensor holds no frames", "without values"),
    "no_rows": ("a tensor holds no frames", "[0, 6]"),
    "no_features": ("a tensor holds no frames", "[1, 0]"),
    "no_dimensions": ("a tensor holds no frames", "shape []"),
    "booleans": (SAID, "Bool"),
    "sparse": ("a tensor holds no frames", "sparse"),
    "nan": ("NaN",),
    "infinite": ("infinite values",),
    "too_many": ("more example inputs than the model takes",),
    "too_wide": (SAID, "[1, 7]"),
}

VECTORS: dict[str, tuple[str, ...]] = {
    "number": ("these are no inputs of the model", "float"),
    "numbers": ("these are no inputs of the model",),
    "empty": ("wrong number of inputs",),
    "string": ("these are no inputs of the model",),
    "tuples": ("these are no inputs of the model",),
    "unnamed": ("wrong names of inputs",),
    "complex": ("a tensor holds no frames", "complex64"),
    "meta": ("a tensor holds no frames",),
    "no_rows": ("a tensor holds no frames", "[0, 6]"),
    "no_dimensions": ("a tensor holds no frames", "[]"),
    "sparse": ("a tensor holds no frames",),
    "nan": ("NaN cannot be quantised",),
    "too_wide": ("the shape of the example",),
}

BATCHES: dict[str, tuple[str, ...]] = {
    "none": ("a batch is neither tensor, tuple nor dict", "NoneType"),
    "string": ("a batch is neither tensor, tuple nor dict", "str"),
    "nested": ("not a tensor but list",),
    "complex": ("a tensor holds no frames",),
    "meta": ("a tensor holds no frames",),
    "no_rows": ("a tensor holds no frames",),
    "no_dimensions": ("the shape of dummy_in",),
    "sparse": ("a tensor holds no frames",),
    "nan": ("has NaN values",),
    "too_many": ("more tensors than the model has inputs",),
}

DATA = {
    "tensor": ("calibration data is not an iterable of batches", "Tensor"),
    "text": ("calibration data is not an iterable of batches", "str"),
    "none": ("a batch is neither tensor, tuple nor dict",),
    "empty": ("there is no calibration data",),
}

CONFIGS: dict[str, tuple[str, ...]] = {
    "nested.toml": ("is not TOML", "nested too deeply"),
    "digits.toml": ("is not TOML", "4300 digits"),
    "hexadecimal.toml": ("hardware.max_parallelism: has more than 64 bits",),
    "large.toml": ("hardware.max_parallelism: has more than 64 bits",),
    "keys.toml": ("keys.toml",),
    "tables.toml": ("tables.toml",),
    "twice.toml": ("is not TOML",),
    "binary.toml": ("cannot be read",),
    "width_true.toml": ("data_in_width: should be a whole number (got True)",),
    "width_text.toml": ("data_in_width: should be a whole number (got '8')",),
    "width_float.toml": ("data_in_width: should be a whole number, without a point (got 8.0)",),
    "frac_true.toml": ("weight_frac_width: should be a whole number (got False)",),
    "sign_one.toml": ("data_in_signed: should be a boolean (got 1)",),
    "fold_text.toml": ("fold_batch_norm: should be a boolean (got 'yes')",),
    "clock_true.toml": ("handoff.clock_mhz: should be a number (got True)",),
    "clock_text.toml": ("handoff.clock_mhz: should be a number (got '100')",),
    "clock_nan.toml": ("handoff.clock_mhz",),
    "lanes_true.toml": ("max_parallelism.int: Input should be a valid integer (got True)",),
    "lanes_negative.toml": ("max_parallelism",),
    "lanes_text.toml": ("hardware.parallelism._0.data_in_0",),
    "device_true.toml": ("device_id: should be a whole number (got True)",),
    "percentile_text.toml": ("percentile: should be a number (got '99')",),
    "method.toml": ("calibrate.method",),
    "top_long.toml": ("too long for the files that carry it", "3000 characters", "at most 128"),
    "top_129.toml": ("too long for the files that carry it", "129 characters"),
    "top_number.toml": ("top",),
    "top_nul.toml": ("no identifier that SystemVerilog allows",),
    "top_cyrillic.toml": ("no identifier that SystemVerilog allows",),
    "date.toml": ("top",),
    "regex.toml": ("not a regular expression",),
    "nowhere.toml": ("cannot be read", "No such file"),
    "empty": ("cannot be read", "directory"),
    LONG: ("longer than file systems take",),
    "": ("a name without characters",),
}

OPTIONS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("--frames", "1e12"), ("'1e12' is not a whole number",)),
    (("--frames", "1.5"), ("is not a whole number",)),
    (("--frames", DIGITS), ("is not a whole number",)),
    (("--frames", "0"), ("frames: Input should be greater than or equal to 1",)),
    (("--frames", "-1"), ("frames: Input should be greater than or equal to 1",)),
    (("--frames", "1000000000000"), ("frames: Input should be less than or equal to 1048576",)),
    (("--frames", FORTY), ("has more than 64 bits",)),
    (("--seed", FORTY), ("has more than 64 bits",)),
    (("--seed", DIGITS), ("is not a whole number",)),
    (("--seed", "x"), ("is not a whole number",)),
    (("--seed", "1.0"), ("is not a whole number",)),
    (("--stalls", "7"), ("stall probability out of range", "got: 7.0")),
    (("--stalls", "-1"), ("stall probability out of range",)),
    (("--stalls", "nan"), ("stall probability out of range",)),
    (("--stalls", "sometimes"), ("stalls", "sometimes")),
    (("--engine", "verilated"), ("engine", "verilated", "cocotb")),
    (("--engine", ""), ("engine",)),
    (("--jobs", "0"), ("at least one process",)),
    (("--jobs", "2"), ("runs in one process",)),
    (("--reset-at", "soon"), ("reset_at",)),
    (("--reset-at", "-1"), ("reset_at",)),
    (("--reset-at", FORTY), ("reset_at",)),
    (("--reset-at", "in:"), ("reset_at",)),
    (("--coverage",), ("counts no coverage",)),
    (("--intervene", "m.py"), ("no test can intervene",)),
    (("--intervene", "m.py:nobody", "--engine", "fast"), ("nobody",)),
    (("--waves", "--jobs", "2", "--engine", "batch"), ("only one process can write waves",)),
    (("--work", "file"), ("the work folder cannot be made", "file is not a folder one may write to")),
    (("--work", "file", "--simulate"), ("the work folder cannot be made",)),
    (("--work", "file/below", "--simulate"), ("the work folder cannot be made",)),
    (("--work", "parent/bundle/work", "--simulate"), ("the work folder is in the bundle",)),
    (("--work", LONG, "--simulate"), ("longer than file systems take",)),
    (("--nothing",), ("unrecognized arguments: --nothing",)),
]

OUTS: dict[str, tuple[str, ...]] = {
    "file": ("the output folder is a file",),
    "file/below": ("the output folder cannot be written",),
    "empty/../file": ("the output folder is a file",),
    "m.py": ("the output folder is a file",),
    ".": ("holds something that is not a bundle",),
    "/": ("holds something that is not a bundle",),
    "/proc/nowhere": ("the bundle cannot be written",),
    LONG: ("longer than file systems take",),
    "/".join(["d" * 200] * 30): ("longer than file systems take",),
    "": ("a name without characters",),
}

SIMULATIONS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("nowhere",), ("this is not a bundle", "No such file")),
    (("file",), ("this is not a bundle",)),
    (("empty",), ("this is not a bundle",)),
    ((LONG,), ("longer than file systems take",)),
    (("",), ("a name without characters",)),
    (("manifest_nested",), ("this is not a bundle", "nested too deeply")),
    (("manifest_digits",), ("this is not a bundle", "4300 digits")),
    (("manifest_list",), ("not a bundle",)),
    (("manifest_text",), ("not a bundle",)),
    (("manifest_nothing",), ("this is not a bundle",)),
    (("manifest_binary",), ("this is not a bundle",)),
    (("manifest_null",), ("not a bundle",)),
    (("manifest_nan",), ("not a bundle",)),
    (("good", "--config", "width_text.toml"), ("--model beside it",)),
    (("good", "--model", "m.py:exit_of_zero"), ("the function of the model failed", "it asks Python to end")),
    (("good", "--model", "nowhere"), ("not a model specification",)),
    (("good", "--model", "m.py:build", "--config", "width_text.toml"), ("should be a whole number (got '8')",)),
    (("good", "--engine", "verilated"), ("verilated",)),
    (("good", "--stalls", "7"), ("stall probability out of range",)),
    (("good", "--seed", FORTY), ("has more than 64 bits",)),
    (("good", "--work", "file"), ("the work folder cannot be made",)),
    (("good", "--work", "good/work"), ("the work folder is in the bundle",)),
    (("good", "--work", LONG), ("longer than file systems take",)),
]

OTHERS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    ((), ("arguments are required: COMMAND",)),
    (("no-command",), ("invalid choice: 'no-command'",)),
    (("compile",), ("are required: MODEL, --out",)),
    (("compile", "m.py:build"), ("are required: --out",)),
    (("compile", "m.py:build", "--out"), ("expected one argument",)),
    (("explain", "m.py:build", "nobody"), ("the graph has no such node", "nobody")),
    (("explain", "m.py:exit_of_zero"), ("the function of the model failed",)),
    (("explain", "m.py:example_of_none"), ("the example is no input of a model",)),
    (("explain", "m.py:example_of_complex"), ("a tensor holds no frames",)),
    (("explain", "m.py:calibration_of_fail"), ("# in the generator",)),
    (("explain", "m.py:build", "--config", "width_true.toml"), ("should be a whole number",)),
    (("explain", "m.py:build", "--out", "file/below"), ("the explanation cannot be written",)),
    (("explain", "m.py:build", "--out", "."), ("the explanation cannot be written",)),
    (("explain", "m.py:build", "--out", "/dev/full"), ("the explanation cannot be written",)),
    (("explain", "m.py:build", "--out", LONG), ("longer than file systems take",)),
    (("lint", "binary.sv"), ("this file is no source", "binary.sv")),
    (("lint", "binary.py"), ("this file is no source",)),
    (("lint", "nul.py"), ("this file is no source", "NUL")),
    (("lint", "nowhere"), ("there is no such file or folder",)),
    (("lint", "empty"), ("nothing to lint",)),
    (("lint", "folder.sv"), ("nothing to lint",)),
    (("lint", "."), ("this file is no source",)),
    (("lint", LONG), ("longer than file systems take",)),
    (("lint", ""), ("a name without characters",)),
    (("cache", "nowhere"), ("no such cache folder",)),
    (("cache", "file"), ("no such cache folder",)),
    (("cache", "good"), ("not a build cache",)),
    (("cache", LONG), ("longer than file systems take",)),
    (("cache", "empty", "--older-than", "soon"), ("not an amount", "soon")),
    (("cache", "empty", "--older-than", "1"), ("not an amount",)),
    (("cache", "empty", "--older-than", ""), ("not an amount",)),
    (("cache", "empty", "--older-than", f"{'9' * 400}d"), ("an amount beyond all numbers",)),
    (("cache", "empty", "--larger-than", f"{DIGITS}G"), ("an amount beyond all numbers",)),
    (("cache", "empty", "--larger-than", "1.5.5G"), ("not an amount",)),
    (("regress", "nowhere.toml", *OUT), ("the matrix cannot be read",)),
    (("regress", "empty", *OUT), ("there are no bundles", "folders with a manifest.json")),
    (("regress", "binary.toml", *OUT), ("the matrix cannot be read",)),
    (("regress", "m.py", *OUT), ("the matrix is not TOML",)),
    (("regress", "matrix_nested.toml", *OUT), ("the matrix is not TOML", "nested too deeply")),
    (("regress", "matrix_digits.toml", *OUT), ("the matrix is not TOML", "4300 digits")),
    (("regress", "matrix_true.toml", *OUT), ("op.0.seeds.0: should be a whole number (got True)",)),
    (("regress", "matrix_text.toml", *OUT), ("op.0.timeout: should be a number (got '600')",)),
    (("regress", "matrix_nothing.toml", *OUT), ("name: missing",)),
    (("regress", "matrix.toml"), ("are required: --out",)),
    (("regress", "matrix.toml", "--out", "file"), ("the folder of the regression cannot be written",)),
    (("regress", "matrix.toml", "--out", LONG), ("longer than file systems take",)),
    (("regress", "matrix.toml", *OUT, "--jobs", "0"), ("at least one process",)),
    (("regress", "matrix.toml", *OUT, "--baseline", "empty"), ("the baseline cannot be read",)),
    (("fit", "nowhere.py:build", "--fps", "10"), ("there is no such file",)),
    (("fit", "m.py:build"), ("neither how fast", "device, fps, interval")),
    (("fit", "m.py:build", "--device", "xc7z0200"), ("unknown device", "xc7z020")),
    (("fit", "m.py:build", "--device", "ice40up5k"), ("not estimated", "the nearest device", "numbers of lut")),
    (("fit", "m.py:build", "--fps", "0.0001"), ("no rate of frames", "one frame an hour")),
    (("fit", "m.py:build", "--fps", "inf"), ("no rate of frames",)),
    (("fit", "m.py:build", "--fps", "fast"), ("invalid float value",)),
    (("fit", "m.py:build", "--fps", "10", "--mhz", "-1"), ("no frequency of a clock",)),
    (("fit", "m.py:build", "--fps", "10", "--interval", "9"), ("a rate is given twice",)),
    (("fit", "m.py:build", "--interval", FORTY), ("has more than 64 bits",)),
    (("fit", "m.py:build", "--dsp", "0"), ("a budget of nothing", "1 or more")),
    (("fit", "m.py:build", "--lut", "1", "--fps", "1"), ("no design within the budgets", "the slowest design")),
    (("fit", "m.py:build", "--fps", "10", "--plot", "x.png"), ("the plot is an SVG", ".svg")),
    (("fit", "m.py:build", "--fps", "10", "--plot", "file/x.svg"), ("the picture cannot be written",)),
    (("synth", "nowhere"), ("this is not a bundle",)),
    (("synth", "manifest_nested"), ("nested too deeply",)),
    (("synth", "good", "--target", "asic"), ("unknown synthesis target",)),
    (("synth", "good", "--device", "none"), ("unknown device",)),
    (("synth", "good", "--mhz", "-1"), ("not a frequency",)),
    (("synth", "good", "--mhz", "nan"), ("not a frequency",)),
    (("synth", "good", "--mhz", "fast"), ("invalid float value",)),
    (("synth", "good", "--seed", FORTY), ("has more than 64 bits",)),
    (("synth", "good", "--place"), ("not available for this target",)),
    (("synth", "good", "--work", "file"), ("the synthesis folder cannot be written",)),
    (("synth", "good", "--work", "good/work"), ("the work folder is in the bundle",)),
    (("synth", "good", "--work", LONG), ("longer than file systems take",)),
    (("system", "nowhere", "--out", "x"), ("this is not a bundle",)),
    (("system", "good", "--out", "x", "--burst", "257"), ("out of range", "--burst")),
    (("system", "good", "--out", "good/x"), ("lies in a bundle",)),
    (("doctor", "more"), ("unrecognized arguments: more",)),
    (("ops", "more"), ("unrecognized arguments: more",)),
    (("precompile", "more"), ("unrecognized arguments: more",)),
]

LINES = (
    [Line(("compile", model, *OUT), says) for model, says in MODELS.items()]
    + [Line(("compile", f"m.py:example_of_{which}", *OUT), says) for which, says in EXAMPLES.items()]
    + [Line(("compile", f"m.py:vectors_of_{which}", *OUT), says) for which, says in VECTORS.items()]
    + [Line(("compile", f"m.py:batch_of_{which}", *OUT), says) for which, says in BATCHES.items()]
    + [Line(("compile", f"m.py:data_of_{which}", *OUT), says) for which, says in DATA.items()]
    + [Line(("compile", "m.py:build", *OUT, "--config", config), says) for config, says in CONFIGS.items()]
    + [Line(("compile", "m.py:build", *OUT, *words), says) for words, says in OPTIONS]
    + [Line(("compile", "m.py:build", "--out", out), says) for out, says in OUTS.items()]
    + [Line(("sim", *words), says) for words, says in SIMULATIONS]
    + [Line(words, says) for words, says in OTHERS]
    + [Line(("compile", "interrupts.py:build", *OUT), ("mase-hw: interrupted",), cli.INTERRUPTED)]
)
