"""Located input: a file or standard input as nodes that know their line and column.

>>> root = parse(Source("w.yaml", "m: 4096"))
>>> isinstance(root, MapNode) and root.entries["m"].value.mark
Mark(line=1, column=4)
"""

from __future__ import annotations

from roofline.spec.files import read_source
from roofline.spec.located import Entry, ListNode, MapNode, Mark, Node, Scalar, Source
from roofline.spec.tree import parse

__all__ = ["Entry", "ListNode", "MapNode", "Mark", "Node", "Scalar", "Source", "parse", "read_source"]
