"""An actor for tests, in a module of its own: ranks import it by its name."""
import asyncio
import os
import threading
import time

import meshbus


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
