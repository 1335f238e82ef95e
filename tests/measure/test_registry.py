"""Which kernels there are, which one runs an operator, and what user code may do."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from roofline.errors import MissingCapabilityError, RooflineError, UsageError
from roofline.measure import registry
from roofline.measure.collective_catalog import COLLECTIVES
from roofline.measure.needs import missing
from roofline.measure.registry import KERNELS, KernelSpec, default_kernel, find, kernels_for, names, resolve
from roofline.ops.attention import Attention
from roofline.ops.base import field_values
from roofline.ops.custom import Custom
from roofline.ops.gemm import Gemm
from roofline.ops.memory import Copy, Transpose
from roofline.ops.registry import MODULES, OPERATORS
from roofline.ops.softmax import Softmax

ATTENTION = {"batch": 2, "heads": 4, "q_len": 16, "kv_len": 16, "head_dim": 8, "dtype": "fp32"}


def test_listing_kernels_loads_no_torch():
    code = (
        "import sys; from roofline.measure.registry import KERNELS, names, find; names(); find('flash'); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


UNMEASURED = ["latent_attention"]
"""torch has no kernel of its own for it that a CPU runs too; engines bring theirs, which `--kernel module:function` takes."""


def test_every_operator_has_a_kernel_except_work_given_by_totals():
    assert [name for name in MODULES if not kernels_for(name) and name not in COLLECTIVES] == [*UNMEASURED, "custom"]


@pytest.mark.parametrize("spec", KERNELS.values(), ids=list(KERNELS))
@pytest.mark.parametrize("shape", ["example", "small"])
def test_each_shape_makes_a_valid_operator_that_the_kernel_fits(spec, shape):
    op = OPERATORS[spec.op](**{**getattr(spec, shape), **spec.fields})
    assert op.check() is None
    assert spec.fits(op)
    assert op.dtype in spec.dtypes
    assert set(spec.fields) <= set(field_values(op))


@pytest.mark.parametrize("spec", KERNELS.values(), ids=list(KERNELS))
def test_the_code_of_each_kernel_exists(spec):
    pytest.importorskip("torch")
    assert callable(resolve(spec.build))
    assert spec.build_backward is None or callable(resolve(spec.build_backward))


@pytest.mark.parametrize(
    ("op", "name"),
    [
        (Gemm(m=2, n=2, k=2, dtype="int8"), "gemm"),
        (Attention(**ATTENTION), "flash"),
        (Attention(**ATTENTION, implementation="naive"), "naive"),
        (Attention(**{**ATTENTION, "q_len": 1}, cache=True), "decode"),
        (Attention(**{**ATTENTION, "q_len": 1}), "flash"),
        (Copy(dtype="int8", elements=8), "copy"),
        (Copy(dtype="int8", write=8, over="pcie"), "memcpy_h2d"),
        (Copy(dtype="int8", elements=8, over="pcie"), "memcpy_h2d"),
        (Copy(dtype="int8", read=8, over="pcie"), "memcpy_d2h"),
    ],
)
def test_the_default_kernel_follows_from_the_fields(op, name):
    assert default_kernel(op).name == name


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (Softmax(rows=2, cols=2, dtype="fp32", implementation="naive"), r"softmax \(implementation: 'safe'\)"),
        (Transpose(rows=2, cols=2, dtype="fp32", implementation="staged"), "strided"),
        (Attention(**ATTENTION, implementation="flash1"), "flash"),
        (Copy(dtype="int8", elements=8, over="nvlink"), "pcie"),
        (Custom(dtype="bf16"), "none for this operator"),
    ],
)
def test_an_operator_that_no_kernel_runs_is_refused_with_what_there_is(op, words):
    with pytest.raises(UsageError, match=words):
        default_kernel(op)


def test_an_unknown_name_names_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'flash'"):
        find("flahs")


def test_needs_name_what_is_not_there():
    assert missing(["cuda", "sm90"], "cpu") == ["it needs a CUDA device"]
    assert missing(["cpu"], "cuda:0") == ["it runs on a CPU only"]
    assert missing(["warp"], "cpu") == ["unknown need 'warp'"]


# --------------------------------------------------------------------------- preparing
def prepared(name, op, direction="forward"):
    pytest.importorskip("torch")
    from roofline.measure.allocate import allocate

    return registry.prepare(find(name), op, allocate(op, "cpu"), direction)


@pytest.mark.parametrize(
    ("name", "op", "direction", "error", "words"),
    [
        ("softmax", Gemm(m=2, n=2, k=2, dtype="fp32"), "forward", UsageError, "runs softmax, not gemm"),
        ("naive", Attention(**ATTENTION), "forward", UsageError, "implementation = 'flash', not 'naive'"),
        ("gemm", Gemm(m=2, n=2, k=2, dtype="int32"), "forward", UsageError, "does not run in int32"),
        ("copy", Copy(dtype="int8", elements=8), "backward", UsageError, "no backward pass"),
        ("gemm", Gemm(m=2, n=2, k=2, dtype="tf32"), "forward", MissingCapabilityError, "CUDA device"),
        ("cudnn", Attention(**{**ATTENTION, "dtype": "bf16", "implementation": "cudnn"}), "forward", MissingCapabilityError, "CUDA device"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_runs(name, op, direction, error, words):
    with pytest.raises(error, match=words):
        prepared(name, op, direction)


def test_an_operator_whose_gradient_passes_through_has_no_backward_kernel():
    op = OPERATORS["elementwise"](function="add", elements=8, dtype="fp32")
    with pytest.raises(UsageError, match="passes through"):
        prepared("elementwise", op, "backward")


# --------------------------------------------------------------------------- code of users
GOOD = """
def product(op, tensors):
    "my own product"
    return lambda: tensors["a"] @ tensors["w"]
product.operator = "gemm"
def plain(op, tensors):
    return lambda: tensors["a"] @ tensors["w"]
def wrong(op, tensors):
    return 3
def lost(op, tensors): pass
lost.operator = "gem"
number = 4
"""


@pytest.fixture
def user_code(tmp_path, monkeypatch):
    """A folder with a kernel of the user's and a file with the name of one of Python's."""
    (tmp_path / "user_kernel_file.py").write_text(GOOD)
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    (tmp_path / "broken_kernel_file.py").write_text("import nothing_of_that_name")
    (tmp_path / "leaving_kernel_file.py").write_text("raise SystemExit(0)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(tmp_path)])
    yield tmp_path
    sys.modules.pop("user_kernel_file", None)


@pytest.mark.usefixtures("user_code")
def test_a_users_function_is_found_with_its_operator_and_runs():
    spec = find("user_kernel_file:product")
    assert (spec.op, spec.title, spec.small) == ("gemm", "my own product", KERNELS["gemm"].small)
    assert find("user_kernel_file:plain", "gemm").op == "gemm"
    assert prepared("user_kernel_file:product", Gemm(m=2, n=3, k=4, dtype="fp32"))().shape == (2, 3)


def test_the_users_folder_comes_last_on_the_import_path(user_code):
    find("user_kernel_file:product")
    assert sys.path[-1] == str(user_code)
    assert sys.path.count(str(user_code)) == 1


@pytest.mark.usefixtures("user_code")
@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("nowhere_at_all:f", "cannot be imported: ModuleNotFoundError"),
        ("broken_kernel_file:f", "nothing_of_that_name"),
        ("leaving_kernel_file:f", "cannot be imported: SystemExit"),
        ("user_kernel_file:prodct", "did you mean 'product'"),
        ("user_kernel_file:number", "no function but a int"),
        ("user_kernel_file:", "module:function"),
        (":product", "module:function"),
        ("user_kernel_file:plain", "which operator it runs"),
        ("user_kernel_file:lost", "unknown operator 'gem'; did you mean 'gemm'"),
    ],
)
def test_what_is_wrong_with_a_users_function_is_said_and_no_traceback(reference, words):
    with pytest.raises(RooflineError, match=words):
        find(reference)


@pytest.mark.usefixtures("user_code")
def test_a_builder_that_returns_no_function_is_refused():
    pytest.importorskip("torch")
    spec = find("user_kernel_file:wrong", "gemm")
    with pytest.raises(UsageError, match="must return a function"):
        registry.prepare(spec, Gemm(m=2, n=2, k=2, dtype="fp32"), {})


SPEC = KernelSpec(name="theirs", op="gemm", title="theirs", build="m:f")


def entry_points(*pairs):
    points = [EntryPoint(name=name, value=value, group=registry.GROUP) for name, value in pairs]
    return lambda group: [p for p in points if p.group == group]


def test_a_kernel_of_another_package_is_listed_and_found_but_cannot_take_a_name_of_ours(monkeypatch):
    theirs = entry_points(("flash", "json:dumps"), ("theirs", f"{__name__}:SPEC"))
    monkeypatch.setattr("importlib.metadata.entry_points", theirs)
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__] if __name__ in sys.modules else _module())
    assert names()[-1] == "theirs"
    assert find("theirs") is SPEC
    assert find("flash") is KERNELS["flash"]


def _module():
    from types import SimpleNamespace

    return SimpleNamespace(SPEC=SPEC)
