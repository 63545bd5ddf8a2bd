"""The command line: what a user types wrongly is explained, and the exit code says what kind of failure it is."""

import importlib
import json
import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mase_hw import cli
from mase_hw._version import __version__
from mase_hw.catalogue import default_catalogue
from mase_hw.compiler.config import CompileConfig
from mase_hw.errors import ConfigError, MismatchError
from mase_hw.host.lint import lint
from mase_hw.model_spec import ModelSpec, load_model
from mase_hw.ops._no_hardware import reasons

MODEL = """
import torch

def build():
    return torch.nn.Linear(3, 2), torch.zeros(1, 3)

def needs(argument):
    return build()

def nothing():
    return None
"""


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    """A file with a model."""
    path = tmp_path / "net.py"
    path.write_text(MODEL, encoding="utf-8")
    return path


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"mase-hw {__version__}\n"


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert all(name in text and cli.command_module(name).HELP in text for name in cli.COMMANDS)


@pytest.mark.parametrize(("given", "found"), [("", "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_that_wait_sleep_unless_somebody_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: str, found: str
) -> None:
    """Of torch, which commands load after this."""
    monkeypatch.setenv("OMP_WAIT_POLICY", given)
    if not given:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert os.environ["OMP_WAIT_POLICY"] == found


@pytest.mark.parametrize("asked", [False, True])
def test_equalization_on_request(model_file: Path, monkeypatch: pytest.MonkeyPatch, asked: bool) -> None:
    """All three steps with the flag, those of the file without it; the rest of the table is the file's."""
    file = model_file.with_suffix(".toml")
    file.write_text("[equalization]\nabsorb_bias = true\nalpha = 0.25\n", encoding="utf-8")
    seen = []

    def stop(model: object, example: object, settings: CompileConfig, **others: object) -> None:
        seen.append(settings.equalization)
        raise ConfigError("far enough")

    monkeypatch.setattr("mase_hw.compile", stop)
    options = ["--config", str(file), "--out", str(model_file.parent / "out"), *(["--equalize"] if asked else [])]
    assert cli.main(["compile", f"{model_file}:build", *options]) == cli.UNUSABLE
    assert (seen[0].cross_layer, seen[0].absorb_bias, seen[0].smooth_quant) == (asked, True, asked)
    assert seen[0].alpha == 0.25 and seen[0].keep == "better"


def test_ops_lists_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ops"]) == cli.OK
    text = capsys.readouterr().out
    assert all(name in text for name in default_catalogue().names())


def test_ops_needs_no_torch() -> None:
    """The list is that of the catalogue, and printing it does not load PyTorch."""
    listing = cli.command_module("ops")
    assert listing.LIST.read_text() == listing.listed(default_catalogue()), "run python -m scripts.reference"
    run = "assert not cli.main(['ops']) and not cli.main(['ops', '--coverage'])"
    code = f"import sys; from mase_hw import cli; {run}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_coverage_counts_what_pytorch_has(capsys: pytest.CaptureFixture[str]) -> None:
    """Every public name of PyTorch is in the list once; the reasons are of names that it has and no op claims."""
    coverage = importlib.import_module("mase_hw.cli.coverage")
    found = coverage.rows()
    layers = {n for n, c in vars(torch.nn).items() if isinstance(c, type) and issubclass(c, torch.nn.Module)}
    names = [row.name for row in found["layers"]]
    assert sorted(layers) == sorted(names) and len(names) > 150 and len(found["functionals"]) > 120
    status = {row.name: row.status for row in (*found["layers"], *found["functionals"])}
    claimed = {t.__name__ for op in default_catalogue() if op.hardware or op.lowered for t in (*op.modules,)}
    assert set(reasons()) <= set(status) and not set(reasons()) & claimed
    assert {status[name] for name in reasons()} <= {coverage.NO_SENSE, coverage.HARDWARE, coverage.LOWERED}
    assert cli.main(["ops", "--coverage"]) == cli.OK
    text = capsys.readouterr().out
    done = sum(row.status in ("hardware", "lowered") for row in found["layers"])
    possible = len(layers - {name for name in layers if status[name] == coverage.NO_SENSE})
    assert f"{done} of {possible} layers of torch.nn" in text and f"{done / possible:.0%}" in text
    assert "LSTMCell" in text and "a loss" in text


def test_a_model_from_a_file(model_file: Path) -> None:
    spec = load_model(f"{model_file}:build")
    assert isinstance(spec.model, torch.nn.Linear)
    assert spec.example_inputs.shape == (1, 3)
    assert spec.calibration is None


@pytest.mark.parametrize("quantised", [False, True])
def test_a_program_that_a_function_loads(quantised: bool, tmp_path: Path) -> None:
    from tests.importers.test_torch_export import Net

    net = Net() if quantised else torch.nn.Linear(3, 2)
    example = torch.ones(1, 3, 7, 6) if quantised else torch.ones(1, 3)
    torch.export.save(torch.export.export(net.eval(), (example,)), tmp_path / "net.pt2")
    loads = f"import torch\n\ndef build():\n    return torch.export.load({str(tmp_path / 'net.pt2')!r}), "
    (tmp_path / "loads.py").write_text(f"{loads}torch.ones({', '.join(map(str, example.shape))})\n")
    spec = load_model(f"{tmp_path / 'loads.py'}:build")
    named = [str(module) for module in spec.model.modules() if type(module).__name__ == "Quantized"]
    assert bool(named) == quantised
    if not quantised:
        assert torch.equal(spec.model(example), net(example))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("{file}", "not a model specification"),
        ("{file}:", "not a model specification"),
        ("{file}:absent", "has no function 'absent'"),
        ("{file}:needs", "cannot be called without arguments"),
        ("{file}:nothing", "returned something else"),
        ("nowhere.py:build", "there is no such file"),
        ("no_such_package.net:build", "there is no module 'no_such_package'"),
        ("net.pt2", "def build(): return torch.export.load("),
    ],
)
def test_a_wrong_model_specification_is_explained(
    spec: str, said: str, model_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert cli.main(["compile", spec.format(file=model_file), "--out", str(out)]) == cli.UNUSABLE
    message = capsys.readouterr().err
    assert said in message and "MODEL" in message
    assert not out.exists()


NEIGHBOUR = """import torch

def net():
    return torch.nn.Linear({features}, 2), torch.zeros(1, {features})
"""


def test_a_model_imports_its_neighbour_and_not_that_of_the_model_before(tmp_path: Path) -> None:
    for features in (3, 5):  # as two jobs of a regression do in one process
        folder = tmp_path / str(features)
        folder.mkdir()
        (folder / "neighbour_of_net.py").write_text(NEIGHBOUR.format(features=features))
        (folder / "net.py").write_text("import neighbour_of_net\n\ndef build():\n    return neighbour_of_net.net()\n")
        assert load_model(f"{folder / 'net.py'}:build").model.in_features == features
    link = tmp_path / "link.py"
    link.symlink_to(tmp_path / "3" / "net.py")
    assert load_model(f"{link}:build").model.in_features == 3  # Python follows links too


def test_a_module_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "package_here" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package.parent / "other.py").write_text(NEIGHBOUR.format(features=4))
    (package / "net.py").write_text("from ..other import net as build\n")
    (tmp_path / "module_here.py").write_text("from package_here.inner.net import build\n")
    for place in ("package_here.inner.net", "module_here", "module_here.py"):
        assert load_model(f"{place}:build").model.in_features == 4
    file = package / "net.py"
    assert cli.main(["check", f"{file}:build"]) == cli.UNUSABLE
    assert "from the folder that holds the package, name its module, PACKAGE.net:build" in capsys.readouterr().err


def test_a_model_that_is_drawn_is_the_same_for_every_command(tmp_path: Path) -> None:
    (tmp_path / "drawn.py").write_text(
        "import random\n\nimport numpy as np\nimport torch\n\nSCALE = random.random()\n\n"
        "def build():\n    shift = torch.from_numpy(np.random.rand(1, 4)).float()\n"
        "    return torch.nn.Linear(4, 2), SCALE * torch.rand(1, 4) + shift, (torch.rand(1, 4) for _ in range(2))\n"
    )
    first, again = (load_model(f"{tmp_path / 'drawn.py'}:build") for _ in range(2))
    assert torch.equal(first.model.weight, again.model.weight)
    assert torch.equal(first.example_inputs, again.example_inputs)
    drawn = [list(load_model(f"{tmp_path / 'drawn.py'}:build").calibration) for _ in range(2)]
    assert all(map(torch.equal, *drawn))


def test_the_model_is_what_its_file_says_now(model_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what it said before, although its time and its size are the same; and nothing is written beside it."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for features in (3, 5):
        model_file.write_text(
            MODEL.replace("Linear(3, 2), torch.zeros(1, 3)", f"Linear({features}, 2), torch.zeros(1, 3)")
        )
        os.utime(model_file, (1_000_000_000, 1_000_000_000))
        assert load_model(f"{model_file}:build").model.in_features == features
    assert [path.name for path in model_file.parent.iterdir()] == [model_file.name]


def test_random_vectors_span_the_range_of_the_example() -> None:
    example = torch.tensor([[0.0, 4.0, 2.0]])
    frames = ModelSpec(torch.nn.Identity(), example).vectors(50, seed=3)
    assert frames.shape == (50, 3)
    assert 0 <= float(frames.min()) < 0.5 and 3.5 < float(frames.max()) <= 4
    assert torch.equal(frames, ModelSpec(torch.nn.Identity(), example).vectors(50, seed=3))
    pair = ModelSpec(torch.nn.Identity(), (example, torch.zeros(2, 1))).vectors(3, seed=0)
    assert [tuple(t.shape) for t in pair] == [(3, 3), (6, 1)]
    assert set(ModelSpec(torch.nn.Identity(), {"input": example}).vectors(1, seed=0)) == {"input"}
    with pytest.raises(ConfigError):
        ModelSpec(torch.nn.Identity(), example).vectors(0, seed=0)


def test_random_ids_and_masks_are_whole_numbers_of_the_example() -> None:
    ids, mask = torch.tensor([[3, 9, 4]]), torch.tensor([[True, True, True]])
    drawn, truths = ModelSpec(torch.nn.Identity(), (ids, mask)).vectors(60, seed=1)
    assert drawn.dtype == torch.int64 and sorted(drawn.unique().tolist()) == list(range(3, 10))
    assert truths.dtype == torch.bool and truths.shape == (60, 3) and set(truths.unique().tolist()) == {False, True}


def test_verilator_for_ones_own_commands(
    tmp_path: Path, clean_env: dict[str, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By a command before them, or by variables of a shell; its exit code is that of what was run."""
    monkeypatch.setenv("MAKEFLAGS", "-k")
    assert cli.main(["env"]) == cli.OK
    exports = capfd.readouterr().out
    (tmp_path / "Makefile").write_text("all:\n\t@echo $(CFG_CXXFLAGS_PCH_I) $(LINK).\n")
    seen = f"{exports}\ncommand -v verilator\nverilator --version\nmake -s -C {shlex.quote(str(tmp_path))}"
    env = clean_env | {"LINK": "mine"}
    done = subprocess.run(["bash", "-euc", seen], env=env, capture_output=True, text=True, check=True)
    found, version, flags = done.stdout.splitlines()
    assert found.endswith("/verilator/bin/verilator") and version and flags == "-include mine."
    assert "-k CFG_" in exports, "the caller's own flags stay"
    assert cli.main(["env", "--", "sh", "-c", "verilator --version; exit 7"]) == 7
    assert capfd.readouterr().out.strip() == version.strip()
    assert cli.main(["env", "no-such-program"]) == cli.UNUSABLE
    assert "stands a program" in capfd.readouterr().err


def test_pages_that_are_printed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By their names, or as messages name them."""
    for name in ("bundle", "docs/bundle.md", "docs/bundle.md#timing"):
        assert cli.main(["docs", name]) == cli.OK
        assert capsys.readouterr().out == (root / "docs" / "bundle.md").read_text(encoding="utf-8")
    assert cli.main(["docs", "bundel"]) == cli.UNUSABLE
    assert "did you mean 'bundle'" in capsys.readouterr().err


def test_compile_takes_the_target_that_fit_takes(
    tmp_path: Path, model_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is asked for is reached as ``fit`` says: two products a cycle are one DSP block."""
    asked = [f"{model_file}:build", "--interval", "3", "--device", "xc7a35t", "--unrolled", "0", "--json"]
    asked += ["--whole-frames", "0"]
    assert cli.main(["fit", *asked]) == cli.OK
    chosen = json.loads(capsys.readouterr().out)
    assert cli.main(["compile", *asked, "--out", str(tmp_path / "b")]) == cli.OK
    made = json.loads(capsys.readouterr().out)
    assert made["timing"]["interval"] == chosen["interval"] == 3
    assert made["multipliers"] == chosen["use"]["dsp"] == 1
    (tmp_path / "target.toml").write_text(
        '[target]\ndevice = "xc7a35t"\ninterval = 9\nunrolled = 0\nwhole_frames = 0\n'
    )
    named = [asked[0], "--target", str(tmp_path / "target.toml"), "--json"]
    assert cli.main(["fit", *named, "--interval", "3"]) == cli.OK
    assert json.loads(capsys.readouterr().out)["use"] == chosen["use"], "an option goes before the file"
    (tmp_path / "target.toml").write_text("")
    assert cli.main(["fit", *named]) == cli.UNUSABLE and "no target" in capsys.readouterr().err
    assert cli.main(["compile", *asked, "--fps", "1", "--out", str(tmp_path / "c")]) == cli.UNUSABLE
    with pytest.raises(SystemExit):
        cli.main(["compile", *asked, "--minimise", "None", "--out", str(tmp_path / "c")])


def test_the_package_is_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", ["mase_hw", "--version"])
        runpy.run_module("mase_hw", run_name="__main__")
    assert ended.value.code == 0 and capsys.readouterr().out.startswith("mase-hw ")


def test_a_failed_comparison_is_not_an_unusable_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(arguments: object) -> int:
        raise MismatchError("one bit differs", node="data_out_0")

    monkeypatch.setattr(cli.command_module("ops"), "run", fail)
    assert cli.main(["ops"]) == cli.FAILED
    assert "one bit differs" in capsys.readouterr().err


def test_lint_finds_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "other_name.sv"
    bad.write_text("module  top (\n  input a);\nendmodule\n", encoding="utf-8")
    assert cli.main(["lint", str(tmp_path)]) == cli.FAILED
    text = capsys.readouterr().out
    assert "module-filename" in text and "not formatted" in text


@pytest.mark.parametrize(
    ("code", "complaints"),
    [
        ("assign x = g_level[k-1].g_pair[2*i].sum_q;", 1),
        ("assign x = g_level [at[k] - 1]\n    . sum_q;", 1),
        ("assign x = g_final.low_q + gen_more.low_q;", 2),
        ("assign x = u_tree.g_level[0].sum_q;", 1),
        ("assign x = dut.g_level[0].u_tree.g_more.sum_q;", 0),
        ("u_x u_x (.g_level(g_level), .g_b(g_level[k]), .x(sum[g_level[0]]));", 0),
        ('// as g_level[0].sum_q\n/* g_level.x */ initial $display("g_level.x");', 0),
        ("assign x = config_q.y;", 0),
    ],
)
def test_lint_finds_references_into_generate_blocks(tmp_path: Path, code: str, complaints: int) -> None:
    file = tmp_path / "top.sv"
    file.write_text(f"module top;\n  {code}\nendmodule\n", encoding="utf-8")
    found = [line for line in lint([file]) if "a reference into a generate block" in line]
    assert len(found) == complaints and all(line.startswith(f"{file}:2: ") for line in found)


def test_lint_of_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lint", str(tmp_path)]) == cli.UNUSABLE
    assert cli.main(["lint", str(tmp_path / "absent")]) == cli.UNUSABLE
    assert "nothing to lint" in capsys.readouterr().err


def test_our_rtl_is_clean() -> None:
    assert cli.main(["lint"]) == cli.OK
