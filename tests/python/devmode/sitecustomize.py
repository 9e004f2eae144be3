"""For `tests/python/run --devmode`: each interpreter that the tests start (launchers, ranks,
templates) adds its warnings, and exceptions that nothing could catch, to a file as well."""
import os
import sys
import threading
import warnings

FILE = os.environ.get("MESHBUS_TEST_WARNINGS")


def add(text: str) -> None:
    """One line; processes write side by side."""
    place = os.open(FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(place, f"{text}\n".encode(errors="replace"))
    os.close(place)


def shorten(path: str) -> str:
    """The last two names of a path: where the package lies differs."""
    return "/".join(path.split("/")[-2:])


def on_warning(message, category, filename, lineno, file=None, line=None) -> None:
    """Takes the place of warnings.showwarning, which writes to stderr."""
    add(f"{category.__name__}: {message} ({shorten(filename)}:{lineno})")


def on_exception(what: str, error: BaseException | None, place: object) -> None:
    """An exception that ends nowhere."""
    import traceback  # here: tests look at what a rank imports
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    at = f"{shorten(frames[-1].filename)}:{frames[-1].lineno}" if frames else "no frame"
    add(f"{what}: {type(error).__name__}: {error} in {place!r} ({at})")


if FILE:
    warnings.showwarning = on_warning
    before = sys.unraisablehook, threading.excepthook

    def on_unraisable(args, /) -> None:
        on_exception(args.err_msg or "unraisable", args.exc_value, args.object)
        before[0](args)

    def on_thread(args, /) -> None:
        on_exception("in a thread", args.exc_value, args.thread)
        before[1](args)
    sys.unraisablehook = on_unraisable
    threading.excepthook = on_thread
