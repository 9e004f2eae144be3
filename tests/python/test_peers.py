"""Actors that talk to other actors, and what an actor knows of itself."""
import asyncio
import pathlib
import threading
import time

import pytest

import meshbus


class Shard(meshbus.Actor):
    """Has a number, and asks the others for theirs."""

    def __init__(self, first=0):
        self.number = first + self.rank
        self.heard = []

    @meshbus.endpoint
    def own(self):
        return self.number

    @meshbus.endpoint
    async def total(self):
        return sum(await self.peers.own.call())

    @meshbus.endpoint(thread="main")
    def total_there(self):
        return sum(self.peers.slice(host=1).own.call().result(20))

    @meshbus.endpoint
    async def as_they_come(self):
        return sorted([(point["gpu"], value) async for point, value
                       in self.peers.slice(host=0).own.stream()])

    @meshbus.endpoint
    def hear(self, what, number):
        self.heard.append((what, number))

    @meshbus.endpoint
    def said(self):
        return self.heard

    @meshbus.endpoint
    async def tell_next(self, what, count):
        to = self.peers.slice(host=1 - self.point["host"], gpu=self.point["gpu"])
        for number in range(count):
            to.hear.cast(what, number)
        return await to.said.one()

    @meshbus.endpoint
    async def double(self, array):
        return await self.peers.slice(host=0, gpu=0).twice.one(array)

    @meshbus.endpoint
    def twice(self, array):
        return array * 2

    @meshbus.endpoint
    async def fails(self):
        return await self.peers.slice(host=0, gpu=1).raises.one()

    @meshbus.endpoint
    def raises(self):
        raise KeyError("over there")

    @meshbus.endpoint
    async def ask(self, others):
        return others.extent, list(await others.own.call()), len(others)

    @meshbus.endpoint
    async def misspelt(self):
        return self.peers.onw

    @meshbus.endpoint
    def give_peers(self):
        return self.peers

    @meshbus.endpoint
    def reduces(self):
        return self.peers.own.reduce("sum").result()

    @meshbus.endpoint(thread="main")
    def name(self):
        return meshbus.this_actor() is self

    @meshbus.endpoint
    async def later(self):
        await asyncio.sleep(0)  # sleep-ok: lets others run
        return meshbus.this_actor() is self

    @meshbus.endpoint(fatal=True)
    def breaks(self):
        raise ValueError("broken for good")

    @meshbus.endpoint(fatal=True)
    async def breaks_later(self):
        raise ValueError("broken for good")


def test_actors_ask_each_other(workers):
    with workers.spawn(Shard, 10) as shards:
        assert list(shards.total()) == [10 + 11 + 12 + 13] * 4
        assert list(shards.slice(host=0).total_there()) == [12 + 13] * 2
        assert list(shards.as_they_come()) == [[(0, 10), (1, 11)]] * 4


def test_what_one_actor_casts_to_another_arrives_in_order(workers):
    with workers.spawn(Shard) as shards:
        for heard in shards.tell_next("hello", 200):
            assert heard == [("hello", number) for number in range(200)]


def test_arrays_travel_between_actors(workers):
    numpy = pytest.importorskip("numpy")
    with workers.spawn(Shard) as shards:
        one = shards.slice(host=1, gpu=1)
        for length in (10, 400_000):  # in a message, and before it
            array = numpy.arange(length, dtype=numpy.float64)
            assert (one.double.one(array).result(30) == array * 2).all()


def test_an_exception_over_there_comes_back_through_both(workers):
    with workers.spawn(Shard) as shards:
        with pytest.raises(meshbus.RemoteError) as caught:
            shards.slice(host=1, gpu=0).fails()
        assert "KeyError: 'over there'" in str(caught.value)
        inner = caught.value.__cause__
        assert isinstance(inner, meshbus.RemoteError)
        assert isinstance(inner.__cause__, KeyError)


def test_a_mesh_of_actors_is_sent_to_actors_of_another(workers):
    with workers.spawn(Shard, 100) as first, workers.spawn(Shard, 0) as second:
        extent, numbers, size = second.slice(host=1, gpu=0).ask.one(first).result(20)
        assert (extent, numbers, size) == (first.extent, [100, 101, 102, 103], 4)
        _, numbers, _ = second.slice(host=0, gpu=0).ask.one(first.slice(host=1)).result(20)
        assert numbers == [102, 103]


def test_peers_at_a_launcher_say_where_they_are_for(workers):
    import copy
    with workers.spawn(Shard) as shards:
        one = shards.slice(host=0, gpu=0)
        for back in (one.give_peers.one().result(20), copy.copy(shards)):
            assert back.extent == shards.extent
            with pytest.raises(meshbus.Refused, match="are called from ranks"):
                back.own.call()
        from meshbus import _proc
        with pytest.raises(meshbus.ParseError):
            _proc.Actors.parse("nonsense")


def test_peers_know_their_endpoints(workers):
    with workers.spawn(Shard) as shards:
        one = shards.slice(host=0, gpu=0)
        with pytest.raises(meshbus.RemoteError, match="did you mean 'own'"):
            one.misspelt()
        with pytest.raises(meshbus.RemoteError, match="reduce.. is for launchers"):
            one.reduces()
        with pytest.raises(meshbus.Refused, match="peers is for the actor in its rank"):
            Shard.__new__(Shard).peers


def test_an_actor_that_has_gone_is_named(workers):
    with workers.spawn(Shard, 0) as asker:
        gone = workers.spawn(Shard, 1)
        one = gone.slice(host=0, gpu=0)
        import pickle
        kept = pickle.dumps(one)
        gone.stop()
        with pytest.raises(meshbus.RemoteError) as caught:
            asker.slice(host=1, gpu=1).ask.one(_Kept(kept)).result(20)
        assert "NotExist" in str(caught.value) or "no_such_port" in str(caught.value)


class _Kept:
    """Unpickles as what was pickled before."""

    def __init__(self, data):
        self.data = data

    def __reduce__(self):
        import pickle
        return (pickle.loads, (self.data,))


def test_this_actor(workers):
    with workers.spawn(Shard) as shards:
        assert list(shards.name()) == list(shards.later()) == [True] * 4
    with pytest.raises(meshbus.NotExist, match="no actor runs here"):
        meshbus.this_actor()


@pytest.mark.parametrize("name", ["breaks", "breaks_later"])
def test_a_fatal_endpoint_fails_its_actor_and_tells_the_caller(workers, name):
    heard = []
    shards = workers.options(on_failure=heard.append).spawn(Shard)
    with shards:
        one = shards.slice(host=0, gpu=0)
        with pytest.raises(meshbus.RemoteError, match="ValueError: broken for good") as caught:
            getattr(one, name)()
        assert isinstance(caught.value.__cause__, ValueError)
        from conftest import wait_until
        wait_until(lambda: heard)
        assert (heard[0].rank, name in heard[0].text) == (0, True)
        with pytest.raises(meshbus.Error):
            one.own()
        assert shards.slice(host=0, gpu=1).own()[0] == 1


def test_a_failure_that_nobody_heard_of_is_raised_at_the_end(hosts):
    with pytest.raises(meshbus.ActorFailure, match="over there"):
        with hosts.workers(1) as procs:
            shards = procs.spawn(Shard)
            shards.slice(host=0).raises.cast()
            from conftest import wait_until
            wait_until(lambda: any(state.status.startswith("Failed") for state in shards.states()))


class Task(meshbus.Actor):
    """A child."""

    def __init__(self, name):
        self.name = name
        if name == "stillborn":
            raise ValueError("no such task")

    @meshbus.endpoint
    def run(self, by=1):
        return f"{self.name} {len(self.name) * by}"

    @meshbus.endpoint
    def breaks(self):
        raise RuntimeError("the task broke")

    @meshbus.endpoint
    def family(self):
        with pytest.raises(meshbus.Refused, match="no peers"):
            self.peers
        return self.context.parent, self.rank, self.id

    def on_stop(self, reason):
        if self.name.startswith("/"):  # a file that a test looks at
            pathlib.Path(self.name).write_text(reason)


class Foreman(meshbus.Actor):
    """Makes tasks, and lives with the failures of some."""

    def __init__(self, is_tough=True):
        self.is_tough = is_tough
        self.failures = []

    @meshbus.endpoint
    async def work(self, names):
        self.tasks = [self.context.spawn(Task, name) for name in names]
        return [await task.run.one(by=2) for task in self.tasks]

    @meshbus.endpoint
    def work_here(self, name):
        return list(self.context.spawn(Task, name).run())

    @meshbus.endpoint(thread="main")
    def family(self):
        child = self.context.spawn(Task, "child")
        parent, rank, own = child.family.one().result(20)
        return parent == self.id, rank == self.rank, own == child.ref, repr(child)

    @meshbus.endpoint
    def break_one(self, name="fragile"):
        self.broken = self.context.spawn(Task, name)
        self.broken.breaks.cast()

    @meshbus.endpoint
    def said(self):
        return [(failure.child == self.broken.ref, failure.error, failure.endpoint)
                for failure in self.failures]

    @meshbus.endpoint
    def stop_one(self, name):
        child = self.context.spawn(Task, name)
        child.run()  # it is there
        self.context.stop_child(child, "not needed")
        return child

    @meshbus.endpoint
    async def come_and_go(self, count):
        tasks = [self.context.spawn(Task, "one") for _ in range(count)]
        values = [await task.run.one() for task in tasks]
        for task in tasks:
            self.context.stop_child(task)
        return len(values)

    @meshbus.endpoint
    def make(self):
        return self.context.spawn(Task, "made")

    @meshbus.endpoint
    def leave(self):
        self.context.stop("done", grace=5)
        return "bye"

    @meshbus.endpoint
    def know(self, child):
        """A child that has been elsewhere is what it was."""
        mine = self.context.spawn(Task, "mine")
        return child.run.one().result(20), child == child, mine != child, type(child).__name__

    @meshbus.endpoint
    def late(self):
        context = self.context
        self.context.stop("done")

        def spawn_then():
            while True:  # until the actor has ended
                try:
                    context.spawn(Task, "late")
                except meshbus.SpawnError as error:
                    with open(self.note, "w") as file:
                        file.write(str(error))
                    return
                time.sleep(0.01)  # sleep-ok: nothing tells a thread that its actor has ended
        threading.Thread(target=spawn_then).start()

    @meshbus.endpoint
    def note_to(self, path):
        self.note = path

    @meshbus.endpoint
    def wrong(self):
        class Named(meshbus.Actor):
            @meshbus.endpoint
            def ref(self):
                pass
        with pytest.raises(meshbus.ConfigurationError, match="ref is what every Child has"):
            self.context.spawn(Named)
        with pytest.raises(meshbus.ConfigurationError, match="derives from meshbus.Actor"):
            self.context.spawn(int)
        with pytest.raises(meshbus.ConfigurationError, match="what spawn"):
            self.context.stop_child(self)
        with pytest.raises(meshbus.OutOfRange, match="one actor cannot be sliced"):
            self.context.spawn(Task, "one").slice(gpu=0)
        return True

    def on_child_failed(self, failure):
        self.failures.append(failure)
        return self.is_tough


def until(true):
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)  # sleep-ok: nothing tells


def test_an_actor_makes_actors_of_its_own(workers):
    foremen = workers.spawn(Foreman)
    for answer in foremen.work(["a", "bcd"]):
        assert answer == ["a 2", "bcd 6"]
    assert list(foremen.slice(host=0, gpu=0).work_here("x")) == [["x 1"]]
    for is_parent, is_rank, is_own, text in foremen.family():
        assert is_parent and is_rank and is_own
        assert text.startswith("<Child Task: ")
    assert all(foremen.wrong())


class Hopeless(Foreman):
    """Cannot deal with failures."""

    async def on_child_failed(self, failure):
        raise AssertionError("nobody awaits it")


class Desperate(Foreman):
    """The same."""

    def on_child_failed(self, failure):
        raise LookupError("no spare")


@pytest.mark.parametrize("cls, text", [(Hopeless, "is def, not async def"),
                                       (Desperate, "LookupError: no spare")])
def test_a_parent_that_cannot_deal_with_a_failure_fails_by_both(workers, cls, text):
    heard = []
    one = workers.options(on_failure=heard.append).spawn(cls).slice(host=0, gpu=0)
    one.break_one()
    until(lambda: heard)
    assert text in heard[0].text and "the task broke" in heard[0].text


def test_a_child_that_travels_is_a_child(workers):
    foremen = workers.spawn(Foreman)
    one, other = foremen.slice(host=0, gpu=0), foremen.slice(host=1, gpu=0)
    child = one.make()[0]
    assert other.know(child)[0] == ("made 4", True, True, "Child")


def test_the_context_of_an_actor_that_has_ended_spawns_nothing(workers, tmp_path):
    one = workers.spawn(Foreman).slice(host=0, gpu=0)
    note = tmp_path / "note"
    one.note_to(str(note))
    one.late()
    until(lambda: note.exists() and note.read_text())
    assert "it gets no more children" in note.read_text()


def test_children_come_and_go_from_coroutines_of_many_actors(workers):
    """Which run on a thread that is none of the library."""
    meshes = [workers.spawn(Foreman) for _ in range(2)]
    for _ in range(40):
        calls = [foremen.come_and_go.call(4) for foremen in meshes]
        assert [list(call.result(30)) for call in calls] == [[4] * 4] * 2


def test_a_parent_deals_with_the_failure_of_a_child_or_fails_with_it(workers):
    foremen = workers.spawn(Foreman).slice(host=0, gpu=0)
    foremen.break_one()
    until(lambda: foremen.said()[0])
    is_own, error, endpoint = foremen.said()[0][0]
    assert is_own and error.startswith("RuntimeError: the task broke") and endpoint == "breaks"
    foremen.break_one("stillborn")
    until(lambda: len(foremen.said()[0]) == 2)
    assert "no such task" in foremen.said()[0][1][1]
    heard = []
    weak = workers.options(on_failure=heard.append).spawn(Foreman, False).slice(host=1, gpu=1)
    weak.break_one()
    until(lambda: heard)
    assert "its child" in heard[0].text and "the task broke" in heard[0].text


def test_a_child_is_stopped_alone_and_with_its_parent(workers, tmp_path):
    foremen = workers.spawn(Foreman)
    one = foremen.slice(host=0, gpu=0)
    child = one.stop_one(str(tmp_path / "alone"))[0]
    until(lambda: (tmp_path / "alone").exists() and (tmp_path / "alone").read_text())
    assert (tmp_path / "alone").read_text() == "not needed"
    with pytest.raises(meshbus.Refused, match="called from ranks"):
        child.run  # a launcher has its address only
    one.work([str(tmp_path / "with")])
    assert one.leave()[0] == "bye"
    until((tmp_path / "with").exists)
    until(lambda: one.states()[0].status == "Stopped")
