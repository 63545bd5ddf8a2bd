"""What the command lines name: files of models, configurations, matrices and manifests."""

from __future__ import annotations

from pathlib import Path

LONG = "x" * 3000
DIGITS = "9" * 5000
NESTED = "[" * 100_000 + "]" * 100_000
BINARY = bytes(range(256))

MODEL = """
import sys
import torch
from torch import fx, nn


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).eval()


def build():
    return net(), torch.ones(1, 6) / 2


class Ends(nn.Module):
    def __init__(self, when):
        super().__init__()
        self.fc, self.when = nn.Linear(6, 3), when

    def forward(self, x):
        if self.when == "traced" or not isinstance(x, fx.Proxy):
            sys.exit(0)  # in forward
        return self.fc(x)


class Fails(Ends):
    def forward(self, x):
        raise LookupError("no such thing")  # in forward


def batches(end):
    yield torch.ones(2, 6)
    end()


def fail():
    raise LookupError("no such thing")  # in the generator


EXAMPLES = {
    "none": None,
    "number": 3.0,
    "numbers": [1.0, 2.0],
    "nested": [[1.0] * 6],
    "empty": [],
    "string": "abc",
    "bytes": b"abc",
    "strings": ["abc"],
    "nothing": (None,),
    "tuples": ((torch.ones(1, 6),),),
    "unnamed": {3: torch.ones(1, 6)},
    "named": {"input": "abc"},
    "complex": torch.ones(1, 6, dtype=torch.complex64),
    "meta": torch.empty(1, 6, device="meta"),
    "no_rows": torch.zeros(0, 6),
    "no_features": torch.zeros(1, 0),
    "no_dimensions": torch.tensor(1.0),
    "booleans": torch.ones(1, 6, dtype=torch.bool),
    "sparse": torch.ones(1, 6).to_sparse(),
    "nan": torch.full((1, 6), float("nan")),
    "infinite": torch.full((1, 6), float("inf")),
    "too_many": (torch.ones(1, 6), torch.ones(1, 6)),
    "too_wide": torch.ones(1, 7),
}


def __getattr__(name):
    kind, _, which = name.partition("_of_")
    example = torch.ones(1, 6)
    made = {
        "example": lambda: (net(), EXAMPLES[which]),
        "vectors": lambda: (net(), example, None, EXAMPLES[which]),
        "batch": lambda: (net(), example, [EXAMPLES[which]]),
        "model": lambda: ({"int": 1, "class": nn.Linear, "script": torch.jit.script(net())}[which], example),
        "ends": lambda: (Ends(which), example),
        "fails": lambda: (Fails("always"), example),
        "exit": lambda: sys.exit(0 if which == "zero" else "bye"),  # in build
        "raise": lambda: [] + {"base": BaseException, "value": ValueError}[which],
        "calibration": lambda: (net(), example, batches({"exit": lambda: sys.exit(0), "fail": fail}[which])),
        "data": lambda: (net(), example, {"tensor": example, "text": "abc", "none": [None], "empty": []}[which]),
        "returns": lambda: {"none": None, "one": (net(),), "six": (net(), example, None, None, None, None)}[which],
        "long": lambda: (nn.Sequential(__import__("collections").OrderedDict([("l" * 300, nn.Linear(6, 3))])), example),
    }
    if kind not in made:
        raise AttributeError(name)
    return made[kind]
"""

MODELS: dict[str, str | bytes] = {
    "m.py": MODEL,
    "exits.py": "import sys\nsys.exit(0)\n",
    "interrupts.py": "raise KeyboardInterrupt\n",
    "raises.py": "x = 1\nraise RuntimeError('no')\n",
    "syntax.py": "def build(:\n",
    "nul.py": b"x = 1\0",
    "binary.py": BINARY,
    "nothing.py": "",
    "imports.py": "import no_such_thing_at_all\n",
    "deep.py": f"x = {'(' * 5000}{')' * 5000}",
    "recursion.py": "def f():\n    f()\n\n\nf()\n",
    "moves.py": MODEL + "\n\nimport os\nos.makedirs('elsewhere', exist_ok=True)\nos.chdir('elsewhere')\n",
}

CONFIGS: dict[str, str | bytes] = {
    "nested.toml": f"a = {NESTED}",
    "digits.toml": f"top = {DIGITS}",
    "hexadecimal.toml": f"[hardware]\nmax_parallelism = 0x{'f' * 5000}",
    "large.toml": f"[hardware]\nmax_parallelism = {'9' * 40}",
    "keys.toml": f"{'.'.join(['a'] * 3000)} = 1",
    "tables.toml": f"[{'.'.join(['a'] * 3000)}]\nb = 1",
    "twice.toml": "top = 'a'\ntop = 'b'",
    "binary.toml": b"\xff\xfe\x00",
    "width_true.toml": "[quantize.default.config]\ndata_in_width = true",
    "width_text.toml": '[quantize.default.config]\ndata_in_width = "8"',
    "width_float.toml": "[quantize.default.config]\ndata_in_width = 8.0",
    "frac_true.toml": "[quantize.default.config]\nweight_frac_width = false",
    "sign_one.toml": "[quantize.default.config]\ndata_in_signed = 1",
    "fold_text.toml": 'fold_batch_norm = "yes"',
    "clock_true.toml": "[handoff]\nclock_mhz = true",
    "clock_text.toml": '[handoff]\nclock_mhz = "100"',
    "clock_nan.toml": "[handoff]\nclock_mhz = nan",
    "lanes_true.toml": "[hardware]\nmax_parallelism = true",
    "lanes_negative.toml": "[hardware]\nmax_parallelism = -1",
    "lanes_text.toml": '[hardware.parallelism._0]\ndata_in_0 = "2"',
    "device_true.toml": "[hardware]\ndevice_id = true",
    "percentile_text.toml": '[calibrate.options]\npercentile = "99"',
    "method.toml": '[calibrate]\nmethod = "guess"',
    "top_long.toml": f'top = "{"t" * 3000}"',
    "top_129.toml": f'top = "{"t" * 129}"',
    "top_number.toml": "top = 3",
    "top_nul.toml": 'top = "a\\u0000b"',
    "top_cyrillic.toml": 'top = "\u0442\u0435\u0441\u0442"',
    "date.toml": "top = 1979-05-27",
    "regex.toml": '[quantize]\nby = "regex_name"\n["quantize"."("]\nconfig = { name = "fixed" }',
}

MATRICES: dict[str, str | bytes] = {
    "matrix_nested.toml": f"a = {NESTED}",
    "matrix_digits.toml": f"name = {DIGITS}",
    "matrix_true.toml": 'name = "m"\n[[op]]\nop = "relu"\nseeds = [true]\n',
    "matrix_text.toml": 'name = "m"\n[[op]]\nop = "relu"\ntimeout = "600"\n',
    "matrix_nothing.toml": "",
    "matrix.toml": 'name = "m"\n[[network]]\nname = "n"\nmodel = "nowhere.py:build"\n',
}

MANIFESTS: dict[str, str | bytes] = {
    "nested": f'{{"a": {NESTED}}}',
    "digits": f'{{"format_version": {DIGITS}}}',
    "list": "[]",
    "text": '"x"',
    "nothing": "",
    "binary": b"\0\1\xff",
    "null": "null",
    "nan": "NaN",
}


def write_files(folder: Path) -> None:
    """Write everything."""
    for name, text in MANIFESTS.items():
        (folder / f"manifest_{name}").mkdir()
        _write(folder / f"manifest_{name}" / "manifest.json", text)
    for name, text in {**MODELS, **CONFIGS, **MATRICES, "file": "x", "binary.sv": BINARY * 3}.items():
        _write(folder / name, text)
    for name in ("empty", "folder.py", "folder.sv"):
        (folder / name).mkdir()


def _write(path: Path, text: str | bytes) -> None:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
