"""A model configuration as published: values with their places, read key by key, and nothing passed over in silence.

Whoever reads a key takes it. What nobody took is either harmless (ignored, and listed for who asks), or its name speaks of the
architecture, and then the model is refused: a number that may be wrong is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from roofline.errors import InputError, Problem, did_you_mean

MOST = 2**40
"""Largest whole number taken for a dimension."""


@dataclass(frozen=True, slots=True)
class Value:
    """A JSON value: None, a bool, a number, text, a list of values or a map of names to values; ``problem`` points to its place."""

    data: Any
    problem: Callable[[str], Problem]
    key_problem: Callable[[str], Problem]

    def plain(self) -> Any:
        """The value without places."""
        if isinstance(self.data, list):
            return [v.plain() for v in self.data]
        return {k: v.plain() for k, v in self.data.items()} if isinstance(self.data, dict) else self.data


HARMLESS = frozenset(
    """
    _attn_implementation _attn_implementation_autoset _commit_hash _experts_implementation _name_or_path activation_dropout
    alibi_bias_max architectures attention_dropout attention_probs_dropout_prob attention_value_scale attn_impl attn_implementation
    attn_logit_softcapping attn_pdrop attn_type attn_uses_sequence_id auto_map aux_loss_alpha bad_words_ids begin_suppress_tokens
    boi_token_index bos_token_id cache_implementation chunk_size_feed_forward classifier_dropout clip_qkv
    decoder_start_token_id do_sample dropout dtype early_stopping emb_pdrop embd_pdrop embed_dropout embedding_dropout
    embedding_fraction embedding_multiplier eoi_token_index eos_token_id ep_size exponential_decay_length_penalty ffn_act_fn
    final_logit_softcapping finetuning_task fmt for_llm_compressor forced_bos_token_id forced_eos_token_id gradient_checkpointing
    hidden_act hidden_activation hidden_dropout hidden_dropout_prob hidden_function id2label ignore_index image_token_id
    image_token_index indexer_rope_interleave init_config init_device init_std initial_context_length initializer_factor
    initializer_range  keys_to_ignore_at_inference label2id language layer_norm_eps layer_norm_epsilon
    layerdrop layernorm_epsilon length_penalty logit_scale logit_scale_init_value logits_scaling loss_free_balance mamba_hidden_act
    mamba_ssm_cache_dtype mamba_ssm_dtype max_batch_size max_length max_position_embeddings max_seq_len max_window_layers
    media_placeholder_token_id min_length mlp_hidden_act mm_tokens_per_image n_ctx n_group name no_repeat_ngram_size no_rope_layers
    norm_eps norm_topk_prob num_beam_groups num_beams num_logits_to_keep num_return_sequences original_max_position_embeddings
    output_attentions output_hidden_states output_past output_router_logits output_scores pad_token_id partial_rotary_factor
    position_embedding_type prefix prefix_lm pretraining_tp problem_type pruned_heads qk_head_dim qk_rope_scaling
    query_pre_attn_scalar remove_invalid_values reorder_and_upcast_attn repetition_penalty rescale_prenorm_residual resid_pdrop
    residual_in_fp32 return_dict return_dict_in_generate rms_norm_eps rope_interleave rope_local_base_freq rope_parameters rope_pct
    rope_ratio rope_scaling rope_theta rope_type rotary_dim rotary_emb_base rotary_pct rotary_percentage routed_scaling_factor
    router_aux_loss_coef router_jitter_noise scale_attn_by_inverse_layer_idx scale_attn_weights scoring_func
    selective_checkpoint_enabled sep_token_id seq_aux seq_length sequence_parallel_enabled softmax_scale sparse_attention_backend
    summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj suppress_tokens swa_rope_theta
    swiglu_limit task_specific_params temperature text_config_dict tf_legacy_loss time_step_floor time_step_limit time_step_max
    time_step_min tokenizer_class tokenizer_name top_k top_p topk_group topk_method torch_dtype torchscript transformers_version
    typical_p unsloth_fixed use_bfloat16 use_cache use_mamba_kernels use_unified_vision_chunk verbose video_placeholder video_token_id
    vision_config_dict vision_end_token_id vision_start_token_id vision_token_id
    """.split()  # noqa: SIM905
)
"""Keys known to change no weight, no product and no cache: tokens, training, sampling, positions, names, scales."""

_ARCHITECTURE = re.compile(
    r"(^|_)(n|num|layers?|heads?|experts?|hidden|dims?|rank|sizes?|width|depth|attn|attention|mlp|ffn|moe|conv|mamba|ssm|state|lora|index|indexer|"
    r"compress|ratios?|window|blocks?|norm|bias|tie|tied|embed|embeddings?|vocab|mtp|nextn|vision|audio|encoder|decoder|pattern|interval|"
    r"freq|step|sparse|linear|hash|hc|groups?|kernel|gate|gated|router|shared|cross|recurrent|expand|mult|parallel|query|kv|qk|swa|chunk|"
    r"quant|quantization|config)(_|$|\d)"
)


@dataclass(slots=True)
class Config:
    """One map of a configuration. ``taken`` are the keys somebody read, ``left`` those that nobody did; problems wait for `finish`.

    ``unread`` are keys that should have been numbers and were not: what follows from the number taken in their place is not said."""

    entries: dict[str, Value]
    problem: Callable[[str], Problem]
    path: str = ""
    problems: list[Problem] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)

    def find(self, *names: str) -> Value | None:
        """The first of these keys whose value is not null; all of them count as read."""
        self.taken.update(names)
        return next((self.entries[n] for n in names if n in self.entries and self.entries[n].data is not None), None)

    def name_of(self, *names: str) -> str:
        """The first of these keys that is there."""
        return next((n for n in names if n in self.entries), names[0])

    def fail(self, where: Value | None, message: str, of: Sequence[str] = ()) -> None:
        """Note a problem at a value, or of the map as a whole; one that is said of numbers, only where these keys were read."""
        if self.unread.isdisjoint(of):
            self.problems.append((where.problem if where else self.problem)(message))

    def integer(self, *names: str, default: int | None = None, minimum: int = 1) -> int:
        """A whole number under the first of these names; ``default`` where none is there, and an error without one."""
        found = self.find(*names)
        if found is None:
            if default is None:
                self.fail(None, f"the configuration lacks '{names[0]}'" + (f" (or {' or '.join(names[1:])})" if names[1:] else ""))
                self.unread.update(names)
                return max(minimum, 1)
            return default
        value = found.data
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= MOST:
            self.fail(found, f"'{self.name_of(*names)}' must be a whole number from {minimum} to 2**40")
            self.unread.update(names)
            return max(minimum, 1)
        return value

    def number(self, name: str, default: float) -> float:
        """A number, at least 0."""
        found = self.find(name)
        if found is None:
            return default
        if isinstance(found.data, bool) or not isinstance(found.data, (int, float)) or not 0 <= found.data <= 1e6:
            self.fail(found, f"'{name}' must be a number from 0 to 1000000")
            return default
        return float(found.data)

    def flag(self, *names: str, default: bool = False) -> bool:
        """True or false."""
        found = self.find(*names)
        if found is None:
            return default
        if not isinstance(found.data, bool):
            self.fail(found, f"'{self.name_of(*names)}' must be true or false")
            return default
        return found.data

    def word(self, *names: str, default: str = "", options: Sequence[str] = ()) -> str:
        """A text, one of ``options`` where given."""
        found = self.find(*names)
        if found is None:
            return default
        if not isinstance(found.data, str):
            self.fail(found, f"'{self.name_of(*names)}' must be text")
            return default
        if options and found.data not in options:
            self.fail(found, f"'{found.data}' is not understood; {did_you_mean(found.data, options)}")
            return default
        return found.data

    def items(self, name: str, length: int | None = None, of: Sequence[str] = ()) -> list[Value] | None:
        """A list, of that length where one is wanted, which follows from the keys ``of``; None where it is not there."""
        found = self.find(name)
        if found is None:
            return None
        if not isinstance(found.data, list):
            self.fail(found, f"'{name}' must be a list")
            return None
        if length is not None and len(found.data) != length:
            self.fail(found, f"'{name}' must be a list with one entry for each of {length} layers", of)
            return None
        return found.data

    def section(self, name: str) -> Config | None:
        """A map within this one; its problems are this one's."""
        found = self.find(name)
        if found is None:
            return None
        if not isinstance(found.data, dict):
            self.fail(found, f"'{name}' must be a map")
            return None
        return self.within(found, name)

    def within(self, value: Value, name: str) -> Config:
        """A map that is the value of a key or an item of a list."""
        return Config(value.data, value.problem, f"{self.path}{name}.", self.problems, notes=self.notes, left=self.left)

    def refuse(self, name: str, why: str, unless: Sequence[Any] = (None, False, 0, "")) -> None:
        """Refuse a key by name, unless its value says that the thing is absent."""
        found = self.entries.get(name)
        self.taken.add(name)
        if found is not None and found.plain() not in (*unless, [], {}):
            self.problems.append(found.key_problem(f"'{self.path}{name}' changes the architecture and is not supported: {why}"))

    def close(self) -> None:
        """Go through the keys nobody took: they are ``left``, and those that speak of the architecture are problems too."""
        for name, value in self.entries.items():
            if name in self.taken:
                continue
            self.left.append(self.path + name)
            says_nothing = value.data is None or value.data is False or value.data in ("", 0) or value.plain() in ([], {})
            if name not in HARMLESS and not says_nothing and _ARCHITECTURE.search(name):
                self.problems.append(value.key_problem(f"'{self.path}{name}' may change the architecture and is not understood"))

    def finish(self) -> None:
        """Raise what was found.

        Raises:
            InputError: all problems, each at its place.
        """
        if self.problems:
            raise InputError(self.problems)
