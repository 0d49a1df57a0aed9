"""Addresses are shown without their passwords."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.addresses import check, masked, scrubbed, shown
from runyard.errors import UsageError
from runyard.events import Redactor

RAW = "abcXYZ019:@/?#&=%+ \"'<>;,[]$!é"
# Letters that nothing else of these addresses has, so that any of them is a part of the password.
PASSWORDS = st.text(RAW, max_size=12).map(lambda text: f"QQQ{text}QQQ")
PLACES = (
    "postgresql://lab:{}@db.example.org/lab",
    "postgres://:{}@db.example.org:5432,other:5433/lab?sslmode=require",
    "postgresql://lab:{}@[::1]:5432/lab",
    "postgresql://lab@db/lab?password={}&options=-csearch_path%3Dalice",
    "postgresql://lab@db/lab?sslmode=require&sslpassword={}",
    "postgresql://lab@db/lab?pass%77ord={}",
    "postgresql://lab@db/lab?oauth_client_secret={}",
)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("postgresql://a:b@h/d", "postgresql://a:***@h/d"),
        ("postgresql://a@h/d", "postgresql://a@h/d"),
        ("postgresql://h:5432/d?user=a@b", "postgresql://h:5432/d?user=a@b"),
        ("postgresql://a:p@q@h/d", "postgresql://a:***@h/d"),
        ("postgresql://a:p/q@h/d", "postgresql://a:***@h/d"),
        ("postgresql://a@h/d?password=b&x=y", "postgresql://a@h/d?password=***&x=y"),
        ("postgresql:///d?host=/tmp", "postgresql:///d?host=/tmp"),
        ("postgresql://a@h/d?user=u?password=b", "postgresql://a@h/d?user=u?password=***"),
        ("postgresql://a@h/d;password=b", "postgresql://a@h/d;password=***"),
        ("postgresql://a@h/d&password=b", "postgresql://a@h/d&password=***"),
        ("host=h password='a b' user=u", "host=h password=*** user=u"),
        ("some/folder", "some/folder"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, expected: str) -> None:
    assert shown(address) == expected


@pytest.mark.parametrize("place", PLACES)
@given(password=PASSWORDS)
def test_no_part_of_an_encoded_password_is_shown(place: str, password: str) -> None:
    encoded = quote(password, safe="")
    address = place.format(encoded)
    check(address)
    text = f"can't reach {address}, user {password} or {encoded}: no"
    for seen in (shown(address), scrubbed(text, address), masked(f"at {address}!")):
        assert "Q" not in seen
    assert "Q" not in Redactor({}).redact_text(f"see {address} there")


@given(password=PASSWORDS)
def test_an_address_that_shows_a_password_or_can_not_be_read_is_refused(password: str) -> None:
    address = f"postgresql://lab:{password}@db.example.org/lab"
    try:
        check(address)
    except UsageError as error:
        assert "Q" not in str(error)
    else:
        assert "Q" not in shown(address)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://a:p/q@h/d", "postgresql://a:p?q@h/d", "postgresql://a:p@q@h/d",
        "postgresql://a:12/34@h/d", "postgresql://a:p%q@h/d", "postgresql://[::1/d",
        "postgresql://h/d?user=a?password=pq", "postgresql://a@h/d&password=pq",
        "postgresql://a@h/d;password=pq", "postgresql://a@h/d?user=u;sslpassword=pq",
        "postgresql://a@h/d#password%3Dpq", "postgresql://a@h/d?user=u%26password=pq",
        "postgresql://a;password=pq@h/d",
    ],
)  # fmt: skip
def test_an_address_with_an_unclear_password_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="can't be read") as caught:
        check(address)
    assert "pq" not in str(caught.value)


@pytest.mark.parametrize(
    "folder",
    [
        ".runyard", "/data/yard", "memory:", "a:b", "postgres", "postgresql-yards/one", "x@y/z",
        "/srv/a:b@c/yard", "passwords/yard", "C:/x",
    ],
)  # fmt: skip
def test_a_folder_is_no_address(folder: str) -> None:
    check(folder)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql:/me:secret@h/lab", "postgres:me@h/lab", "PostgreSQL//me:secret@h/lab",
        "me:secret@h/lab", "//me:secret@h/lab", "host=h password=secret", "x?sslpassword = secret",
    ],
)  # fmt: skip
def test_an_address_that_would_be_a_folder_is_refused_unseen(address: str) -> None:
    with pytest.raises(UsageError, match="the address of the yard can't be read") as caught:
        check(address)
    assert "secret" not in str(caught.value)
