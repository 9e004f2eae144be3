"""For the package: arguments as people may write them, and errors in their words."""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from meshbus.errors import ConfigurationError


def _number(what: str, value: Any) -> float:
    try:
        if isinstance(value, (bool, str, bytes)):
            raise TypeError
        number = float(value)  # of numpy, Decimal and the like, too
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isnan(number):
        raise ConfigurationError(f"{what} is {value!r}: expected seconds, such as 2.5")
    return number


def seconds(what: str, value: Any) -> float:
    """A time from 0, in seconds."""
    number = _number(what, value)
    if number < 0:
        raise ConfigurationError(f"{what} is {value!r}: expected seconds from 0")
    return number


def timeout(value: Any) -> float:
    """The same for an answer; None: as long as it takes; below 0: it is over."""
    return 1e18 if value is None else max(0.0, _number("timeout", value))


def optional(what: str, value: Any) -> float | None:
    """A time from 0, in seconds, or None."""
    return None if value is None else seconds(what, value)


def limit(value: Any) -> float | None:
    """A time to wait, in seconds; None: for ever; below 0: it is over."""
    return None if value is None else max(0.0, _number("timeout", value))


def whole(what: str, value: Any) -> int:
    """A whole number."""
    if not hasattr(value, "__index__") or isinstance(value, bool):
        raise ConfigurationError(f"{what} is {value!r}: expected a whole number")
    return int(value)


def blocks(value: Any) -> int:
    """How many blocks come or go."""
    number = whole("blocks", value)
    if number < 1:
        raise ConfigurationError(f"blocks is {value}: expected a number from 1")
    return number


def port(value: Any) -> int:
    """The number of a port."""
    number = whole("a port", value)
    if not 0 <= number < 1 << 31:
        raise ConfigurationError(f"a port is {value!r}: expected 0 to {(1 << 31) - 1}")
    return number


def text(what: str, value: Any) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{what} is {value!r}: expected a text")
    return value


def words(what: str, values: Iterable[Any]) -> list[str]:
    """Texts, in a list."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ConfigurationError(f"{what} is {values!r}: expected a list of words")
    found = list(values)
    for word in found:
        if not isinstance(word, str):
            raise ConfigurationError(f"{what} has {word!r}: expected a text")
    return found


def settings(values: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Settings of meshbus, as texts: a number or a bool is written as the settings have it."""
    if values is not None and not isinstance(values, Mapping):
        raise ConfigurationError(f"settings is {values!r}: expected a dict, such as "
                                 '{"log.level": "debug"}')
    made = []
    for key, value in (values or {}).items():
        if not isinstance(key, str) or not isinstance(value, (str, int, float)):
            raise ConfigurationError(f"settings has {key!r}: {value!r}: expected texts, such as "
                                     '{"log.level": "debug"}')
        made.append((key, str(value).lower() if isinstance(value, bool) else str(value)))
    return made
