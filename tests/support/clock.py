"""One unit for all time-outs of the tests, scaled for slow machines."""

from __future__ import annotations

import os

LIMIT = float(os.environ.get("DISTRIBUTARY_TEST_LIMIT", "1"))
