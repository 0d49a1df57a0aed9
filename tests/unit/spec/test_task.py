from __future__ import annotations

import functools
import math
import os.path
from collections.abc import Callable
from typing import Any

import pytest
import sample_tasks
from hypothesis import given
from hypothesis import strategies as st

from runyard.errors import BadSpec, BadTarget
from runyard.spec.codec import decode, encode
from runyard.spec.fingerprint import fingerprint
from runyard.spec.option_kinds import check_error_classes
from runyard.spec.options import SPECS, Options
from runyard.spec.task import Target, check_parameters, defaults_of, shell, task, wants_context

plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6),
    st.sampled_from(["none", "5s", "1GiB", "high", "keep", "always", OSError]),
)  # fmt: skip
anything = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


class Model:
    factor = 2

    def step(self, x: int) -> int:
        return self.factor * x

    @staticmethod
    def free(x: int) -> int:
        return x

    def __call__(self, x: int) -> int:
        return x


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


@logged
def wrapped(x: int, y: int = 1) -> int:
    return x + y


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("module:function", "import"),
        ("package.module:Class.method", "import"),
        ("file.py:function", "file"),
        ("../some folder/file.py:function", "file"),
        ("/abs/file.py:function", "file"),
    ],
)
def test_a_target_is_read_from_text(text: str, kind: str) -> None:
    assert Target.parse(text) == Target(kind, text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["", "module", ":f", "module:", "mod ule:f", "a/b:f", "m:f()", "m:1f", "m:a..b", "../x:f",
     "m:f; rm", "m\x00:f"],
)  # fmt: skip
def test_a_text_that_names_no_function_is_refused_with_examples(text: str) -> None:
    with pytest.raises(BadTarget) as caught:
        Target.parse(text)
    assert "module:function" in str(caught.value)


def test_a_function_of_a_module_travels_by_import() -> None:
    assert Target.of(sample_tasks.double) == Target("import", "sample_tasks:double")
    assert Target.of(os.path.join) == Target("import", "posixpath:join")
    assert Target.of(Model.free) == Target("import", f"{__name__}:Model.free")
    assert Target.of(wrapped) == Target("import", f"{__name__}:wrapped")
    assert Target.of(Model) == Target("import", f"{__name__}:Model")


def test_a_function_that_can_not_be_imported_travels_by_value() -> None:
    def local() -> None: ...

    in_main: dict[str, Any] = {"__name__": "__main__"}
    exec("def cell(x): return x", in_main)
    for function in (
        local,
        lambda: None,
        in_main["cell"],
        Model().step,
        Model(),
        functools.partial(sample_tasks.double, 1),
    ):
        assert Target.of(function).kind == "value"


def test_a_function_shadowed_in_its_module_travels_by_value() -> None:
    module: dict[str, Any] = {"__name__": "sample_tasks"}
    exec("def double(x): return 3 * x", module)
    assert Target.of(module["double"]).kind == "value"


def test_what_can_not_be_called_is_no_target() -> None:
    with pytest.raises(BadTarget, match="can't be called"):
        Target.of(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "label"),
    [
        (Target("import", "a.b:C.m"), "m"),
        (Target("file", "x/y.py:walk"), "walk"),
        (Target("value", "outer.<locals>.inner"), "inner"),
        (Target("shell", "echo {x} | cat"), "echo"),
    ],
)
def test_a_target_has_a_short_name(target: Target, label: str) -> None:
    assert target.label == label


def test_an_empty_command_is_refused() -> None:
    assert shell("echo {x}") == Target("shell", "echo {x}")
    with pytest.raises(BadTarget, match="NUL"):
        shell("a\0b")
    with pytest.raises(BadTarget, match="empty"):
        shell("  ")


@pytest.mark.parametrize(
    ("command", "said"), [("echo {}", "lacks a parameter's name"), ("echo {x", "unbalanced braces"),
                          ("echo x}", "unbalanced braces")],
)  # fmt: skip
def test_braces_of_a_command_that_stand_for_nothing_are_refused(command: str, said: str) -> None:
    with pytest.raises(BadTarget, match=said) as caught:
        shell(command)
    assert "{{" in str(caught.value.hint)
    assert shell("awk {{print}} {x}").kind == "shell"


@pytest.mark.parametrize(
    "field", ["{x!r}", "{x!s}", "{x:.9}", "{x:{y}}", "{x[0]}", "{x.__class__}"]
)
def test_a_command_takes_a_parameter_as_it_is(field: str) -> None:
    with pytest.raises(BadTarget, match="only a parameter's name"):
        shell(f"echo {field}")


@pytest.mark.parametrize(
    ("command", "where"),
    [
        ("echo '{x}'", "inside quotes"),
        ('echo "a {x}"', "inside quotes"),
        ("echo 'a' 'b\\' '{x}'", "inside quotes"),
        (r'echo \\"{x}"', "inside quotes"),
        (r'echo "\"{x}"', "inside quotes"),
        ('echo "$(echo "{x}")"', "inside quotes"),
        ('echo "$(echo {x})"', "inside quotes"),
        ("echo `echo {x}`", "inside backquotes"),
        (r"echo \{x}", "after a backslash"),
        ("echo ${x}", "after a \\$"),
        ("echo $((1 + (2 * {x})))", "in arithmetic"),
        ("echo hi # {x}", "in a comment"),
        ("# it's\necho '{x}'", "inside quotes"),
        ("cat <<END\n{x}\nEND", "in a here-document"),
        ("cat <<-'END' > {x}\na {y}\nEND", "{y} is in a here-document"),
    ],
)
def test_a_parameter_that_the_shell_would_not_take_for_a_word_is_refused(
    command: str, where: str
) -> None:
    with pytest.raises(BadTarget, match=where):
        shell(command)


@pytest.mark.parametrize(
    "command",
    [
        "echo {x}", "echo a{x}b --y={y}", "echo 'it' \"is\" {x}", "echo it\\'s {x}",
        "cat < {x} > {y}",
        "awk '{{print $1}}' {x}", 'echo "$(date)" {x}', "echo $(wc -l {x}) {y}", "(cd {x} && ls)",
        "echo a#b {x}", "# it's a comment\necho {x}", "echo ${{HOME}} {x}", "cat <<< {x}",
        "echo $((1 + 2)) {x}", "echo `date` {x}", "echo $((1 << 2))\necho {x}", r"echo \\ {x}",
        "echo '#' {x}", 'echo "it\'s" {x}', "cat <<END > {x}\ntext\nEND",
        "for a in {x}; do echo $a; done",
    ],
)  # fmt: skip
def test_a_parameter_that_is_a_word_is_filled_in(command: str) -> None:
    assert shell(command).ref == command


def needs(a: int, b: int = 1, *, c: int, d: int = 2) -> None: ...


def any_keyword(a: int, **rest: int) -> None: ...


def with_context(ctx: Any, a: int) -> None: ...


def by_position(a: int, /, b: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (needs, {"a", "c"}),
        (needs, {"a", "b", "c", "d"}),
        (any_keyword, {"a", "x", "y"}),
        (with_context, {"a"}),
        (functools.partial(needs, c=1), {"a"}),
        (wrapped, {"x"}),
        (Model().step, {"x"}),
        (Model(), {"x"}),
    ],
)
def test_parameters_that_a_function_takes_are_fine(
    function: Callable[..., Any], names: set[str]
) -> None:
    check_parameters(function, names)


@pytest.mark.parametrize(
    ("function", "names", "text"),
    [
        (needs, {"a"}, "needs() needs the parameter 'c'"),
        (needs, {"a", "c", "z", "y"}, "needs() has no parameter 'y'"),
        (any_keyword, {"x"}, "any_keyword() needs the parameter 'a'"),
        (with_context, set(), "needs the parameter 'a'"),
        (wrapped, {"z"}, "no parameter 'z'"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_and_named(
    function: Callable[..., Any], names: set[str], text: str
) -> None:
    with pytest.raises(BadSpec) as caught:
        check_parameters(function, names)
    assert text in caught.value.message
    assert "its parameters: " in str(caught.value.hint)
    assert "ctx" not in str(caught.value.hint)


def test_a_parameter_by_position_only_is_refused() -> None:
    for function in (by_position, math.sqrt):
        with pytest.raises(BadTarget, match="by position only"):
            check_parameters(function, {"a", "b", "x"})


def test_a_function_wants_its_context_if_it_has_a_parameter_for_it() -> None:
    assert wants_context(with_context)
    assert not wants_context(needs)
    assert not wants_context(min)


def compiled(source: str, *, file: str = "a.py") -> Callable[..., Any]:
    space: dict[str, Any] = {}
    exec(compile(source, file, "exec"), space)
    found: Callable[..., Any] = space["f"]
    return found


PLAIN = "def f(x):\n    y = [n * 2 for n in range(x)]\n    return sum(y) + 1\n"


def test_comments_blank_lines_and_place_do_not_change_a_fingerprint() -> None:
    commented = (
        "\n\n# why\ndef f(x):\n    # what\n    y = [n * 2 for n in range(x)]\n\n"
        "    return sum(y) + 1  # so\n"
    )
    annotated = PLAIN.replace("def f(x):", "def f(x: int) -> int:")
    for other in (commented, annotated):
        assert fingerprint(compiled(other, file="b.py")) == fingerprint(compiled(PLAIN))


@pytest.mark.parametrize(
    ("old", "new"),
    [("+ 1", "+ 2"), ("n * 2", "n * 3"), ("sum(y)", "max(y)"), ("range(x)", "range(1, x)")],
)
def test_a_change_of_code_changes_the_fingerprint(old: str, new: str) -> None:
    assert fingerprint(compiled(PLAIN.replace(old, new))) != fingerprint(compiled(PLAIN))


def test_a_fingerprint_sees_through_wrappers_and_partials() -> None:
    one, other = compiled(PLAIN), compiled(PLAIN.replace("+ 1", "+ 2"))
    assert fingerprint(logged(one)) == fingerprint(logged(one)) != fingerprint(logged(other))
    assert fingerprint(functools.partial(one, x=1)) != fingerprint(functools.partial(other, x=1))


def test_a_callable_object_has_the_same_fingerprint_as_its_equal() -> None:
    assert fingerprint(Model()) == fingerprint(Model())


def test_a_function_without_code_has_a_fingerprint() -> None:
    assert fingerprint(math.sqrt) == fingerprint(math.sqrt) != fingerprint(math.sin)


def test_options_are_written_as_people_write_them() -> None:
    options = Options().with_(
        timeout="1m", deadline="2h", memory="1GiB", priority="high", retry_on=OSError,
        never_retry=[ValueError, "KeyError"], backoff_max="5s", retries=3,
    )  # fmt: skip
    assert (options.timeout, options.deadline, options.backoff_max) == (60.0, 7200.0, 5.0)
    assert (options.memory, options.priority, options.retries) == (2**30, 2, 3)
    assert (options.retry_on, options.never_retry) == (("OSError",), ("ValueError", "KeyError"))
    assert Options().with_(timeout=None, retries=None) == Options()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"speed": 1}, "no option 'speed'"),
        ({"retries": -1}, "retries: -1 is out of range"),
        ({"retries": 1.5}, "retries: 1.5 is not a whole number"),
        ({"crash_attempts": 0}, "crash_attempts: 0 is out of range"),
        ({"recycle": 0}, "recycle: 0 is out of range"),
        ({"keep": "maybe"}, "keep: 'maybe' is not a choice"),
        ({"timeout": 0}, "timeout: 0.0 is not a valid duration"),
        ({"memory": "lots"}, "memory: 'lots' is not a size"),
        ({"memory": 3.5}, "memory: 3.5 is too small for any task"),
        ({"memory": "512"}, "memory: '512' is too small for any task"),
        ({"memory": (1 << 63) - 1}, "is more than any machine has"),
        ({"retry_on": "json.JSONDecodeError"}, "retry_on: 'json.JSONDecodeError' is not an error"),
        ({"priority": 9}, "priority: 9 is not a priority"),
        ({"backoff": "quick"}, "backoff: 'quick' is not a duration"),
        ({"backoff_max": -5}, "backoff_max: -5 is out of range"),
        ({"backoff": math.nan}, "backoff: nan is out of range"),
        ({"backoff_factor": 0.5}, "backoff_factor: 0.5 is out of range"),
        ({"retries": True}, "retries: True is not a whole number"),
        ({"retries": 1 << 64}, "retries: "),
        ({"priority": True}, "priority: True is not a priority"),
        ({"capture": 1}, "capture: 1 is neither true nor false"),
        ({"metric": ""}, "metric: "),
        ({"cpus": math.inf}, "cpus: inf is out of range"),
        ({"budget": {"minutes": 0}}, "budget: minutes is 0"),
        ({"budget": 5}, "budget: 5 is not a table"),
        ({"resources": {"CPU": 1}}, "resources: CPU has its own option"),
        ({"runtime_env": {"a": {1}}}, "runtime_env: "),
        ({"never_retry": [5]}, "never_retry: 5 is not an error class"),
        ({"backoff": -1}, "backoff"),
        ({"backoff_factor": "x"}, "backoff_factor"),
        ({"retry_on": 5}, "retry_on"),
        ({"fail_fast": "yes"}, "fail_fast"),
        ({"template": 5}, "template"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(changes: dict[str, Any], text: str) -> None:
    makers = (Options().with_, Options) if "speed" not in changes else (Options().with_,)
    for make in makers:
        with pytest.raises(BadSpec) as caught:
            make(**changes)
        assert text in str(caught.value)
        assert caught.value.hint


def test_a_misspelt_option_is_refused_with_a_suggestion() -> None:
    with pytest.raises(BadSpec, match="no option 'retires'; did you mean 'retries'\\?"):
        Options().with_(retires=3)
    with pytest.raises(BadSpec, match="did you mean 'timeout'"):
        task(time_out=3)


def test_an_option_that_was_not_declared_does_not_exist() -> None:
    assert list(SPECS) == list(Options.__struct_fields__)
    for name, spec in SPECS.items():
        assert spec.name == name
        assert spec.help.endswith(".")
        assert getattr(Options(), name) == spec.default
        assert spec.default is None or spec.read(spec.default) == spec.default


@given(name=st.sampled_from(sorted(SPECS)), value=anything)
def test_any_value_of_an_option_is_stored_and_read_back_or_refused_by_name(
    name: str, value: Any
) -> None:
    try:
        options = Options(**{name: value})
    except BadSpec as error:
        assert error.message.startswith(f"{name}: ")
        return
    assert Options(**decode(encode(options.given()))) == options


def test_options_that_are_for_a_batch_as_a_whole_are_left_out_when_a_sample_is_verified() -> None:
    options = Options(
        timeout=5, until="failed < 1%", budget={"tasks": 3}, deadline=5, fail_fast=True,
        metric="m", audit_tasks=True, changed="refuse",
    )  # fmt: skip
    assert options.for_verify() == Options(timeout=5)


def test_a_decorator_refuses_what_is_no_option() -> None:
    with pytest.raises(BadSpec, match="no option 'speed'"):
        task(speed=3)
    assert defaults_of(task(retries=2)(compiled(PLAIN))) == {"retries": 2}
    assert defaults_of(None) == {}


def test_a_misspelt_error_class_is_found_and_a_class_of_ones_own_is_not_taken_for_it() -> None:
    class GamedError(Exception):
        """Its name is close to NameError's."""

    check_error_classes(
        ["OSError", "TaskTimeout", "HTTPError", "ConnectError", GamedError.__name__]
    )
    for wrong, meant in [("OSEror", "OSError"), ("timeouterror", "TimeoutError"),
                         ("TaskTimeuot", "TaskTimeout"), ("NamedError", "NameError")]:  # fmt: skip
        with pytest.raises(BadSpec, match=f"no error class '{wrong}'; did you mean '{meant}'"):
            check_error_classes([wrong])
