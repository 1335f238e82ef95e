"""The decoder of `decoder.py` as a pipeline: each rank holds a stage, the batch passes in microbatches. `sharded_decoder.py` runs it.

Ranks hold as many layers each, the first also the embedding and the last the norm and the vocabulary product. Hidden states go to the
next rank, in decode one token of each sequence goes back from the last rank to the first, which cannot go on with that microbatch before
it is there; which token is chosen is left out, as everywhere in these runs. A rank goes on while what it sent is on its way, and asks for
what it needs when it needs it, as serving engines do: a receive that is posted early would hold processors until its data come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from decoder import Decoder
from torch import Tensor
from whole_models import Dims

ROUNDS = 64
"""Tokens of each sequence that are decoded back to back and divided by: the pipeline fills once in them, at most 1 in 2 * 64 turns."""


class Hops:
    """What goes from rank to rank. A group for each way, so that neither waits in the other's queue; ``off`` leaves all of it out."""

    def __init__(self) -> None:
        self.rank, self.size, self.off = dist.get_rank(), dist.get_world_size(), False
        self.ways: dict[str, Any] = {way: dist.new_group() for way in ("on", "back")}
        self.sent: list[Any] = []

    def send(self, x: Tensor, to: int, way: str = "on") -> None:
        """Without waiting until it is there; `wait` does."""
        if not self.off:
            self.sent.append(dist.isend(x, to, group=self.ways[way]))

    def receive(self, into: Tensor, source: int, way: str = "on") -> None:
        """What follows on the device waits for it."""
        if not self.off:
            dist.recv(into, source, group=self.ways[way])

    def wait(self) -> None:
        """For all that was sent."""
        for work in self.sent:
            work.wait()
        self.sent.clear()


class Stage:
    """The part of one rank: its layers, the embedding on the first, norm and vocabulary product of the last position on the last."""

    def __init__(self, d: Dims, hops: Hops, device: str) -> None:
        if d.layers % hops.size:
            raise SystemExit(f"{d.layers} layers do not divide into {hops.size} stages")
        self.d, self.hops, self.device = d, hops, device
        self.model = Decoder(replace(d, layers=d.layers // hops.size), device=device)
        self.first, self.last = hops.rank == 0, hops.rank == hops.size - 1

    def __call__(self, given: Tensor, cos: Tensor, sin: Tensor, caches: Any = None) -> Tensor:
        """Tokens on the first rank, else hidden states; logits from the last, else hidden states."""
        model = self.model
        x = model.embedding(given) if self.first else given
        for i, layer in enumerate(model.layers):
            x = layer(x, cos, sin, None, None if caches is None else caches[i])
        return model.head(model.norm(x)[:, -1:]) if self.last else x

    def given(self, batch: int, length: int) -> Tensor:
        """A place for what the stage takes, with something in it."""
        if self.first:
            return torch.randint(0, self.d.vocab, (batch, length), device=self.device)
        return torch.randn((batch, length, self.d.hidden), dtype=torch.bfloat16, device=self.device)


def prefill(stage: Stage, batch: int, seq: int, count: int) -> Callable[[], None]:
    """A prefill of ``batch`` prompts in ``count`` microbatches, from the first one's start to what this rank has to do for the last."""
    cos, sin = stage.model.tables(0, seq)
    parts = [stage.given(batch // count, seq) for _ in range(count)]
    hops = stage.hops

    def run() -> None:
        for part in parts:
            if not stage.first:
                hops.receive(part, hops.rank - 1)
            made = stage(part, cos, sin)
            if not stage.last:
                hops.send(made, hops.rank + 1)
        hops.wait()

    return run


class Turn:
    """One microbatch of a decoding step on one rank: where its input lies, its cache, and what it makes."""

    def __init__(self, stage: Stage, batch: int, context: int) -> None:
        self.stage, self.given = stage, stage.given(batch, 1)
        self.chosen = torch.randint(0, stage.d.vocab, (batch, 1), device=stage.device)
        self.cos, self.sin = stage.model.tables(context - 1, 1)
        self.caches = stage.model.caches(batch, context)
        self.made = self.given

    def compute(self) -> None:
        """The stage's kernels alone, which a graph can hold: ``made`` lies where it lay then."""
        self.made = self.stage(self.given, self.cos, self.sin, self.caches)


def decode(
    stage: Stage, batch: int, context: int, count: int, rounds: int, captured: Callable[[Callable[[], None]], Callable[[], object]]
) -> Callable[[], None]:
    """``rounds`` tokens of ``batch`` sequences in ``count`` microbatches; ``captured`` makes a graph of a microbatch's kernels, or none."""
    turns = [Turn(stage, batch // count, context) for _ in range(count)]
    calls = [captured(turn.compute) for turn in turns]
    hops = stage.hops

    def one(turn: Turn, call: Callable[[], object], fresh: bool) -> None:
        if not stage.first:
            hops.receive(turn.given, hops.rank - 1)
        elif not fresh:
            hops.receive(turn.given, hops.size - 1, "back")
        call()
        if stage.last:
            hops.send(turn.chosen, 0, "back")
        else:
            hops.send(turn.made, hops.rank + 1)

    def run() -> None:
        for at in range(rounds):
            for turn, call in zip(turns, calls, strict=True):
                one(turn, call, fresh=at == 0)
        for turn in turns if stage.first else ():  # the last tokens
            hops.receive(turn.given, hops.size - 1, "back")
        hops.wait()

    return run
