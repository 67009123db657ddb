"""``python -m partway.container`` is ``partway-container``."""

from __future__ import annotations

import sys

from partway.container.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
