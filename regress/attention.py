"""Transformers as people build them, small: blocks and whole models of the regression matrices and of synthesis."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS, GROUPS, HIDDEN, IDS = 16, 2, 1, 24, 20
SIZE = WIDTH // HEADS


def by_head(x: Tensor) -> Tensor:
    """``(N, T, heads * size)`` -> ``(N, heads, T, size)``."""
    return x.view(x.shape[0], x.shape[1], -1, SIZE).transpose(1, 2)


def by_token(x: Tensor) -> Tensor:
    """Back again."""
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


class CausalBlock(nn.Module):
    """GPT-2's and OPT's block: one projection for queries, keys and values, each token sees those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens ``(N, T, width)`` -> the same shape."""
        q, k, v = (by_head(part) for part in self.qkv(self.before(x)).chunk(3, -1))
        x = x + self.out(by_token(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
        return x + self.down(F.gelu(self.up(self.between(x)), approximate="tanh"))


class LlamaBlock(nn.Module):
    """LLaMA's block (Touvron et al., arXiv:2302.13971): RMS norms, rotary positions, shared keys, a gated network."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.before, self.between = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(WIDTH, GROUPS * SIZE, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        angles = torch.arange(tokens)[:, None] / 10 ** (torch.arange(SIZE // 2) / 2)
        self.register_buffer("cos", angles.cos().repeat(1, 2))
        self.register_buffer("sin", angles.sin().repeat(1, 2))

    def turned(self, x: Tensor) -> Tensor:
        """Rotary positions (Su et al., arXiv:2104.09864) of ``(N, heads, T, size)``."""
        half = torch.cat((-x[..., SIZE // 2 :], x[..., : SIZE // 2]), -1)
        return x * self.cos + half * self.sin

    def forward(self, x: Tensor) -> Tensor:
        """Tokens ``(N, T, width)`` -> the same shape."""
        y = self.before(x)
        q, k, v = (by_head(layer(y)) for layer in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True, enable_gqa=True)
        x = x + self.o(by_token(y))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def encoder_block(first: bool) -> nn.Module:
    """Each token sees all: ViT's block with its norms first, BERT's with its norms last."""
    return nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, activation="gelu", batch_first=True, norm_first=first)


class Bert(nn.Module):
    """Ids and a padding mask -> scores of the classes of a text (Devlin et al., arXiv:1810.04805)."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(IDS, WIDTH), nn.Embedding(tokens, WIDTH)
        self.norm, self.block = nn.LayerNorm(WIDTH), encoder_block(first=False)
        self.pool, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, ids: Tensor, padded: Tensor) -> Tensor:
        """Ids ``(N, T)`` and truth values ``(N, T)`` -> scores ``(N, 3)``."""
        x = self.norm(self.words(ids) + self.places.weight)
        x = self.block(x, src_key_padding_mask=padded)
        return self.head(torch.tanh(self.pool(x[:, 0])))


class ViT(nn.Module):
    """An image in patches of 4x4 pixels, and a class token in front (Dosovitskiy et al., arXiv:2010.11929)."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, WIDTH, 4, stride=4)
        self.token, self.places = nn.Parameter(torch.randn(1, 1, WIDTH)), nn.Parameter(torch.randn(1, 5, WIDTH))
        self.block, self.norm, self.head = encoder_block(first=True), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Images ``(N, 1, 8, 8)`` -> scores ``(N, 4)``."""
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat((self.token.expand(y.shape[0], -1, -1), y), 1) + self.places
        return self.head(self.norm(self.block(y))[:, 0])


class Decoder(nn.Module):
    """Ids -> the id that is most likely to come next, behind each token."""

    def __init__(self, block: nn.Module, norm: nn.Module, tokens: int | None) -> None:
        super().__init__()
        self.words, self.block, self.norm = nn.Embedding(IDS, WIDTH), block, norm
        self.places = None if tokens is None else nn.Embedding(tokens, WIDTH)
        self.head = nn.Linear(WIDTH, IDS, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids ``(N, T)`` -> ids ``(N, T)``."""
        x = self.words(ids)
        x = x if self.places is None else x + self.places.weight
        return self.head(self.norm(self.block(x))).argmax(-1)


def ids_of(frames: int, tokens: int) -> Tensor:
    """Random ids ``(frames, tokens)``."""
    return torch.randint(IDS, (frames, tokens), generator=torch.Generator().manual_seed(frames))


def vit_block() -> tuple[nn.Module, Tensor]:
    """Norms first, each token sees all."""
    torch.manual_seed(20)
    return nn.Sequential(encoder_block(first=True)), torch.randn(1, 4, WIDTH)


def bert_block() -> tuple[nn.Module, Tensor]:
    """Norms last."""
    torch.manual_seed(21)
    return nn.Sequential(encoder_block(first=False)), torch.randn(1, 4, WIDTH)


def causal_block() -> tuple[nn.Module, Tensor]:
    """Each token sees those before it."""
    torch.manual_seed(22)
    return CausalBlock(), torch.randn(1, 4, WIDTH)


def llama_block() -> tuple[nn.Module, Tensor]:
    """Rotary positions, RMS norms, shared keys, a gate."""
    torch.manual_seed(23)
    return LlamaBlock(4), torch.randn(1, 4, WIDTH)


def bert() -> tuple[nn.Module, tuple[Tensor, Tensor], list[tuple[Tensor, Tensor]], tuple[Tensor, Tensor]]:
    """A classifier of texts of up to six tokens, of every length."""
    torch.manual_seed(24)
    ids = ids_of(8, 6)
    padded = torch.arange(6) >= torch.arange(8)[:, None] % 6 + 1
    return Bert(6), (ids[:1], padded[:1]), [(ids, padded)], (ids, padded)


def vit() -> tuple[nn.Module, Tensor]:
    """A classifier of images."""
    torch.manual_seed(25)
    return ViT(), torch.rand(1, 1, 8, 8)


def gpt() -> tuple[nn.Module, Tensor, list[Tensor], Tensor]:
    """A causal model that gives ids."""
    torch.manual_seed(26)
    ids = ids_of(8, 6)
    return Decoder(CausalBlock(), nn.LayerNorm(WIDTH), 6), ids[:1], [ids], ids


def llama() -> tuple[nn.Module, Tensor, list[Tensor], Tensor]:
    """The same with blocks of LLaMA."""
    torch.manual_seed(27)
    ids = ids_of(8, 6)
    return Decoder(LlamaBlock(6), nn.RMSNorm(WIDTH), None), ids[:1], [ids], ids
