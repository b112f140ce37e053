"""Every law is tried on random tables, and every fault on the few built-in tables known to show it."""

from importlib.util import find_spec

import pytest

from specverify.cases import Case
from specverify.contract import Verifier
from specverify.menu import menu
from specverify.registry import load


@pytest.fixture(scope="session")
def witnesses() -> list[Case]:
    """Give the exact built-in cases small enough to enumerate in no time."""
    return [case for case in menu() if case.exact and case.vocab_size <= 4 and case.num_draft_tokens in (1, 2)]


if find_spec("specverify.plugin") is None:  # the plugin gives the samplers that were asked for

    @pytest.fixture
    def specverify_sampler() -> Verifier:
        """Give the sampler that is tried on random pairs."""
        return load("reference")
