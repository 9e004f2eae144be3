"""Actors: what travels between a launcher and its ranks, and what does not."""
import os
import pickle
import threading

import pytest

import meshbus


def test_what_cannot_be_pickled_here(counters):
    with pytest.raises(ValueError, match="an argument of Counter.echo cannot be pickled"):
        counters.echo(threading.Lock())


def test_what_cannot_be_pickled_there(counters):
    with pytest.raises(ExceptionGroup) as group:
        counters.lock()
    assert "what Counter.lock returned cannot be pickled" in str(group.value.exceptions[0])


def test_memory_of_arguments_can_be_written_to(workers):
    class Keeper(meshbus.Actor):
        def __init__(self, buffer):
            memoryview(buffer)[0] = 7
            self.first = memoryview(buffer)[0]

        @meshbus.endpoint
        def get(self):
            return self.first
    with workers.spawn(Keeper, pickle.PickleBuffer(bytearray(100_000))) as actors:
        assert list(actors.get()) == [7] * 4


def test_arrays_are_writable_and_out_of_band(counters):
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(10_000, dtype=numpy.float64)
    values = counters.echo(array)
    assert all((value == array).all() for value in values)
    values[0][0] = 5.0
    assert not values[1].flags.owndata and values[0][0] == 5.0


def test_large_arguments_come_and_go_whole(counters):
    body = os.urandom(3 << 20)
    assert all(value == body for value in counters.echo(body))


class Unreadable:
    """Pickles, and does not unpickle in a rank."""

    def __reduce__(self):
        return (_only_here, (os.getpid(),))


def _only_here(pid):
    if os.getpid() != pid:
        raise LookupError("not in this process")
    return Unreadable()


def test_an_argument_that_does_not_unpickle_there(workers):
    class Taker(meshbus.Actor):
        @meshbus.endpoint
        def take(self, value):
            return 1

    with workers.spawn(Taker) as takers:
        with pytest.raises(ExceptionGroup) as caught:
            takers.take(Unreadable())
        assert all("not in this process" in str(error) for error in caught.value.exceptions)
        for how in ("sum", "count"):  # no part of a sum, and not counted either
            with pytest.raises(ExceptionGroup, match="4 of 4 ranks have no part") as caught:
                takers.take.reduce(how, Unreadable()).result()
            assert all("cannot be unpickled" in str(error) for error in caught.value.exceptions)


def test_source_lines_come_along_with_code_by_value(workers):
    import linecache
    source = ("def deep(n):\n"
              "    return 1 // n  # a line that only the launcher has\n")
    name = "<cell 7 of a notebook>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = {"__name__": "__main__"}
    exec(compile(source, name, "exec"), space)
    with pytest.raises(ExceptionGroup) as caught:
        workers.run(space["deep"], 0)
    for error in caught.value.exceptions:
        assert "# a line that only the launcher has" in error.remote_traceback


def test_classes_by_value_may_refer_to_each_other(workers):
    space = {"__name__": "__main__", "meshbus": meshbus}
    exec("class Idle: pass\n"
         "class Busy: pass\n"
         "Idle.next, Busy.next = Busy, Idle\n"
         "def look(): return Idle.next.next is Idle\n", space)
    assert list(workers.run(space["look"])) == [True] * 4


def test_a_task_of_a_pool_takes_no_long_script_along():
    import linecache
    from meshbus import _wire
    source = "def task():\n    return 1\n" + "# a long script\n" * 5000
    name = "<a long script>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = {"__name__": "__main__"}
    exec(compile(source, name, "exec"), space)
    task = (space["task"], (), {})
    assert len(b"".join(_wire.dumps(task))) > len(source)
    assert len(b"".join(_wire.dumps(task, most_source=_wire.LITTLE_SOURCE))) < 4096
