"""The generated pages of the docs are those that the code would write now."""

import pytest

import roofline
from roofline.cli.app import COMMANDS, GROUPS
from roofline.ops.registry import MODULES
from roofline.spec.find import shipped
from tests.contracts.tables import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name):
    """Write it again with `python -m tests.contracts.tables`."""
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name]()


def test_every_operator_and_profile_has_its_place():
    """On the pages as they are committed."""
    names = ("operators.md", "hardware.md", "reference/sources.md")
    operators, hardware, sources = ((DOCS / name).read_text(encoding="utf-8") for name in names)
    assert all(f"\n## {name}\n" in operators for name in MODULES)
    profiles = [p.stem for p in shipped("hardware_specs").rglob("*.yaml") if p.parent.name != "clusters"]
    assert all(f"\n| `{name}` |" in hardware and f"\n## {name}\n" in sources for name in profiles)


def test_every_command_name_and_format_has_its_place():
    """Independent of the code that writes the pages: names from the app, the library and the folder of schemas."""
    commands, library, files = ((DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8") for name in ("cli", "library", "files"))
    assert all(f"\n## roofline {name}\n" in commands for name in (*COMMANDS, *GROUPS))
    assert "`-H, --hardware`" in commands
    assert all(f"\n## {name}\n" in library for name in roofline.__all__)
    assert all(f"\n## {p.stem}\n" in files for p in (DOCS / "schema").glob("*.json"))
