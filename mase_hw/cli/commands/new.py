"""The subcommand ``new``."""

from __future__ import annotations

import argparse
import contextlib
import keyword
from pathlib import Path

from mase_hw.cli._common import OK, path
from mase_hw.cli.answers import answer
from mase_hw.errors import ConfigError
from mase_hw.host.resources import PACKAGE, find_folder

HELP = "write a model, its configuration, a test and a Makefile to begin with, or the examples"

MODEL = '''\
"""A model for mase-hw: `build` returns the model, one frame, calibration data and test inputs."""

import torch
from torch import nn


class Model(nn.Module):
    """Replace it with your own; `mase-hw ops --coverage` lists what becomes hardware."""

    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(16, 32)
        self.scores = nn.Linear(32, 10)

    def forward(self, x):
        return self.scores(torch.relu(self.hidden(x)))


def build():
    """Called without arguments by `mase-hw check`, `compile` and so on."""
    torch.manual_seed(0)  # the same weights in every call; load your trained ones instead
    model = Model().eval()
    example = torch.randn(1, 16)  # one frame: its shape becomes the hardware's
    calibration = [torch.randn(64, 16) for _ in range(4)]  # real data: value ranges come from it
    return model, example, calibration
'''
CONFIG = """\
# Configuration of {name}; `mase-hw config` prints every option with its meaning.

[quantize.default.config]
data_in_width = 8 # bits of what enters a layer
weight_width = 8
data_out_width = 8

[hardware]
max_parallelism = 4 # lanes of any stream; more of them are faster and larger

# [hardware.parallelism.scores] # of one layer
# data_out_0 = 2
"""
TEST = '''\
"""The hardware is the quantised model, bit for bit, at full rate and with stalls."""

from pathlib import Path

from {name} import build

pytest_plugins = ["mase_hw.testing"]


def test_bits(bit_exact):
    model, example, calibration = build()
    bit_exact(model, example, Path(__file__).with_name("{name}.toml"), calibration=calibration)
'''
MAKEFILE = """\
# make check: what every layer becomes and costs; make test: bit for bit; make: the bundle and its report.
build/{name}: {name}.py {name}.toml
\tmase-hw compile {name}.py:build --config {name}.toml --out $@ --simulate --engine batch --report

check:
\tmase-hw check {name}.py:build --config {name}.toml

test:
\tpython -m pytest test_{name}.py

.PHONY: check test
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="of the model: letters, digits and underscores")
    parser.add_argument(
        "--example", action="store_true", help="in place of a model write examples/, which the documentation uses"
    )
    parser.add_argument("--out", type=path, default=Path(), metavar="FOLDER", help="where the files are written (.)")


def run(arguments: argparse.Namespace) -> int:
    """Write the files, all of them or none.

    Raises:
        ConfigError: If the name is none of a Python module, a file exists, or the folder cannot be written.
    """
    if arguments.example == (arguments.name is not None):
        raise ConfigError(
            "either a name or --example",
            field="NAME",
            got="both" if arguments.example else "neither",
            remedy="`mase-hw new NAME` writes a model to begin with, `mase-hw new --example` the examples",
        )
    texts = _examples() if arguments.example else _model(arguments.name)
    folder: Path = arguments.out
    there = [file for file in texts if (folder / file).exists()]
    if there:
        raise ConfigError(
            "files of these names exist",
            node=str(folder),
            got=", ".join(there),
            remedy="choose another name, or another folder with --out",
        )
    written: list[Path] = []
    try:
        for file, text in texts.items():
            written.append(folder / file)
            written[-1].parent.mkdir(parents=True, exist_ok=True)
            written[-1].write_text(text, encoding="utf-8")
    except OSError as error:
        for file_path in written:
            with contextlib.suppress(OSError):  # what is in the way is no folder
                file_path.unlink()
        raise ConfigError(
            "the files cannot be written", node=str(folder), got=str(error), remedy="choose another folder with --out"
        ) from error
    made = [str(folder / file) for file in texts]
    then = (
        "their first lines say how they are run" if arguments.example else "`make check`, `make test` or `make` goes on"
    )
    return answer(arguments, OK, {"files": made}, f"wrote {', '.join(made)}; {then}")


def _model(name: str) -> dict[str, str]:
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        raise ConfigError(
            "the name is none of a Python module",
            field="NAME",
            got=f"{name:.80}",
            expected="letters, digits and underscores, no digit first, no keyword",
        )
    texts = {f"{name}.py": MODEL, f"{name}.toml": CONFIG, f"test_{name}.py": TEST, "Makefile": MAKEFILE}
    return {file: text.replace("{name}", name) for file, text in texts.items()}


def _examples() -> dict[str, str]:
    root = find_folder("examples", PACKAGE)
    files = (file for kind in ("*.py", "*.toml", "*.sv", "*.sv.j2", "*.h") for file in sorted(root.rglob(kind)))
    return {f"{root.name}/{file.relative_to(root)}": file.read_text(encoding="utf-8") for file in files}
