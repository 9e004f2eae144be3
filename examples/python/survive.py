"""Actors that survive a kill: the rank begins a new life, and gets its actor back."""
import meshbus


class Shard(meshbus.Actor):
    def __init__(self) -> None:
        self.steps = 0

    @meshbus.endpoint
    def step(self) -> int:
        self.steps += 1
        return self.steps


with meshbus.start(hosts=2) as hosts:
    with hosts.workers(per_host={"gpu": 2}, restart=meshbus.Restart(delay=0.01)) as procs:
        shards = procs.spawn(Shard)
        print("before", list(shards.step()))
        procs.kill(2)
        answers = shards.step.call().result()
        print("killed", answers.ok, "and of rank 2:", type(answers.failed[2]).__name__)
        procs.wait_ready()
        shards = procs.spawn(Shard)
        print("again ", list(shards.step()))
