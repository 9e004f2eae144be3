"""Actors: an object in every process, asked all at once, by slices, and added up at the hosts."""
import meshbus


class Counter(meshbus.Actor):
    def __init__(self, start: int) -> None:
        self.total = start

    @meshbus.endpoint
    def add(self, n: int) -> int:
        self.total += n
        return self.total


with meshbus.start(hosts=2) as hosts, hosts.workers(per_host={"gpu": 2}) as procs:
    counters = procs.spawn(Counter, 40)
    print("all    ", list(counters.add(2)))
    print("some   ", list(counters.slice(host=1, gpu=0).add(5)))
    print("reduced", counters.add.reduce("sum", 0).result())
    for point, value in counters.add.call(1).result(10).items():
        print(point, value)
