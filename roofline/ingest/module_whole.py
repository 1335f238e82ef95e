"""Functions of torch that are noted whole, forward and backward, and not by the parts that this machine would take them apart into.

Attention has one kernel on a GPU and products with a softmax between them elsewhere; RMS norm one kernel on a GPU (torch 2.9 and
later) and seven elsewhere. Each is replaced by a function of autograd that computes nothing: its result and its gradients have shapes only.
"""

from __future__ import annotations

from typing import Any

ATTENTION, RMS_NORM = "scaled_dot_product_attention", "rms_norm"
WHOLE = (ATTENTION, RMS_NORM)
"""Names under which they are noted, in both directions."""


def whole_mode(torch: Any, recorder: Any) -> Any:
    """A function mode that takes their calls."""
    from torch.overrides import TorchFunctionMode

    attention, norm = _attention(torch, recorder), _norm(torch, recorder)

    class Mode(TorchFunctionMode):
        """Replaces the functions of the table."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = kwargs or {}
            if func is torch.nn.functional.scaled_dot_product_attention:
                names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
                found = {**dict(zip(names, args, strict=False)), **given}
                dropout, causal = float(found.get("dropout_p", 0.0)), bool(found.get("is_causal", False))
                return attention.apply(found["query"], found["key"], found["value"], dropout, causal)
            if func is torch.nn.functional.rms_norm:
                found = {**dict(zip(("input", "normalized_shape", "weight"), args, strict=False)), **given}
                return norm.apply(found["input"], tuple(found["normalized_shape"]), found.get("weight"))
            return func(*args, **given)

    return Mode()


def _attention(torch: Any, recorder: Any) -> Any:
    """``apply(q, k, v, dropout, causal)``."""

    def four(value: Any) -> Any:
        """[batch, length, width] as one head; more dimensions before the heads as one batch."""
        if not isinstance(value, torch.Tensor) or value.dim() == 4:
            return value
        with recorder.silent():
            return value.unsqueeze(-3) if value.dim() == 3 else value.flatten(0, -4) if value.dim() > 4 else value

    class Attention(torch.autograd.Function):  # type: ignore[misc]
        """Notes queries, keys and values as they are given, grouped heads included."""

        @staticmethod
        def forward(ctx: Any, q: Any, k: Any, v: Any, dropout: float, causal: bool) -> Any:
            ctx.given = (q, k, v, None, dropout, causal)
            with recorder.silent():
                out = q.new_empty((*q.shape[:-1], v.shape[-1]))
            recorder.note(ATTENTION, tuple(four(t) for t in ctx.given), out, False)
            return out

        @staticmethod
        def backward(ctx: Any, *_: Any) -> Any:
            recorder.note(ATTENTION, tuple(four(t) for t in ctx.given), (), True)
            with recorder.silent():
                return (*(torch.empty_like(t) for t in ctx.given[:3]), None, None)

    return Attention


def _norm(torch: Any, recorder: Any) -> Any:
    """``apply(x, normalized_shape, weight)``."""

    class Norm(torch.autograd.Function):  # type: ignore[misc]
        """Notes the input, the shape that is normalised, and the weight."""

        @staticmethod
        def forward(ctx: Any, x: Any, shape: tuple[int, ...], weight: Any) -> Any:
            ctx.given = (x, shape, weight)
            with recorder.silent():
                out = torch.empty_like(x)
            recorder.note(RMS_NORM, ctx.given, out, False)
            return out

        @staticmethod
        def backward(ctx: Any, *_: Any) -> Any:
            x, _shape, weight = ctx.given
            recorder.note(RMS_NORM, ctx.given, (), True)
            with recorder.silent():
                return torch.empty_like(x), None, None if weight is None else torch.empty_like(weight)

    return Norm
