"""A class has its name for itself, in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "runyard"


def names(path: Path) -> Iterator[tuple[str, bool]]:
    """Names that a module defines at its top, and whether they are classes."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, True
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, False


def test_no_class_shares_its_name_with_another_or_with_an_alias() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    classes = set()
    for path in PACKAGE.rglob("*.py"):
        for name, is_class in names(path):
            found[name].append(str(path.relative_to(PACKAGE)))
            classes |= {name} if is_class else set()
    assert len(classes) > 500
    assert {name: found[name] for name in classes if len(found[name]) > 1} == {}
