"""What YAML's own complaints mean, in words for someone who wrote a workload and not a parser."""

from __future__ import annotations

import yaml

TOO_DEEP = "exceeded maximum nesting depth"
"""How libyaml words its own depth limit, which it may meet while it looks ahead of ours."""

GENERAL = "this cannot be read as YAML; check the indentation, the quotes and the colons"

_SHOWN_WHERE_IT_OPENS = ("unexpected end of stream", "unexpected document", "alphabetic or numeric")

# (part of the complaint, in the wording of libyaml or of PyYAML's own parser; what to say)
_MEANINGS = (
    ("mapping values are not allowed", "a second ':' cannot stand here; quote the text, or start a new line with it"),
    ("sequence entries are not allowed", "a list item cannot start here; start it on its own line"),
    ("unexpected end of stream", "the quote here is never closed"),
    ("unknown escape character", "this escape is not known; write '\\\\' for a backslash, or use single quotes"),
    ("escape code", "this escape stands for no character"),
    ("escape sequence", "this escape needs more hexadecimal digits"),
    ("hexdecimal", "this escape needs more hexadecimal digits"),
    ("alphabetic or numeric", "text that begins with '*' or '&' must be quoted"),
    ("unexpected document", "the quote here is not closed before a line '---' or '...'"),
    ("document start", "the text above is complete, yet more follows; check the indentation"),
    ("expected '-' indicator", "expected a list item '- ...' here; check the indentation"),
    ("expected key", "expected 'key: value' here; check the indentation"),
    ("block end", "expected a list item or 'key: value' as above here; check the indentation"),
    ("expected ':'", "expected a ':' after this key"),
    ("node content", "a value is missing here; quote text that begins with a special character"),
    ("comment or line break", "after '|' or '>' the text starts on the next line"),
    ("chomping or indentation", "after '|' or '>' the text starts on the next line"),
    ("expected '>'", "tags ('!...') are not allowed; remove it, or quote the text"),
    ("tag", "tags ('!...') are not allowed; remove it, or quote the text"),
    ("directive", "directives ('%...') are not needed; remove the line, or quote the text"),
    ("incompatible YAML document", "only YAML 1.1 and 1.2 can be read; remove the line"),
    (TOO_DEEP, "nested too deeply"),
)


def explain(error: yaml.MarkedYAMLError, text: str) -> tuple[int, str]:
    """The index where a syntax error is best shown, and a short sentence for it."""
    at = error.problem_mark.index if error.problem_mark else len(text)
    problem = error.problem or ""
    if "cannot start any token" in problem:
        return at, _bad_start(text[at : at + 1])
    opened = error.context_mark.index if error.context_mark else at
    for pair in ("[]", "{}"):
        if f"',' or '{pair[1]}'" in problem:
            return _unclosed(pair, opened, at, text)
    if any(part in problem for part in _SHOWN_WHERE_IT_OPENS):
        at = opened
    return at, next((said for part, said in _MEANINGS if part in problem), GENERAL)


def _unclosed(pair: str, opened: int, at: int, text: str) -> tuple[int, str]:
    if not text[at:].strip():
        return opened, f"the '{pair[0]}' here is never closed with '{pair[1]}'"
    line = text.count("\n", 0, opened) + 1
    return at, f"expected ',' or '{pair[1]}' before this, after the '{pair[0]}' of line {line}"


def _bad_start(char: str) -> str:
    if char == "\t":
        return "a tab cannot indent; use spaces"
    return f"text that begins with '{char}' must be quoted"
