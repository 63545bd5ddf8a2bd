"""Small models whose results are numbers, truth values, parts, paddings: every bit, every cycle, also under stalls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from mase_hw.compiler.config import load_config
from mase_hw.compiler.quantised_graph import quantised_graph
from mase_hw.errors import MaseHwError
from tests.e2e.test_joins import check_every_beat
from tests.e2e.test_small_models_arithmetic import bits
from tests.ir.nets import Of
from tests.unit.pipeline import OWN_FRAMES


def whole_frames(x: Tensor) -> dict[str, Any]:
    """One number for each frame: what an example of one row says of all dimensions."""
    return {
        "sum": x.sum(),
        "centred": x - x.mean(),
        "scaled": x / (x.abs().max() + 0.25),
        "least": x.min() * 2,
        "place": x.argmax(),
        "spread": torch.std(x),
        "shifted": x + x.var(unbiased=False),
        "length": torch.linalg.vector_norm(x),
        "log": x.logsumexp((0, 1, 2)),
        "any": (x > 1.25).any(),
        "all": torch.all(x > -1.5),
        "count": torch.count_nonzero(x > 0),
        "kept": x.amax((0, 1, 2), keepdim=True),
    }


def parts(x: Tensor) -> dict[str, Any]:
    """Several results of one call, parts of unequal sizes, reductions of truth values."""
    both = torch.var_mean(x, 1)
    return {
        "both": both,
        "std": torch.std_mean(x, -1, keepdim=True)[0],
        "ends": torch.aminmax(x, dim=2),
        "values": torch.max(x, 1),
        "any": (x > 0.75).any(1),
        "all": (x > -1.0).all(-1, keepdim=True),
        "nonzero": torch.count_nonzero(x.relu(), dim=1),
        "split": torch.cat([t * (i + 1) for i, t in enumerate(torch.tensor_split(x, 3, dim=1))][::-1], 1),
        "sizes": x.split_with_sizes([1, 3, 1], -1)[1],
        "swapped": torch.swapdims(x, 1, 2).moveaxis(1, 2),
    }


def paddings(x: Tensor) -> dict[str, Any]:
    """Other numbers than zero, other dimensions than rows and columns, and less than nothing."""
    return {
        "value": F.pad(x, (1, 2, 0, 1), value=1.5),
        "layer": F.pad(F.relu(x), (1, 0, 2, 1), value=-0.5),
        "channels": F.pad(x, (0, 0, 1, 0, 1, 2), value=-1.0),
        "cut": F.pad(x, (-1, 2, 1, -2), value=0.75),
        "sequence": F.pad(x.flatten(2), (2, 2), value=0.25),
        "row": F.pad(x.flatten(1), (3, 1)),
        "rows": F.pad(x.flatten(1, 2), (0, 0, 2, 0), value=2.0),
    }


def joined(x: Tensor) -> dict[str, Any]:
    """Tensors one after the other, in every notation, and of any number."""
    row = x.flatten(1)
    return {
        "one": torch.cat([x], 1) * 2,
        "alone": torch.stack([x], -1),
        "many": torch.cat([x * k for k in range(1, 8)], 1),
        "stack": torch.stack([x, x * 2, -x], 2),
        "hstack": torch.hstack([x, x * 0.5]),
        "vstack": torch.vstack([x[0], x[0] * 2]).unsqueeze(0),
        "dstack": torch.dstack([x, x * 2, x * 3]),
        "columns": torch.column_stack([row, row * 2]),
        "like_it": torch.cat([x, torch.zeros_like(x[:, :1]), torch.full_like(x[:, :1], 0.5)], 1),
        "empty": torch.cat([torch.empty(0), x, torch.ones_like(x[:, :1])], 1),
        "of_nothing": torch.max(torch.zeros_like(x), x),
        "halves": x.half().float() * 3,
        "of_data": x.view(x.data.size(0), -1) * 2,
    }


STORED = torch.randn(8, 8, 8, generator=torch.Generator().manual_seed(5))


def einsums(x: Tensor) -> dict[str, Any]:
    """Of one operand, of three, with stored operands, with an index in both operands and in the result."""
    w = STORED.to(x.device)
    return {
        "turned": torch.einsum("bij->bji", x * 2),
        "summed": torch.einsum("bij->bj", x),
        "diagonal": torch.einsum("bii->bi", x[:, :, :4] * 2),
        "trace": torch.einsum("bii", x[:, :, :4]),
        "groups": torch.einsum("bid,ide->bie", x, w[:4, :6, :3]),
        "rows_of_groups": torch.einsum("hkd,bdk->bhk", w[:2, :6, :4], x),
        "elements": torch.einsum("bij,j->bij", x, w[0, 0, :6]),
        "outer": torch.einsum("bij,k->bkij", x, w[0, 1, :3]),
        "shared_alone": torch.einsum("big,og->bo", x, w[0, :3, :6]),
        "three": torch.einsum("de,ef,bid->bif", w[0, :6, :3], w[1, :3, :5], x),
        "three_of_data": torch.einsum("bi,bj,bij->b", x[:, :, 0], x[:, 1], x),
        "batches": torch.matmul(x.reshape(-1, 2, 2, 6), w[:2, :6, :3]),
        "batches_left": torch.matmul(w[:2, :3, :2], x.reshape(-1, 2, 2, 6)),
    }


def broadcasts(x: Tensor) -> dict[str, Any]:
    """Data that is smaller than a stored tensor."""
    w = STORED.to(x.device)
    last = x.unsqueeze(-1)
    return {
        "minus": last - w[0, 0, :3],
        "from": w[0, 1, :3] - last,
        "times": last * w[0, :5, :3],
        "by": last / (w[0, 2, :3].abs() + 0.5),
        "largest": torch.maximum(last, w[0, 3, :3]),
        "above": (last > w[0, 4, :3]).float(),
        "chosen": torch.where(last > 0, last, w[0, 5, :3]),
        "channels": x.unsqueeze(1) + w[:1, :4, :3, None],
    }


def resized(x: Tensor) -> dict[str, Any]:
    """Nearest neighbours by any ratio, poolings that enlarge, the least number around a maximum."""
    return {
        "ratio": F.interpolate(x, size=(7, 4)),
        "scale": F.interpolate(x, scale_factor=1.5, mode="nearest"),
        "smaller": F.interpolate(x, scale_factor=0.5),
        "exact": F.interpolate(x, size=(7, 4), mode="nearest-exact"),
        "row": F.interpolate(x.flatten(1, 2), size=11),
        "volume": F.interpolate(x.unsqueeze(1), size=(3, 7, 6)),
        "averages": F.adaptive_avg_pool2d(x, (7, 3)),
        "maxima": F.adaptive_max_pool2d(x, (7, 3)),
        "row_maxima": F.adaptive_max_pool1d(x.flatten(1, 2), 11),
        "huge": F.max_pool2d(F.pad(x, (1, 0, 1, 1), value=-1e9), 3, 2),
        "infinite": F.max_pool1d(F.pad(x.flatten(1, 2), (2, 2), value=float("-inf")), 3, 2),
    }


def in_front(x: Tensor) -> dict[str, Any]:
    """Reductions of a dimension in front of the frames, other lengths of vectors, frames in any order of elements."""
    return {
        "mean": torch.stack([x, x * 2, x * 3]).mean(0),
        "largest": torch.stack([x, -x], dim=0).abs().amax(dim=0),
        "turned": x.permute(1, 0, 2).sum(0),
        "joined": torch.cat([x[None], (x * 2)[None]]).sum(0),
        "least_length": F.normalize(x, dim=-1, eps=1.0),
        "sum_of_sizes": F.normalize(x, p=1, dim=1),
        "largest_size": F.normalize(x, p=float("inf"), dim=-1),
        "any_order": (x * 2).reshape(-1, 8, 3).transpose(1, 2).reshape(-1, 24),
        "order_of_order": (x * 2).transpose(1, 2).reshape(-1, 4, 6).transpose(1, 2).reshape(-1, 3, 8),
        "nothing": torch.cat([(x * 2)[..., :6] * 3, (x * 2)[..., 6:]], -1),
    }


def ordered(x: Tensor) -> dict[str, Any]:
    """The largest and the smallest, in order, and their places."""
    values, places = x.topk(3, -1)
    return {
        "values": values * 2,
        "places": places,
        "pair": torch.topk(x, 2, dim=1, largest=False),
        "one": x.topk(1, -1).indices,
        "sorted": torch.sort(x, dim=-1, descending=True)[0],
        "order": torch.sort(x, dim=1, stable=True).indices,
        "places_of_all": x.argsort(-1),
        "median": x.median(-1).values,
        "third": x.kthvalue(3, 1, keepdim=True).values,
        "kept": x.masked_fill(x < x.topk(2, -1)[0][..., -1:], -torch.inf).softmax(-1),
    }


FAR = -1e9
LEAST = torch.finfo(torch.float32).min
KEEP = torch.tensor([True, False, True, True, False, True])
ADDED = torch.zeros(4).masked_fill(torch.tensor([False, True, False, False]), -10000.0)


def masked(x: Tensor) -> dict[str, Any]:
    """A number far below all others in front of what only asks for the largest, or for what is not far below."""
    other = x > 0.5
    bits = (x[:, 0] >= x[:, 0].mean(-1, keepdim=True)).float()
    return {
        "filled": x.masked_fill(~KEEP, FAR).amax(-1),
        "infinite": x.masked_fill(~KEEP, float("-inf")).max(-1).values,
        "added": (x + ADDED[:, None]).amax(1) * 2,
        "places": (x + ADDED[:, None]).argmax(1),
        "chosen": torch.where(KEEP, x, LEAST).amax(-1),
        "by_data": x.masked_fill(other, -torch.inf).amax(1) + 1,
        "smallest": x.masked_fill(other, torch.inf).amin(-1),
        "pool": F.adaptive_max_pool1d(x.masked_fill(other, FAR), 1),
        "padding": F.pad(x, (0, 2, 0, 1), value=FAR).amax((1, 2)),
        "softmax": x.flatten(1).masked_fill(other.flatten(1), FAR).softmax(-1),
        "other_dimension": (x + ADDED[:, None]).softmax(1),
        "smallest_first": F.softmin(x.masked_fill(~KEEP, 1e9), -1),
        "logarithm": x.masked_fill(~KEEP, FAR).logsumexp(-1),
        "function": torch.sigmoid(x.masked_fill(other, FAR)),
        "scaled": (x.masked_fill(other, FAR) / 8).softmax(-1),
        "scaled_twice": ((x + ADDED[:, None]).neg() * -0.25 / 2).softmax(1),
        "scaled_and_rounded": torch.div(x.masked_fill(other, FAR), 0.25, rounding_mode="floor").amax(-1),
        "bits": (x + (1 - bits)[:, None] * FAR).softmax(-1),
        "bits_of_views": (x + ((1.0 - bits) * FAR).unsqueeze(1)).softmax(-1),
        "bits_less_one": (x + (bits - 1).view(-1, 1, 6) * -FAR).softmax(-1),
        "bits_of_largest": (x + (1 - bits)[:, None] * FAR).amax(-1),
        "back": torch.where(KEEP, torch.relu(x.masked_fill(~KEEP, FAR)), 0.25),
    }


MODELS: dict[str, tuple[Callable[[Tensor], Any], tuple[int, ...], int, int]] = {
    "whole_frames": (whole_frames, (3, 5), 8, 2),
    "parts": (parts, (8, 5), 6, 3),
    "paddings": (paddings, (3, 4, 5), 7, 2),
    "joined": (joined, (3, 5), 16, 2),
    "einsums": (einsums, (4, 6), 16, 2),
    "broadcasts": (broadcasts, (3, 5), 16, 3),
    "resized": (resized, (2, 5, 6), 16, 2),
    "in_front": (in_front, (4, 6), 16, 2),
    "masked": (masked, (4, 6), 16, 2),
    "ordered": (ordered, (4, 6), 16, 2),
}
"""Function, shape of a frame, bits, lanes."""


def data(name: str) -> tuple[Of, Tensor, list[Tensor], dict[str, Any]]:
    """The model, some frames together and each alone, and the formats."""
    function, shape, width, _ = MODELS[name]
    x = torch.randn(8, *shape, generator=torch.Generator().manual_seed(4))
    return Of(function), x, list(x.split(1)), bits(width)


def results(model: Callable[[Tensor], Any], frames: list[Tensor]) -> list[Tensor]:
    """Every result, of all frames."""
    with torch.no_grad():
        each = [torch.utils._pytree.tree_leaves(model(frame)) for frame in frames]
    return [torch.stack(of) for of in zip(*each, strict=True)]


def check_values(name: str, found: list[Tensor], real: list[Tensor]) -> None:
    """What it computes is what the model says; the bits are held elsewhere."""
    for each, floats in zip(found, real, strict=True):
        assert len(each.unique()) > 1
        error, signal = (floats.double() - each).square().mean(), floats.double().square().mean()
        assert error < (0.3 if MODELS[name][2] < 16 else 1e-6) * signal


@pytest.mark.parametrize("name", MODELS)
def test_values(name: str) -> None:
    """Of the quantised model, frame by frame."""
    model, _, frames, formats = data(name)
    graph = quantised_graph(model, frames[0], load_config(formats), frames, None, lambda _: None)
    check_values(name, results(graph.model, frames), results(model, frames))


@pytest.mark.parametrize("name", MODELS)
def test_shapes(name: str, tmp_path: Path) -> None:
    model, x, frames, formats = data(name)
    config = {**formats, "hardware": {"max_parallelism": MODELS[name][3]}, **OWN_FRAMES}
    design = mase_hw.compile(model, frames[0], config, out=tmp_path / "bundle", calibration=frames)
    wanted, real = results(design.model, frames), results(model, frames)
    check_values(name, wanted, real)
    for stalls in (None, 0.3):
        simulation = design.simulate(x, engine="batch", stalls=stalls, seed=3, work_dir=tmp_path / "work")
        assert simulation.passed
        for (path, output), each in zip(simulation.results.items(), wanted, strict=True):
            assert torch.equal(output.reshape(each.shape), each.double()), path
        assert len(simulation.outputs) == len(wanted)
        if stalls is None:
            assert design.timing["exact"]
            check_every_beat(design, simulation.result, 8)


class Ids(nn.Module):
    """Integers that are cut, put in another order and compared before a table reads them; and a row that they name."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 3)
        self.register_buffer("places", torch.tensor([2, 0, 1]))

    def forward(self, ids: Tensor) -> dict[str, Tensor]:
        rows = self.table(ids)
        return {
            "columns": self.table(ids[:, 0]) + self.table(ids[:, -1]) * 2,
            "parts": sum(self.table(part) for part in ids.split(1, 1)),
            "ordered": self.table(ids[:, [2, 0, 1]]),
            "selected": self.table(ids.index_select(1, self.places)) * (ids != 3).unsqueeze(-1),
            "joined": self.table(torch.cat([ids[:, 1:], ids[:, :1]], 1)),
            "reversed": self.table(ids.flip(1)),
            "named": rows[torch.arange(ids.shape[0]), ids.argmax(-1)],
        }


def rows_and_ids() -> tuple[Ids, Tensor]:
    torch.manual_seed(2)
    return Ids().eval(), torch.randint(0, 10, (8, 3), generator=torch.Generator().manual_seed(4))


def test_values_of_ids() -> None:
    """At 16 bits, so that only the table is rounded: half an LSB of it in each row."""
    model, ids = rows_and_ids()
    frames = list(ids.split(1))
    graph = quantised_graph(model, frames[0], load_config(bits(16)), frames, None, lambda _: None)
    for found, floats in zip(results(graph.model, frames), results(model, frames), strict=True):
        assert (found - floats).abs().max() < 2e-3


def test_ids(tmp_path: Path) -> None:
    """The same in hardware."""
    model, ids = rows_and_ids()
    frames = list(ids.split(1))
    config = {**bits(16), "hardware": {"max_parallelism": 2}, **OWN_FRAMES}
    design = mase_hw.compile(model, frames[0], config, out=tmp_path / "bundle", calibration=frames)
    simulation = design.simulate(ids, engine="batch", stalls=0.3, work_dir=tmp_path / "work")
    assert simulation.passed
    with torch.no_grad():
        wanted = list(model(ids).values())
    for (path, output), floats in zip(simulation.results.items(), wanted, strict=True):
        assert (output.reshape(floats.shape) - floats).abs().max() < 2e-3, path


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        (nn.Conv2d(2, 3, 3), (2, 5, 4), "N, C, H, W"),
        (nn.Conv1d(2, 3, 3, padding=1, padding_mode="circular"), (2, 6), "N, C, L"),
        (nn.ConvTranspose2d(2, 3, 2, 2), (2, 4, 4), "N, C, H, W"),
        (nn.Conv3d(2, 2, 2), (2, 3, 4, 4), "N, C, D, H, W"),
        (nn.MaxPool1d(2), (2, 4), "N, C, L"),
        (nn.AdaptiveAvgPool2d(1), (2, 4, 4), "N, C, H, W"),
        (nn.ReflectionPad2d(1), (2, 4, 4), "N, C, H, W"),
    ],
)
def test_no_batch_dimension(layer: nn.Module, shape: tuple[int, ...], expected: str, tmp_path: Path) -> None:
    """PyTorch takes an image without one."""
    with pytest.raises(MaseHwError, match=rf"(?s)batch dimension is missing.*\({expected}\).*unsqueeze"):
        mase_hw.compile(layer.eval(), torch.randn(shape), out=tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: x % 0.75, "a remainder of a division by a power of two"),
        (lambda x: x.sum(), "over dimension 0 would be one over frames"),
        (lambda x: x.mean((0, 1)), "dimension"),
    ],
    ids=["remainder", "sum of rows", "mean of rows"],
)
def test_refused(function: Callable[[Tensor], Any], says: str, tmp_path: Path) -> None:
    """Of an example with several rows, a reduction of all dimensions would mix them."""
    with pytest.raises(MaseHwError, match=says):
        mase_hw.compile(Of(function), torch.randn(2, 3, 5), out=tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_what_a_mask_leaves_out_is_the_least(tmp_path: Path) -> None:
    """As a result it is the end of the format, which the others alone decide; what is far is not far enough to sum."""

    def refused(function: Callable[[Tensor], Any]) -> str:
        with pytest.raises(MaseHwError) as found:
            mase_hw.compile(Of(function), x[:1], bits(8), out=tmp_path / "refused", calibration=[x])
        return str(found.value)

    x = torch.randn(8, 4, 6, generator=torch.Generator().manual_seed(4))
    model = Of(lambda x: x.masked_fill(~KEEP, FAR))
    design = mase_hw.compile(model, x[:1], {**bits(8), **OWN_FRAMES}, out=tmp_path / "bundle", calibration=[x])
    found = design.model(x)
    assert found[..., ~KEEP].unique().tolist() == [-4.0]
    assert (found - x)[..., KEEP].abs().max() <= 2**-6
    assert "leaves out are summed" in refused(lambda x: x.masked_fill(~KEEP, FAR).sum(-1))
    assert "data come near to the number" in refused(lambda x: torch.where(x > 0, x * 2e4, -3e4))
    assert "a comparison with what a mask puts" in refused(
        lambda x: torch.where(x.masked_fill(~KEEP, FAR) < -1e8, 0.0, x)
    )
