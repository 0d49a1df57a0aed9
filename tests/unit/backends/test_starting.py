"""Workers that can't be started are an engine error in a sentence."""

from __future__ import annotations

import errno
import os

import pytest

from runyard.backends.base import starting
from runyard.errors import BackendError


@pytest.mark.parametrize(("number", "hint"), [(errno.EMFILE, "ulimit -n"), (errno.EAGAIN, None)])
def test_what_the_system_refuses_is_told_with_what_to_do(number: int, hint: str | None) -> None:
    with pytest.raises(BackendError, match="workers can't be started") as caught, starting():
        raise OSError(number, os.strerror(number))
    assert (caught.value.hint is None) == (hint is None)
    assert hint is None or hint in str(caught.value)
