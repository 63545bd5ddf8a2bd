"""`make` explains itself, and names what the machine lacks before it does anything."""

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import versions

# What the checks themselves use, besides what they look for.
BASICS = ("sh", "cat", "awk", "getconf", "python3", "make", "perl")


def make(*arguments: str, root: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run make in the repository."""
    return subprocess.run(
        [str(shutil.which("make")), *arguments], cwd=root, env=env, capture_output=True, text=True, check=False
    )


def path_with(folder: Path, names: tuple[str, ...]) -> str:
    """A PATH on which exactly these programs exist."""
    for name in names:
        found = shutil.which(name)
        assert found is not None, name
        wrapper = folder / name
        # A wrapper rather than a link: version managers decide by the name they are called by.
        wrapper.write_text(f'#!/bin/sh\nexec "{Path(found)}" "$@"\n', encoding="utf-8")
        wrapper.chmod(0o755)
    return str(folder)


def test_help_is_the_default_and_lists_every_target(root: Path, clean_env: dict[str, str]) -> None:
    done = make(root=root, env=clean_env)
    assert done.returncode == 0, done.stderr
    assert done.stdout == make("help", root=root, env=clean_env).stdout
    text = (root / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.+)$", text, re.MULTILINE)
    assert phony is not None
    for target in phony.group(1).split():
        assert re.search(rf"^  make {target}\s+\S+", done.stdout, re.MULTILINE), target
    for variable in ("MODEL", "CONFIG", "OUT", "PYTHON", "CXX"):
        assert f"{variable}=" in done.stdout


@pytest.mark.parametrize("target", ["sim", "test", "doctor"])
@pytest.mark.parametrize(
    ("lacking", "named", "package"),
    [
        ("g++", "a C++ compiler", "g++"),
        ("perl", "perl with its standard modules", "perl"),
        ("python3", "Python 3.11 or newer", "python3"),
    ],
)
def test_what_is_missing_is_named_first(
    target: str, lacking: str, named: str, package: str, root: Path, clean_env: dict[str, str], tmp_path: Path
) -> None:
    present = tuple(name for name in (*BASICS, "g++") if name != lacking)
    env = {**clean_env, "PATH": path_with(tmp_path, present)}
    env.pop("CXX", None)
    done = make(target, f"VENV={tmp_path / 'venv'}", root=root, env=env)
    assert done.returncode != 0
    assert named in done.stderr
    assert f"apt-get install {package}" in done.stderr
    assert not (tmp_path / "venv").exists(), "nothing is made on an incomplete machine"


def test_several_missing_tools_are_named_together(root: Path, clean_env: dict[str, str], tmp_path: Path) -> None:
    env = {**clean_env, "PATH": path_with(tmp_path, ("sh", "cat", "python3"))}
    env.pop("CXX", None)
    done = make("check-host", root=root, env=env)
    assert "apt-get install g++ make perl" in done.stderr


def test_a_compiler_named_by_cxx_is_checked(root: Path, clean_env: dict[str, str]) -> None:
    done = make("check-host", "CXX=no-such-compiler", root=root, env=clean_env)
    assert done.returncode != 0
    assert "no-such-compiler was not found" in done.stderr


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("old 3.9", ("is 3.9", "make PYTHON=")),
        ("venv 3.11", ("the venv module", "apt-get install python3-venv")),
        ("libpython 3.12", ("the shared library", "apt-get install libpython3.12")),
        ("venv libpython 3.12", ("apt-get install python3-venv libpython3.12",)),
    ],
)
def test_a_python_that_will_not_do_is_named(
    state: str, said: tuple[str, ...], root: Path, clean_env: dict[str, str], tmp_path: Path
) -> None:
    fake = tmp_path / "python3"
    fake.write_text(f'#!/bin/sh\ncat >/dev/null\necho "{state}"\n', encoding="utf-8")
    fake.chmod(0o755)
    done = make("check-host", f"PYTHON={fake}", root=root, env=clean_env)
    assert done.returncode != 0
    assert all(part in done.stderr for part in said), done.stderr


def test_a_complete_machine_is_silent(root: Path, clean_env: dict[str, str]) -> None:
    done = make("check-host", root=root, env=clean_env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_some_tests_need_is_named_apart(root: Path, clean_env: dict[str, str], tmp_path: Path) -> None:
    """A second simulator, a reader of waves, a browser, a compiler for RISC-V: CI installs them, nobody else must."""

    def optional(*present: str) -> list[str]:
        folder = tmp_path / "_".join(["bin", *present])
        folder.mkdir()
        for name in present:
            (folder / name).write_text("#!/bin/sh\n", encoding="utf-8")
            (folder / name).chmod(0o755)
        command = [str(shutil.which("sh")), "scripts/host_check.sh", "--optional"]
        env = {**clean_env, "PATH": str(folder)}
        done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=True)
        return done.stdout.split()

    compiler = "riscv64-unknown-elf-gcc"
    assert optional("iverilog", "vvp", "fst2vcd", "chromium", compiler) == []
    every = ["iverilog", "gtkwave", "chromium", f"gcc-{compiler.removesuffix('-gcc')}"]
    assert optional() == optional("iverilog") == optional("vvp") == every
    assert optional("iverilog", "vvp", compiler) == ["gtkwave", "chromium"]
    ci = (root / ".ci/run").read_text(encoding="utf-8")
    assert "host_check.sh --optional" in ci and 'apt-get install -y -qq --no-install-recommends "${optional[@]}"' in ci


def test_the_command_of_another_model(root: Path, clean_env: dict[str, str], tmp_path: Path) -> None:
    arguments = ("sim", "-n", "MODEL=nets/tiny.py:build", "CONFIG=tiny.toml", f"VENV={tmp_path}")
    done = make(*arguments, root=root, env=clean_env)
    assert "mase-hw compile 'nets/tiny.py:build' --config 'tiny.toml' --out 'build/tiny' --simulate" in done.stdout
    assert (
        "compile 'net.py:build'  --out 'build/net'"
        in make("sim", "-n", "MODEL=net.py:build", root=root, env=clean_env).stdout
    )
    assert "--out 'elsewhere'" in make(*arguments, "OUT=elsewhere", root=root, env=clean_env).stdout


def test_what_python_compiles_is_kept(root: Path, clean_env: dict[str, str], tmp_path: Path) -> None:
    """Whatever the environment says: without it every start compiles torch."""
    (tmp_path / "shown.mk").write_text("include Makefile\nshown:\n\t@env\n", encoding="utf-8")
    env = {**clean_env, "PYTHONDONTWRITEBYTECODE": "1"}
    done = make("-f", str(tmp_path / "shown.mk"), "shown", root=root, env=env)
    assert "YOWASP_CACHE_DIR=" in done.stdout and "PYTHONDONTWRITEBYTECODE" not in done.stdout


# What a preparation of the Makefile imports before the package's dependencies are there.
IMPORTED = """
import json, sys
import mase_hw.cli.commands.precompile, mase_hw.cli.main, mase_hw.simulate.engines.precompile
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def test_the_runtime_is_compiled_with_what_the_tools_bring(root: Path) -> None:
    """Verilator's runtime is compiled beside the long installation, so nothing but `TOOLS` may be imported for it."""
    line = re.search(r"^TOOLS := (.+)$", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert line is not None
    waiting, brought = line.group(1).split(), set[str]()
    while waiting:
        if (name := waiting.pop().lower()) not in brought:
            brought.add(name)
            always = [text for text in importlib.metadata.requires(name) or () if ";" not in text]
            waiting += [re.split(r"[^\w.-]", text)[0] for text in always]
    done = subprocess.run([sys.executable, "-c", IMPORTED], cwd=root, capture_output=True, text=True, check=True)
    owners = importlib.metadata.packages_distributions()
    used = {owner.lower() for module in json.loads(done.stdout) for owner in owners.get(module, ())}
    assert "filelock" in used, "the locks of the runtime's cache"
    assert used - {"mase-hw", "setuptools"} <= brought


def test_the_trial_of_the_bounds_knows_bounds_and_tests(root: Path) -> None:
    """``make versions`` installs the lower bound of every dependency: each has one, and what it runs is there."""
    for requirement in versions.requirements("lowest"):
        assert re.fullmatch(r"[\w.\-\[\]]+>=[\d.]+,==\d+\.\d+\.\*", requirement), requirement
    assert all((root / test).is_file() for test in versions.TESTS)
