"""Fixtures for tests of the user, which pytest finds by itself: ``roofline_budget`` and ``roofline_profile``.

    def test_the_block_stays_in_its_budget(roofline_budget):
        roofline_budget("workloads/block.yaml", "h100-sxm", "total.bound.time_s <= 20 ms", "attention.bound.limiter == tensor")

Nothing of the library is imported until a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from roofline.ingest.live_fixture import roofline_profile as roofline_profile

if TYPE_CHECKING:
    from roofline.report.model import Report


@pytest.fixture
def roofline_budget() -> Callable[..., Report]:
    """``roofline_budget(workload, hardware, *assertions, overrides=(), baseline=None, fail_on=())``: the report, or a failed test.

    Assertions are those of ``expect`` in a workload file, whose own are checked as well. With a stored report as ``baseline`` the
    rules of ``roofline diff --fail-on`` are checked too. A file or an assertion that cannot be read fails the test with its place.
    """

    def check(*given: Any, **named: Any) -> Report:
        from roofline.errors import RooflineError
        from roofline.library.budget import exceeded

        try:
            report, broken = exceeded(*given, **named)
        except RooflineError as err:
            pytest.fail(str(err), pytrace=False)
        if broken:
            pytest.fail("over budget:\n" + "\n".join(broken), pytrace=False)
        return report

    return check
