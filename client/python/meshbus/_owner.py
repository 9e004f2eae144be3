"""What owners have in common: `with` and `async with`."""
from __future__ import annotations

from types import TracebackType
from typing import Self


class ContextManager:
    """An owner that ends at the end of `with`, or of `async with`, which does it on a thread."""

    def _end(self, has_error: bool) -> None:
        """Ends what is owned and waits. `has_error`: an exception is on its way out already, and
        what goes wrong here must not hide it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._end(kind is not None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        import asyncio
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._end, kind is not None)
