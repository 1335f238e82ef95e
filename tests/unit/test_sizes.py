"""Jobs in words: one meaning of the batch under each of its names, prefixes, and problems at their column, all at once."""

from __future__ import annotations

import pytest

from roofline.errors import InputError, UsageError
from roofline.spec.sizes import read_job, read_sizes


@pytest.mark.parametrize("name", ["batch", "global_batch"])
@pytest.mark.parametrize("phase", ["train", "prefill", "decode", "mixed"])
def test_the_sequences_of_all_devices_have_two_names(phase: str, name: str) -> None:
    assert read_sizes([f"{name}=64"], phase) == {"batch": 64}


def test_a_mixed_step_has_the_names_of_its_params_too() -> None:
    assert read_sizes(["decode_batch=64", "global_chunk=512"], "mixed") == {"batch": 64, "chunk": 512}
    with pytest.raises(InputError, match="'decode_batch' is no size of a decode step"):
        read_sizes(["decode_batch=64"], "decode")


def test_both_names_at_once_are_one_too_many() -> None:
    said = "--set:1:1: 'global_batch' and 'batch' are one size, the sequences of a step on all devices together"
    with pytest.raises(InputError, match=said):
        read_sizes(["global_batch=64", "batch=64"], "decode")
    assert read_sizes(["batch=64", "batch=8"], "decode") == {"batch": 8}


def test_a_prefix_leaves_a_token_to_compute() -> None:
    assert read_sizes(["seq=8", "cached=7"], "prefill") == {"seq": 8, "cached": 7}
    assert read_sizes(["cached=0", "seq=8"], "prefill") == {"seq": 8, "cached": 0}
    assert read_sizes(["chunk=8", "cached=9"], "mixed") == {"chunk": 8, "cached": 9}
    with pytest.raises(InputError, match=r"--set:1:8: cached: 8 leaves no token of a prompt of 8 to compute; it is at most 7"):
        read_sizes(["cached=8", "seq=8"], "prefill")
    for phase in ("train", "decode"):
        with pytest.raises(InputError, match="'cached' is no size"):
            read_sizes(["cached=8"], phase)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InputError) as found:
        read_sizes(["bach=3", "seq=0", "batch", "cached=-1"], "prefill")
    assert sorted(p.column for p in found.value.problems) == [1, 1, 5, 8]


def test_a_job_has_what_its_phase_needs_and_what_is_usual() -> None:
    job = read_job("decode", ["batch=4"], usual={"batch": 1, "context": 4096}, kv_dtype="fp8")
    assert (job.batch, job.context, job.kv_dtype, job.tokens) == (4, 4096, "fp8", 4)
    assert read_job("prefill", ["batch=4", "seq=128", "cached=96"]).tokens == 4 * 32
    with pytest.raises(UsageError, match=r"a mixed step needs context, chunk: add --set context=... --set chunk=..."):
        read_job("mixed", ["batch=4"])
    for words, said in (({"kv_dtype": "fp9"}, "fp8"), ({"optimizer": "adam"}, "did you mean 'adamw'")):
        with pytest.raises(UsageError, match=said):
            read_job("train", ["batch=4", "seq=8"], **words)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="which phase"):
        read_job("", [])
