"""Shapes and values by rank: `Extent`, `Point`, `ValueMesh`."""
from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar, Union

from meshbus.errors import ConfigurationError, NotExist, OutOfRange, ParseError

T = TypeVar("T")

Axes = Union["Extent", Mapping[str, int], str, int, None]
"""Axes as people write them: `{"gpu": 4}`, `"gpu=4"`, `4` (axis `proc`), or an Extent."""


class Extent:
    """The shape of a mesh: labelled axes with sizes. `Extent(host=2, gpu=4)` has 8 ranks."""

    __slots__ = ("labels", "sizes")

    def __init__(self, **axes: int) -> None:
        """The axes, slowest first, with their sizes."""
        self.labels: tuple[str, ...] = tuple(axes)
        self.sizes: tuple[int, ...] = tuple(axes.values())
        for label, size in axes.items():
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise ConfigurationError(f"axis {label} has {size!r} ranks: a number is needed")

    @classmethod
    def of(cls, axes: Axes) -> Extent:
        """The extent of whatever people write for one."""
        if isinstance(axes, Extent):
            return axes
        if axes is None:
            return cls()
        if isinstance(axes, str):
            return cls.parse(axes)
        if isinstance(axes, int):
            return cls(proc=axes)
        if not isinstance(axes, Mapping) or not all(isinstance(label, str) for label in axes):
            raise ConfigurationError(f'axes {axes!r}: expected 4, "gpu=4" or {{"gpu": 4}}')
        return cls(**axes)

    @classmethod
    def parse(cls, text: str) -> Extent:
        """Reads `host=2,gpu=4`."""
        axes: dict[str, int] = {}
        position = 0
        for part in text.split(",") if text else []:
            label, equals, size = part.partition("=")
            label = label.strip()
            if not equals or not label or not size.strip().isdecimal() or label in axes:
                raise ParseError(f"extent {text!r}: expected LABEL=SIZE at {position}, "
                                 f"found {part!r}", position=position)
            axes[label] = int(size)
            position += len(part.encode()) + 1
        return cls(**axes)

    @classmethod
    def from_shape(cls, shape: tuple[Iterable[str], Iterable[int]]) -> Extent:
        """For the package: the shape as the C++ library gives it."""
        return cls(**dict(zip(shape[0], shape[1])))

    @property
    def num_ranks(self) -> int:
        """The product of the sizes."""
        product = 1
        for size in self.sizes:
            product *= size
        return product

    def point(self, rank: int) -> Point:
        """The point of a rank: the last axis is the fastest."""
        if not 0 <= rank < self.num_ranks:
            raise OutOfRange(f"there is no rank {rank} in {self}")
        coordinates = []
        for size in reversed(self.sizes):
            coordinates.append(rank % size)
            rank //= size
        return Point(self, tuple(reversed(coordinates)))

    def points(self) -> Iterator[Point]:
        """All points, in the order of their ranks."""
        return (self.point(rank) for rank in range(self.num_ranks))

    def __str__(self) -> str:
        return ",".join(f"{label}={size}" for label, size in zip(self.labels, self.sizes))

    def __repr__(self) -> str:
        return f"Extent({', '.join(f'{a}={n}' for a, n in zip(self.labels, self.sizes))})"

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Extent)
                and (self.labels, self.sizes) == (other.labels, other.sizes))

    def __hash__(self) -> int:
        return hash((self.labels, self.sizes))

    def __reduce__(self) -> tuple[object, ...]:
        return (Extent.of, (dict(zip(self.labels, self.sizes)),))


class Point(Mapping[str, int]):
    """A place in a mesh: `point["gpu"]` is 3; `str(point)` is "host=1,gpu=3"."""

    __slots__ = ("extent", "coordinates")

    def __init__(self, extent: Extent, coordinates: tuple[int, ...]) -> None:
        self.extent = extent
        self.coordinates = coordinates

    @property
    def rank(self) -> int:
        """Its rank in its extent."""
        rank = 0
        for size, coordinate in zip(self.extent.sizes, self.coordinates):
            rank = rank * size + coordinate
        return rank

    def __getitem__(self, label: str) -> int:
        for name, coordinate in zip(self.extent.labels, self.coordinates):
            if name == label:
                return coordinate
        raise NotExist(f"there is no axis {label!r}; there are {', '.join(self.extent.labels)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.extent.labels)

    def __len__(self) -> int:
        return len(self.coordinates)

    def __str__(self) -> str:
        return ",".join(f"{label}={i}" for label, i in self.items())

    def __repr__(self) -> str:
        return f"<Point {self}>"

    def __hash__(self) -> int:
        return hash((self.extent, self.coordinates))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Point):
            return (self.extent, self.coordinates) == (other.extent, other.coordinates)
        return dict(self) == other

    def __reduce__(self) -> tuple[object, ...]:
        return (Point, (self.extent, self.coordinates))


class ValueMesh(Generic[T]):
    """A value for each rank of a mesh, or what went wrong there.

    `values[3]` is the value of rank 3, or raises its error; iterating does so for all. `items()`
    gives points and values, `failed` the errors by rank.
    """

    __slots__ = ("extent", "_values")

    def __init__(self, extent: Extent, values: Iterable[T | Exception]) -> None:
        self.extent = extent
        self._values: list[T | Exception] = list(values)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, rank: int) -> T:
        value = self._values[rank]
        if isinstance(value, _Failed):
            raise value.error
        return value  # type: ignore[return-value]

    def __iter__(self) -> Iterator[T]:
        return (self[rank] for rank in range(len(self)))

    def at(self, **coordinates: int) -> T:
        """The value at a point: `values.at(host=1, gpu=0)`."""
        unknown = set(coordinates) ^ set(self.extent.labels)
        if unknown:
            raise ConfigurationError(f"at() wants each axis of {self.extent} once; wrong: "
                                     f"{', '.join(sorted(unknown))}")
        for label, size in zip(self.extent.labels, self.extent.sizes):
            if not 0 <= coordinates[label] < size:
                raise OutOfRange(f"{label}={coordinates[label]}: {self.extent} has {size}, from 0")
        point = Point(self.extent, tuple(coordinates[label] for label in self.extent.labels))
        return self[point.rank]

    def items(self) -> Iterator[tuple[Point, T]]:
        """(point, value) of each rank; raises at a rank that failed."""
        return ((self.extent.point(rank), self[rank]) for rank in range(len(self)))

    @property
    def failed(self) -> dict[int, Exception]:
        """The errors, by rank. Empty when every rank has a value."""
        return {rank: value.error for rank, value in enumerate(self._values)
                if isinstance(value, _Failed)}

    @property
    def ok(self) -> dict[int, T]:
        """The values, by rank, of the ranks that have one."""
        return {rank: value for rank, value in enumerate(self._values)  # type: ignore[misc]
                if not isinstance(value, _Failed)}

    def check(self) -> ValueMesh[T]:
        """Itself, when every rank has a value. Otherwise raises: the error of the rank that
        failed, or an ExceptionGroup when there are several."""
        failed = [value.error for value in self._values if isinstance(value, _Failed)]
        if not failed:
            return self
        if len(failed) == 1:
            raise failed[0]
        # For those that show only this line: the first of them.
        first = str(failed[0]).splitlines()[0][:200]
        raise ExceptionGroup(f"{len(failed)} of {len(self)} ranks failed; {first}", failed)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ValueMesh):
            return self.extent == other.extent and self._values == other._values
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(repr(value) for value in self._values)
        return f"<ValueMesh {self.extent}: [{values}]>"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{rank}<td>{self.extent.point(rank)}<td>{html.escape(repr(value))}"
                       for rank, value in enumerate(self._values))
        return (f"<table><caption>{self.extent}</caption>"
                f"<tr><th>rank<th>point<th>value{rows}</table>")


class _Failed(Exception):
    """In a ValueMesh: not a value but an error. An exception that an endpoint *returned* is a
    value."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error

    def __repr__(self) -> str:
        words = str(self.error).splitlines()[0] if str(self.error) else ""
        shown = words if len(words) <= 300 else f"{words[:120]} ... {words[-160:]}"
        return f"<failed: {type(self.error).__name__}: {shown}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Failed) and self.error is other.error

    __hash__ = Exception.__hash__


def failed(error: Exception) -> Exception:
    """For the package: an entry of a ValueMesh that stands for an error."""
    return _Failed(error)
