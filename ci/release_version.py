"""Exit 1 unless a tag is the version of the package: ``python ci/release_version.py v1.2.3``."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def version() -> str:
    """The version that the package states, read without importing it."""
    text = (Path(__file__).resolve().parent.parent / "roofline" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise SystemExit("roofline/__init__.py states no __version__")
    return found[1]


if __name__ == "__main__":
    tag = sys.argv[1] if len(sys.argv) == 2 else ""
    if tag != f"v{version()}":
        raise SystemExit(f"the tag '{tag}' is not v{version()}, the version of the package")
