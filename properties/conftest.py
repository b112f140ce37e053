"""Every law is tried on random tables, and every fault on the few built-in tables known to show it."""

import pytest

from specverify.cases import Case
from specverify.menu import menu


@pytest.fixture(scope="session")
def witnesses() -> list[Case]:
    """Give the exact built-in cases small enough to enumerate in no time."""
    return [case for case in menu() if case.exact and case.vocab_size <= 4 and case.num_draft_tokens in (1, 2)]
