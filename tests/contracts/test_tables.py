"""The generated pages of the docs are those that the code would write now."""

import pytest

from roofline.ops.registry import MODULES
from roofline.spec.find import shipped
from tests.contracts.tables import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name):
    """Write it again with `python -m tests.contracts.tables`."""
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name]()


def test_every_operator_and_profile_has_its_place():
    """On the pages as they are committed."""
    operators, hardware = ((DOCS / name).read_text(encoding="utf-8") for name in PAGES)
    assert all(f"\n## {name}\n" in operators for name in MODULES)
    assert all(f"\n| `{p.stem}` |" in hardware for p in shipped("hardware_specs").rglob("*.yaml"))
