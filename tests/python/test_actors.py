"""Actors: endpoints and what comes of them."""
import asyncio
import concurrent.futures
import os
import pickle
import sys
import threading
import time

import pytest

import meshbus
from conftest import wait_until


class Counter(meshbus.Actor):
    def __init__(self, start=0):
        self.total = start

    @meshbus.endpoint
    def add(self, n):
        """Adds."""
        self.total += n
        return self.total

    @meshbus.endpoint
    def place(self):
        return self.rank, str(self.point), self.proc.rank, self.proc.world_size

    @meshbus.endpoint
    def divide(self, n):
        return self.total / n

    @meshbus.endpoint
    async def later(self, seconds, value):
        await asyncio.sleep(seconds)  # sleep-ok: an endpoint that takes long
        if isinstance(value, Exception):
            raise value
        return value

    @meshbus.endpoint(thread="main")
    def thread(self):
        return threading.current_thread() is threading.main_thread()

    @meshbus.endpoint
    def echo(self, value):
        return value

    @meshbus.endpoint
    def take(self, seconds):
        time.sleep(seconds)  # sleep-ok: an endpoint that takes long

    @meshbus.endpoint
    def hold(self, n):
        return sum(range(n))  # one long call of C

    @meshbus.endpoint
    def leave(self, code):
        os._exit(code)

    @meshbus.endpoint
    def lock(self):
        return threading.Lock()

    @meshbus.endpoint
    def sys_exit(self):
        raise SystemExit(3)

    @meshbus.endpoint
    async def exit_later(self):
        raise SystemExit(4)

    def helper(self):
        return self.add(1)


class Odd(Exception):
    """Cannot be called with what it hands on: pickle alone does not bring it back."""

    def __init__(self, one, two):
        super().__init__("odd")
        self.sum = one + two


class Raiser(meshbus.Actor):
    @meshbus.endpoint
    def odd(self):
        raise Odd(1, 2)

    @meshbus.endpoint
    def local(self):
        class Local(Exception):
            def __reduce__(self):
                raise TypeError("never")
        raise Local("hidden")

    @meshbus.endpoint
    def unpicklable(self):
        error = KeyError("locked")
        error.lock = threading.Lock()
        raise error

    @meshbus.endpoint
    def returns(self):
        return ValueError("a value")


@pytest.fixture(scope="module")
def counters(workers):
    with workers.spawn(Counter, 40) as actors:
        yield actors


def test_a_call_asks_all_and_waits(counters):
    first = list(counters.add(0))
    assert list(counters.add(2)) == [n + 2 for n in first] and len(counters) == 4


def test_call_gives_a_future(counters):
    future = counters.add.call(0)
    values = future.result(20)
    assert future.done() and len(values) == 4 and future.result() is values
    assert values.extent == meshbus.Extent(host=2, gpu=2)
    assert values.at(host=1, gpu=0) == values[2]
    for wrong in ({"host": 0, "gpu": 2}, {"host": 1, "gpu": -1}):
        with pytest.raises(IndexError):
            values.at(**wrong)


def test_an_actor_knows_its_place(counters):
    assert list(counters.place()) == [(i, f"host={i // 2},gpu={i % 2}", i, 4) for i in range(4)]


def test_slices(counters):
    assert len(counters.slice(host=1, gpu=slice(0, 2, 2)).echo(1)) == 1
    assert counters.slice(host=1, gpu=1).place.one().result(20)[0] == 3
    assert [v for p, v in counters.slice(gpu=1).echo("x").items()] == ["x", "x"]


def test_one_is_for_one(counters):
    with pytest.raises(ValueError, match="slice first"):
        counters.echo.one(1)


def test_await(counters):
    async def main():
        values, alone = await asyncio.gather(
            counters.echo.call(1), counters.slice(host=0, gpu=0).later.one(0.01, "x"))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(counters.later.call(1, "x"), 0.05)
        return list(values), alone
    assert asyncio.run(main()) == ([1, 1, 1, 1], "x")


def test_coroutines_of_an_actor_wait_side_by_side(counters):
    begin = time.monotonic()
    futures = [counters.later.call(0.5, i) for i in range(10)]
    assert [list(f.result(30)) for f in futures] == [[i] * 4 for i in range(10)]
    assert time.monotonic() - begin < 4.5


def test_reduce_happens_at_the_hosts(counters):
    assert counters.echo.reduce("sum", 2).result(20) == 8
    assert counters.echo.reduce("max", 2.5).result(20) == 2.5
    assert counters.echo.reduce("all", True).result(20) is True
    assert counters.echo.reduce("count", "x").result(20) == 4
    with pytest.raises(ExceptionGroup, match="no part"):
        counters.echo.reduce("sum", "x").result(20)
    with pytest.raises(LookupError, match="avg"):
        counters.echo.reduce("avg", 1).result(20)


def test_stream_gives_each_as_it_comes(counters):
    assert sorted((p["host"], p["gpu"], v) for p, v in counters.echo.stream(7)) == [
        (0, 0, 7), (0, 1, 7), (1, 0, 7), (1, 1, 7)]

    async def main():
        return sorted([str(p) async for p, v in counters.echo.stream(7)])
    assert asyncio.run(main()) == [f"host={h},gpu={g}" for h in (0, 1) for g in (0, 1)]


def test_a_stream_half_read_is_given_up(counters):
    for _ in counters.echo.stream(7):
        break
    assert list(counters.echo(1)) == [1] * 4


def test_main_thread(counters):
    assert list(counters.thread()) == [True] * 4


def test_an_exception_is_raised_at_the_caller_and_the_actor_lives(counters):
    with pytest.raises(meshbus.RemoteError) as caught:
        counters.slice(host=1, gpu=0).divide(0)
    assert caught.value.rank == 2 and isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "return self.total / n" in str(caught.value)
    with pytest.raises(ExceptionGroup, match="4 of 4 ranks failed") as group:
        counters.divide(0)
    assert {error.point for error in group.value.exceptions} == {
        f"host={h},gpu={g}" for h in (0, 1) for g in (0, 1)}
    assert list(counters.echo(1)) == [1] * 4


def test_an_exception_of_a_coroutine(counters):
    values = counters.later.call(0, KeyError("k")).result(20)
    assert len(values.failed) == 4 and isinstance(values.failed[2].__cause__, KeyError)
    assert "<failed: RemoteError" in repr(values)


def test_system_exit_in_an_endpoint_ends_nothing(counters):
    with pytest.raises(ExceptionGroup):
        counters.sys_exit()
    assert list(counters.echo(1)) == [1] * 4


def test_system_exit_in_a_coroutine_ends_no_other(counters):
    slow = counters.later.call(0.3, "slow")
    with pytest.raises(ExceptionGroup) as caught:
        counters.exit_later()
    assert "SystemExit: 4" in str(caught.value.exceptions[0])
    assert list(slow.result(20)) == ["slow"] * 4
    assert list(counters.later(0, "again")) == ["again"] * 4


def test_wrong_arguments_are_the_callers(counters):
    with pytest.raises(ExceptionGroup) as group:
        counters.add("two", "three")
    assert "positional argument" in str(group.value.exceptions[0])


def test_a_misspelt_endpoint(counters):
    with pytest.raises(AttributeError, match="did you mean 'divide'"):
        counters.divid
    with pytest.raises(AttributeError, match="helper has no @endpoint"):
        counters.helper
    assert "add" in dir(counters)


def test_what_cannot_be_pickled_here(counters):
    with pytest.raises(ValueError, match="an argument of Counter.echo cannot be pickled"):
        counters.echo(threading.Lock())


def test_what_cannot_be_pickled_there(counters):
    with pytest.raises(ExceptionGroup) as group:
        counters.lock()
    assert "what Counter.lock returned cannot be pickled" in str(group.value.exceptions[0])


def test_exceptions_that_travel_with_difficulty_or_not_at_all(workers):
    with workers.spawn(Raiser) as raisers:
        one = raisers.slice(host=0, gpu=0)
        with pytest.raises(meshbus.RemoteError, match="Odd: odd") as caught:
            one.odd()
        cause = caught.value.__cause__
        assert isinstance(cause, Odd) and (str(cause), cause.sum) == ("odd", 3)
        with pytest.raises(meshbus.RemoteError, match="Local: hidden") as caught:
            one.local()
        assert str(caught.value.__cause__) == "hidden"
        with pytest.raises(meshbus.RemoteError, match="KeyError: 'locked'") as caught:
            one.unpicklable()
        assert caught.value.__cause__ is None
        assert isinstance(one.returns()[0], ValueError)


def test_a_time_for_the_answer(counters):
    one = counters.slice(host=1, gpu=0)
    with pytest.raises(TimeoutError) as caught:
        one.take.options(timeout=0.2)(1)
    # The rank of the mesh, not of the slice.
    assert caught.value.__notes__[0].startswith("rank 2")
    assert caught.value.__notes__[1].startswith("Counter.take may still run there: ")
    assert one.echo(1)[0] == 1


def test_result_times_out_and_can_be_asked_again(counters):
    future = counters.slice(host=0, gpu=0).take.call(0.5)
    with pytest.raises(TimeoutError):
        future.result(0.1)
    assert future.result(20)[0] is None


def test_cancel(counters):
    future = counters.slice(host=0, gpu=0).take.call(0.5)
    assert future.cancel() and future.cancelled() and future.done()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result()


def test_wait_and_as_completed(counters):
    slow, quick = counters.later.call(0.5, 1), counters.echo.call(2)
    done, left = meshbus.wait([slow, quick], first=True)
    assert quick in done
    assert [f.result()[0] for f in meshbus.as_completed([slow, quick])] == [2, 1]
    assert meshbus.wait([slow, quick]) == ({slow, quick}, set())


def test_cast_tells_all(workers):
    with workers.spawn(Counter) as actors:
        for _ in range(5):
            actors.add.cast(2)
        assert list(actors.add(0)) == [10] * 4


def test_a_cast_with_arguments_that_do_not_fit_is_refused_at_its_sender(workers):
    with workers.spawn(Counter) as actors:
        for args, kwargs in (((), {}), ((1, 2), {}), ((1,), {"more": 2}), ((), {"b": 1})):
            with pytest.raises(TypeError, match=r"^Counter\.add\(.*\): "):
                actors.add.cast(*args, **kwargs)
        assert list(actors.add(1)) == [1] * 4


def test_an_exception_of_a_cast_is_the_failure_of_its_actor(workers):
    heard = []
    actors = workers.options(on_failure=heard.append).spawn(Counter)
    actors.slice(host=0, gpu=1).divide.cast(0)
    wait_until(lambda: heard)
    assert heard[0].rank == 1 and heard[0].message == "divide"
    assert "ZeroDivisionError" in heard[0].reason
    assert [state.status[:6] for state in actors.states()] == ["Runnin", "Failed"] + ["Runnin"] * 2
    actors.stop()
    actors.close()


def test_an_exception_of_a_cast_to_a_coroutine_is_the_failure_of_its_actor(workers):
    heard = []
    actors = workers.options(on_failure=heard.append).spawn(Counter)
    actors.slice(host=1, gpu=0).later.cast(0, ValueError("later"))
    wait_until(lambda: heard)
    assert heard[0].rank == 2 and "ValueError: later" in heard[0].reason
    actors.stop()
    actors.close()


def test_a_message_to_a_coroutine_holds_up_no_other(workers):
    class Waiter(meshbus.Actor):
        def __init__(self):
            self.event = asyncio.Event()
            self.is_over = False

        @meshbus.endpoint
        async def wait(self):
            await self.event.wait()
            self.is_over = True

        @meshbus.endpoint
        async def go(self):
            self.event.set()

        @meshbus.endpoint
        def state(self):
            return self.is_over
    with workers.spawn(Waiter) as actors:
        actors.wait.cast()
        actors.go.cast()
        wait_until(lambda: all(actors.state()))


def test_a_coroutine_with_a_caller_is_waited_for_when_its_rank_ends_by_itself(hosts):
    script = ("import meshbus, threading\n"
              "over = threading.Event()\n"
              "meshbus.init(ports={1: lambda body: over.set()})\n"
              "over.wait()\n")
    folder = os.path.dirname(os.path.abspath(__file__))
    paths = os.pathsep.join([folder, *(path for path in sys.path if path)])
    with hosts.spawn([sys.executable, "-c", script], 1, mesh=True,
                     env={"PYTHONPATH": paths}) as procs:
        actors = procs.spawn(Counter)
        answers = actors.later.call(0.5, "answered")
        assert list(actors.add(1)) == [1, 1]  # the one before has begun
        procs.call(1, b"")
        assert list(answers.result(20)) == ["answered", "answered"]
        assert procs.wait(20).exit_code == 0


def test_a_failure_that_nobody_handled_is_raised_at_the_end(workers):
    with pytest.raises(meshbus.ActorFailure, match="ZeroDivisionError"):
        with workers.spawn(Counter) as actors:
            actors.slice(host=0, gpu=1).divide.cast(0)
            actors.echo.call(1).result(20)  # a stop overtakes messages that are under way


def test_a_constructor_that_raises(workers):
    class Bad(meshbus.Actor):
        def __init__(self):
            raise ValueError("no shard for me")
    with pytest.raises(meshbus.SpawnError, match="no shard for me") as caught:
        workers.spawn(Bad)
    # Where, with the line of source, and nothing of ours.
    assert 'raise ValueError("no shard for me")' in str(caught.value)
    assert "_adapter.py" not in str(caught.value)


@pytest.mark.parametrize("name", ["Python", "meshbus", "cloudpickle"])
def test_ranks_of_another_release_are_refused_in_words(workers, monkeypatch, name):
    from meshbus import _wire
    ours = _wire.releases(True)
    monkeypatch.setattr(_wire, "releases", lambda has_cloudpickle: ours | {name: "0.0.7"})
    with pytest.raises(meshbus.SpawnError, match=f"the launcher has {name} 0.0.7, this rank"):
        workers.spawn(Counter, 40)


def test_spawn_wants_an_actor(workers):
    with pytest.raises(ValueError, match="meshbus.Actor"):
        workers.spawn(dict)
    with pytest.raises(ValueError, match="cannot be pickled"):
        workers.spawn(Counter, threading.Lock())


def test_names_of_every_mesh_are_no_endpoints(workers):
    class Database(meshbus.Actor):
        @meshbus.endpoint
        def close(self):
            pass
    with pytest.raises(meshbus.ConfigurationError, match="Database.close cannot be an endpoint"):
        workers.spawn(Database)


def test_a_coroutine_has_its_own_thread():
    with pytest.raises(ValueError, match="async def"):
        @meshbus.endpoint(thread="main")
        async def there(self):
            pass


def test_a_slice_stops_nobody(workers):
    with workers.spawn(Counter) as actors:
        with pytest.raises(meshbus.Refused, match="a slice of actors cannot be stopped"):
            actors.slice(host=0).stop()
        with actors.slice(host=0) as some:
            assert list(some.add(1)) == [1, 1]
        assert list(actors.add(0)) == [1, 1, 0, 0]
        actors.close()


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


def test_run_calls_a_function_in_each_rank(workers):
    pids = workers.run(os.getpid)
    assert len(set(pids)) == 4
    local = 5
    assert list(workers.run(lambda n: n + local, 1)) == [6] * 4
    with pytest.raises(ExceptionGroup):
        workers.run(lambda: 1 / 0)


def test_many_calls_at_once(counters):
    one = counters.slice(host=0, gpu=0)
    futures = [one.echo.call(i) for i in range(1000)]
    assert [f.result(60)[0] for f in futures] == list(range(1000))


@pytest.mark.limit(120)
def test_ten_thousand_calls_need_no_thread_each(counters):
    one = counters.slice(host=0, gpu=0)
    one.echo(0)

    def threads():
        return len(os.listdir("/proc/self/task"))
    before = threads()
    futures = [one.later.call(2, i) for i in range(10_000)]
    assert threads() <= before + 2
    assert sum(not future.done() for future in futures) > 1000  # they wait side by side
    assert [future.result(100)[0] for future in futures] == list(range(10_000))


def test_threads_call_side_by_side(counters):
    wrong = []

    def work(n):
        for i in range(20):
            if list(counters.echo((n, i))) != [(n, i)] * 4:
                wrong.append((n, i))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_closed_actors_say_so(workers):
    with workers.spawn(Counter) as actors:
        pass
    with pytest.raises(meshbus.Refused, match="closed"):
        actors.add(1)
    assert "Counter" in repr(actors)


def test_a_rank_dies_in_a_call(hosts):
    with hosts.workers(2, on_failure=meshbus.ignore) as procs:
        actors = procs.spawn(Counter)
        values = actors.slice(host=0).leave.call(9).result(30)
        assert all(isinstance(error, ConnectionError) for error in values.failed.values())
        assert len(values.failed) == 2
        alive = actors.slice(host=1).echo(1)
        assert list(alive) == [1, 1]
        with pytest.raises(ExceptionGroup):
            actors.echo(1)
        reports = [r for r in procs.reports if r.is_failure]
        assert {r.exit_code for r in reports} <= {9}


def test_a_rank_that_holds_the_lock_of_python_is_not_taken_for_dead(workers):
    with workers.spawn(Counter) as actors:
        future = actors.slice(host=0, gpu=0).hold.call(60_000_000)
        for _ in range(3):
            assert [r.state for r in workers.status()] == ["ready"] * 4
            assert {r.trouble for r in workers.reports} == {"none"}
        assert future.result(50)[0] > 0


def test_on_stop_runs(hosts, tmp_path):
    class Leaver(meshbus.Actor):
        def __init__(self, folder):
            self.folder = folder

        @meshbus.endpoint
        def nothing(self):
            pass

        def on_stop(self, reason):
            with open(f"{self.folder}/{self.rank}", "w") as file:
                file.write(reason)
    with hosts.workers(1) as procs:
        actors = procs.spawn(Leaver, str(tmp_path))
        actors.nothing()
        actors.stop(reason="enough")
        actors.close()
    assert [(tmp_path / str(i)).read_text() for i in range(2)] == ["enough", "enough"]


def test_setup_runs_first(hosts):
    def setup():
        os.environ["SET_UP"] = "yes"
    with hosts.workers(1, setup=setup) as procs:
        assert list(procs.run(lambda: os.environ["SET_UP"])) == ["yes"] * 2


def test_in_its_rank_an_endpoint_is_a_method():
    counter = Counter(3)
    assert counter.helper() == 4 and Counter.add.__doc__ == "Adds."
    with pytest.raises(meshbus.Refused, match="spawn"):
        counter.slice(gpu=0)


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


def test_a_remote_error_keeps_its_cause_when_it_is_pickled():
    import pickle
    error = meshbus.RemoteError("KeyError: 'x'", "Traceback ...", 3, "gpu=3")
    error.__cause__ = KeyError("x")
    error.add_note("seen twice")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.rank, again.__notes__) == (str(error), 3, ["seen twice"])
    assert isinstance(again.__cause__, KeyError)


def test_classes_by_value_may_refer_to_each_other(workers):
    space = {"__name__": "__main__", "meshbus": meshbus}
    exec("class Idle: pass\n"
         "class Busy: pass\n"
         "Idle.next, Busy.next = Busy, Idle\n"
         "def look(): return Idle.next.next is Idle\n", space)
    assert list(workers.run(space["look"])) == [True] * 4


def test_a_stopped_actor_is_let_go(workers):
    class Heavy(meshbus.Actor):
        def __init__(self):
            import weakref
            import meshbus.worker
            meshbus.worker.heavy = weakref.ref(self)

        @meshbus.endpoint
        def nothing(self):
            pass

    def is_gone():
        import gc
        import meshbus.worker
        gc.collect()
        return meshbus.worker.heavy() is None

    actors = workers.spawn(Heavy)
    actors.nothing()
    actors.stop()
    actors.close()
    wait_until(lambda: all(workers.run(is_gone)))


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


def test_a_remote_error_whose_cause_does_not_pickle():
    error = meshbus.RemoteError("ValueError: x", "Traceback ...", 1, "gpu=1")
    error.__cause__ = ValueError(lambda: 1)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.__cause__) == (str(error), None)
