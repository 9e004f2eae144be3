"""How Python values travel: one body, pickle protocol 5, large buffers out of band and aligned.

    magic "\\xffMBP" | flags u8 | 3 zeros | u32 pickled bytes | u32 buffers | u64 size of each
    | pickle | zeros to a multiple of 64 | buffer | zeros | buffer | ...

A body without the magic comes from something that is not Python (`meshbus call`, C++): an endpoint
gets it as bytes, and answers bytes.
"""
from __future__ import annotations

import pickle
import struct
import sys
from typing import Any

from meshbus import _build_info
from meshbus.actor import EndpointMethod
from meshbus.errors import ConfigurationError

MAGIC = b"\xffMBP"
PICKLE = 0
"""Flags of a request: answer in this format."""
TEXT = 1
"""Flags of a request: answer text that reducers read."""
RAISED = 2
"""Flags of an answer: (type and text, traceback, pickled exception or None)."""

_HEAD = struct.Struct("<4sB3xII")
_ALIGNMENT = 64
_ZEROS = bytes(_ALIGNMENT)

MOST_SOURCE = 256 * 1024
"""Characters of files whose lines go with what is defined in them."""
LITTLE_SOURCE = 16 * 1024
"""The same with each of many: cells of a notebook, but no long script."""
_MOST_LOOKED_AT = 1000

Parts = list[Any]
"""Bytes-like objects that go one behind the other."""


class Foreign(ValueError):
    """A body that Python did not make."""


def dumps(value: Any, flags: int = PICKLE, what: str = "the value",
          most_source: int = MOST_SOURCE) -> Parts:
    """The parts of a body. The C pickler comes first: it is many times as quick as cloudpickle,
    which takes what it refuses and what __main__ defines (by value then)."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        data = pickle.dumps(value, 5, buffer_callback=buffers.append)
        by_value = b"__main__" in data
    except Exception:  # what a __reduce__ raises, too
        by_value = True
    if by_value:
        buffers = []
        data = _by_value(value, buffers, what, most_source)
    if not buffers:
        return [_HEAD.pack(MAGIC, flags, len(data), 0), data]
    raws = [buffer.raw() for buffer in buffers]
    sizes = struct.pack(f"<{len(raws)}Q", *(raw.nbytes for raw in raws))
    parts: Parts = [_HEAD.pack(MAGIC, flags, len(data), len(raws)) + sizes, data]
    at = len(parts[0]) + len(data)
    for raw in raws:
        parts += [_ZEROS[: -at % _ALIGNMENT], raw]
        at += -at % _ALIGNMENT + raw.nbytes
    return parts


def _by_value(value: Any, buffers: list[pickle.PickleBuffer], what: str,
              most_source: int) -> bytes:
    import cloudpickle  # imported where it is needed: 70 ms
    sources = _sources_of(value, most_source)
    try:
        data: bytes = cloudpickle.dumps(_WithSources(value, sources) if sources else value, 5,
                                        buffer_callback=buffers.append)
    except Exception as error:
        raise ConfigurationError(f"{what} cannot be pickled: {error}") from error
    return data


class _WithSources:
    """A value that is pickled with the lines of the files that its code is from, for tracebacks
    where these files are not: of a notebook, or of another machine."""

    def __init__(self, value: Any, sources: dict[str, list[str]]) -> None:
        self._value = value
        self._sources = sources

    def __reduce__(self) -> tuple[Any, ...]:
        return (_with_sources, (self._sources, self._value))


def _with_sources(sources: dict[str, list[str]], value: Any) -> Any:
    import linecache
    for name, lines in sources.items():
        if not linecache.getlines(name):
            linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    return value


def _sources_of(value: Any, most: int) -> dict[str, list[str]]:
    """The lines of the files of the classes and functions that stand in a tuple or list and travel
    by value; `most` characters in all."""
    import linecache
    import types
    found: dict[str, list[str]] = {}
    seen: set[int] = set()
    left = most

    def is_by_value(one: Any) -> bool:
        module = getattr(one, "__module__", None)
        return module == "__main__" or module not in sys.modules

    def look(one: Any) -> None:
        nonlocal left
        if id(one) in seen or len(seen) > _MOST_LOOKED_AT:
            return
        seen.add(id(one))
        if isinstance(one, types.FunctionType):
            name = one.__code__.co_filename
            if is_by_value(one) and name not in found:
                lines = linecache.getlines(name)
                size = sum(map(len, lines))
                if lines and size <= left:
                    left -= size
                    found[name] = lines
        elif isinstance(one, type) and is_by_value(one):
            for member in vars(one).values():
                look(member.function if isinstance(member, EndpointMethod) else member)
        elif isinstance(one, (tuple, list)):
            for part in one[:16]:
                look(part)

    try:
        look(value)
    except Exception:  # of somebody's descriptor: tracebacks have no lines then
        return {}
    return found


def flags_of(body: Any) -> int:
    """The flags of a body; PICKLE when Python did not make it."""
    view = memoryview(body)
    if len(view) < _HEAD.size or view[:4] != MAGIC:
        return PICKLE
    return int(_HEAD.unpack_from(view)[1])


def releases(has_cloudpickle: bool) -> dict[str, str]:
    """What both ends of a spawn must have in the same release for pickles to mean the same."""
    names = {"Python": f"{sys.version_info[0]}.{sys.version_info[1]}",
             "meshbus": _build_info.VERSION}
    if has_cloudpickle:
        import cloudpickle
        names["cloudpickle"] = cloudpickle.__version__
    return names


def spawn_params(cls: type, args: Any, kwargs: Any) -> bytes:
    """What an actor is made of: see _adapter.make_actor()."""
    parts = dumps((cls, args, kwargs), what=f"{cls.__name__} or one of its arguments")
    found = releases(b"cloudpickle" in parts[1])
    head = ",".join(f"{name} {release}" for name, release in found.items())
    return b"".join((head.encode(), b"\n", *parts))


def loads(body: Any) -> tuple[int, Any]:
    """(flags, value). Arrays lie in the body, which they keep alive. Raises Foreign for bytes that
    Python did not make."""
    view = memoryview(body)
    if len(view) < _HEAD.size or view[:4] != MAGIC:
        raise Foreign("not from Python")
    _, flags, length, count = _HEAD.unpack_from(view)
    at = _HEAD.size
    if not count:
        return flags, pickle.loads(view[at:at + length])
    sizes = struct.unpack_from(f"<{count}Q", view, at)
    at += 8 * count
    data = view[at:at + length]
    at += length
    buffers = []
    for size in sizes:
        at += -at % _ALIGNMENT
        buffers.append(view[at:at + size])
        at += size
    return flags, pickle.loads(data, buffers=buffers)
