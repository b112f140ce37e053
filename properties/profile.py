"""A law is checked on the same examples everywhere and at any speed, so that what fails once fails again.

No profile is registered or loaded: the user's own stay as they are, and so does the number of examples they set.

>>> from hypothesis import given
>>> from specverify.properties import distributions, reproducible
>>> @reproducible
... @given(distributions(3))
... def test_rows_are_laws(row):
...     assert sum(row) == 1
>>> test_rows_are_laws()
"""

from typing import Final

from hypothesis import HealthCheck, settings

__all__ = ["reproducible"]

reproducible: Final = settings(
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # the only other thing that depends on the machine's speed
)
"""Settings for one test, used as a decorator: the same examples in every run, and no time limits."""
