"""`python -m faregate`."""

import sys

from faregate.cli import main

sys.exit(main())
