"""``python -m partway`` is ``partway``."""

from __future__ import annotations

import sys

from partway.gateway.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
