"""Actors: what goes wrong in endpoints, constructors and ranks, and who hears of it."""
import pickle
import threading

import pytest

import meshbus
from conftest import wait_until
from counter_actor import Counter


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
    # What all ranks say is said once.
    assert str(caught.value).count("ValueError: no shard for me") == 2
    assert "4 of 4 were not made: ranks 0-3: " in str(caught.value)
    assert "_adapter.py" not in str(caught.value)


@pytest.mark.parametrize("name", ["Python", "meshbus", "cloudpickle"])
def test_ranks_of_another_release_are_refused_in_words(workers, monkeypatch, name):
    from meshbus import _wire
    ours = _wire.releases(True)
    monkeypatch.setattr(_wire, "releases", lambda has_cloudpickle: ours | {name: "0.0.7"})
    with pytest.raises(meshbus.SpawnError, match=f"the launcher has {name} 0.0.7, this rank"):
        workers.spawn(Counter, 40)


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


def test_a_remote_error_keeps_its_cause_when_it_is_pickled():
    import pickle
    error = meshbus.RemoteError("KeyError: 'x'", "Traceback ...", 3, "gpu=3")
    error.__cause__ = KeyError("x")
    error.add_note("seen twice")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.rank, again.__notes__) == (str(error), 3, ["seen twice"])
    assert isinstance(again.__cause__, KeyError)


def test_a_remote_error_whose_cause_does_not_pickle():
    error = meshbus.RemoteError("ValueError: x", "Traceback ...", 1, "gpu=1")
    error.__cause__ = ValueError(lambda: 1)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.__cause__) == (str(error), None)
