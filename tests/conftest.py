"""Settings for the whole suite: property tests draw the same examples on every run.

Set ``HYPOTHESIS_PROFILE=explore`` to draw new ones, as one should now and then.
"""

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
