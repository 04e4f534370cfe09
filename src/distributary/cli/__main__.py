"""``python -m distributary.cli``."""

import sys

from distributary.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
