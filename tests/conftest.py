"""For all tests: the settings that `rules` makes before torch works; and no test is timed."""

from hypothesis import settings

import rules  # noqa: F401  # it sets MKL_CBWR, which must stand before the first product

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
