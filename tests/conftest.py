"""For all tests: the settings that `rules` makes before torch works; and no test is timed.

With RULESWEEP_LONG in the environment, laws are tried on ten times as many cases.
"""

import os

import pytest
from hypothesis import settings

import rules  # noqa: F401  # it sets MKL_CBWR, which must stand before the first product

settings.register_profile("short", deadline=None)
settings.register_profile("long", deadline=None, max_examples=1000)
settings.load_profile("long" if os.environ.get("RULESWEEP_LONG") else "short")


@pytest.fixture
def compiler():
    """What compiles here; without a C++ compiler the test is skipped."""
    from rules import compiled

    try:
        return compiled.compiler()
    except compiled.CompilerError as error:
        pytest.skip(str(error))
