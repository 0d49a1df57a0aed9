"""Write `reference.md`, next to this file, from the code: `make docs`.

Signatures, fields and comments are taken from the source text, and the help of the command line
from its objects, so that the page is the same with every version of Python and of libraries.
"""

from __future__ import annotations

import ast
import enum
import inspect
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import click

import runyard
from runyard import backends, errors, events, llm
from runyard.cli.exit_codes import EXIT_CODES
from runyard.cli.main import SECTIONS, cli
from runyard.reports import failures, result
from runyard.spec import batchfile, outcome
from runyard.spec.options import SPECS, Options

HERE = Path(__file__).parent
PAGE = HERE / "reference.md"
WIDTH = 88

HEAD = """\
# Reference

Every public name, option, event, error, command, batch-file key and exit code. `make docs` writes
this page from the code; don't edit it. To learn how to use Runyard, see the
[quickstart](quickstart.md) and the [how-to](how-to.md); for its design, the
[explanation](explanation.md).

- [Python](#python) · [Language models](#language-models) ·
  [What results are made of](#what-results-are-made-of)
- [Events](#events) · [Errors](#errors) · [Backends](#backends)
- [Command line](#command-line) · [Batch file](#batch-file) · [Exit codes](#exit-codes) ·
  [Environment variables](#environment-variables)
"""

HANDED_OUT = ("Context", "Result")
"""Classes that users receive and don't create."""

MODELS = (
    "chat", "stream", "embed", "moderate", "Client", "Answer", "Piece", "ToolCall", "tape", "tidy",
    "usage", "Usage", "Prices", "Price",
)  # fmt: skip
"""Names of `runyard.llm`; those for coroutines have an `a` before them."""

ALSO = (result.Stats, outcome.ErrorInfo, failures.FailureGroup)
"""Classes that the public ones return."""

KEYS = {
    "name": "The batch's name. Default: derived from the batch.",
    "run": "What to call: `module:function`, or `file.py:function` relative to the batch file.",
    "shell": "A command instead of a function; `{x}` inserts the parameter x, quoted.",
    "seed": "The root seed. Default: chosen and recorded.",
    "replicates": "The number of tasks per combination.",
    "common_random_numbers": "Leave the variant (in a grid: every parameter) out of the seed.",
    "codec": "How values are stored: `msgpack` or `pickle`.",
    "params": "`[params]`: parameters with one value for all tasks.",
    "grid": "`[grid]`: lists of values; every combination of them.",
    "variant": "`[[variant]]`: one table of parameters for each variant.",
    "case": "`[[case]]`: one table of parameters for each case; every variant runs on every case.",
    "task": "`[[task]]`: one table for each task, instead of a function, grid and cases.",
    "options": "`[options]`: any of the [options](#runyardoptions).",
}
TASK_KEYS = {
    "run": KEYS["run"],
    "shell": KEYS["shell"],
    "name": "The name that `after` of other tasks refers to.",
    "params": "Its parameters.",
    "after": "Names of the tasks that must complete first.",
    "priority": "Run tasks of higher priority first. Default: the batch's.",
    **{name: f"{SPECS[name].help} Default: the batch's." for name in ("timeout", "retries")},
}

CODES = {
    "0": "Success.",
    "1": "Some tasks failed or were cancelled; `verify` or `repro` found a difference.",
    "2": "The request is invalid, or a task returned a value that can't be recorded.",
    "3": "The engine or its store failed; `doctor` found damage.",
    "4": "`compare --gate`: a gate failed.",
    "5": "No such batch or task, or nothing matches.",
    "75": "A budget is used up; `resume` with a larger one continues.",
    "124": "The deadline was reached; `resume` continues.",
    "130": "Interrupted (Ctrl-C); `resume` continues.",
    "143": "Terminated (SIGTERM); `resume` continues.",
}

ENVIRONMENT = """\
| variable | effect |
| --- | --- |
| `RUNYARD_YARD` | The default yard, if neither `--yard` nor `Yard(…)` names one. |
| `RUNYARD_FILES` | Where a machine keeps its files of a yard in PostgreSQL. |
| `RUNYARD_LEASE` | Seconds of silence after which a shared yard considers a machine dead. |
| `RUNYARD_LOG` | Log to stderr: `warning`, `info` (also what runs do) or `debug` (in detail). |
| `RUNYARD_DEBUG` | If not empty, the command line shows the tracebacks of errors. |
| `RUNYARD_PRICES` | The table of what [language models](language-models.md) cost. |
| `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `OPENAI_MODEL` | The endpoint of language models. |
| `NO_COLOR` | If not empty, output has no colours. |

The environment of a shell task has `RUNYARD_BATCH`, `RUNYARD_TASK`, `RUNYARD_ATTEMPT` and
`RUNYARD_SEED`.
"""


class Source(NamedTuple):
    """A module's text, tree and comments."""

    text: str
    tree: ast.Module
    comments: dict[int, str]  # by line


class Field(NamedTuple):
    """A field, an attribute or a member, as written."""

    name: str
    type: str
    default: str
    meaning: str


def generate() -> str:
    """The whole page."""
    parts = [HEAD, "## Python\n"]
    parts += [_entry(f"runyard.{name}", getattr(runyard, name)) for name in runyard.__all__]
    parts.append("## Language models\n")
    parts += [_entry(f"runyard.llm.{name}", getattr(llm, name)) for name in MODELS]
    parts.append("## What results are made of\n")
    parts += [_entry(cls.__name__, cls) for cls in ALSO]
    parts += [_events(), _errors(), _backends(), _commands(), _batch_file(), _exit_codes()]
    parts.append(f"## Environment variables\n\n{ENVIRONMENT}")
    return "\n".join(parts)


# Python


def _entry(title: str, thing: Any) -> str:
    lines = [f"### `{title}`", ""]
    if inspect.isclass(thing):
        lines += _class(thing)
    else:
        node = _node(thing)
        lines += [*_code(_signature(thing, node, thing.__name__)), *_doc(thing)]
    return "\n".join(lines)


def _class(cls: type) -> list[str]:
    node = _node(cls)
    assert isinstance(node, ast.ClassDef)
    methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
    constructor = methods.pop("__init__", None)
    lines = []
    if constructor is not None and cls.__name__ not in HANDED_OUT:
        lines += _code(_signature(cls, constructor, cls.__name__))
    lines += _doc(cls)
    if constructor is not None and (told := ast.get_docstring(constructor)):
        lines += [told, ""]
    fields = [*_fields(cls, node), *_attributes(cls, constructor)]
    if cls is Options:
        lines += [*_option_table(fields), ""]
    elif fields:
        lines += [*_field_table(fields, enumerated=issubclass(cls, enum.Enum)), ""]
    for name, method in methods.items():
        told = ast.get_docstring(method)
        if not name.startswith("_") and told:
            lines += [f"- {_method(cls, method)}  ", _indented(told)]
    if lines[-1]:
        lines.append("")
    return lines


def _method(cls: type, node: ast.FunctionDef) -> str:
    marks = {_segment(cls, mark) for mark in node.decorator_list}
    returns = _segment(cls, node.returns) if node.returns is not None else "None"
    if "property" in marks:
        return f"`.{node.name}` → `{returns}`"
    return f"`.{_signature(cls, node, node.name, most=10_000)}`"


def _signature(thing: Any, node: ast.AST, name: str, most: int = WIDTH) -> str:
    """A call as written, on one line if it fits."""
    assert isinstance(node, ast.FunctionDef)
    parts = list(_parameters(thing, node.args))
    if parts and parts[0] in ("self", "cls"):
        parts = parts[1:]
    returns = ""
    if node.returns is not None and node.name != "__init__":
        returns = f" -> {_segment(thing, node.returns)}"
    line = f"{name}({', '.join(parts)}){returns}"
    if len(line) <= most:
        return line
    inner = "".join(f"    {part},\n" for part in parts)
    return f"{name}(\n{inner}){returns}"


def _parameters(thing: Any, args: ast.arguments) -> Iterator[str]:
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + list(args.defaults)
    for position, (arg, default) in enumerate(zip(plain, defaults, strict=True), start=1):
        yield _parameter(thing, arg, default)
        if position == len(args.posonlyargs):
            yield "/"
    if args.vararg is not None:
        yield f"*{_parameter(thing, args.vararg, None)}"
    elif args.kwonlyargs:
        yield "*"
    for arg, keyword_default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield _parameter(thing, arg, keyword_default)
    if args.kwarg is not None:
        yield f"**{_parameter(thing, args.kwarg, None)}"


def _parameter(thing: Any, arg: ast.arg, default: ast.expr | None) -> str:
    text = arg.arg
    if arg.annotation is not None:
        text += f": {_segment(thing, arg.annotation)}"
    if default is not None:
        text += f"{' = ' if arg.annotation is not None else '='}{_default(thing, default)}"
    return text


def _fields(cls: type, node: ast.ClassDef) -> Iterator[Field]:
    """Fields of data classes and structs, and members of enumerations."""
    source = _source(cls)
    for at, each in enumerate(node.body):
        after = node.body[at + 1] if at + 1 < len(node.body) else None
        meaning = source.comments.get(each.end_lineno or 0, "") or _string(after)
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            kind = _segment(cls, each.annotation)
            default = "" if each.value is None else _default(cls, each.value)
            if not each.target.id.startswith("_") and not kind.startswith("ClassVar"):
                yield Field(each.target.id, kind, default, meaning)
        elif isinstance(each, ast.Assign) and issubclass(cls, enum.Enum):
            yield Field(_segment(cls, each.targets[0]), "", _segment(cls, each.value), meaning)


def _attributes(cls: type, constructor: ast.AST | None) -> Iterator[Field]:
    """The public attributes that a constructor sets."""
    if not isinstance(constructor, ast.FunctionDef):
        return
    types = {a.arg: a.annotation for a in (*constructor.args.args, *constructor.args.kwonlyargs)}
    for each in constructor.body:
        if not isinstance(each, ast.Assign | ast.AnnAssign):
            continue
        target = each.target if isinstance(each, ast.AnnAssign) else each.targets[0]
        if isinstance(target, ast.Attribute) and not target.attr.startswith("_"):
            name, value = target.attr, each.value
            own = each.annotation if isinstance(each, ast.AnnAssign) else None
            annotation = own or types.get(name)
            kind = _segment(cls, annotation) if annotation is not None else ""
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and not kind:
                kind = value.func.id
            yield Field(name, kind, "", _source(cls).comments.get(each.end_lineno or 0, ""))


def _field_table(fields: list[Field], *, enumerated: bool) -> list[str]:
    heads = ["member" if enumerated else "field", "type", "default", "meaning"]
    if enumerated:
        heads[2] = "value"
    rows = [[f"`{f.name}`", _span(f.type), _span(f.default), f.meaning] for f in fields]
    shown = [0, *(at for at in (1, 2, 3) if any(row[at] for row in rows))]
    return _table([heads[at] for at in shown], [[row[at] for at in shown] for row in rows])


def _option_table(fields: list[Field]) -> list[str]:
    """The options as declared."""
    rows = []
    for field in fields:
        spec = SPECS[field.name]
        kind = field.type.removeprefix("Annotated[").partition(", option(")[0].strip()
        default = "medium" if field.name == "priority" else field.default.strip('"')
        flags = " ".join(f"`{flag}`" for flag in spec.flags)
        rows.append([f"`{field.name}`", _span(kind), _span(default), spec.help, flags])
    return _table(["option", "type", "default", "effect", "flag"], rows)


# Events, errors, backends


def _events() -> str:
    rows = []
    for name in events.__all__:
        cls = getattr(events, name)
        if inspect.isclass(cls) and issubclass(cls, events.Event):
            node = _node(cls)
            assert isinstance(node, ast.ClassDef)
            fields = ", ".join(f"`{f.name}`" for f in _fields(cls, node))
            base = "" if cls is events.Event else f"`{cls.__base__.__name__}`"
            live = " Live only." if cls.live_only else ""
            rows.append([f"`{name}`", base, fields, _first(cls) + live])
    table = "\n".join(_table(["event", "base class", "own fields", "meaning"], rows))
    text = (
        "Classes of `runyard.events`. `on_event` and `yard.bus.subscribe(cls, handler)` get them\n"
        "as they happen; all but the live ones are also in the batch's audit log. A task that\n"
        "completes is a row in the store, not an event."
    )
    return f"## Events\n\n{text}\n\n{table}\n"


def _errors() -> str:
    rows = []
    for cls in vars(errors).values():
        if inspect.isclass(cls) and issubclass(cls, errors.RunyardError):
            parent = "" if cls is errors.RunyardError else f"`{cls.__base__.__name__}`"
            rows.append([f"`{cls.__name__}`", parent, str(cls.exit_code), _first(cls)])
    table = "\n".join(_table(["error", "base class", "exit code", "meaning"], rows))
    text = (
        "Classes of `runyard.errors`. Subclasses of `TaskError` are recorded as a task's outcome,\n"
        "by class name; the others are raised."
    )
    return f"## Errors\n\n{text}\n\n{table}\n"


def _backends() -> str:
    classes = [backends.backend_class(name) for name in backends.NAMES]
    comments = {f.name: f.meaning for f in _capability_fields()}
    rows = []
    for name in classes[0].capabilities._fields:
        meaning = f": {comments[name]}" if comments.get(name) else ""
        can = ["yes" if getattr(cls.capabilities, name) else "–" for cls in classes]
        rows.append([f"{name.replace('_', ' ')}{meaning}", *can])
    table = "\n".join(_table(["", *(f"`{cls.name}`" for cls in classes)], rows))
    return f"## Backends\n\nWhat each backend can do for a task.\n\n{table}\n"


def _capability_fields() -> Iterator[Field]:
    from runyard.backends.base import Capabilities

    node = _node(Capabilities)
    assert isinstance(node, ast.ClassDef)
    return _fields(Capabilities, node)


# The command line and its files


def _commands() -> str:
    parts = ["## Command line\n"]
    context = click.Context(cli)
    for section, group in SECTIONS.items():
        parts.append(f"### {section}\n")
        for name in group:
            command = cli.get_command(context, name)
            assert command is not None
            parts.append(_command(name, command))
    return "\n".join(parts)


def _command(name: str, command: click.Command) -> str:
    if isinstance(command, click.Group):
        return _group(name, command)
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    words = [_argument(argument) for argument in arguments]
    lines = [f"#### `runyard {name}`", ""]
    lines += _code(" ".join(["runyard", name, *words, "[OPTIONS]"]), "")
    lines += [inspect.cleandoc(command.help or ""), ""]
    options = [p for p in command.params if isinstance(p, click.Option)]
    lines += [*_table(["option", "effect"], [_option(option) for option in options]), ""]
    examples = inspect.cleandoc((command.epilog or "").replace("\b", "")).partition("Examples:")[2]
    if examples:
        lines += _code(inspect.cleandoc(examples), "")
    return "\n".join(lines)


def _group(name: str, group: click.Group) -> str:
    parts = [f"#### `runyard {name}`\n", inspect.cleandoc(group.help or "").split("\n")[0] + "\n"]
    context = click.Context(group)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command is not None
        parts.append(_command(f"{name} {each}", command))
    return "\n".join(parts)


def _argument(argument: click.Argument) -> str:
    name = argument.metavar or (argument.name or "").upper()
    return name if argument.required else f"[{name}]"


def _option(option: click.Option) -> list[str]:
    names = " / ".join([", ".join(option.opts), *option.secondary_opts])
    if not option.is_flag:
        choices = getattr(option.type, "choices", None)
        value = "|".join(map(str, choices)) if choices else option.metavar or "TEXT"
        names += f" {value}"
    text = " ".join((option.help or "").split())
    if option.show_default:
        text += f" [default: {option.default}]"
    if option.show_envvar:
        text += f" [environment: {option.envvar}]"
    return [_span(names), text]


def _batch_file() -> str:
    example = inspect.cleandoc(batchfile.__doc__ or "").partition("\n\n")[2]
    example, _, rest = example.rpartition("\n\n")
    lines = ["## Batch file", "", "A batch as TOML, for `runyard run FILE.toml`.", ""]
    lines += [*_code(inspect.cleandoc(example), "toml"), rest, ""]
    for head, table, meanings in (
        ("key", batchfile._BatchTable, KEYS),
        ("key of [[task]]", batchfile._TaskTable, TASK_KEYS),
    ):
        node = _node(table)
        assert isinstance(node, ast.ClassDef)
        rows = [
            [f"`{f.name}`", _span(f.type.replace("_TaskTable", "table")), meanings[f.name]]
            for f in _fields(table, node)
        ]
        lines += [*_table([head, "type", "meaning"], rows), ""]
    return "\n".join(lines)


def _exit_codes() -> str:
    found = dict(re.findall(r"(\d+) ([a-z ]*[a-z])", EXIT_CODES))
    rows = [[code, found[code], CODES[code]] for code in sorted(found, key=int)]
    return "\n".join(["## Exit codes", "", *_table(["code", "word", "meaning"], rows), ""])


# Text


def _doc(thing: Any) -> list[str]:
    text = inspect.cleandoc(thing.__doc__ or "")
    return [text, ""] if text else []


def _first(cls: type) -> str:
    return " ".join(inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0].split())


def _code(text: str, language: str = "python") -> list[str]:
    return [f"```{language}", text, "```", ""]


def _span(text: str) -> str:
    return f"`{text}`" if text else ""


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())


def _table(heads: list[str], rows: list[list[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


# Source


def _node(thing: Any) -> ast.AST:
    """The definition of a class or function; of overloads, the implementation."""
    found: ast.AST = _source(thing).tree
    for part in thing.__qualname__.split("."):
        body: list[Any] = found.body  # type: ignore[attr-defined]
        found = [each for each in body if getattr(each, "name", None) == part][-1]
    return found


def _segment(thing: Any, node: ast.AST) -> str:
    text = ast.get_source_segment(_source(thing).text, node) or ""
    return " ".join(text.split())


def _default(thing: Any, node: ast.expr) -> str:
    """A default as written; the value of a private name, and nothing for a factory."""
    text = _segment(thing, node)
    if isinstance(node, ast.Name) and text.startswith("_"):
        return repr(getattr(sys.modules[thing.__module__], text))
    return "" if text.startswith("field(") else text


def _string(node: ast.AST | None) -> str:
    """The text of a statement that is only a string."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return " ".join(str(node.value.value).split())
    return ""


def _source(thing: Any) -> Source:
    return _module_source(sys.modules[thing.__module__])


@cache
def _module_source(module: ModuleType) -> Source:
    text = Path(module.__file__ or "").read_text(encoding="utf-8")
    comments = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        comment = token.string.lstrip("# ")
        if token.type == tokenize.COMMENT and not comment.startswith(("noqa", "type:", "fmt:")):
            comments[token.start[0]] = comment
    return Source(text, ast.parse(text), comments)


if __name__ == "__main__":
    PAGE.write_text(generate(), encoding="utf-8")
    print(f"wrote {PAGE}")
