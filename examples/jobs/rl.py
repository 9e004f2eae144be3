"""The three programs of rl.toml, as small as they can be. Each rank finds the store by the
variables of its role; no library is needed."""
import os
import socket
import socketserver
import sys
import threading
import time


class Store(socketserver.StreamRequestHandler):
    """Lines "add NAME NUMBER" and "get NAME"; the answer is the number."""

    numbers: dict[str, int] = {}
    lock = threading.Lock()

    def handle(self) -> None:
        for line in self.rfile:
            verb, name, *number = line.decode().split()
            with self.lock:
                if verb == "add":
                    self.numbers[name] = self.numbers.get(name, 0) + int(number[0])
                answer = self.numbers.get(name, 0)
            self.wfile.write(f"{answer}\n".encode())


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def store() -> None:
    with Server(("", int(os.environ["MESHBUS_LISTEN_PORT"])), Store) as server:
        print("listening", flush=True)
        server.serve_forever()


class Client:
    def __init__(self) -> None:
        place = (os.environ["MESHBUS_ROLE_STORE_ADDR"], int(os.environ["MESHBUS_ROLE_STORE_PORT"]))
        self.lines = socket.create_connection(place, timeout=30).makefile("rw")

    def ask(self, line: str) -> int:
        self.lines.write(line + "\n")
        self.lines.flush()
        answer = self.lines.readline()
        if not answer:
            raise ConnectionError("the store has hung up")
        return int(answer)


def trainer() -> None:
    client, rank, steps = Client(), int(os.environ["RANK"]), int(os.environ["STEPS"])
    # What it had reached when it was started again: a checkpoint.
    done = client.ask(f"get steps.{rank}")
    print(f"trainer {rank} begins at step {done}", flush=True)
    while done < steps:
        time.sleep(0.05)  # the work
        done = client.ask(f"add steps.{rank} 1")
    print(f"trainer {rank} has done {done} steps, with {client.ask('get samples')} samples",
          flush=True)


def rollout() -> None:
    client = Client()
    print(f"rollout {os.environ['RANK']} works", flush=True)
    while True:
        time.sleep(0.02)  # the work
        client.ask("add samples 1")


if __name__ == "__main__":
    {"store": store, "trainer": trainer, "rollout": rollout}[sys.argv[1]]()
