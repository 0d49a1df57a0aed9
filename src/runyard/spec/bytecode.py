"""What a code object does, without line numbers, comments and docstrings."""

from __future__ import annotations

import importlib.machinery
import opcode
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

_CONSTANTS = frozenset(opcode.hasconst)
_SMALL_INT = opcode.opmap.get("LOAD_SMALL_INT", -1)
_IMPORT = opcode.opmap["IMPORT_NAME"]
_STORE_GLOBAL = opcode.opmap["STORE_GLOBAL"]
_RUNYARD = Path(__file__).resolve().parents[1]
_STORE_NAME = opcode.opmap["STORE_NAME"]
_LIBRARIES = tuple(f"{folder}{os.sep}" for folder in (Path(os.__file__).parent, _RUNYARD))


class ImportStatement(NamedTuple):
    """An import statement inside a function."""

    name: str
    level: int  # number of leading dots
    members: tuple[str, ...]  # from … import these


class CodeContent(NamedTuple):
    """A code object and those inside it."""

    content: Any  # its `repr` is the same in every process
    names: frozenset[str]  # globals and attributes that it uses
    assigned: frozenset[str]  # globals that it assigns to
    imports: tuple[ImportStatement, ...]


@cache
def is_own(file: str) -> bool:
    """Whether a source file belongs to the user's project, not to a library or Runyard."""
    if file.startswith(("<frozen", *_LIBRARIES)):
        return False
    return {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def describe_code(code: CodeType) -> CodeContent:
    """Instructions with the constants they load instead of the constants' numbers."""
    instructions = bytearray(code.co_code)
    loaded: list[Any] = []
    assigned: set[str] = set()
    imports: list[ImportStatement] = []
    high = 0
    for at in range(0, len(instructions), 2):
        operation, argument = instructions[at], instructions[at + 1] | high
        high = argument << 8 if operation == opcode.EXTENDED_ARG else 0
        if operation in _CONSTANTS or operation == _SMALL_INT:
            small = operation == _SMALL_INT
            loaded.append(argument if small else code.co_consts[argument])
            instructions[at] = opcode.opmap["LOAD_CONST"] if small else operation
            instructions[at + 1] = 0
        elif operation == _STORE_GLOBAL:
            assigned.add(code.co_names[argument])
        elif operation == _IMPORT:
            level, members = loaded[-2:]
            imports.append(ImportStatement(code.co_names[argument], level, members or ()))
        elif operation == _STORE_NAME and code.co_names[argument] == "__firstlineno__":
            loaded.pop()
    inner = [describe_code(each) for each in loaded if isinstance(each, CodeType)]
    signature = code.co_argcount, code.co_kwonlyargcount, code.co_varnames, code.co_freevars
    content = bytes(instructions), list(map(_constant, loaded)), code.co_names, signature
    return CodeContent(
        (content, [each.content for each in inner]),
        frozenset(code.co_names).union(*(each.names for each in inner)),
        frozenset(assigned).union(*(each.assigned for each in inner)),
        (*imports, *(each for code in inner for each in code.imports)),
    )


ModuleCode = tuple[str, str, CodeType]  # a module's name, its file, its code


def imported_code(found: ImportStatement, package: str) -> Iterator[ModuleCode]:
    """The project's modules that an import statement would load, without importing them."""
    base = package.split(".")[: 1 - found.level or None] if found.level else []
    name = ".".join([*base, *filter(None, [found.name])])
    yield from _module_code(name)
    for member in found.members:
        yield from _module_code(f"{name}.{member}")


def _module_code(name: str) -> Iterator[ModuleCode]:
    if name.partition(".")[0] in sys.stdlib_module_names:
        return
    parts = name.split(".")
    spec = importlib.machinery.PathFinder.find_spec(parts[0])
    for end in range(2, len(parts) + 1):
        if spec is None or spec.submodule_search_locations is None:  # not a package
            return
        whole = ".".join(parts[:end])
        spec = importlib.machinery.PathFinder.find_spec(whole, spec.submodule_search_locations)
    loader = None if spec is None else spec.loader
    if isinstance(loader, importlib.machinery.SourceFileLoader) and is_own(loader.path):
        try:
            code = loader.get_code(name)
        except (ImportError, OSError, SyntaxError, UnicodeError):
            return
        if code is not None:
            yield name, loader.path, code


def _constant(constant: Any) -> Any:
    if isinstance(constant, CodeType):
        return "code"
    if isinstance(constant, tuple):
        return tuple(map(_constant, constant))
    if isinstance(constant, frozenset):
        return sorted(repr(_constant(part)) for part in constant)
    return repr(constant)
