"""Small models that the tests of `roofline ingest module` run: written as people write them, in plain torch."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 1000, "hidden_act": "silu", "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
GPT2 = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 128, "n_layer": 3, "n_head": 4, "vocab_size": 500,
    "n_positions": 64, "n_ctx": 64, "activation_function": "gelu_new", "torch_dtype": "float32",
}  # fmt: skip
BATCH, SEQ = 2, 64


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head = heads, kv_heads, width // heads
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, kv_heads * self.head, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        b, t, width = x.shape

        def turned(y: torch.Tensor) -> torch.Tensor:
            half = torch.cat((-y[..., self.head // 2 :], y[..., : self.head // 2]), -1)
            return y * cos + half * sin

        q = self.q(x).view(b, t, self.heads, self.head).transpose(1, 2)
        k, v = (f(x).view(b, t, self.kv_heads, self.head).transpose(1, 2) for f in (self.k, self.v))
        out = functional.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True, enable_gqa=True)
        return self.o(out.transpose(1, 2).reshape(b, t, width))


class LlamaBlock(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int, inner: int) -> None:
        super().__init__()
        self.n1, self.n2, self.attn = nn.RMSNorm(width), nn.RMSNorm(width), Attention(width, heads, kv_heads)
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.n1(x), cos, sin)
        y = self.n2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        c = LLAMA
        width, heads, kv = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
        self.emb = nn.Embedding(c["vocab_size"], width)
        self.layers = nn.ModuleList(LlamaBlock(width, heads, kv, c["intermediate_size"]) for _ in range(c["num_hidden_layers"]))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, c["vocab_size"], bias=False)
        self.rotated = width // heads

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.emb(ids)
        angles = torch.outer(torch.arange(ids.shape[1], device=ids.device).float(), torch.ones(self.rotated, device=ids.device))
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


class GptBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, width = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.ln1(x)).chunk(3, -1))
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(out.transpose(1, 2).reshape(b, t, width))
        return x + self.mlp(self.ln2(x))


class Gpt(nn.Module):
    """Tied: the head multiplies with the embedding."""

    def __init__(self) -> None:
        super().__init__()
        width, vocab = GPT2["n_embd"], GPT2["vocab_size"]
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(GPT2["n_positions"], width)
        self.h = nn.ModuleList(GptBlock(width, GPT2["n_head"]) for _ in range(GPT2["n_layer"]))
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.h:
            x = block(x)
        logits = self.head(self.ln(x))
        return logits if targets is None else functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def tokens() -> torch.Tensor:
    return torch.zeros(BATCH, SEQ, dtype=torch.long)


def llama() -> tuple[nn.Module, torch.Tensor]:
    return Llama().bfloat16(), tokens()


def gpt() -> tuple[nn.Module, tuple[torch.Tensor]]:
    return Gpt(), (tokens(),)


def gpt_loss() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    return Gpt(), {"ids": tokens(), "targets": tokens()}


class Sorts(nn.Module):
    """An operator that nobody recognises, with a product beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sort(self.line(x)).values


def sorts() -> tuple[nn.Module, torch.Tensor]:
    return Sorts(), torch.zeros(8, 32)


class Shares(nn.Module):
    """One layer, passed three times."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = self.line(x)
        return x


class Peeks(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x


class Fails(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("the user's own words")


class Prints(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 4)
        print("built")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("ran")
        return self.line(x)


def leaves() -> None:
    raise SystemExit(7)


def nothing() -> None:
    return None


def views() -> tuple[nn.Module, torch.Tensor]:
    return nn.Flatten(), torch.zeros(2, 3, 4)


def unweighted() -> tuple[nn.Module, torch.Tensor]:
    return nn.ReLU(), torch.zeros(2, 3)


def images() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3)), torch.zeros(2, 3, 16, 16)


def recurrent() -> tuple[nn.Module, torch.Tensor]:
    return nn.LSTM(32, 64, batch_first=True), torch.zeros(2, 5, 32)


def encoder() -> tuple[nn.Module, torch.Tensor]:
    """In evaluation, where torch has a fast path of its own for CPUs."""
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 3).eval(), torch.zeros(2, 16, 64)


class Mixed(nn.Module):
    """Weights are cast under autocast, and are parameters all the same."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(64, 32, bias=False)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.line(x)
        return {"unused": x, "loss": y.float().mean()}


def mixed() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    return Mixed(), {"x": torch.zeros(8, 64)}


not_callable = 5
