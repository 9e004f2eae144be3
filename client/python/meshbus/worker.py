"""`python3 -m meshbus.worker`: a rank that serves Python actors until it is told to stop."""
from __future__ import annotations

import sys

from meshbus import _adapter, proc


def main() -> None:
    """Serves. The main thread runs endpoints with thread="main"."""
    proc._start({}, lambda reason: _adapter.MainThread.stop())
    _adapter.MainThread.serve()


if __name__ == "__main__":
    main()
    sys.exit(0)
