"""Strided, grouped and dilated convolutions (case C05: the stride was divided out twice)."""

from __future__ import annotations

from typing import Any

import pytest


def test_the_stem_has_236_million_flop_and_1_9_mb(row: Any) -> None:
    conv = row("analyze", "conv_stem.yaml")
    assert conv["flop"]["tensor"] == 236_027_904
    assert conv["bytes"]["hbm"] == 1_925_504
    assert conv["intensity_flop_per_byte"]["hbm"] == pytest.approx(122.6, rel=1e-3)


def test_it_is_memory_bound_on_an_h100(row: Any) -> None:
    bound = row("analyze", "conv_stem.yaml")["bound"]
    assert bound["limiter"] == "hbm"
    assert bound["time_s"] == pytest.approx(0.575e-6, rel=2e-3)
    assert bound["per_resource_s"]["tensor"] == pytest.approx(0.239e-6, rel=3e-3)


def test_groups_divide_the_flop(row: Any) -> None:
    conv = row("analyze", "conv_stem.yaml", "--set", "groups=3", "--set", "filters=63")
    assert conv["flop"]["tensor"] == 2 * 63 * 112 * 112 * 49


def test_groups_that_do_not_divide_the_channels_are_refused(run: Any) -> None:
    assert "groups" in run("analyze", "conv_stem.yaml", "--set", "groups=3", code=2).stderr


CONVOLUTIONS = {
    "batch": ("batch=8", 8 * 236_027_904),
    "unit stride": ("stride=1", 2 * 64 * 224 * 224 * 3 * 49),
    "stride of columns only": ("stride=1 stride_w=2", 2 * 64 * 224 * 112 * 3 * 49),
    "no padding": ("padding=0", 2 * 64 * 109 * 109 * 3 * 49),
    "padding of rows only": ("padding_w=0", 2 * 64 * 112 * 109 * 3 * 49),
    "dilation": ("dilation=2", 2 * 64 * 109 * 109 * 3 * 49),
    "kernel of 7 x 3": ("kernel_w=3 padding_w=1", 2 * 64 * 112 * 112 * 3 * 21),
    "depthwise": ("in_channels=64 groups=64", 2 * 64 * 112 * 112 * 49),
}


@pytest.mark.parametrize("changes", CONVOLUTIONS)
def test_the_definition_holds_for(row: Any, changes: str) -> None:
    settings, flop = CONVOLUTIONS[changes]
    overrides = [x for s in settings.split() for x in ("--set", f"conv.{s}")]
    assert row("analyze", "conv_stem.yaml", *overrides)["flop"]["tensor"] == flop


def test_backward_is_two_products_as_large(row: Any) -> None:
    assert row("analyze", "conv_stem.yaml", "--set", "conv.pass=backward")["flop"]["tensor"] == 2 * 236_027_904


def test_a_kernel_larger_than_the_image_is_refused(run: Any) -> None:
    assert "empty" in run("analyze", "conv_stem.yaml", "--set", "conv.height=1", "--set", "conv.padding=0", code=2).stderr
