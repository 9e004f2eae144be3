"""Actors: endpoints and what comes of them."""
import asyncio
import concurrent.futures
import os
import sys
import threading
import time

import pytest

import meshbus
from conftest import wait_until
from counter_actor import Counter


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
    with pytest.raises(ExceptionGroup, match="no part") as no_part:
        counters.echo.reduce("sum", "x").result(20)
    assert len(no_part.value.exceptions) == 4
    with pytest.raises(meshbus.RemoteError, match="ZeroDivisionError") as raised:
        counters.slice(host=1, gpu=0).divide.reduce("sum", 0).result(20)
    assert raised.value.rank == 2
    with pytest.raises(ExceptionGroup, match="no part") as both:
        counters.slice(host=1).divide.reduce("sum", 0).result(20)
    assert [(type(e), e.rank, e.point) for e in both.value.exceptions] == [
        (meshbus.RemoteError, 2, "gpu=0"), (meshbus.RemoteError, 3, "gpu=1")]
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


def test_a_misspelt_endpoint(counters):
    with pytest.raises(AttributeError, match="did you mean 'divide'"):
        counters.divid
    with pytest.raises(AttributeError, match="helper has no @endpoint"):
        counters.helper
    assert "add" in dir(counters)


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
