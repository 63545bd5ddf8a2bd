"""The columns that causal windows read, and where a stream goes on, against numbers counted one by one."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mase_hw.catalogue import default_catalogue
from mase_hw.formats import FixedFormat
from mase_hw.nn import Quantized
from mase_hw.nn.recurrence import GATES, Recurrence
from mase_hw.nn.streaming import AFTER, BEFORE, Taps, continuing, remembered, streaming
from mase_hw.opdef import Arithmetic
from tests.catalogue.harness import ITEMS, Item, expected, stimulus
from tests.unit.oracle import by_fraction


@pytest.mark.parametrize("it", [it for it in ITEMS if it.op.name == "taps"], ids=lambda it: it.id)
def test_golden(it: Item) -> None:
    """Every column of every window is the one column of the stream that its number says, or zero before it."""
    tensors = stimulus(it, seed=5)
    results = expected(it, tensors)["data_out_0"]
    a = it.arithmetic
    kernel, dilation, stride, phase = (a.attributes[name] for name in ("kernel", "dilation", "stride", "phase"))
    # (frames, N, C, 1, L): one column after the other.
    stream = [column for frame in tensors["data_in_0"] for hop in frame for column in hop[:, 0].T.tolist()]
    unit, out = Fraction(2) ** -a.formats["data_in_0"].frac_width, a.formats["data_out_0"]
    wanted = []
    for window in range(len(stream) // stride):
        for tap in range(kernel):
            at = window * stride + phase - (kernel - 1 - tap) * dilation
            column = stream[at] if at >= 0 else [0] * len(stream[0])
            target, modes = (out.width, out.frac_width, out.signed), (a.rounding.name, a.overflow.name)
            wanted.append([by_fraction(value * unit, target, *modes) for value in column])
    found = [column for frame in results for hop in frame for column in hop[:, 0].T.tolist()]
    assert found == wanted
    assert any(any(column) for column in found)


@pytest.mark.parametrize(("kernel", "dilation"), [(2, 1), (3, 4), (5, 2)])
@pytest.mark.parametrize("hop", [1, 3, 8])
def test_a_convolution_behind_taps_is_a_causal_one(kernel: int, dilation: int, hop: int) -> None:
    torch.manual_seed(1)
    x = torch.randn(7, 2, hop, dtype=torch.float64)
    conv = nn.Conv1d(2, 4, kernel, dilation=dilation, groups=2).double()
    whole = torch.cat(x.split(1), -1)
    wanted = conv(F.pad(whole, ((kernel - 1) * dilation, 0)))
    found = F.conv1d(Taps(kernel, dilation)(x), conv.weight, conv.bias, stride=kernel, groups=2)
    assert torch.allclose(torch.cat(found.split(1), -1), wanted, rtol=0, atol=1e-12)
    assert remembered(kernel, dilation, 0) == (kernel - 1) * dilation


@pytest.mark.parametrize("kind", GATES)
def test_a_recurrence_goes_on(kind: str) -> None:
    """Hops are one sequence: of the golden at once, of the golden hop by hop, and in float."""
    torch.manual_seed(2)
    units, gates = 3, GATES[kind]
    op = default_catalogue()["recurrence"]
    s8 = FixedFormat(8, 6)
    formats = dict.fromkeys(("weight", "bias", "data_out_0"), s8) | {"data_in_0": FixedFormat(12, 8)}
    formats |= {"gate": FixedFormat(9, 6), "cell": FixedFormat(14, 10)}
    x = torch.randint(-900, 900, (6, 2, units * gates)).float()
    t = {"weight": torch.randint(-60, 60, (units * gates, units)).float()}
    if kind == "gru":
        t["bias"] = torch.randint(-60, 60, (units,)).float()
    assert op.golden is not None and op.stateful is not None
    one = Arithmetic(formats, attributes={"kind": kind, "streaming": False})
    on = Arithmetic(formats, attributes={"kind": kind, "streaming": True})
    assert op.stateful(on.attributes) and not op.stateful(one.attributes)
    wanted = op.golden(one, t | {"data_in_0": x.reshape(1, 12, -1)})
    assert AFTER not in wanted
    found = op.golden(on, t | {"data_in_0": x})
    assert torch.equal(found["data_out_0"].reshape(1, 12, units), wanted["data_out_0"])
    past: dict[str, torch.Tensor] = {}
    for hop, states in zip(x.split(1), found["data_out_0"], strict=True):
        result = op.golden(on, t | past | {"data_in_0": hop})
        past = {BEFORE: result[AFTER]}
        assert torch.equal(result["data_out_0"][0], states)
    assert torch.equal(past[BEFORE], found[AFTER])
    layer = Recurrence(kind, t["weight"] / 64, t["bias"] / 64 if kind == "gru" else None)
    alone = layer(x.reshape(1, 12, -1) / 256)
    layer.streaming = True
    assert torch.allclose(layer(x / 256).reshape(1, 12, units), alone)


def test_a_call_begins_a_stream_unless_it_goes_on() -> None:
    op, s8 = default_catalogue()["taps"], FixedFormat(8, 0)
    window = {"kernel": 2, "dilation": 1, "stride": 1, "phase": 0}
    module = Quantized(op, Arithmetic({"data_in_0": s8, "data_out_0": s8}, attributes=window))
    x = torch.arange(1.0, 4.0).reshape(3, 1, 1)
    assert streaming(module) and module(x).flatten().tolist() == [0, 1, 1, 2, 2, 3]
    assert module(x[1:]).flatten().tolist() == [0, 2, 2, 3]
    with continuing(module):
        assert module(x[:1]).flatten().tolist() == [0, 1]
        assert module(x[1:]).flatten().tolist() == [1, 2, 2, 3]
        with continuing(module):
            assert module(x[:1]).flatten().tolist() == [0, 1]
        assert module(x[:1]).flatten().tolist() == [3, 1]
    assert module(x[2:]).flatten().tolist() == [0, 3]
