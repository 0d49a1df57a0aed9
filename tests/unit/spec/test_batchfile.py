from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.errors import BadBatchFile
from runyard.spec.batchfile import parse
from runyard.spec.status import Priority
from runyard.spec.task import Target

WALKS = """
name = "walks"
run = "walks.py:walk"
seed = 7
replicates = 100
common_random_numbers = true

[params]
steps = 1000

[grid]
dimension = [1, 2, 3]

[options]
retries = 2
timeout = "30s"
memory = "1GiB"
retry_on = ["OSError"]
priority = "high"
"""


def test_a_grid_in_a_file_is_the_batch_that_it_describes() -> None:
    made = parse(WALKS, folder="project")
    assert (made.name, made.seed, made.total) == ("walks", 7, 300)
    assert made.target == Target("file", "project/walks.py:walk")
    assert made.plan is not None
    assert made.plan.common_random_numbers
    assert made.plan.params(299) == {"steps": 1000, "dimension": 3}
    options = made.options
    assert (options.retries, options.timeout, options.memory) == (2, 30.0, 2**30)
    assert (options.retry_on, options.priority) == (("OSError",), Priority.HIGH)


def test_a_target_by_module_does_not_depend_on_the_files_folder() -> None:
    made = parse('run = "package.module:function"\n[grid]\nx = [1]', folder="elsewhere")
    assert made.target == Target("import", "package.module:function")


def test_variants_and_cases_in_a_file() -> None:
    made = parse("""
run = "m:f"
replicates = 2
[[variant]]
name = "slow"
speed = 1
[[variant]]
name = "fast"
speed = 9
[[case]]
map = "maze"
""")
    assert made.total == 4
    assert made.plan is not None
    assert made.plan.labels(1) == {"variant": "fast", "case": "map=maze", "replicate": 0}


def test_a_shell_command_in_a_file() -> None:
    made = parse('shell = "echo {x}"\n[grid]\nx = [1, 2]')
    assert made.target == Target("shell", "echo {x}")
    assert made.total == 2


def test_listed_tasks_in_a_file() -> None:
    made = parse("""
name = "build"
seed = 3
codec = "pickle"
[[task]]
name = "compile"
shell = "make"
timeout = "10m"
[[task]]
run = "tests.py:check"
params = { level = 2 }
after = ["compile"]
priority = "critical"
retries = 1
[options]
fail_fast = true
""")
    first, second = made.listed
    assert (first.timeout, second.after, second.priority, second.retries) == (600.0, (0,), 3, 1)
    assert second.params == {"level": 2}
    assert made.codec == "pickle"
    assert made.options.fail_fast


GRID = 'run = "m:f"\n[grid]\nx = [1]\n'
MALFORMED = [
    ("not toml", "run = ", "not TOML"),
    ("duplicate key", 'run = "m:f"\nrun = "m:g"', "not TOML"),
    ("nothing", "", "either 'run' or 'shell'"),
    ("both", 'run = "m:f"\nshell = "x"', "either 'run' or 'shell'"),
    ("unknown key", 'run = "m:f"\nreplicas = 3', "replicas"),
    ("unknown task key", '[[task]]\nrun = "m:f"\nafterwards = []', "afterwards"),
    ("name number", "name = 3", "name"),
    ("name path", 'name = "../x"\n' + GRID, "../x"),
    ("name empty", 'name = ""\n' + GRID, "name"),
    ("run number", "run = 3", "run"),
    ("run nonsense", 'run = "nonsense"', "nonsense"),
    ("run no module", 'run = "a/b:f"', "a/b"),
    ("shell empty", 'shell = " "', "empty"),
    ("seed text", 'seed = "x"\n' + GRID, "seed"),
    ("seed negative", "seed = -1\n" + GRID, "seed"),
    ("seed float", "seed = 1.5\n" + GRID, "seed"),
    ("replicates text", 'replicates = "x"\n' + GRID, "replicates"),
    ("replicates zero", "replicates = 0\n" + GRID, "replicates"),
    ("crn text", 'common_random_numbers = "yes"\n' + GRID, "common_random_numbers"),
    ("codec", 'codec = "json"\n' + GRID, "codec"),
    ("params list", 'run = "m:f"\nparams = [1]', "params"),
    ("params date", 'run = "m:f"\n[params]\nwhen = 2024-01-01', "when"),
    ("grid scalar", 'run = "m:f"\n[grid]\nx = 1', "grid"),
    ("grid empty", 'run = "m:f"\n[grid]\nx = []', "'x'"),
    ("grid twice", 'run = "m:f"\n[grid]\nx = [1, 1]', "x"),
    ("grid date", 'run = "m:f"\n[grid]\nx = [2024-01-01]', "date"),
    ("grid reserved", 'run = "m:f"\n[grid]\nseed = [1]', "'seed'"),
    ("grid and params", 'run = "m:f"\n[params]\nx = 1\n[grid]\nx = [1]', "'x'"),
    ("grid and case", 'run = "m:f"\n[grid]\nx = [1]\n[[case]]\ny = 1', "[grid]"),
    ("variant table", 'run = "m:f"\n[variant]\nx = 1', "variant"),
    ("variant twice", 'run = "m:f"\n[[variant]]\nx = 1\n[[variant]]\nx = 1', "variant"),
    ("task table", 'task = "m:f"', "task"),
    ("task and run", 'run = "m:f"\n[[task]]\nrun = "m:g"', "'run'"),
    ("task and grid", 'grid = { x = [1] }\n[[task]]\nrun = "m:g"', "'grid'"),
    ("task and replicates", 'replicates = 2\n[[task]]\nrun = "m:g"', "replicates"),
    (
        "task and common numbers",
        'common_random_numbers = true\n[[task]]\nrun = "m:g"',
        "common_random_numbers",
    ),
    ("task without call", '[[task]]\nname = "a"', "[[task]] number 1"),
    ("task two calls", '[[task]]\nrun = "m:f"\nshell = "x"', "[[task]] number 1"),
    ("task after text", '[[task]]\nrun = "m:f"\nafter = "x"', "after"),
    ("task after nobody", '[[task]]\nrun = "m:f"\nafter = ["x"]', "'x'"),
    ("task circle", '[[task]]\nname = "a"\nrun = "m:f"\nafter = ["a"]', "'a'"),
    ("task priority", '[[task]]\nrun = "m:f"\npriority = "urgent"', "urgent"),
    ("task timeout", '[[task]]\nrun = "m:f"\ntimeout = "soon"', "timeout"),
    ("task timeout zero", '[[task]]\nrun = "m:f"\ntimeout = 0', "timeout"),
    ("task retries", '[[task]]\nrun = "m:f"\nretries = "x"', "retries"),
    ("task retries below 0", '[[task]]\nrun = "m:f"\nretries = -1', "retries"),
    ("task params", '[[task]]\nrun = "m:f"\nparams = 3', "params"),
    ("options unknown", GRID + "[options]\nspeed = 3", "speed"),
    ("options retries", GRID + '[options]\nretries = "3"', "retries"),
    ("options retries below 0", GRID + "[options]\nretries = -1", "retries"),
    ("options retries bool", GRID + "[options]\nretries = true", "retries"),
    ("options timeout", GRID + '[options]\ntimeout = "soon"', "timeout"),
    ("options timeout zero", GRID + "[options]\ntimeout = 0", "timeout"),
    ("options memory", GRID + '[options]\nmemory = "much"', "memory"),
    ("options deadline", GRID + "[options]\ndeadline = -5", "deadline"),
    ("options priority", GRID + '[options]\npriority = "urgent"', "urgent"),
    ("options keep", GRID + '[options]\nkeep = "sometimes"', "keep"),
    ("options crash_attempts", GRID + "[options]\ncrash_attempts = 0", "crash_attempts"),
    ("options recycle", GRID + "[options]\nrecycle = 0", "recycle"),
    ("options retry_on", GRID + "[options]\nretry_on = 5", "retry_on"),
    ("options never_retry", GRID + "[options]\nnever_retry = [5]", "never_retry"),
    ("options backoff", GRID + '[options]\nbackoff = "quick"', "backoff"),
    ("options backoff below 0", GRID + "[options]\nbackoff = -1", "backoff"),
    ("options backoff_factor", GRID + '[options]\nbackoff_factor = "x"', "backoff_factor"),
    ("options fail_fast", GRID + '[options]\nfail_fast = "yes"', "fail_fast"),
    ("options capture", GRID + "[options]\ncapture = 3", "capture"),
    ("options chdir", GRID + '[options]\nchdir = "no"', "chdir"),
    ("options audit_tasks", GRID + "[options]\naudit_tasks = 1", "audit_tasks"),
    ("options template", GRID + "[options]\ntemplate = 5", "template"),
    ("options table", "options = 3\n" + GRID, "options"),
    ("deep lists", f"x = {'[' * 5000}{']' * 5000}", "nested too deeply"),
    ("deep tables", f"x = {'{a=' * 5000}1{'}' * 5000}", "nested too deeply"),
    ("digits", f"seed = {'9' * 5000}", "digits"),
    ("replicates", f"replicates = {2**63}\n" + GRID, "use at most 9,223,372,036,854,775,807"),
]


@pytest.mark.parametrize(
    ("text", "named"), [case[1:] for case in MALFORMED], ids=[case[0] for case in MALFORMED]
)
def test_a_malformed_batch_file_is_refused_and_what_is_wrong_named(text: str, named: str) -> None:
    with pytest.raises(BadBatchFile) as caught:
        parse(text, source="batch.toml")
    assert caught.value.message.startswith("batch.toml")
    assert named in str(caught.value)
    assert caught.value.exit_code == 2


SENTENCES = [
    ("gird = 1", "there is no key 'gird'; did you mean 'grid'?"),
    ("retries = 2", "retries is an option: put it into the table [options]"),
    ('seed = "x"', "seed must be a whole number, not text"),
    ("seed = 1.5", "seed must be a whole number, not a decimal number"),
    ("[grid]\nx = 1", "a value of grid must be a list, not a whole number"),
    (
        '[[task]]\nrun = "m:f"\naftr = []',
        "no key 'aftr' in [[task]] number 1; did you mean 'after'?",
    ),
    ('[[task]]\nrun = "m:f"\nafter = "x"', "[[task]] number 1: after must be a list, not text"),
    (GRID + "[options]\nretires = 3", "there is no option 'retires'; did you mean 'retries'?"),
    (GRID + '[options]\nretries = "3"', "retries: '3' is not a whole number"),
]


@pytest.mark.parametrize(("text", "sentence"), SENTENCES)
def test_a_mistake_in_a_batch_file_is_explained_in_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(BadBatchFile) as caught:
        parse(text)
    assert sentence in str(caught.value)


@given(st.text(max_size=80))
def test_any_text_is_a_batch_or_a_clear_error(text: str) -> None:
    try:
        parse(text)
    except BadBatchFile:
        pass


words = st.sampled_from(
    ["run", "shell", "name", "seed", "replicates", "codec", "params", "grid", "variant", "case",
     "task", "options", "common_random_numbers"]
)  # fmt: skip
things = st.sampled_from(
    ["1", "-1", "0", "1.5", "nan", "true", '"m:f"', '"x"', "[1]", "[]", "[[1]]", "{}", "{x = [1]}",
     "{ x = 1 }", '[{ run = "m:f" }]', "[{ x = 1 }]", "2024-01-01"]
)  # fmt: skip


@given(st.dictionaries(words, things, max_size=5))
def test_any_mixture_of_keys_and_values_is_a_batch_or_a_clear_error(keys: dict[str, str]) -> None:
    try:
        parse("\n".join(f"{key} = {value}" for key, value in keys.items()))
    except BadBatchFile:
        pass
