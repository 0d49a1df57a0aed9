"""A password in the address of a yard: in nothing that is printed, and in no file."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import call
from databases import postgres_url

SECRET = "Zx%40Qw%2F9"
PARTS = ("Zx%40", "Qw%2F", "Zx@Qw", "Qw/9")

COMMANDS = (
    ("status",),
    ("run", "sample_tasks:fails", "--grid", "x=0..3", "--name", "b"),
    ("run", "sample_tasks:double", "--grid", "x=0..3", "--name", "c", "--json"),
    ("run", "sample_tasks:double", "--grid", "x=0..3", "--dry-run"),
    ("status", "--json"),
    ("status", "b"),
    ("results", "b"),
    ("results", "b", "--failures"),
    ("results", "none"),
    ("logs", "b/1"),
    ("report", "b"),
    ("export", "b"),
    ("repro", "b/1"),
    ("resume",),
    ("worker",),
    ("doctor",),
    ("doctor", "--json"),
    ("gc", "--dry-run"),
    ("queue", "install-agent-zero", "."),
)


def assert_hidden(text: str, where: object) -> None:
    for part in PARTS:
        assert part not in text, f"{part} in {where}: {text}"


@pytest.mark.parametrize("place", ["user", "query"])
def test_a_password_is_in_nothing_that_commands_print_or_write(
    tmp_path: Path,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RUNYARD_FILES", raising=False)
    url = postgres_url()
    scheme, _, rest = url.partition("://")
    before, _, query = rest.partition("?")
    user, _, host = before.rpartition("@")
    if place == "user":
        url = f"{scheme}://{user.partition(':')[0]}:{SECRET}@{host}?{query}"
    else:
        url = f"{url}&password={SECRET}&sslpassword={SECRET}"
    commands = COMMANDS if place == "user" else COMMANDS[:3]
    said = {words: "\n".join(call(capfd, *words, "--yard", url)[1:]) for words in commands}
    for words, text in said.items():
        assert_hidden(text, words)
    assert "***" in said[commands[1]]  # in the hint what to type next
    for path in tmp_path.rglob("*"):
        assert_hidden(str(path), "a path")
        if path.is_file():
            assert_hidden(path.read_bytes().decode(errors="replace"), path)


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://me:{SECRET}@127.0.0.1:1/lab",
        f"postgresql://me@127.0.0.1:1/lab?password={SECRET}&sslpassword={SECRET}",
        f"postgresql://me:{SECRET}@nowhere.invalid,127.0.0.1:1/lab?connect_timeout=2",
        f"postgresql://me:{SECRET}@h/lab?nonsense=1",
        f"postgresql://me:{SECRET}@h/lab?connect_timeout=x",
        f"postgresql://me:{SECRET}%zz@h/lab",
        f"postgresql://me:Zx@Qw/9{SECRET}@h/lab",
        f"POSTGRESQL://me:{SECRET}@h/lab",
        f"mysql://me:{SECRET}@h/lab",
        f"postgresql:/me:{SECRET}@h/lab",
        f"postgresql//me:{SECRET}@h/lab",
        f"postgresql:me:{SECRET}@h/lab",
        f"me:{SECRET}@h/lab",
        f"//me:{SECRET}@h/lab",
        f"host=h user=me password={SECRET}",
    ],
)
@pytest.mark.parametrize("command", ["status", "doctor", "worker"])
@pytest.mark.parametrize("debug", ["", "1"])
def test_an_address_that_does_not_work_is_told_without_its_password(
    tmp_path: Path,
    address: str,
    command: str,
    debug: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUNYARD_YARD", address)
    monkeypatch.setenv("RUNYARD_DEBUG", debug)
    said = "\n".join(call(capfd, command)[1:])
    assert_hidden(said, address)
    assert "unexpected" not in said
    assert ("Traceback" in said) <= bool(debug)
    for path in tmp_path.rglob("*"):
        assert_hidden(str(path), "a path")
