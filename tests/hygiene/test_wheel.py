"""The wheel alone, in a clean environment and an empty folder, turns a model into proven hardware."""

import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

SCRIPT = """
import sys
from pathlib import Path

import torch

import mase_hw
from mase_hw.host.resources import rtl_root, sim_root

environment = Path(sys.prefix)
for place in (Path(mase_hw.__file__), rtl_root(), sim_root()):
    assert environment in place.parents, f"{place} is not from the wheel"

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 3))
design = mase_hw.compile(model, (torch.randn(1, 4),), {"top": "tiny"}, out=Path("design"))
result = design.simulate(torch.randn(5, 4), seed=1, stalls=0.2)
assert result.passed and result.frames == 5
print("bundle", design.path.resolve())
"""


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
    for folder in ("rtl_templates", "sim"):
        files = [p.relative_to(root) for p in (root / folder).rglob("*") if p.is_file()]
        # Caches are hidden folders, apart from Python's.
        kept = [p for p in files if not any(f.startswith(".") or f == "__pycache__" for f in p.parts[:-1])]
        wanted = {f"mase_hw/{p.as_posix()}" for p in kept}
        assert wanted and wanted <= packed, sorted(wanted - packed)
    assert "mase_hw/py.typed" in packed
    # `sim` and `tests` would be other people's top-level names.
    assert {name.split("/")[0] for name in packed if ".dist-info/" not in name} == {"mase_hw"}


def test_the_installed_wheel_runs_a_design_from_an_empty_folder(
    wheel: Path, clean_env: dict[str, str], tmp_path: Path
) -> None:
    environment = tmp_path / "env"
    run([sys.executable, "-m", "venv", "--without-pip", str(environment)], tmp_path, clean_env)
    python = environment / "bin" / "python"
    site = run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], tmp_path, clean_env)
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    run(install, tmp_path, clean_env)
    # The dependencies come from here, which needs no network; what is in the clean environment comes first, and
    # .pth files (of an editable installation) are not read in a folder that is itself added by one.
    (Path(site.strip()) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")

    empty = tmp_path / "empty"
    empty.mkdir()
    assert str(empty) in run([str(python), "-c", SCRIPT], empty, clean_env)
    assert "tiny" in (empty / "design" / "manifest.json").read_text(encoding="utf-8")
    version = run([str(environment / "bin" / "mase-hw"), "--version"], empty, clean_env)
    assert version.startswith("mase-hw ")
