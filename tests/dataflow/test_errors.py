"""Inconsistent dataflows: every problem at its place, all at once, exit 2; what has no room on a device is a result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from roofline.errors import InputError
from roofline.spec.dataflow import read_dataflow
from roofline.spec.source import Source

GOOD = """\
schema: 1
name: test:product
dtype: bf16
params: {m: 1024, n: 1024, k: 1024}
tiles: {tile_m: 128, tile_n: {value: 128, choices: [64, 128, 256]}, stages: {value: 4, choices: [2, 3, 4]}}
tensors:
  a: {shape: [m, k]}
  b: {shape: [k, n], role: weight}
  c: {shape: [m, n], role: out}
kernels:
  - name: product
    loops:
      i: {over: m, tile: tile_m, parallel: true}
      j: {over: n, tile: tile_n, parallel: true}
      s: {over: k, tile: 64}
    reads:
      - {tensor: a, index: [i, s], at: s, buffers: stages}
      - {tensor: b, index: [s, j], at: s, buffers: stages}
    writes: [{tensor: c, index: [i, j], at: j, to: register}]
    products: [{at: s, m: i, n: j, k: s}]
    accumulators: {c: tile_m * tile_n}
"""


@pytest.fixture
def shown(run: Any, tmp_path: Path) -> Any:
    """What ``show`` says of a changed file, as its exit code and standard error."""

    def call(*changes: tuple[str, str], settings: tuple[str, ...] = ()) -> tuple[int, str]:
        text = GOOD
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "d.yaml"
        path.write_text(text, encoding="utf-8")
        options = [word for s in settings for word in ("--set", s)]
        result = run("dataflow", "show", str(path), "-H", "h100-sxm", *options, code=None)
        return result.exit_code, result.stderr.replace(str(path), "d.yaml")

    return call


def test_the_file_itself_is_fine(shown: Any) -> None:
    assert shown() == (0, "")


WRONG = [
    ((("tile: tile_m", "tile: tile_q"),), "13:26: unknown name 'tile_q'"),
    ((("m: 1024", "m: 64"),), "5:17: a tile of 128 is larger than the 64 elements that loop 'i' walks over; give tile_m at most 64"),
    ((("tile: 64}", "tile: 4096}"),), "15:26: a tile of 4096 is larger than the 1024 elements that loop 's' walks over; at most 1024"),
    ((("at: s, m", "at: z, m"),), "20:21: unknown loop 'z'"),
    ((("index: [i, s]", "index: [i, q]"),), "17:32: unknown loop 'q'"),
    ((("index: [i, s]", "index: [i]"),), "17:28: 'a' has 2 dimensions and its index 1 entries"),
    ((("tensor: a", "tensor: x"),), "17:18: unknown tensor 'x'"),
    ((("[{tensor: c, index: [i, j], at: j, to: register}]", "[]"),), "9:6: tensor 'c' (out) is never written"),
    ((("role: weight}", "role: weight}\n  d: {shape: [m]}"),), "9:6: tensor 'd' (in) is never read"),
    ((("a: {shape: [m, k]}", "a: {shape: [m, k], role: scratch}"),), "17:18: a is read here, but no kernel before 'product'"),
    ((("at: j, to", "at: s, to"),), "19:45: c is written in each iteration of loop 's', which does not walk over it"),
    ((("s: {over: k", "s: {over: k / 2"),), "17:32: dimension 2 of a has 1024 elements, but s walks over 512"),
    ((("index: [i, s], at: s", "index: [i, s], at: j"),), "17:32: loop 's' is not around 'j', where a is taken"),
    ((("tile: 64}", "tile: 64, parallel: true}"), ("j: {over: n, tile: tile_n, parallel: true}", "j: {over: n, tile: tile_n}")),
     "15:40: parallel loop 's' is inside 'j', which runs within a block"),
    ((("tile: 64}", "tile: 64, inside: x}"),), "15:38: loop 's' is inside 'x', which is no loop before it"),
    ((("accumulators:", "cluster: {s: 2}\n    accumulators:"),), "21:18: loop 's' runs inside a block"),
    ((("at: j, to: register", "at: j, in_place_of: q"),), "19:61: 'q' is not loaded by this kernel"),
    ((("accumulators:", "overlap: [[tensor, exp]]\n    accumulators:"),), "21:24: unknown value 'exp'"),
    ((("products: ", "product: "),), "20:5: unknown key 'product' in a kernel; did you mean 'products' or"),
    ((("a: {shape: [m, k]}", "a: {shape: [m, k], held: m * k}"),), "7:28: 'a' is no scratch, so no kernel hands it to the next"),
    ((("kernels:", "limits: {smem: 64 KiB}\nkernels:"),), "10:16: kernel 'product' takes 128 KiB of shared memory a block, 64"),
    ((("kernels:", "limits: {registers: 128}\nkernels:"),), "10:21: kernel 'product' takes 160 registers a thread (128 for accumulators)"),
    ((("dtype: bf16", "dtype: bf17"),), "3:8: unknown dtype 'bf17'"),
    ((("tile_m: 128", "tile_m: 0"),), "5:17: 0 is out of range: at least 1"),
    ((("stages: {value: 4", "stages: {value: m - 1024"),), "5:85: 'm - 1024' is 0 (m = 1024), which is out of range: at least 1"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), WRONG)
def test_what_is_inconsistent_is_said_at_its_place(shown: Any, changes: Any, said: str) -> None:
    code, stderr = shown(*changes)
    assert code == 2
    assert f"d.yaml:{said}" in stderr
    assert "^" in stderr


def test_all_problems_are_said_at_once(shown: Any) -> None:
    code, stderr = shown(("tensor: a", "tensor: x"), ("at: s, m", "at: z, m"), ("index: [s, j]", "index: [s]"))
    assert code == 2
    assert stderr.count("^") == 3


PHASES = """\
schema: 1
name: test:phases
dtype: bf16
params: {n: 1024}
tensors:
  x: {shape: [n]}
  between: {shape: [n], role: scratch}
  y: {shape: [n], role: out}
kernels:
  - name: both
    loops:
      p: {over: 1, parallel: true}
      first: {over: n, tile: 64, inside: p}
      second: {over: n, tile: 64, inside: p}
    reads:
      - {tensor: x, index: [first], at: first}
      - {tensor: between, index: [second], at: second}
    writes:
      - {tensor: between, index: [first], at: first}
      - {tensor: y, index: [second], at: second}
"""


@pytest.mark.parametrize(
    ("old", "new", "fine"),
    [
        ("inside: p", "inside: p", True),
        ("second: {over: n, tile: 64, inside: p}", "second: {over: n, tile: 64, inside: first}", False),
        ("between, index: [second], at: second}", "between, index: [first], at: first}", False),
    ],
)
def test_a_phase_of_a_kernel_reads_what_an_earlier_one_wrote(old: str, new: str, fine: bool) -> None:
    """A loop that is over before, not one around it nor the same."""
    text = PHASES.replace(old, new)
    if fine:
        read_dataflow(Source("d.yaml", text))
    else:
        with pytest.raises(InputError, match="between is read here, but no kernel before 'both'"):
            read_dataflow(Source("d.yaml", text))


def test_a_setting_that_is_wrong_is_shown_where_it_was_given(shown: Any) -> None:
    code, stderr = shown(settings=("tile_m=2048",))
    assert code == 2
    assert "--set tile_m:1:8: a tile of 2048 is larger than the 1024 elements" in stderr
    code, stderr = shown(settings=("tile_x=1", "m=0"))
    assert code == 2
    assert "the dataflow has no param or tile 'tile_x'; did you mean" in stderr


def test_no_room_on_a_device_is_a_result_with_the_smallest_change(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    path.write_text(GOOD.replace("tile_m: 128, tile_n: {value: 128", "tile_m: 128, tile_n: {value: 256"), encoding="utf-8")
    found = json.loads(run("dataflow", "show", str(path), "-H", "h100-sxm", "--format", "json").stdout)
    assert found["fits"] is False
    assert found["why"] == ["product: 288 registers a thread (256 for accumulators), 255 may be used"]
    assert found["change"] == {"tile_n": {"from": 256, "to": 128}}
    said = run("dataflow", "show", str(path), "-H", "h100-sxm").stdout
    assert "DOES NOT FIT: product: 288 registers a thread" in said
    assert "Smallest change that fits: tile_n 256 -> 128." in said


def test_validate_takes_a_dataflow_and_other_commands_say_what_it_is(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    path.write_text(GOOD, encoding="utf-8")
    assert "no problems" in run("validate", str(path)).stdout
    assert "this is a dataflow; see it with 'roofline dataflow show" in run("analyze", str(path), code=2).stderr
    path.write_text(GOOD.replace("tensor: a", "tensor: x"), encoding="utf-8")
    assert "unknown tensor 'x'" in run("validate", str(path), code=2).stderr


def test_a_name_that_no_file_has(run: Any) -> None:
    assert "did you mean 'attention:flash3'" in run("dataflow", "show", "attention:flash33", "-H", "h100-sxm", code=2).stderr
