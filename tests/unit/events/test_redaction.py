from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runyard.events import REDACTED, Redactor

PLAIN = Redactor({})
ENVIRON = {
    "OPENAI_API_KEY": "correct horse battery",
    "DB_PASSWORD": "p@ss/w0rd!",
    "LONG_TOKEN": "correct horse battery staple",
    "HOME": "/home/somebody",
    "KEYBOARD": "qwertyuiop",
    "MONKEY": "bananas-for-all",
    "PIN_TOKEN": "12345",
    "PWD": "/home/somebody/here",
}
KNOWN = Redactor(ENVIRON)

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc=\n-----END RSA PRIVATE KEY-----"
TOKENS = [
    "sk-proj-a1B2c3D4e5F6g7H8i9J0k1",
    "sk-ant-api03-AbCdEfGhIjKlMnOpQrSt",
    "sk_live_a1B2c3D4e5F6g7",
    "ghp_" + "a1B2c3" * 6,
    "gho_" + "a1B2c3" * 6,
    "github_pat_11ABCDEFG0_abcdefghijklmnop",
    "glpat-abcdefghij0123456789",
    "xoxb-1234567890-abcdefghij",
    "AKIAIOSFODNN7EXAMPLE",
    "AIza" + "SyA1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q",
    "hf_" + "aBcDeFgHiJ" * 3,
    JWT,
    PEM,
    PEM[:50],
]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("around", ["{}", "got {} back", "x={}", '{{"a": "{}"}}', "\n{}\n", "({})"])
def test_well_known_tokens_go_wherever_they_stand(token: str, around: str) -> None:
    clean = PLAIN.redact_text(around.format(token))
    assert REDACTED in clean
    assert token not in clean


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("postgres://me:hunter2@host:5432/db?x=1", "postgres://me:[redacted]@host:5432/db?x=1"),
        ("redis://:hunter2@host", "redis://:[redacted]@host"),
        ("at https://me:p@ss:w0rd@host/x.", "at https://me:[redacted]@host/x."),
        ("Authorization: Bearer abcdefghij", "Authorization: Bearer [redacted]"),
        ("authorization: Basic dXNlcjpw", "authorization: Basic [redacted]"),
        ("sent bearer a1b2c3d4e5 there", "sent bearer [redacted] there"),
        ("password=hunter2", "password=[redacted]"),
        ("DB_PASSWORD = hunter2; next", "DB_PASSWORD = [redacted]; next"),
        ("userpassword: hunter2, next", "userpassword: [redacted], next"),
        ("token: abc.def-123 next", "token: [redacted] next"),
        ("accessToken=abcdef", "accessToken=[redacted]"),
        ("AWS_SECRET_ACCESS_KEY=abc/def+ghi", "AWS_SECRET_ACCESS_KEY=[redacted]"),
        ("?api_key=abc&page=2", "?api_key=[redacted]&page=2"),
        ("{'password': 'hun ter\\'2', 'b': 1}", "{'password': '[redacted]', 'b': 1}"),
        ('{"client_secret": "a b", "c": 1}', '{"client_secret": "[redacted]", "c": 1}'),
        (r"{\"token\": \"a b\", \"c\": 1}", r"{\"token\": \"[redacted]\", \"c\": 1}"),
        ("curl --password hunter2 --url x", "curl --password [redacted] --url x"),
        ("tool --github-token=abc x", "tool --github-token=[redacted] x"),
        (f"before {PEM} after", "before [redacted] after"),
    ],
)
def test_secrets_after_a_telling_name_go_and_the_rest_stays(text: str, clean: str) -> None:
    assert PLAIN.redact_text(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "the token was refused and the password expired",
        "a keyboard, a monkey and the secretary",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "id 123e4567-e89b-12d3-a456-426614174000",
        "3.14159 and 12345678901234567890",
        "http://localhost:8080/path/a@b.example",
        "http://example.com:80 and me@example.com",
        "max_tokens=100 token_count: 5",
        "if token == other: pass",
        "def f(token: str, password: str | None = None) -> bool",
        'password="" token=None',
        "the bearer understands the bearing",
        "task-sk-learn-pipelines-are-fun",
        "sk-learn-pipelines-are-wonderful",
        "PWD=/home/somebody",
        "KeyError: 'key' at /src/asia/x.py:12",
        "eyJust a word. Another one.",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert PLAIN.redact_text(text) == text


def test_values_of_secret_variables_go_whole_and_others_stay() -> None:
    text = "use correct horse battery staple, or correct horse battery, as /home/somebody"
    assert KNOWN.redact_text(text) == "use [redacted], or [redacted], as /home/somebody"
    for name in ("HOME", "KEYBOARD", "MONKEY", "PIN_TOKEN", "PWD"):
        assert KNOWN.redact_text(f"<{ENVIRON[name]}>") == f"<{ENVIRON[name]}>"


def test_values_of_secret_variables_go_in_quoted_forms_too() -> None:
    assert "w0rd" not in KNOWN.redact_text("https://x/?q=p%40ss%2Fw0rd%21")
    many_lines = Redactor({"A_KEY": 'first\nsecond "third"'})
    assert many_lines.redact_text(r'{"a":"first\nsecond \"third\""}') == '{"a":"[redacted]"}'


def test_a_secret_with_blanks_goes_whole_after_a_telling_name() -> None:
    assert KNOWN.redact_text("password=correct horse battery.") == "password=[redacted]"


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNYARD_TEST_TOKEN", "not-to-be-seen")
    assert Redactor().redact_text("<not-to-be-seen>") == "<[redacted]>"


def test_nested_data_is_redacted_by_text_and_by_key() -> None:
    data = {
        "text": "password=hunter2",
        "list": ["ok", ("ghp_" + "a1B2c3" * 6, 5)],
        "apiKey": {"deep": "x"},
        "password": 1234,
        "auth": "x",
        "Authorization": ["x"],
        "secret": None,
        "token": True,
        "token_count": 99,
        "input_tokens": 5,
        "key": "k1",
        "sort_key": "name",
        "author": "somebody",
        7: 8.5,
    }
    assert PLAIN.redact(data) == {
        **data,
        "text": "password=[redacted]",
        "list": ["ok", (REDACTED, 5)],
        "apiKey": REDACTED,
        "password": REDACTED,
        "auth": REDACTED,
        "Authorization": REDACTED,
    }


def test_the_data_given_is_left_alone() -> None:
    data = {"password": "x", "list": ["token=abcdef"]}
    PLAIN.redact(data)
    assert data == {"password": "x", "list": ["token=abcdef"]}


pieces = st.sampled_from(
    [
        *TOKENS, *ENVIRON.values(), REDACTED, "password", "token", "secret", "api_key", "--token ",
        "bearer ", "Bearer ", "basic ", "://", "https://u:", "@", ":", "=", "=>", '"', "'", '\\"',
        "\\", " ", "\n", ",", ";", "&", "/", "-", "_", "x", "7", "None", "(", "]", "[", "hunter2",
    ]
)  # fmt: skip
mixtures = st.lists(pieces, max_size=12).map("".join) | st.text(max_size=50)


@given(mixtures)
@example("password=[redacted]")
@example("https://u:[redacted]@h")
def test_redaction_twice_is_redaction_once(text: str) -> None:
    once = KNOWN.redact_text(text)
    assert KNOWN.redact_text(once) == once


@given(mixtures, st.sampled_from(["correct horse battery", "p@ss/w0rd!"]), mixtures)
def test_a_known_value_never_survives(before: str, secret: str, after: str) -> None:
    assert secret not in KNOWN.redact_text(before + secret + after)


@given(st.lists(st.sampled_from(["alpha", "beta", "42", "0x1f", "9fceb02d", "3.5", "a-b_c"])))
def test_words_and_numbers_stay(words: list[str]) -> None:
    text = " ".join(words)
    assert KNOWN.redact_text(text) == text


@pytest.mark.parametrize(
    "piece",
    ["a", "-", "sk-", "-sk-", "eyJ", "-eyJ-", "://", "://a:", ":", "--a-", "bearer ", "password",
     "token=", "secret'", "-----BEGIN ", "ghp_", '\\"', "AIza-", "xoxb-"],
)  # fmt: skip
def test_hostile_text_takes_time_in_proportion_to_its_length(piece: str) -> None:
    def seconds(length: int) -> float:
        text = (piece * length)[:length]
        taken = []
        for _ in range(3):
            start = time.thread_time()
            PLAIN.redact_text(f"token {text}")
            taken.append(time.thread_time() - start)
        return min(taken)

    assert seconds(80_000) < 60 * seconds(8_000) + 0.05
