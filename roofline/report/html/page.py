"""The document around the sections: head with the policy, summary first, then sections, data and script."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from roofline.errors import visible
from roofline.report.plot.svg import clean
from roofline.report.plot.theme import style_sheet

FIGURE_SIZE = 14.0


@cache
def asset(name: str) -> str:
    """A file of this package as text."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def style() -> str:
    """The style sheet of page and figures."""
    return asset("style.css") + style_sheet("auto", FIGURE_SIZE)


def source_hash(text: str) -> str:
    """What a Content-Security-Policy calls an inline script or style: the SHA-256 of its bytes, in base64."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def policy(script: str, styles: str) -> str:
    """Nothing may be loaded, sent or framed; only this script and these styles take effect."""
    allowed = f"script-src {source_hash(script)}; style-src {source_hash(styles)}"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def island(data: Mapping[str, Any]) -> str:
    """Data as JSON that can stand in a script element: ASCII, and no character that could end it.

    Text is made `visible` first, so that no control or bidirectional character reaches the page through the script.
    """
    text = json.dumps(_visible(data), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(str(key)): _visible(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_visible(inner) for inner in value]
    return value


def section(name: str, heading: str, body: str) -> str:
    """A part of the page with its heading; ``body`` is HTML."""
    return f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{clean(heading)}</h2>\n{body}\n</section>\n'


def folded(name: str, heading: str, body: str) -> str:
    """A part of the page that is shut until asked for."""
    return f'<details id="{name}"><summary>{clean(heading)}</summary>\n{body}\n</details>\n'


def lines(said: Iterable[str]) -> str:
    """Sentences as a list; nothing where there are none."""
    items = "".join(f"<li>{clean(line)}</li>" for line in said)
    return f"<ul>{items}</ul>" if items else ""


def pairs(values: Mapping[str, Any]) -> str:
    """Names and what they are."""
    items = "".join(f"<dt>{clean(name)}</dt><dd>{clean(_word(value))}</dd>" for name, value in values.items())
    return f"<dl>{items}</dl>" if items else "<p>nothing is recorded</p>"


def _word(value: Any) -> str:
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def document(title: str, summary: str, sections: Sequence[str], data: Mapping[str, Any] | None = None) -> str:
    """The file. Equal arguments give equal bytes."""
    script, styles = asset("script.js"), style()
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{clean(policy(script, styles))}">\n'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{clean(title)}</title>\n<style>{styles}</style>\n</head>\n<body>\n"
        f'<header><h1>{clean(title)}</h1><button id="theme" type="button" hidden>theme: auto</button>\n'
        f'<p class="summary">{clean(summary)}</p></header>\n<main>\n{"".join(sections)}</main>\n'
        f'<script id="data" type="application/json">{island(data or {})}</script>\n<script>{script}</script>\n</body>\n</html>\n'
    )
