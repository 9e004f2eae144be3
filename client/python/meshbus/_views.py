"""What meshes and slices have in common."""
from __future__ import annotations

from typing import Any, TypeVar

from meshbus.errors import ConfigurationError, OutOfRange

Ref = TypeVar("Ref")


def cut(ref: Ref, selection: dict[str, int | slice]) -> Ref:
    """The slice of a reference that has range() and at(): `{"host": 0, "gpu": slice(0, 4, 2)}`."""
    view: Any = ref
    for label, wanted in selection.items():
        if not isinstance(wanted, slice):
            size = dict(zip(*view.shape)).get(label, 0)
            index = wanted + size if wanted < 0 else wanted
            if index < 0:
                raise OutOfRange(f"{label}={wanted}: there are {size}")
            view = view.at(label, index)
            continue
        start, stop, step = wanted.start or 0, wanted.stop, wanted.step or 1
        if start < 0 or step < 1 or (stop is not None and stop < 0):
            raise ConfigurationError(f"slice {label}={wanted}: begin, end and step count from the "
                                     "front, and the step is at least 1")
        view = view.range(label, start, stop, step)
    return view  # type: ignore[no-any-return]
