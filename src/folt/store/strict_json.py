"""JSON that every reader takes: plain values, null for what is not finite."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Document = dict[str, Any]
"""What JSON can hold, by name: plain values, lists and further documents."""


def plain(tree: object) -> Any:
    """Return the tree with plain values and string keys, None for what is not finite."""
    if isinstance(tree, Mapping):
        return {_encodable(str(key)): plain(value) for key, value in tree.items()}
    if isinstance(tree, str):
        return _encodable(tree)
    if isinstance(tree, list | tuple):
        return [plain(value) for value in tree]
    if isinstance(tree, np.ndarray):
        return plain(tree.tolist())
    if isinstance(tree, float | np.floating):
        return float(tree) if math.isfinite(tree) else None
    return tree.item() if isinstance(tree, np.generic) else tree


def _encodable(text: str) -> str:
    """The text without halves of characters, which names of files may hold and UTF-8 cannot."""
    return text.encode(errors="replace").decode()


def strict_json(tree: object) -> str:
    """Return the document, indented for people."""
    return json.dumps(plain(tree), indent=2, ensure_ascii=False, allow_nan=False)
