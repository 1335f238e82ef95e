"""Tables whose rows are calls of several operators: the experts of a mixture, and latent attention with its products by head.

Such a table keeps its source's columns. A row is the operator that it is about, which the fit is for, and those that the same call
launches beside it. Which these are, and what the columns leave unsaid, is in the source's collector (github ai-dynamo/aiconfigurator).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from roofline.errors import did_you_mean
from roofline.fit.routing import POWER_LAW, Routed, exponent_of, routed
from roofline.numeric import scalar
from roofline.ops.base import Op

Row = Mapping[str, str]
Told = tuple[str, dict[str, str]]
"""An operator and its fields as texts."""
FORMATS = {"bfloat16": "bf16", "float16": "fp16", "fp8": "fp8"}
"""Formats by the names that the source has for them."""
MOST = 2**31


@dataclass(frozen=True, slots=True)
class Call:
    """What the columns of a table of calls are, and what a row of them says.

    ``operators`` gives what ran, first the operator that the row is about. Where a call was issued from Python, one that moves less
    than ``least_bytes`` and multiplies less than ``least_flop`` lasts as long as the host needs, and tells nothing of the device: the
    row is left out. Its shape decides that, not its time, which would keep the slow ones of those near the limit. ``lead_s`` is what
    the device waited for the first of the calls that were timed in a row, as a share of each.
    """

    numbers: tuple[str, ...]
    words: Mapping[str, Callable[[str], str | None]]
    operators: Callable[[Row], tuple[Told, ...]]
    optional: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    lead_s: Callable[[Row], float] = lambda _: 0.0
    least_bytes: float = 0.0
    least_flop: float = 0.0
    agree: Callable[[Row], tuple[str, str] | None] = lambda _: None

    @property
    def columns(self) -> frozenset[str]:
        """Every column that such a table may have beside a time."""
        return frozenset((*self.numbers, *self.words, *self.optional, *self.ignored))

    def tells(self, ops: Sequence[Op]) -> bool:
        """Whether a call of these is long enough to tell of the device."""
        moved = sum(scalar(t.moved_bytes) for op in ops for t in op.tensors())
        return moved >= self.least_bytes or sum(scalar(op.counts().tensor) for op in ops) >= self.least_flop

    def problem(self, row: Row) -> tuple[str, str] | None:
        """A column and what is wrong with its cell, None where nothing is."""
        for column in self.numbers:
            text = row.get(column, "")
            least = 0 if column in ZERO_ALLOWED else 1
            if not (text.isascii() and text.isdigit() and least <= int(text[:12]) < MOST):
                return column, f"expected a whole number of at least {least} as {column}, found '{text}'"
        for column, refusal in self.words.items():
            said = refusal(row.get(column, ""))
            if said:
                return column, said
        return self.agree(row)


ZERO_ALLOWED = ("step",)


def call_of(operator: str, columns: Mapping[str, str] | frozenset[str]) -> Call | None:
    """The call that rows with these columns are of, None where they have the operator's own columns."""
    call = CALLS.get(operator)
    return call if call and any(name in columns for name in call.numbers) else None


def one_of(*options: str) -> Callable[[str], str | None]:
    """A check of a cell that holds one of a few words."""
    return lambda text: None if text in options else f"unknown word '{text}'; {did_you_mean(text, list(options))}"


# --------------------------------------------------------------------------- experts
UNGATED = frozenset({(2688, 1856), (2048, 5120)})
"""Widths, of a token and of an expert, of published mixtures in these tables whose experts are relu(x W)^2 V: the Nemotron 3 family."""


def _distribution(text: str) -> str | None:
    try:
        found = exponent_of(text)
    except ValueError:
        return f"unknown distribution '{text}'; known: balanced, {POWER_LAW} and an exponent such as {POWER_LAW}1.2"
    return None if found is None or (0 < found < 10 and found != 1) else f"the exponent {found} is not between 0 and 10, or is 1"


def _experts_agree(row: Row) -> tuple[str, str] | None:
    experts, active, ranks, share = (int(row[c]) for c in ("num_experts", "topk", "moe_ep_size", "moe_tp_size"))
    if active > experts:
        return "topk", f"topk {active} is more than num_experts {experts}"
    if experts % ranks:
        return "moe_ep_size", f"num_experts {experts} is no multiple of moe_ep_size {ranks}"
    if experts > 4096:
        return "num_experts", f"num_experts {experts} is more than 4096"
    if int(row["inter_size"]) < share:
        return "moe_tp_size", f"moe_tp_size {share} is more than inter_size {row['inter_size']}"
    if int(row["num_tokens"]) * active > 2**24:
        return "num_tokens", f"num_tokens {row['num_tokens']} with topk {active} are more than {2**24} rows"
    return None


def _routed(row: Row) -> Routed:
    tokens, experts, active, ranks = (int(row[c]) for c in ("num_tokens", "num_experts", "topk", "moe_ep_size"))
    return routed(tokens, experts, active, ranks, exponent_of(row["distribution"]))


def _experts(row: Row) -> tuple[Told, ...]:
    """Product into the experts, activation, product out of them, sum over a token's experts.

    Every rank has all rows of all tokens: those of other ranks' experts are zeros, which the products write and the rest works on.
    """
    tokens, hidden, active = (int(row[c]) for c in ("num_tokens", "hidden_size", "topk"))
    whole = int(row["inter_size"])
    inner, got, rows = whole // int(row["moe_tp_size"]), _routed(row), tokens * active
    gated = row["gated"].lower() == "true" if row.get("gated") else (hidden, whole) not in UNGATED
    wide = (1 + gated) * inner
    sizes = {"tokens": got.rows, "experts": int(row["num_experts"]) // int(row["moe_ep_size"]), "active": 1}
    known = {**sizes, "chosen": got.chosen, "fullest": got.fullest}
    summed = {"function": "add", "inputs": active} if active > 1 else {"function": "copy"}
    found: list[tuple[str, dict[str, object]]] = [
        ("grouped_gemm", {**known, "n": wide, "k": hidden}),
        ("grouped_gemm", {**known, "n": hidden, "k": inner}),
        ("swiglu", {"rows": rows, "cols": inner}) if gated else ("elementwise", {"function": "relu", "elements": rows * inner}),
        ("elementwise", {**summed, "elements": tokens * hidden}),
    ]
    if int(row["moe_ep_size"]) > 1:  # the sum starts from zeros; rows of other ranks are zeros after each product
        zeros = rows * hidden + (rows - got.rows) * (wide + hidden)
        found.append(("elementwise", {"function": "fill", "elements": zeros}))
    return tuple((name, {**{key: str(value) for key, value in fields.items()}, "dtype": "bf16"}) for name, fields in found)


# --------------------------------------------------------------------------- latent attention
RANK, ROPE, NOPE, VALUE = 512, 64, 128, 128
"""Widths of the latent, of the rotary part, and of a head's query and value beside it: DeepSeek-V3's, arXiv 2412.19437."""


REPEATED = 6
"""Calls that the collector timed in a row; the clock started when the first was issued."""
HOST_S = {"bf16": 165e-6, "fp16": 165e-6, "fp8": 212e-6}
"""What the host took for a call, by the format of the cache: the median of the rows that are too short to tell of the device."""


def _lead(row: Row) -> float:
    return HOST_S[FORMATS[row["kv_cache_dtype"]]] / REPEATED


def _latent(row: Row) -> tuple[Told, ...]:
    """Decoding: queries into the latent and values out of it by head. Prefill: keys and values expanded before, copied together."""
    batch, heads, queries = (int(row[c]) for c in ("batch_size", "num_heads", "isl"))
    keys, dtype, kept = queries + int(row["step"]), FORMATS[row["mla_dtype"]], FORMATS[row["kv_cache_dtype"]]
    if row["phase"] == "generation":
        by_head = {"batch": heads, "m": batch * queries}
        found: list[tuple[str, dict[str, object]]] = [
            (
                "latent_attention",
                {"batch": batch, "heads": heads, "q_len": queries, "kv_len": keys, "rank": RANK, "rope": ROPE, "kv_dtype": kept},
            ),
            ("batched_gemm", {**by_head, "n": RANK, "k": NOPE}),
            ("batched_gemm", {**by_head, "n": VALUE, "k": RANK}),
            ("elementwise", {"function": "copy", "elements": batch * heads * queries * (RANK + ROPE)}),  # both parts of the queries
            ("elementwise", {"function": "copy", "elements": batch * queries * (RANK + ROPE)}),  # into the cache
        ]
    else:
        lengths = {"batch": batch, "heads": heads, "kv_heads": heads, "q_len": queries, "kv_len": keys}
        widths = {"head_dim": NOPE + ROPE, "v_head_dim": VALUE}
        found = [
            ("attention", {**lengths, **widths, "causal": "true", "implementation": "flash"}),
            ("gemm", {"m": batch * keys, "n": heads * (NOPE + VALUE), "k": RANK}),
            ("elementwise", {"function": "copy", "elements": batch * keys * heads * (NOPE + ROPE)}),
        ]
    return tuple((name, {**{key: str(value) for key, value in fields.items()}, "dtype": dtype}) for name, fields in found)


CALLS: Mapping[str, Call] = {
    "grouped_gemm": Call(
        numbers=("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size"),
        words={"distribution": _distribution},
        operators=_experts,
        optional=("gated",),
        agree=_experts_agree,
    ),
    "latent_attention": Call(
        numbers=("num_heads", "batch_size", "isl", "step"),
        words={
            "mla_dtype": one_of("bfloat16", "float16"),
            "kv_cache_dtype": one_of("bfloat16", "float16", "fp8"),
            "phase": one_of("generation", "context"),
        },
        operators=_latent,
        ignored=("kernel_source", "tp_size"),
        lead_s=_lead,
        least_bytes=500e6,
        least_flop=150e9,
    ),
}
"""By the operator that a table of calls is about."""
NAMED = {"moe": "grouped_gemm", "mla": "latent_attention"}
"""What such tables are called."""
