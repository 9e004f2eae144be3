"""The command `meshbus` of a wheel: the program of this very package."""
from __future__ import annotations

import os
import sys


def main() -> None:
    """Becomes the program."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "meshbus")
    os.execv(path, [path, *sys.argv[1:]])
