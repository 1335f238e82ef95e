"""A job: what a model is asked to do, apart from how the work is spread. Sizes may be float64 arrays when many jobs are looked at."""

from __future__ import annotations

from roofline.numeric import Number
from roofline.records import dataclass

PHASES = ("prefill", "decode", "train", "mixed", "encode")
TRAINABLE = ("full", "lora")
OPTIMIZER = "adamw"
"""What a training step runs unless another is named (`roofline.models.memory_states`)."""
SIZES = {"train": ("batch", "seq"), "prefill": ("batch", "seq"), "decode": ("batch", "context"), "mixed": ("batch", "context", "chunk")}
"""What a step of each phase needs: sequences on all devices together, their tokens, the keys that they see, prompt tokens."""
OPTIONAL = {
    "prefill": ("cached", "images", "image_height", "image_width", "source"),
    "decode": ("source",),
    "mixed": ("cached",),
}
"""What a step of a phase may have beside that, and has none of unless it is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one step computes.

    ``batch`` are the sequences of one step on all devices together, ``seq`` their tokens (of the prompt in prefill), ``context`` the
    keys that a decoding step sees. ``chunk`` are the prompt tokens of a ``mixed`` step. ``cached`` are the tokens of each prompt, or in
    front of that chunk, whose keys and values exist: of a prefill's ``seq``, beside the ``chunk``. ``draft`` tokens are guessed and then
    verified for each sequence of a decoding step, with ``mtp`` by modules of the model's own. ``page`` are the tokens of a page of the
    cache, 0 for none. ``images`` are those in each sequence of a prefill, beside ``seq`` tokens of text: of ``image_height`` by
    ``image_width`` pixels where a model takes any, ``image_tokens`` rows of the sequence each. ``source`` are the tokens that an
    encoder has read for each sequence (`roofline.models.tower_params.with_towers` gives what is not said of either).

    ``trainable`` is ``full`` or ``lora`` (then with ``lora_rank``, and ``lora_targets`` or else the usual products). Formats are names of
    dtypes, None for the model's own; gradients have ``gradient_dtype``, that of the weights where None, and tokens travel to their
    experts in ``dispatch_dtype``; ``optimizer`` names one of `roofline.models.memory_states`.
    """

    phase: str
    batch: Number = 1
    seq: Number = 1
    context: Number = 0
    chunk: Number = 0
    cached: Number = 0
    draft: int = 0
    mtp: bool = False
    page: int = 0
    images: Number = 0
    image_height: Number = 0
    image_width: Number = 0
    image_tokens: Number = 0
    source: Number = 0
    weight_dtype: str | None = None
    kv_dtype: str | None = None
    gradient_dtype: str | None = None
    dispatch_dtype: str | None = None
    optimizer: str = OPTIMIZER
    trainable: str = "full"
    lora_rank: int = 0
    lora_targets: tuple[str, ...] = ()

    @property
    def length(self) -> Number:
        """Tokens of a sequence, the rows of its images among them."""
        return self.seq + self.images * self.image_tokens

    @property
    def prompt(self) -> Number:
        """Tokens of a sequence that the step computes where it fills sequences: those behind a cached prefix."""
        return self.length - self.cached if self.phase == "prefill" else self.seq

    @property
    def tokens(self) -> Number:
        """Tokens that one step computes on all devices: one a sequence in decode, and each that is guessed."""
        if self.phase == "decode":
            return self.batch * (1 + self.draft)
        if self.phase == "mixed":
            return self.chunk + self.batch
        return self.batch * self.prompt

    @property
    def sizes(self) -> dict[str, Number]:
        """Sizes by name: those that a step of the phase needs, and those that it may have beside them where it has them.

        >>> Job(phase="prefill", batch=4, seq=512, cached=128).sizes
        {'batch': 4, 'seq': 512, 'cached': 128}
        """
        found: dict[str, Number] = {name: getattr(self, name) for name in SIZES[self.phase]}
        return {**found, **{name: size for name in OPTIONAL.get(self.phase, ()) if (size := getattr(self, name))}}
