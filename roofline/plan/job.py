"""A job: what a model is asked to do, apart from how the work is spread. Sizes may be float64 arrays when many jobs are looked at."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.numeric import Number

PHASES = ("prefill", "decode", "train", "mixed", "encode")
TRAINABLE = ("full", "lora")
SIZES = {"train": ("batch", "seq"), "prefill": ("batch", "seq"), "decode": ("batch", "context"), "mixed": ("batch", "context", "chunk")}
"""What a step of each phase needs: sequences on all devices together, their tokens, the keys that they see, prompt tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one step computes.

    ``batch`` are the sequences of one step on all devices together, ``seq`` their tokens (of the prompt in prefill), ``context`` the
    keys that a decoding step sees, ``generated`` the tokens that each sequence will get in all. ``chunk`` are the prompt tokens of a
    ``mixed`` step. ``trainable`` is ``full`` or ``lora`` (then with ``lora_rank``). Formats are names of dtypes, None for the
    model's own; gradients have ``gradient_dtype``, that of the weights where None; ``optimizer`` names one of
    `roofline.models.memory_states`.
    """

    phase: str
    batch: Number = 1
    seq: Number = 1
    context: Number = 0
    generated: Number = 1
    chunk: Number = 0
    weight_dtype: str | None = None
    kv_dtype: str | None = None
    gradient_dtype: str | None = None
    optimizer: str = "adamw"
    trainable: str = "full"
    lora_rank: int = 0

    @property
    def tokens(self) -> Number:
        """Tokens that one step computes on all devices: one a sequence in decode."""
        if self.phase == "decode":
            return self.batch
        if self.phase == "mixed":
            return self.chunk + self.batch
        return self.batch * self.seq
