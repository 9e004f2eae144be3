"""What `mypy --strict` infers and refuses in a program of a user; test_typing.py runs it.

A line that mypy must report ends in what it says: `# note: TEXT`, or `# error: CODE`. It must
report no other line.
"""
from typing import reveal_type

import meshbus


class Counter(meshbus.Actor):
    def __init__(self, start: int) -> None:
        self.total = start

    @meshbus.endpoint
    def add(self, n: int) -> int:
        self.total += n
        return self.total

    @meshbus.endpoint
    async def name(self) -> str:
        return str(self.point)

    @meshbus.endpoint(thread="main")
    def scale(self, factor: float, *, rounded: bool = False) -> float:
        return self.total * factor

    def helper(self) -> int:
        return self.rank


def square(n: int) -> int:
    return n * n


async def main(counters: Counter) -> None:
    reveal_type(await counters.add.call(2))  # note: ValueMesh[int]
    reveal_type(await counters.name.one())  # note: str
    async for point, value in counters.name.stream():
        reveal_type((point, value))  # note: tuple[Point, str]


with meshbus.start(hosts=2) as hosts, hosts.workers(per_host={"gpu": 2}) as procs:
    reveal_type(hosts)  # note: HostMesh
    reveal_type(procs)  # note: ProcMesh
    counters = procs.spawn(Counter, 40)
    reveal_type(counters)  # note: Counter
    reveal_type(counters.add.call(2))  # note: Future[ValueMesh[int]]
    reveal_type(counters.add(2))  # note: ValueMesh[int]
    reveal_type(counters.add.one(2).result())  # note: int
    reveal_type(counters.add.cast)  # note: def (n: int)
    reveal_type(counters.add.reduce("sum", 2))  # note: Future[int]
    reveal_type(counters.add.options(timeout=5)(2)[0])  # note: int
    reveal_type(counters.name())  # note: ValueMesh[str]
    reveal_type(counters.scale(0.5, rounded=True))  # note: ValueMesh[float]
    reveal_type(counters.slice(host=1).add(n=1))  # note: ValueMesh[int]
    reveal_type(counters.states()[0].proc)  # note: Union[RankReport, None]
    reveal_type(procs.options(name="tally").spawn(Counter, 1))  # note: Counter
    reveal_type(procs.run(square, 3))  # note: ValueMesh[int]
    reveal_type(procs.wait().first_failure)  # note: Union[RankReport, None]

    counters.add.call("two")  # error: arg-type
    counters.add("two")  # error: arg-type
    counters.add.one()  # error: call-arg
    counters.add.reduce("sum", 2, 3)  # error: call-arg
    counters.scale(0.5, True)  # error: misc
    counters.subtract.call(2)  # error: attr-defined
    counters.helper.call()  # error: attr-defined
    procs.spawn(Counter, "40")  # error: arg-type
    procs.spawn(Counter)  # error: call-arg
    procs.run(square, "3")  # error: arg-type
    hosts.workers(gpu=2)  # error: call-arg
    meshbus.endpoint(thread="other")  # error: call-overload
