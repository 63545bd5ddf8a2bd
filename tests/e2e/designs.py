"""The designs of the end-to-end tests: models, configurations, and inputs for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from tests.unit import test_golden_network as golden
from tests.unit.pipeline import EIGHT, OWN_FRAMES, inputs, rule, seeded


@dataclass(frozen=True)
class Case:
    """A design.

    Args:
        model: The float model.
        example: Example inputs.
        config: The configuration.
        frames: Inputs of n frames.
        casts: Casts that must be in the netlist.
        outputs: Number of outputs.
    """

    model: nn.Module
    example: tuple[Tensor, ...]
    config: dict[str, Any]
    frames: Callable[[int], tuple[Tensor, ...]]
    casts: int = 0
    outputs: int = 1


def golden_model() -> nn.Module:
    """The network of the unit test that recomputes every bit with Python integers."""
    net = seeded(golden.Net, 3)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.mul_(3.0 if "fc2" in name else 2.0)
    return net


def golden_config(rounding: str, overflow: str, **lanes: dict[str, int]) -> dict[str, Any]:
    return {"quantize": golden.configuration(rounding, overflow), "hardware": {"parallelism": lanes}}


def golden_frames(n: int) -> tuple[Tensor, ...]:
    """Half ordinary, half far beyond the formats."""
    return (torch.cat([inputs(n - n // 2, 7, scale=2.0), inputs(n // 2, 7, seed=2, scale=20.0)]),)


class Rows(nn.Module):
    """No bias; three dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.relu, self.fc2 = nn.Linear(6, 5, bias=False), nn.ReLU(), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.relu(self.fc1(x)))


class Forms(nn.Module):
    """Every form of an op, implicit ones everywhere, a fan-out to two heads, and weights that are only attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.flatten, self.identity, self.drop = nn.Flatten(), nn.Identity(), nn.Dropout(0.3)
        self.stem, self.left = nn.Linear(12, 8), nn.Linear(8, 3)
        self.weight = nn.Parameter(torch.randn(2, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.identity(F.relu(self.stem(self.flatten(x))))
        left = self.left(self.drop(x)).unsqueeze(1)
        right = F.linear(x.view(x.size(0), 2, -1).relu(), self.weight)
        return left.squeeze(1), right.reshape(-1, 4)


class Pair(nn.Module):
    """Two inputs; one feeds two layers that want it in different formats."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(6, 2)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.a(x), self.b(x), self.c(y)


class Residual(nn.Module):
    """Short ways around long ones, one inside the other, and a sum of a stream with itself."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.a, self.b, self.c = (nn.Linear(i, o) for i, o in ((6, 8), (8, 12), (12, 8), (8, 8)))
        self.head, self.relu = nn.Linear(8, 3), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        inner = self.b(F.relu(self.a(x))) + x
        x = self.relu(self.c(F.relu(inner)) + x)
        return self.head(x + x)


class Crossed(nn.Module):
    """No stream meets itself again, yet each of two inputs waits for the other's long way."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.a(x) + y, x + self.b(y)


DESIGNS: dict[str, Case] = {
    "golden": Case(
        golden_model(),
        golden_frames(1),
        golden_config(
            "half_even", "saturate", fc1={"data_in_0": 3, "data_out_0": 2}, fc2={"data_in_0": 2, "data_out_0": 2}
        ),
        golden_frames,
        casts=1,
    ),
    "serial": Case(
        golden_model(),
        golden_frames(1),
        {**golden_config("floor", "wrap"), "hardware": {"max_parallelism": 1}},
        golden_frames,
        casts=1,
    ),
    "rows": Case(
        seeded(Rows),
        (inputs(2, 3, 6),),
        {"hardware": {"max_parallelism": 100, "parallelism": {"fc2": {"data_in_0": 5, "data_out_0": 2}}}},
        lambda n: (inputs(2 * n, 3, 6, seed=4),),
    ),
    "forms": Case(
        seeded(Forms),
        (inputs(2, 3, 4),),
        {"hardware": {"parallelism": {"stem": {"data_in_0": 6}, "left": {"data_in_0": 3}, "linear": {"data_in_0": 4}}}},
        lambda n: (inputs(2 * n, 3, 4, seed=4),),
        outputs=2,
    ),
    "pair": Case(
        seeded(Pair),
        (inputs(1, 4), inputs(1, 6)),
        {
            "quantize": {"by": "name", **EIGHT, "b": rule(data_in_width=6, data_in_frac_width=2, rounding="half_up")},
            "hardware": {"parallelism": {"a": {"data_in_0": 4, "data_out_0": 1}, "b": {"data_in_0": 1}}},
        },
        lambda n: (inputs(n, 4, seed=4), inputs(n, 6, seed=5)),
        casts=2,
        outputs=3,
    ),
    "residual": Case(
        seeded(Residual),
        (inputs(1, 6),),
        {"hardware": {"max_parallelism": 2, "parallelism": {"b": {"data_out_0": 4}, "c": {"data_in_0": 4}}}},
        lambda n: (inputs(n, 6, seed=4),),
    ),
    "crossed": Case(
        seeded(Crossed),
        (inputs(2, 6), inputs(2, 6)),
        {"hardware": {"max_parallelism": 2}},
        lambda n: (inputs(2 * n, 6, seed=4), inputs(2 * n, 6, seed=5)),
        outputs=2,
    ),
}


@dataclass(frozen=True)
class SmallModel:
    """A model, the shape of a frame, and modules that must be in the design.

    Args:
        make: The float model.
        shape: Of a frame.
        modules: How many of them.
        config: The configuration.
        fidelity: dB of the quantised results above their error, at least.
        values: Different numbers at every output, at least.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    modules: Mapping[str, int]
    config: Mapping[str, Any] = field(default_factory=dict)
    fidelity: float = 15.0
    values: int = 3

    def check(
        self, x: Tensor, out: Path, calibration: Sequence[Tensor] = (), frames: int | None = None, lanes: int = 4
    ) -> None:
        """Compile it, with so many lanes unless it says otherwise, and simulate frames; see ``as_predicted``."""
        net = self.make().eval()
        config = {"hardware": {"max_parallelism": lanes}, **OWN_FRAMES, **self.config}
        design = mase_hw.compile(net, x[:1], config, out=out, calibration=calibration or [x])
        found = [i["module"] for i in design.manifest["instances"]]
        assert {module: found.count(module) for module in self.modules} == self.modules
        as_predicted(design, net, x[:frames], self.fidelity, self.values)


def as_predicted(design: mase_hw.Design, net: nn.Module, x: Tensor, fidelity: float, values: int = 3) -> None:
    """Overlapping frames at full rate and with stalls: as the quantised model says, at the predicted speed.

    Args:
        design: Of the float model.
        net: The float model.
        x: Frames, one behind the other.
        fidelity: dB of the quantised results above their error, at least.
        values: Different numbers at every output, at least.
    """
    with torch.no_grad():
        frames = [_several(design.model(frame[None])) for frame in x]
        floats = [_several(net(frame[None])) for frame in x]
    for stalls in (0.0, 0.4):
        simulation = design.simulate(x, engine="batch", stalls=stalls, seed=3)
        assert simulation.passed and simulation.result.mismatches == 0
        outputs = list(simulation.outputs.values())
        assert len(outputs) == len(frames[0])
        for index, output in enumerate(outputs):
            wanted, real = (torch.cat([frame[index] for frame in each]) for each in (frames, floats))
            assert wanted.shape == real.shape and torch.equal(output, wanted.double())
            assert len(wanted.unique()) >= values
            assert 10 * torch.log10(real.square().sum() / (real - wanted).square().sum()) > fidelity
        if not stalls:
            assert design.timing["exact"]
            assert (simulation.interval, simulation.fill) == (design.timing["interval"], design.timing["fill"])


def _several(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)
