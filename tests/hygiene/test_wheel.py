"""The wheel alone, in a clean environment and an empty folder, turns a model into proven hardware."""

import email
import email.policy
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile
from pathlib import Path

import pytest

from tests.docs.pages import blocks
from tests.docs.test_tutorials import assert_shown

PAGE = "installation.md"
PLACES = """
import sys
from pathlib import Path

from mase_hw.host.resources import PACKAGE, find_folder, rtl_root, sim_root

for place in (PACKAGE, rtl_root(), sim_root(), find_folder("docs", PACKAGE), find_folder("examples", PACKAGE)):
    assert Path(sys.prefix) in place.parents, f"{place} is not from the wheel"
"""
OURS = ("rtl_templates", "sim", "docs", "examples")
NOT_PACKED = (".css", ".png", ".svg")
"""What pages show, which is not text."""


def run(command: list[str], cwd: Path, env: dict[str, str]) -> str:
    """Run a command that must succeed."""
    done = subprocess.run(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(root: Path, clean_env: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built with the pinned backend, so without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)], root, clean_env)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_everything_that_is_not_python(root: Path, wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    for folder in OURS:
        there = [p for p in (root / folder).rglob("*") if p.is_file()]
        files = [p.relative_to(root) for p in there if folder != "docs" or p.suffix not in NOT_PACKED]
        # Caches are hidden folders, apart from Python's.
        kept = [p for p in files if not any(f.startswith(".") or f == "__pycache__" for f in p.parts[:-1])]
        wanted = {f"mase_hw/{p.as_posix()}" for p in kept}
        assert wanted and wanted <= packed, sorted(wanted - packed)
    assert "mase_hw/py.typed" in packed
    # `sim` and `tests` would be other people's top-level names.
    assert {name.split("/")[0] for name in packed if ".dist-info/" not in name} == {"mase_hw"}


def test_what_an_index_shows(root: Path, wheel: Path) -> None:
    """The page that says how it is installed, whose links lead nowhere else, the extras it names, and keywords."""
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        about = email.message_from_bytes(packed.read(name), policy=email.policy.default)
    text = about.get_content()
    assert text.strip() == (root / "docs" / PAGE).read_text(encoding="utf-8").strip()
    assert not re.findall(r"\]\((?!https?://)[^)]*\)", text), "such a link is relative to a folder that is not there"
    table = re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE)
    assert set(re.findall(r"`([\w-]+)`", " ".join(table))) == set(about.get_all("Provides-Extra")) - {"dev"}
    assert "FPGA" in about["Keywords"] and about["Summary"]


@pytest.fixture(scope="module")
def installed(wheel: Path, clean_env: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    environment = folder / "env"
    run([sys.executable, "-m", "venv", "--without-pip", str(environment)], folder, clean_env)
    python = environment / "bin" / "python"
    site = run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder, clean_env)
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    run(install, folder, clean_env)
    # The dependencies come from here, which needs no network; what is in the clean environment comes first, and
    # .pth files (of an editable installation) are not read in a folder that is itself added by one.
    (Path(site.strip()) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    run([str(python), "-c", PLACES], folder, clean_env)
    return python.parent


def follow(page: Path, programs: Path, folder: Path, env: dict[str, str], slow: bool) -> None:
    """Do what a page says, after what it says of installing, and print how long each command takes."""
    env = {**env, "PATH": f"{programs}{os.pathsep}{env['PATH']}"}
    printed, skipped = "", False
    for block in blocks("sh", "text", page=page):
        if block.language == "sh" and block.note != "not run":
            skipped = block.note == "slow" and not slow
            for line in [] if skipped else block.text.splitlines():
                begin = time.perf_counter()
                printed = run(["bash", "-euo", "pipefail", "-c", line], folder, env)
                print(f"{time.perf_counter() - begin:6.1f} s  {line}")
                assert "leaked" not in printed and "Traceback" not in printed, printed
        elif block.note == "shows" and not skipped:
            assert_shown(block, printed)


def test_the_page_is_followed_from_an_empty_folder(
    root: Path, installed: Path, clean_env: dict[str, str], tmp_path: Path
) -> None:
    follow(root / "docs" / PAGE, installed, tmp_path, clean_env, slow=False)
    assert len([line for block in blocks("sh", page=root / "docs" / PAGE) for line in block.text.splitlines()]) <= 10
    program = str(installed / "mase-hw")
    assert run([program, "--version"], tmp_path, clean_env).startswith("mase-hw ")
    listed = run([program, "docs"], tmp_path, clean_env).splitlines()
    assert {line.split()[0] for line in listed} >= {page.stem for page in (root / "docs").glob("*.md")}
    assert run([program, "docs", f"docs/{PAGE}"], tmp_path, clean_env) == (root / "docs" / PAGE).read_text("utf-8")
    run([program, "new", "--example"], tmp_path, clean_env)
    written = {str(p.relative_to(tmp_path)): p.read_bytes() for p in (tmp_path / "examples").rglob("*") if p.is_file()}
    there = (p for p in (root / "examples").rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    assert written == {str(p.relative_to(root)): p.read_bytes() for p in there}


@pytest.mark.slow
def test_the_slow_steps_of_the_page_too(root: Path, installed: Path, clean_env: dict[str, str], tmp_path: Path) -> None:
    follow(root / "docs" / PAGE, installed, tmp_path, clean_env, slow=True)
    run([str(installed / "mase-hw"), "new", "--example"], tmp_path, clean_env)
    run([str(installed / "python"), "examples/custom_op/leaky_shift.py"], tmp_path, clean_env)


def test_a_package_that_adds_one_of_each(
    root: Path, installed: Path, clean_env: dict[str, str], tmp_path: Path
) -> None:
    """``examples/plugin`` as a wheel beside this one: its op, pass, importer, device and engine are there."""
    source, python = tmp_path / "source", str(installed / "python")
    shutil.copytree(root / "examples" / "plugin", source, ignore=shutil.ignore_patterns("__pycache__"))
    (shown,) = (b.text for b in blocks("ini", page=root / "docs/plugins.md"))
    assert shown in (source / "pyproject.toml").read_text(encoding="utf-8")
    run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)],
        root,
        clean_env,
    )
    (wheel,) = tmp_path.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", python]
    run([*pip, "install", "--no-deps", "--no-index", str(wheel)], tmp_path, clean_env)
    (code,) = (b.text for b in blocks("python", page=root / "docs/plugins.md") if b.note == "run with the plug-in")
    run([python, "-c", code], tmp_path, clean_env)
    program = str(installed / "mase-hw")
    compiling = [program, "compile", "net.npz", "--out", "build/net", "--simulate", "--engine", "twice"]
    assert "0 mismatches" in run(compiling, tmp_path, clean_env)
    said = run([program, "fit", "net.npz", "--device", "xc7a12t", "--json"], tmp_path, clean_env)
    answer = json.loads(said[said.index("{") :])
    assert answer["budgets"] == {"lut": 8_000, "ff": 16_000, "dsp": 40, "bram": 40}
    run([*pip, "uninstall", "--yes", "mase-hw-demo"], tmp_path, clean_env)
