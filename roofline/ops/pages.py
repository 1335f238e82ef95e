"""Caches kept in pages of a fixed number of keys: the last page of a sequence is kept whole, however many keys it holds."""

from __future__ import annotations

from roofline.numeric import Number, ceil_div, maximum, where


def whole_pages(keys: Number, page: Number) -> Number:
    """Keys that the pages of so many hold; as many as there are where there are no pages.

    >>> whole_pages(100, 16), whole_pages(100, 0)
    (112, 100)
    """
    return where(page > 0, ceil_div(keys, maximum(page, 1)) * page, keys)
