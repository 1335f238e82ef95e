"""Scaled dot-product attention of torch, by all its names, and of the flash-attn package.

torch's ``is_causal`` counts from the first key: query i sees keys 0 to i. flash-attn counts from the last, as our operator does.
Both agree where there are as many queries as keys; elsewhere torch's form only ever sees as many keys as there are queries.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.ingest.aten import Call, Mapped, Scalar, Tensor, Unrecognised, handles


@dataclass(frozen=True, slots=True)
class Form:
    """Where an operator has what: positions of the query (key and value follow), dropout and ``is_causal``.

    ``rows_first``: layout [batch, length, heads, width] in place of [batch, heads, length, width].
    """

    implementation: str
    dropout: int
    causal: int
    query: int = 0
    rows_first: bool = False
    direction: str = "forward"


FORMS = {
    "scaled_dot_product_attention": Form("flash", 4, 5),
    "_scaled_dot_product_flash_attention": Form("flash", 3, 4),
    "_scaled_dot_product_flash_attention_for_cpu": Form("flash", 3, 4),
    "_scaled_dot_product_efficient_attention": Form("efficient", 5, 6),
    "_scaled_dot_product_cudnn_attention": Form("cudnn", 5, 6),
    "_scaled_dot_product_fused_attention_overrideable": Form("flash", 4, 5),
    "_scaled_dot_product_flash_attention_backward": Form("flash", 10, 11, 1, direction="backward"),
    "_scaled_dot_product_flash_attention_for_cpu_backward": Form("flash", 6, 7, 1, direction="backward"),
    "_scaled_dot_product_efficient_attention_backward": Form("efficient", 9, 11, 1, direction="backward"),
    "_scaled_dot_product_cudnn_attention_backward": Form("cudnn", 13, 14, 1, direction="backward"),
    "_flash_attention_forward": Form("flash", 7, 8, rows_first=True),
    "_flash_attention_backward": Form("flash", 10, 11, 1, rows_first=True, direction="backward"),
}
"""The forms of torch, by schema."""


def _sides(q: Tensor, k: Tensor, v: Tensor, rows_first: bool) -> dict[str, Scalar]:
    if not len(q.shape) == len(k.shape) == len(v.shape) == 4:
        raise Unrecognised(f"attention of shapes {list(q.shape)}, {list(k.shape)}, {list(v.shape)}")
    length, heads = (1, 2) if rows_first else (2, 1)
    found: dict[str, Scalar] = {
        "batch": q.shape[0],
        "heads": q.shape[heads],
        "q_len": q.shape[length],
        "kv_len": k.shape[length],
        "head_dim": q.shape[3],
        "dtype": q.dtype,
    }
    if k.shape[heads] != q.shape[heads]:
        found["kv_heads"] = k.shape[heads]
    if v.shape[3] != q.shape[3]:
        found["v_head_dim"] = v.shape[3]
    return found


def attention_of(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, dropout: float, form: Form) -> tuple[Mapped, ...]:
    """The operator for queries, keys and values of torch's layouts; nothing where one of them is empty."""
    if not q.elements * k.elements * v.elements:
        return ()
    fields = _sides(q, k, v, form.rows_first)
    if causal:
        fields["causal"] = True
        fields["kv_len"] = min(int(fields["kv_len"]), int(fields["q_len"]))
    if dropout:
        fields["dropout"] = dropout
    if form.implementation != "flash":
        fields["implementation"] = form.implementation
    return (Mapped("attention", fields, form.direction),)


@handles(*FORMS)
def attention(call: Call) -> tuple[Mapped, ...]:
    """Any of `FORMS`. Masks are left out: torch's fused kernels read them, and compute what they mask."""
    form = FORMS[call.base]
    q, k, v = (call.tensor(form.query + i) for i in range(3))
    if form.rows_first and isinstance(call.argument(3 if form.query == 0 else 6), Tensor):
        raise Unrecognised("sequences of different lengths in one batch, which the shapes do not tell")
    dropout, causal = call.argument(form.dropout, 0.0), call.argument(form.causal, False)
    if not isinstance(causal, (bool, int)) or not isinstance(dropout, (int, float)):
        raise Unrecognised("whether it is causal is not recorded")
    return attention_of(q, k, v, causal=bool(causal), dropout=float(dropout), form=form)


@handles("flash_attn::_flash_attn_forward", "flash_attn::_flash_attn_backward", "FlashAttnFunc", "flash_attn_3::fwd")
def flash_attn(call: Call) -> tuple[Mapped, ...]:
    """The package's own operators: [batch, length, heads, width], causal from the last key.

    Forward ``(q, k, v, dropout_p, softmax_scale, causal, window_left, ...)``, backward with dO before and
    ``(out, lse, dq, dk, dv, dropout_p, softmax_scale, causal, ...)`` behind.
    """
    backward = call.base.endswith("backward")
    if call.base not in ("flash_attn::_flash_attn_forward", "flash_attn::_flash_attn_backward"):
        raise Unrecognised("whether it is causal is not recorded")
    first, dropout_at, causal_at = (1, 9, 11) if backward else (0, 3, 5)
    causal = call.argument(causal_at)
    if not isinstance(causal, bool):
        raise Unrecognised("whether it is causal is not recorded")
    q, k, v = (call.tensor(first + i) for i in range(3))
    if not q.elements * k.elements:
        return ()
    fields = _sides(q, k, v, rows_first=True)
    window = call.argument(causal_at + 1, -1)
    if causal:
        fields["causal"] = True
        if isinstance(window, int) and window >= 0:
            fields["window"] = window + 1
    elif isinstance(window, int) and window >= 0:
        raise Unrecognised("a window that is not causal")
    dropout = call.argument(dropout_at, 0.0)
    if dropout:
        fields["dropout"] = float(dropout)
    return (Mapped("attention", fields, "backward" if backward else "forward"),)
