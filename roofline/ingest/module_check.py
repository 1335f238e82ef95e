"""Our matrix FLOP of a module beside those of torch's own counter, and why they differ.

The counter is `torch.utils.flop_counter.FlopCounterMode`, in a run of its own. Both count a multiply-add as 2. It counts products only (no
element-wise work), takes all scores of causal attention where ours are the unmasked ones, and knows nothing of operators that nobody
gave it a formula for, some forms of attention among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roofline.ingest.aten import Mapped, base_name
from roofline.ingest.module_capture import Capture
from roofline.ingest.module_steps import Draft
from roofline.numeric import scalar


@dataclass(frozen=True, slots=True)
class Reason:
    """A part of the difference: FLOP that torch has more (or, below 0, fewer) of, and why."""

    flop: float
    why: str


@dataclass(frozen=True, slots=True)
class Check:
    """Both totals, the reasons, and what is left of the difference when all of them are taken off."""

    ours: float
    torch: float
    vector: float
    reasons: tuple[Reason, ...]

    @property
    def unexplained(self) -> float:
        """What no reason accounts for."""
        return self.torch - self.ours - sum(r.flop for r in self.reasons)


def check(drafts: Sequence[Draft], counted: Capture, unknown: Mapping[str, object]) -> Check:
    """Our steps beside torch's count; ``counted`` is the run under its counter.

    Attention is compared with all of its products over all scores: two of them forward, and backward four in torch's plain form
    or five in a fused one.
    """
    ours = sum(draft.repeat * matrix_flop(draft.mapped) for draft in drafts)
    vector = sum(draft.repeat * _vector_flop(draft.mapped) for draft in drafts)
    attention = [(draft.mapped, draft.repeat) for draft in drafts if draft.mapped.op == "attention"]
    names = {base_name(n.call.name) for n in counted.calls}
    by_name = {base_name(name): flop for name, flop in counted.torch_flop.items()}
    reasons = []
    if attention:
        reasons += _attention_reasons(attention, names, by_name)
    for name in sorted(unknown):
        if by_name.get(name):
            reasons.append(Reason(by_name[name], f"{name} is not recognised here"))
    parts: dict[str, float] = {}
    for reason in reasons:
        parts[reason.why] = parts.get(reason.why, 0.0) + reason.flop
    return Check(ours, float(sum(by_name.values())), vector, tuple(Reason(flop, why) for why, flop in parts.items() if flop))


def matrix_flop(mapped: Mapped) -> float:
    """Matrix FLOP of one execution."""
    op = mapped.build()
    ops = op.backward() if mapped.direction == "backward" else (op,)
    return sum(scalar(each.counts().tensor) for each in ops)


def _vector_flop(mapped: Mapped) -> float:
    op = mapped.build()
    ops = op.backward() if mapped.direction == "backward" else (op,)
    return sum(scalar(each.counts().vector) for each in ops)


def _attention_reasons(attention: Sequence[tuple[Mapped, int]], names: set[str], by_name: Mapping[str, int]) -> list[Reason]:
    fused = sorted(n for n in names if "attention" in n and not n.startswith("_fused_sdp"))
    without = [n for n in fused if n not in by_name]
    reasons = []
    for backward in (False, True):
        mine = [(m, n) for m, n in attention if (m.direction == "backward") == backward]
        ours = sum(n * matrix_flop(m) for m, n in mine)
        here = [n for n in fused if n.endswith("backward") == backward]
        if here and all(n in without for n in here):
            reasons.append(Reason(-ours, f"torch's counter has no formula for {', '.join(here)}"))
            continue
        whole = sum(n * _square(m, fused=True) for m, n in mine)
        reasons.append(Reason(whole - ours, "causal attention counts its unmasked scores here, all of them in torch"))
        if backward and not here:
            plain = sum(n * _square(m, fused=False) for m, n in mine)
            reasons.append(
                Reason(
                    plain - whole, "attention backward computes its scores again here, as fused kernels do, and not in torch's plain form"
                )
            )
    return reasons


def _square(mapped: Mapped, *, fused: bool) -> float:
    """FLOP of attention over all scores: 2 (d + d_v) each forward; backward 2 (3 d + 2 d_v), without recomputation 2 (2 d + 2 d_v)."""
    f = mapped.fields
    d = int(f["head_dim"])
    v = int(f.get("v_head_dim", d))
    scores = int(f["batch"]) * int(f["heads"]) * int(f["q_len"]) * int(f["kv_len"])
    if mapped.direction == "forward":
        return 2 * scores * (d + v)
    return 2 * scores * ((3 if fused else 2) * d + 2 * v)
