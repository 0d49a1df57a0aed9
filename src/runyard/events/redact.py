"""Remove secrets from what is recorded.

Three kinds are recognised: values of environment variables whose names look secret, common formats
(tokens, URL passwords, private keys, `password=…`), and values under dict keys that name a secret.
After such a name, doubtful values are redacted; elsewhere they are kept, so that words, numbers,
commit hashes and UUIDs stay readable.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from runyard.addresses import masked

REDACTED = "[redacted]"
"""Replaces each secret."""

_SHORTEST_VALUE = 6
_PASSES = 8

_ENV_WORD = re.compile(
    r"(?<![A-Z0-9])(?:(?:API)?KEYS?|TOKENS?|SECRETS?|PASS(?:WORDS?|WD|PHRASE)?|PWD|"
    r"CREDENTIALS?|CREDS?|AUTH(?:ORIZATION)?|DSN|COOKIE)(?![A-Z0-9])",
    re.IGNORECASE,
)

_STRONG = r"(?:password|passwd|passphrase)"
_KEYS = ("api", "access", "account", "deploy", "encryption", "master", "private", "signing", "ssh")
_KEY = rf"(?:{'|'.join(_KEYS)})[_-]?key"
_WORD = rf"(?:secret(?:[_-]?key)?|token|credentials?|authorization|(?<=_)pwd|{_KEY})"

_PASSWORD_KEY = re.compile(rf"{_STRONG}(?![a-z])", re.IGNORECASE)
_SECRET_KEY = re.compile(rf"(?<![a-z])(?:{_WORD}|creds|auth|dsn)(?![a-z])", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# The named groups around the secret are kept. No part may rescan the same run of characters from
# different starts: the text may be hostile, and quadratic time would stall the writer.
_SHAPES = rf"""
    -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----[\s\S]*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    | (?<![A-Za-z0-9_])(?:
        gh[pousr]_[A-Za-z0-9]{{20,}}
        | github_pat_[A-Za-z0-9_]{{20,}}
        | [rsp]k_(?:live|test)_[A-Za-z0-9]{{10,}}
        | hf_[A-Za-z0-9]{{20,}}
        | (?:AKIA|ASIA)[A-Z0-9]{{16}}(?![A-Za-z0-9])
        | AIza[A-Za-z0-9_-]{{30,}}
        | xox[abeoprs]-[A-Za-z0-9-]{{10,}}
        | glpat-[A-Za-z0-9_-]{{20,}}
        | sk-(?=[A-Za-z_-]{{0,40}}[0-9])[A-Za-z0-9_-]{{20,}}
        | (?<!-)eyJ[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{8,}}(?:\.[A-Za-z0-9_-]*)?
      )
    | (?P<bearer>(?<![A-Za-z0-9_])(?i:bearer)\ )
        (?:(?=[A-Za-z_.~+/-]*[0-9])[A-Za-z0-9_.~+/-]{{8,}}|[A-Za-z0-9_.~+/-]{{24,}})=*
    | (?P<name>
        (?i:{_STRONG}|(?<![A-Za-z0-9]){_WORD}|(?<=[a-z])(?-i:Token|Secret))
        (?:\\?["'])? [ \t]{{0,3}} (?:=>|:=|:(?!:)|=(?!=)) [ \t]{{0,3}}
        (?:(?i:bearer|basic|token)\ +)?
        | (?<![\w-])--(?:[a-z]+-){{0,3}}(?i:{_STRONG}|{_WORD})[ ]
      )
      (?!(?i:none|null|true|false|str|bytes|int)(?![^\s,;|)\]}}"']))
      (?: (?P<quote>\\?["'])(?:(?!(?P=quote))(?:\\.|.))+ | [^\s"',;&]+ )
    """

# Every format contains one of these; searching for literals only is far faster.
_HINTS = (
    r"://|private key|ghp_|gho_|ghu_|ghs_|ghr_|github_pat_|k_live_|k_test_|hf_|akia|asia|aiza|xox|"
    r"glpat-|sk-|eyj|bearer |passw|passphrase|secret|token|credential|authorization|_pwd|"
    + "|".join(f"{key}{dash}key" for key in _KEYS for dash in ("", "_", "-"))
)


def _replace(match: re.Match[str]) -> str:
    bearer, name, quotes = match.group("bearer", "name", "quote")
    return f"{bearer or (name or '') + (quotes or '')}{REDACTED}"


class Redactor:
    """Replaces secrets in text and data with `[redacted]`.

    Secret values are read from `environ` (by default this process's) when it is created.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        values = _secret_values(os.environ if environ is None else environ)
        # Longest first, so that a secret that starts with another one is replaced as a whole.
        alternation = "|".join(map(re.escape, sorted(values, key=len, reverse=True)))
        self._values = re.compile(alternation) if values else None
        # Compiled here (and cached by `re`) to keep imports fast.
        self._hints = re.compile(_HINTS)
        self._shapes = re.compile(_SHAPES, re.VERBOSE | re.ASCII)
        # The same few keys recur.
        self._redact_key = lru_cache(maxsize=1024, typed=True)(self.redact)

    def redact_text(self, text: str) -> str:
        """Return the text without its secrets."""
        if self._values is not None:
            text = self._values.sub(REDACTED, text)
        if not self._hints.search(text.lower()):
            return text
        # Removing a secret can expose a name that it hid, so repeat until nothing changes.
        for _ in range(_PASSES):
            before, text = text, self._shapes.sub(_replace, masked(text, REDACTED))
            if text == before:
                break
        return text

    def redact(self, value: Any) -> Any:
        """Return a copy of nested dicts, lists, tuples and strings without their secrets."""
        if isinstance(value, str):
            return self.redact_text(value)
        if isinstance(value, dict):
            return {
                self._redact_key(key): REDACTED if _names_a_secret(key, item) else self.redact(item)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.redact(item) for item in value]
        if isinstance(value, tuple):
            return tuple(self.redact(item) for item in value)
        return value


def _secret_values(environ: Mapping[str, str]) -> set[str]:
    found = set()
    for name, value in environ.items():
        if name == "PWD" or not _ENV_WORD.search(name):
            continue
        secret = value.strip()
        if len(secret) >= _SHORTEST_VALUE and secret not in REDACTED:
            found |= {secret, quote(secret, safe=""), json.dumps(secret)[1:-1]}
    return found


def _names_a_secret(key: object, value: object) -> bool:
    """Numbers under any name but a password's are taken for counts, such as `token_count`."""
    if not isinstance(key, str) or value is None or isinstance(value, bool) or value == "":
        return False
    of_password, of_secret = _kind_of_name(key)
    return of_password or (of_secret and not isinstance(value, int | float))


@lru_cache(maxsize=1024)
def _kind_of_name(key: str) -> tuple[bool, bool]:
    return (
        _PASSWORD_KEY.search(key) is not None,
        _SECRET_KEY.search(_CAMEL.sub("_", key)) is not None,
    )
