"""Our Triton kernels against float64: at tiny shapes in Triton's interpreter, on a GPU at shapes that fill tiles and leave rests.

The interpreter must be asked for before Triton is imported, so that each group of kernels runs in a process of its own there; this file
is also that process's program. The interpreter multiplies no bf16, which a GPU does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from roofline.errors import MeasurementInvalidError, UsageError
from roofline.measure.allocate import allocate
from roofline.measure.check import check
from roofline.measure.kernels import tuning
from roofline.measure.kernels.fft_conv_tiled import dft_matrix, twiddles
from roofline.measure.needs import missing
from roofline.measure.registry import KERNELS, prepare
from roofline.ops.registry import OPERATORS

ROOT = Path(__file__).resolve().parents[2]
with_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")

GEMM = {"dtype": "fp16", "m": 24, "n": 40, "k": 56}
LINES = {"dtype": "fp16", "m": 3, "n": 5, "k": 16}
HEADS = {"dtype": "fp16", "batch": 1, "heads": 2, "kv_heads": 1, "q_len": 40, "kv_len": 40, "head_dim": 32, "causal": True}
CONV = {"dtype": "fp16", "batch": 3, "channels": 2, "seq": 256, "real_packing": True}
LAYER = {"dtype": "fp16", "batch": 2, "seq": 128, "hidden": 16, "ffn": 32, "blocks": 2}
BOTH = ("forward", "backward")

TINY = {
    "gemm": [
        *[(f"gemm_{rung}", ("forward",), LINES) for rung in ("naive", "coalesced")],
        *[(f"gemm_{rung}", ("forward",), GEMM) for rung in ("shared", "tiled", "tensor", "pipelined", "persistent")],
        *[(f"gemm_{rung}", ("forward",), {**GEMM, "m": 140, "n": 264, "k": 128}) for rung in ("pipelined", "persistent")],
    ],
    "flash": [
        ("flash_triton", BOTH, HEADS),
        ("flash_triton", BOTH, {**HEADS, "q_len": 24, "kv_len": 150}),
        ("flash_triton", BOTH, {**HEADS, "causal": False, "kv_heads": 0, "kv_len": 70}),
        ("flash_triton", ("forward",), {**HEADS, "q_len": 1}),
    ],
    "rows": [
        ("softmax_triton", ("forward",), {"dtype": "bf16", "rows": 3, "cols": 70}),
        ("softmax_triton", ("forward",), {"dtype": "fp32", "rows": 2, "cols": 33000}),
        *[("rmsnorm_triton", ("forward",), {"dtype": "bf16", "rows": 3, "cols": 70, "residual": r}) for r in (True, False)],
        *[("rmsnorm_triton", ("forward",), {"dtype": "fp32", "rows": 2, "cols": 33000, "residual": r}) for r in (True, False)],
    ],
    "fft_conv": [
        ("fft_conv_triton", ("forward",), {**CONV, "seq": 512, "padding": "circular"}),
        ("fft_conv_triton", ("forward",), {**CONV, "gated": True}),
        ("fft_conv_triton", ("forward",), {**CONV, "seq": 500, "kernel_len": 100, "fft_len": 1024, "gated": True}),
        ("fft_conv_triton", ("forward",), {**CONV, "real_packing": False, "spectrum": True}),
        ("fft_conv_triton", ("forward",), {**CONV, "batch": 2, "seq": 8192, "padding": "circular", "channels": 1, "order": 3}),
        ("fft_conv_triton", ("forward",), {**CONV, "seq": 2048, "real_packing": False, "spectrum": True, "order": 3, "gated": True}),
    ],
    "monarch": [
        ("monarch_triton", ("forward",), {"dtype": "fp16", "rows": 3, "n": 256}),
        ("monarch_triton", ("forward",), {"dtype": "fp16", "rows": 64, "n": 512}),
        ("monarch_triton", ("forward",), {"dtype": "fp16", "rows": 3, "n": 4096, "order": 3}),
        ("monarch_triton", ("forward",), {"dtype": "fp16", "rows": 65, "n": 32768}),
        ("m2_triton", ("forward",), LAYER),
        ("m2_triton", ("forward",), {**LAYER, "projections": False, "padding": "circular", "seq": 256}),
    ],
}
"""By group: the kernel, its passes, the operator's fields. Shapes that no tile divides, and some that tiles do."""

LARGE = [
    *[(f"gemm_{rung}", d, {"dtype": "bf16", "m": 520, "n": 776, "k": 264}) for rung in ("naive", "coalesced") for d in ("forward",)],
    *[
        (f"gemm_{rung}", "forward", {"dtype": t, "m": m, "n": 1032, "k": 520})
        for rung in ("shared", "tiled", "tensor", "pipelined", "persistent")
        for t in ("bf16", "fp16")
        for m in (1024, 1000)
    ],
    *[
        (
            "flash_triton",
            d,
            {"dtype": "bf16", "batch": 2, "heads": 8, "kv_heads": 2, "q_len": q, "kv_len": 1024, "head_dim": w, "causal": c},
        )
        for d in BOTH
        for q in (1024, 333)
        for w in (64, 128)
        for c in (True, False)
    ],
    *[("softmax_triton", "forward", {"dtype": t, "rows": 300, "cols": n}) for t in ("bf16", "fp32") for n in (5000, 100000)],
    *[("rmsnorm_triton", "forward", {"dtype": "bf16", "rows": 300, "cols": n, "residual": True}) for n in (5000, 100000)],
    *[
        ("fft_conv_triton", "forward", {**CONV, "dtype": t, "batch": b, "seq": n, "padding": "circular", "order": o, "gated": g})
        for t in ("bf16", "fp16")
        for b, g in ((8, True), (3, False))
        for n, o in ((512, 2), (1024, 2), (2048, 2), (4096, 2), (8192, 2), (16384, 2), (8192, 3), (16384, 3), (32768, 3))
    ],
    *[("fft_conv_triton", "forward", {**CONV, "dtype": "bf16", "batch": 4, "seq": n, "gated": True}) for n in (512, 2048, 4096, 32768)],
    *[
        ("monarch_triton", "forward", {"dtype": "bf16", "rows": r, "n": n, "order": o})
        for r in (64, 1000)
        for n, o in ((4096, 2), (8192, 3))
    ],
    *[("monarch_triton", "forward", {"dtype": "bf16", "rows": 256, "n": n}) for n in (1024, 8192, 16384, 65536)],
    ("monarch_triton", "forward", {"dtype": "fp16", "rows": 1000, "n": 32768}),
    ("m2_triton", "forward", {"dtype": "bf16", "batch": 4, "seq": 1024, "hidden": 256}),
]


def outcome(name: str, direction: str, fields: dict, device: str):
    """The check of a kernel at these fields."""
    spec = KERNELS[name]
    op = OPERATORS[spec.op](**{**fields, **spec.fields})
    assert op.check() is None, op.check()
    return check(spec, op, device, direction)


# --------------------------------------------------------------------------- in the interpreter
def interpret(group: str) -> int:
    """Run the group's cases, a line each; how many failed."""
    failed = 0
    for name, directions, fields in TINY[group]:
        for direction in directions:
            found = outcome(name, direction, fields, "cpu")
            failed += not found.passed
            print("ok" if found.passed else "WRONG", name, direction, fields, found)
    return failed


@with_triton
@pytest.mark.parametrize("group", TINY)
def test_kernels_agree_with_float64_in_tritons_interpreter(group):
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, __file__, group], env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("ok ") == sum(len(directions) for _, directions, _ in TINY[group])


def test_on_a_cpu_they_need_the_interpreter(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert missing(("triton",), "cpu")
    if find_spec("triton"):
        assert "TRITON_INTERPRET=1" in missing(("triton",), "cpu")[0]
        assert not missing(("triton",), "cuda")
        monkeypatch.setenv("TRITON_INTERPRET", "1")
        assert not missing(("triton",), "cpu")


# --------------------------------------------------------------------------- what they are made of
@pytest.mark.parametrize(("n", "rows"), [(16, 16), (32, 8)])
def test_a_dft_matrix_of_reals_is_the_complex_transform_and_its_transpose_the_inverse(n, rows):
    x = torch.randn(5, rows, 2, dtype=torch.float64)
    matrix = dft_matrix(n, rows, torch.float64, "cpu")
    found = (x.reshape(5, 2 * rows) @ matrix).reshape(5, n, 2)
    expected = torch.fft.fft(torch.view_as_complex(x), n=n, norm="ortho")
    assert torch.allclose(torch.view_as_complex(found), expected)
    back = found.reshape(5, 2 * n) @ matrix.t()
    assert torch.allclose(back, x.reshape(5, 2 * rows))


def test_twiddles_join_two_transforms_into_a_longer_one_and_come_back_in_the_order_of_tiles():
    outer, inner = 4, (2, 3)
    table = twiddles(outer, inner, "cpu").float()
    forward = torch.view_as_complex(table[: 2 * 24].reshape(6, 4, 2))
    x = torch.randn(24, dtype=torch.complex64)
    columns = torch.fft.fft(x.reshape(4, 6), dim=0).t() * forward  # [m, k0]
    found = torch.fft.fft(columns.t(), dim=1)  # [k0, k']
    assert torch.allclose(found.t().reshape(-1), torch.fft.fft(x), atol=1e-2)
    back = torch.view_as_complex(table[2 * 24 :].reshape(4, 3, 2, 2))  # [k0, n2, n1]
    assert torch.equal(back.transpose(1, 2).reshape(4, 6), forward.t().conj().resolve_conj())


def test_on_a_cpu_the_first_tile_is_taken_and_not_tried_out():
    made = []
    tuning.tuned(("a test",), ({"x": 1}, {"x": 2}), lambda config: made.append(config) or (lambda: None), torch.device("cpu"))
    assert made == [{"x": 1}]


@pytest.mark.parametrize(
    ("name", "fields", "word"),
    [
        ("gemm_tensor", {**GEMM, "bias": True}, "a bias"),
        ("gemm_persistent", {**GEMM, "k": 57}, "multiples of 16"),
        ("flash_triton", {**HEADS, "head_dim": 48}, "head_dim 48"),
        ("flash_triton", {**HEADS, "window": 9}, "sliding window"),
        ("flash_triton", {**HEADS, "q_len": 50}, "more queries than keys"),
        ("fft_conv_triton", {**CONV, "spectrum": True}, "packed reals"),
        ("fft_conv_triton", {**CONV, "seq": 131072, "order": 4}, "order 4"),
        ("fft_conv_triton", {**CONV, "seq": 8192, "order": 2}, "beside each other"),
        ("monarch_triton", {"dtype": "fp16", "rows": 3, "n": 36}, r"blocks of 16"),
    ],
)
def test_what_they_do_not_compute_is_refused(name, fields, word, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    spec = KERNELS[name]
    monkeypatch.setattr("roofline.measure.needs.find_spec", lambda name: True)
    op = OPERATORS[spec.op](**{**fields, **spec.fields})
    with pytest.raises(UsageError, match=word):
        prepare(spec, op, allocate(op, "cpu"))


# --------------------------------------------------------------------------- on a GPU
@pytest.mark.gpu
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("name", "direction", "fields"), LARGE, ids=lambda v: v if isinstance(v, str) else "-".join(map(str, v.values())))
def test_kernels_agree_with_float64_on_a_gpu(name, direction, fields):
    found = outcome(name, direction, fields, "cuda")
    assert found.passed, found


@pytest.mark.gpu
def test_of_several_tiles_the_fastest_is_taken_and_one_that_cannot_run_is_left_out():
    device, slow = torch.device("cuda"), torch.ones(2**26, device="cuda")

    def make(config):
        def run():
            if config["x"] == "broken":
                raise RuntimeError("too many registers")
            slow[: config["x"]].mul_(1.0)

        return run

    key = ("tiles of a test",)
    tuning.tuned(key, ({"x": 2**26}, {"x": "broken"}, {"x": 2**10}), make, device)()
    tried = tuning.TRIED[(*key, "cuda")]
    assert tuning._FASTEST[(*key, "cuda")] == 2
    assert tried[1][1] == "RuntimeError: too many registers"
    with pytest.raises(MeasurementInvalidError, match="too many registers"):
        tuning.tuned(("broken tiles",), ({"x": "broken"}, {"x": "broken"}), make, device)


@pytest.mark.gpu
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("fields", [{}, {"dtype": "bf16", "rows": 500, "cols": 5000}])
def test_a_cuda_kernel_of_the_users_is_compiled_on_the_spot_and_checked(fields, monkeypatch):
    from roofline.measure.registry import find

    monkeypatch.syspath_prepend(str(ROOT / "docs" / "examples"))
    spec = find("cuda_softmax:softmax")
    op = OPERATORS[spec.op](**{**spec.small, **fields})
    found = check(spec, op, "cuda")
    assert found.passed, found


if __name__ == "__main__":
    sys.exit(interpret(sys.argv[1]))
