"""The fixture ``roofline_profile`` for tests of the user; pytest finds it by itself (`roofline.library.pytest_plugin`).

    def test_the_step_is_not_bound_by_the_host(roofline_profile):
        with roofline_profile(hardware="h100-sxm") as p:
            step()
        assert p.report.busy_s > 0.9 * p.report.window_s

torch is imported when a block is entered, and a test that has no torch is skipped then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from roofline.ingest.live import profile


@pytest.fixture
def roofline_profile() -> type[profile]:
    """`roofline.profile`; the test is skipped where torch is not installed."""
    pytest.importorskip("torch")
    from roofline.ingest.live import profile

    return profile
