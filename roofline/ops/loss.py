"""Cross entropy of logits [tokens, vocab] with one target class for each token: loss = log sum exp(z) - z[target].

Fused: one online sweep over the logits, nothing else of their size. Unfused: a cast, a log-softmax whose result is kept, and
a gather, each a kernel of its own over tensors of 4 bytes a logit. The logarithm and gather of a token are left out of the
arithmetic. Sources: Milakov and Gimelshein, arXiv 1805.02867 (online sums); Hsu et al., arXiv 2410.10989 (fused loss).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.numeric import Number, total
from roofline.ops.base import EAGER_CHAINS, Counts, Kernel, Op, Pass, TensorSpec, dim, flag, number_format, operator
from roofline.ops.launched import Launched, fuses
from roofline.ops.rows import STATISTIC, RowSweeps
from roofline.ops.softmax import READS_OFF_CHIP, VECTOR_FLOP

TARGET = "int64"
"""Format of class numbers in the usual frameworks."""


@operator(
    "cross_entropy",
    family="loss",
    title="cross entropy of logits and target classes",
    formula="4 FLOP and 1 exp a logit, 5 when fused; bytes e tokens vocab fused, (e + 12) tokens vocab by way of fp32",
    source="definition; arXiv 1805.02867",
)
@dataclass(frozen=True, kw_only=True)
class CrossEntropy(RowSweeps):
    """loss[token] = log sum exp(logits[token]) - logits[token, target]."""

    tokens: Number = dim("rows of logits, each with one target")
    vocab: Number = dim("classes")
    dtype: str = number_format("format of the logits and of their gradient")
    fused: bool = flag("one online sweep that keeps only the log-sum of each token")
    scratch_dtype: str = number_format("format of unfused log-probabilities, to which logits are cast", default="fp32")
    mean: bool = flag("the mean of all losses instead of each; eager torch forms it in a single block")

    @property
    def casts(self) -> bool:
        """Whether the logits are first copied into another format."""
        return not self.fused and self.scratch_dtype != self.dtype

    def _logits(self, name: str, dtype: str, role: str) -> TensorSpec:
        return TensorSpec(name, (self.tokens, self.vocab), dtype, role)

    def _per_token(self, name: str, dtype: str, role: str) -> TensorSpec:
        return TensorSpec(name, (self.tokens,), dtype, role)

    def tensors(self) -> tuple[TensorSpec, ...]:
        """logits, targets, loss."""
        return (
            self._logits("logits", self.dtype, "in"),
            self._per_token("targets", TARGET, "in"),
            self._loss("loss", "out"),
        )

    def counts(self) -> Counts:
        """Those of an online softmax when fused, else of a safe one."""
        logits = self.tokens * self.vocab
        return Counts(vector=VECTOR_FLOP["online" if self.fused else "safe"] * logits, sfu=logits)

    def passes(self) -> tuple[Pass, ...]:
        """One when fused; else (cast,) log-softmax and the gather of one value a token."""
        logits, targets, loss = self.tensors()
        if self.fused:
            return (Pass(self.name, (logits, targets), (loss,), self.counts()),)
        converted = self._logits("converted", self.scratch_dtype, "scratch") if self.casts else logits
        cast = (Pass("cast", (logits,), (converted,)),) if self.casts else ()
        probabilities = self._logits("log_probabilities", self.scratch_dtype, "scratch")
        gathered = TensorSpec(probabilities.name, probabilities.shape, self.scratch_dtype, "scratch", touched=self.tokens)
        return (
            *cast,
            Pass("log_softmax", (converted,), (probabilities,), self.counts()),
            Pass("nll", (gathered, targets), (loss,)),
        )

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One kernel where it is fused, by choice or by a compiler; else (cast,) log-softmax and the pick of one value a token."""
        if self.fused or fuses(execution):
            logits, targets, loss = self.tensors()
            return (Pass(self.name, (logits, targets), (loss,), self.counts()).stream("cross_entropy", self.dtype),)
        kinds = {"cast": "elementwise", "nll": "nll_mean" if self.mean else "nll"}
        kernels = []
        for p in self.passes():
            one = p.stream(kinds.get(p.name, p.name), self.scratch_dtype)
            fresh = total(t.moved_bytes for t in p.reads if t.role == "scratch")
            kernels.append(replace(one, rows=self.tokens, cols=1) if p.name == "nll" else replace(one, fresh_bytes=fresh))
        return tuple(kernels)

    def row_count(self) -> Number:
        """Tokens."""
        return self.tokens

    def row_bytes(self) -> Number:
        """One token's logits, as the log-softmax reads them."""
        return TensorSpec("row", (self.vocab,), self.scratch_dtype, "in").bytes

    def reread_bytes(self) -> Number:
        """The safe log-softmax sweeps its input again; the online sweep is the only one."""
        sweeps = 0 if self.fused else READS_OFF_CHIP["safe"] - 1
        return self._logits("converted", self.scratch_dtype, "scratch").bytes * sweeps

    def saved(self) -> tuple[TensorSpec, ...]:
        """Targets, and the logits with their log-sums (fused) or the log-probabilities."""
        targets = self.tensors()[1]
        if self.fused:
            return self.tensors()[0], self._per_token("log_sum", STATISTIC, "in"), targets
        return self._logits("log_probabilities", self.scratch_dtype, "in"), targets

    def backward(self) -> tuple[Op, ...]:
        """dlogits = (exp(z - log sum) - onehot) dloss: one kernel when fused, else the chain in reverse."""
        dlogits = self._logits("dlogits", self.dtype, "out")
        if self.fused:
            return (self._kernel("cross_entropy", (*self.saved(), self._loss("dloss", "in")), dlogits, Counts(vector=3, sfu=1)),)
        probabilities, targets = self.saved()
        spread = self._logits("dlog_probabilities", self.scratch_dtype, "out")
        converted = self._logits("dconverted", self.scratch_dtype, "out") if self.casts else dlogits
        chain = (
            self._kernel("nll", (targets, self._loss("dloss", "in")), spread, Counts()),
            self._kernel("log_softmax", (probabilities, spread), converted, Counts(vector=3, sfu=1)),
        )
        return (*chain, self._kernel("cast", (converted,), dlogits, Counts())) if self.casts else chain

    def _loss(self, name: str, role: str) -> TensorSpec:
        return TensorSpec(name, (1,), STATISTIC, role) if self.mean else self._per_token(name, STATISTIC, role)

    def _kernel(self, label: str, reads: tuple[TensorSpec, ...], write: TensorSpec, per_logit: Counts) -> Kernel:
        logits = self.tokens * self.vocab
        arithmetic = Counts(vector=per_logit.vector * logits, sfu=per_logit.sfu * logits)
        return Kernel(label=f"{label}_backward", dtype=self.dtype, reads=reads, writes=(write,), arithmetic=arithmetic)


def _nll_chain(kernel: Kernel) -> tuple[Pass, ...]:
    """Zeros everywhere, then one value a token."""
    targets, dloss = kernel.reads
    spread = kernel.writes[0]
    picked = TensorSpec(spread.name, spread.shape, spread.dtype, spread.role, touched=targets.elements)
    return Pass("fill", (), (spread,)), Pass("nll_backward", (targets, dloss), (picked,))


EAGER_CHAINS["nll_backward"] = _nll_chain
EAGER_CHAINS["cast_backward"] = lambda kernel: (Pass("elementwise", kernel.reads, kernel.writes),)
