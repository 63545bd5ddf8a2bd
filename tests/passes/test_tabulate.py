"""Tables of ids and positions: every row is what the model computes, and what meets other tokens stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from mase_hw.errors import GraphError
from mase_hw.ir import MaseGraph
from mase_hw.passes import calibrate_analysis_pass, quantize_transform_pass, tabulate_transform_pass
from tests.unit.pipeline import EIGHT, annotated

IDS, TOKENS, WIDTH = 11, 6, 4
LETTERS = torch.arange(IDS)[:, None].expand(IDS, TOKENS)
EXAMPLE = torch.zeros(1, TOKENS, dtype=torch.long)


class Places(nn.Module):
    """A norm and a layer of embedded letters with their places, each token by itself, and their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.norm = nn.Embedding(IDS, WIDTH), nn.RMSNorm(WIDTH)
        self.places = nn.Parameter(torch.randn(TOKENS, WIDTH))
        self.fc, self.out = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, 3)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.norm(self.letters(ids) + self.places)
        y = torch.relu(self.fc(x)).reshape(-1, TOKENS, 2, WIDTH).flatten(2)
        return self.out(y + y.mean(1, keepdim=True))


class Letters(Places):
    """The same wherever a letter stands."""

    def forward(self, ids: Tensor) -> Tensor:
        y = self.fc(self.norm(self.letters(ids)))
        return self.out(y + y.mean(1, keepdim=True))


class Mixed(Places):
    """Sums over the tokens before: nothing behind the embedding depends on one token alone."""

    def forward(self, ids: Tensor) -> Tensor:
        return self.fc(torch.cumsum(self.letters(ids), 1))


class Across(Places):
    """A token is added to others: shapes fit as there is one frame."""

    def forward(self, ids: Tensor) -> Tensor:
        x = self.letters(ids)
        return x.reshape(-1, 1, TOKENS, WIDTH) + x.reshape(-1, TOKENS, 1, WIDTH)


class Others(Places):
    """What is read besides the letters is data as well."""

    def forward(self, ids: Tensor, x: Tensor) -> Tensor:
        return self.fc(self.letters(ids) + x)


def graph_of(model: Callable[[], nn.Module]) -> tuple[nn.Module, MaseGraph]:
    torch.manual_seed(0)
    net = model().eval()
    more = [torch.zeros(1, TOKENS, WIDTH)] if isinstance(net, Others) else []
    return net, annotated(net, EXAMPLE, *more)


def names(graph: MaseGraph) -> list[str]:
    return [op.name for node in graph.nodes if (op := graph.op_of(node)) is not None and op.golden is not None]


@pytest.mark.parametrize(("model", "rows"), [(Places, 16 * TOKENS), (Letters, IDS)])
def test_every_row_is_what_the_model_computes(model: Callable[[], nn.Module], rows: int) -> None:
    net, graph = graph_of(model)
    with torch.no_grad():
        wanted = net(LETTERS)
        graph, info = tabulate_transform_pass(graph, {"most": 1 << 12})
        assert set(info["lowered"].values()) == {rows} and len(info["lowered"]) == 1
        assert names(graph)[: 1 + (model is Places)] == ["positioned"] * (model is Places) + ["embedding"]
        assert not {"rms_norm", "relu"} & set(names(graph)) and names(graph).count("linear") == 1
        torch.testing.assert_close(graph.model(LETTERS), wanted)
        mixed = torch.randint(IDS, (40, TOKENS), generator=torch.Generator().manual_seed(1))
        torch.testing.assert_close(graph.model(mixed), net(mixed))


def test_a_number_that_is_no_letter_is_read_like_the_last_one() -> None:
    _, graph = graph_of(Places)
    graph, _ = tabulate_transform_pass(graph, {"most": 1 << 12})
    with torch.no_grad():
        last, none = (graph.model(torch.full((1, TOKENS), number)) for number in (IDS - 1, 15))
    assert torch.equal(last, none)


def test_no_table_is_larger_than_allowed() -> None:
    """One of the norm has half as many elements as one of the layer behind it."""
    most = 16 * TOKENS * WIDTH
    _, graph = graph_of(Places)
    graph, info = tabulate_transform_pass(graph, {"most": most})
    assert list(info["lowered"]) == ["norm"] and names(graph).count("linear") == 2
    _, graph = graph_of(Places)
    assert not tabulate_transform_pass(graph, {"most": most - 1})[1]["modified"]


@pytest.mark.parametrize("model", [Mixed, Across, Others])
def test_what_meets_other_tokens_or_data_stays(model: Callable[[], nn.Module]) -> None:
    _, graph = graph_of(model)
    before = names(graph)
    graph, info = tabulate_transform_pass(graph, {"most": 1 << 20})
    assert not info["modified"] and names(graph) == before


def test_a_quantised_graph_is_refused() -> None:
    _, graph = graph_of(Letters)
    calibrate_analysis_pass(graph, {"data": [EXAMPLE]})
    quantize_transform_pass(graph, EIGHT)
    with pytest.raises(GraphError, match="tabulating works on a float graph"):
        tabulate_transform_pass(graph, {"most": 1 << 12})
