"""What a phase computes: its params, and the queries and keys that attention meets in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from roofline.errors import UsageError
from roofline.models.description import Experts, Model
from roofline.models.expansion import Expansion, Fields, Language, Lora, plan_names
from roofline.models.quantised import Quantisation
from roofline.models.tower_params import NO_EYES, beside, encode_params, tower_params, with_images, with_source
from roofline.models.training import TARGETS
from roofline.numeric import Number, anywhere
from roofline.plan.job import OPTIMIZER, Job
from roofline.plan.pipeline import chunk
from roofline.plan.plan import Plan

LONGEST = 4096
"""Keys and tokens of a workload until somebody says otherwise."""
CHUNK = 512
NO_EXPERTS = "'{}' has no experts that tokens could travel to; leave it out"


def asked_of(model: Model, how: Quantisation | None, job: Job, plan: Plan, attention: str = "flash") -> Expansion:
    """The expansion that computes a job under a plan: every choice of the job, in one place, so that none is lost on the way.

    Raises:
        UsageError: a phase, or a choice of the job, that this model does not have.
    """
    adapted = Lora(rank=job.lora_rank, targets=job.lora_targets or TARGETS) if job.trainable == "lora" else None
    found = Expansion(
        model=model,
        phase=job.phase,
        how=how,
        kv_dtype=job.kv_dtype,
        plan=plan,
        attention=attention,
        cached=job.phase == "prefill" and anywhere(job.cached > 0),
        draft=job.draft,
        mtp=job.mtp,
        page=job.page,
        lora=adapted,
        images=anywhere(job.images > 0),
        gradient_dtype=job.gradient_dtype,
        dispatch_dtype=job.dispatch_dtype,
        optimizer=job.optimizer,
    )
    refuse(found)
    return found


def params_of(expansion: Expansion) -> dict[str, int | str]:
    """The params of the workload, which the command line may change: batch, seq, context and their kin."""
    model, length = expansion.model, min(expansion.model.context or LONGEST, LONGEST)
    shared = " / cp" if expansion.parallel else ""
    tower = beside(model, expansion.phase, expansion.images)
    if expansion.phase == "encode" and tower is not None:
        return encode_params(model, tower, parallel=expansion.parallel)
    if tower is not None:
        text = params_of(replace(expansion, model=replace(model, towers=(), model_type=""), images=False))
        if tower.counted:
            return with_source(text, tower)
        if model.model_type == "clip":
            return {**text, **tower_params(tower, "batch")}
        return with_images(text, tower, parallel=expansion.parallel)
    if model.image[0]:
        return {"batch": 1, "seq": model.positions, "tokens": f"batch * seq{shared}"}
    if expansion.phase == "mixed":
        return {"chunk": min(CHUNK, length), "cached": 0, "decode_batch": 1, "context": length, "tokens": "chunk + decode_batch"}
    if expansion.decoding:
        guessed: dict[str, int | str] = {"draft": expansion.draft} if expansion.draft else {}
        return {"batch": 1, "context": length, **guessed, "tokens": "batch * (draft + 1)" if guessed else "batch"}
    if expansion.cached:
        return {"batch": 1, "seq": length, "cached": length // 2, "tokens": f"batch * (seq - cached){shared}"}
    return {"batch": 1, "seq": length, "tokens": f"batch * seq{shared}"}


def names_of(
    params: Mapping[str, int | str], model: Model, job: Job, plan: Plan, sequences: Number, language: Language
) -> dict[str, Number]:
    """What the expressions of steps use of ``sequences`` a microbatch under a plan: its degrees, sizes of the job, and what ``params`` make
    of them."""
    found = plan_names(plan, model)
    given = {"batch": sequences, "decode_batch": sequences, "seq": job.seq, "cached": job.cached, "context": job.context}
    given |= {"chunk": chunk(plan, job), "source": job.source}
    given |= {"images": job.images, "image_height": job.image_height, "image_width": job.image_width}
    for name, said in params.items():
        found[name] = given[name] if name in given else language.value(said, found)
    return found


def refuse(expansion: Expansion) -> None:
    """Refuse what this phase of this model does not have.

    Raises:
        UsageError: with the phase to use instead.
    """
    model, phase = expansion.model, expansion.phase
    if model.kind == "encoder" and phase in ("decode", "mixed"):
        raise UsageError(f"'{model.model_type}' is an encoder and decodes nothing; use --phase prefill or train")
    _refuse_towers(expansion)
    require_experts(model, expansion.dispatch_dtype)
    _require(not expansion.cached or phase == "prefill", "a cached prefix is of a prefill; a mixed step has the param 'cached'")
    _require(not expansion.draft or phase == "decode", "draft tokens are of a decoding step; use --phase decode")
    _require(not expansion.mtp or expansion.draft > 0, "mtp says who guesses the draft tokens; add how many, such as --draft 1")
    _require(not expansion.mtp or bool(model.mtp), f"'{model.name}' has no modules that guess further tokens (MTP)")
    _require(expansion.lora is None or phase == "train", "trainable: lora is of a training step; use --phase train")
    keeps = model.kind != "encoder"
    _require(expansion.kv_dtype is None or keeps, f"kv_dtype is of a cache, and '{model.model_type}' is an encoder, which keeps none")
    _require(expansion.kv_dtype is None or phase not in ("train", "encode"), "kv_dtype is of a cache, which this phase lacks")
    _require(expansion.gradient_dtype is None or phase == "train", "gradient_dtype is of a training step; use --phase train")
    _require(expansion.optimizer == OPTIMIZER or phase == "train", "an optimizer is of a training step; use --phase train")
    _require(
        not expansion.page or expansion.decoding or expansion.cached or phase == "mixed", "pages are of a cache, which this phase lacks"
    )
    recurrent = any(type(layer.mixer).__name__ in ("DeltaNet", "Mamba2") for layer in model.layers)
    again = expansion.cached or expansion.draft > 0 or phase == "mixed"
    _require(not (recurrent and again), f"recurrent layers of '{model.model_type}' keep a state, not keys; use a plain prefill or decode")
    sparse = any(getattr(layer.mixer, "indexer", None) is not None for layer in model.layers)
    _require(not (sparse and again), f"the indexer of '{model.model_type}' is known for a plain prefill and decode only")


def require_experts(model: Model, dispatch_dtype: str | None, where: str = "dispatch_dtype") -> None:
    """Refuse a format of what travels to experts where there are none; ``where`` says so.

    Raises:
        UsageError: with the model.
    """
    travels = dispatch_dtype is None or any(isinstance(layer.feed, Experts) for layer in model.layers)
    _require(travels, f"{where}: {NO_EXPERTS.format(model.name)}")


def _refuse_towers(expansion: Expansion) -> None:
    """What an encoder, or eyes, beside the text does not go with."""
    model, phase = expansion.model, expansion.phase
    encoder, pairs = model.encoder is not None, model.model_type == "clip"
    spread = "which plans and the memory of a rank do not describe; import it for one device"
    _require(not (expansion.parallel and pairs), f"'{model.model_type}' has two towers, {spread}")
    trained = expansion.parallel and encoder and phase == "train"
    _require(not trained, f"'{model.model_type}' has an encoder, the exchange of whose gradients, {spread}")
    _require(phase != "encode" or bool(model.towers), f"'{model.model_type}' has no encoder beside its layers; use --phase prefill")
    _require(
        not (pairs and phase == "train"), "clip is trained by a loss over the pairs of all devices, which is not described; use prefill"
    )
    again = phase == "mixed" or expansion.cached
    _require(not (encoder and again), f"'{model.model_type}' has a source a sequence: use prefill or decode")
    _require(not (encoder and expansion.lora is not None), f"adapters of the encoder-decoder '{model.model_type}' are not described")
    if not expansion.images:
        return
    _require(model.eyes is not None, NO_EYES.format(model.model_type))
    frozen = "the images of a training step are not described: whether their tower is trained or frozen is nobody's default"
    _require(phase != "train", frozen)
    _require(phase in ("prefill", "encode") or pairs, "images are of a prefill; while decoding they are part of the context")
    _require(not expansion.cached, "images behind a cached prefix are not described: leave out 'cached'")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise UsageError(message)


# --------------------------------------------------------------------------- what attention meets
@dataclass(frozen=True, slots=True)
class Call:
    """One launch of attention: what its name ends in, its lengths, and the tokens whose queries it takes."""

    ending: str
    lengths: Fields
    rows: str
    cached: bool = False
    repeat: str = ""
    split: str = "tp"


def calls(expansion: Expansion, *, causal: bool = True, window: int = 0, chunked: bool = False) -> Iterator[Call]:
    """The launches of attention of a layer in this phase.

    Under context parallelism a rank holds two pieces of each sequence, one from each end, so that the causal work is the same on all (Llama
    3): by a ring it meets its own tokens, then half of those of each other rank; with keys gathered it meets (cp + 1) / 2 cp of them
    in the mean.
    """
    seen = {"window": window} if window else {}
    masked = {"causal": True} if causal else {}
    if expansion.phase == "mixed":
        yield Call("_prefill", {"batch": 1, "q_len": "chunk", "kv_len": "chunk + cached", **seen, **masked}, "chunk", cached=True)
        yield Call("_decode", {"batch": "decode_batch", "q_len": 1, "kv_len": _kept("context", window)}, "decode_batch", cached=True)
    elif expansion.decoding:
        kept = _kept("context", window)
        keys = f"ceil_div({kept}, cp)" if expansion.parallel else kept
        queries: Fields = {"q_len": "draft + 1"} if expansion.draft else {"q_len": 1}
        yield Call("", {"batch": "batch", **queries, "kv_len": keys, **(masked if expansion.draft else {})}, "tokens", cached=True)
    elif expansion.cached:
        yield Call("", {"batch": "batch", "q_len": "seq - cached", "kv_len": "seq", **seen, **masked}, "tokens", cached=True)
    elif window and chunked:
        pieces, length = f"batch * ceil_div(seq, {window})", f"min(seq, {window})"
        batch = f"ceil_div({pieces}, cp)" if expansion.parallel else pieces
        yield Call("", {"batch": batch, "q_len": length, "kv_len": length, **masked}, "tokens")
    else:
        yield from _whole(expansion, seen, masked)


def _whole(expansion: Expansion, seen: Fields, masked: Fields) -> Iterator[Call]:
    """Queries of whole sequences, or of the share of a rank."""
    plan = expansion.plan
    if plan is None:
        yield Call("", {"batch": "batch", "q_len": "seq", "kv_len": "seq", **seen, **masked}, "tokens")
    elif plan.context_kind == "ulysses":
        yield Call("", {"batch": "batch", "q_len": "seq", "kv_len": "seq", **seen, **masked}, "tokens", split="(tp * cp)")
    elif plan.context_kind == "ring" and not seen:
        half = "seq / (2 * cp)" if masked else "seq / cp"
        yield Call("", {"batch": "batch", "q_len": "seq / cp", "kv_len": "seq / cp", **masked}, "tokens")
        yield Call("_ring", {"batch": "batch", "q_len": "seq / cp", "kv_len": half}, "tokens", repeat="cp - 1")
    else:
        keys = "seq * (cp + 1) / (2 * cp)" if masked else "seq"
        yield Call("", {"batch": "batch", "q_len": "seq / cp", "kv_len": keys, **seen, **masked}, "tokens")


def _kept(keys: str, window: int) -> str:
    return f"min({keys}, {window})" if window else keys


def positions(expansion: Expansion) -> str:
    """Different positions among the tokens, each with a row of angles."""
    if expansion.phase == "mixed" or expansion.draft:
        return "tokens"
    if expansion.decoding:
        return "batch"
    length = "(seq - cached)" if expansion.cached else "seq"
    return f"{length} / cp" if expansion.parallel else length.strip("()")


def sequences(expansion: Expansion) -> str:
    """Sequences whose next token is wanted."""
    return "decode_batch + 1" if expansion.phase == "mixed" else "batch"
