// `meshbus forward` (spec 16.5).
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>

#include "tests/integration/hands/work.h"
#include "tests/integration/needs.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

/// Each rank serves a port, which it says: it reads a line, "echo", "flood" or "hash", and does
/// that.
constexpr char kServer[] = R"(
import hashlib, socket, threading
def serve(connection):
    stream = connection.makefile("rb")
    what = stream.readline().strip()
    if what == b"echo":
        connection.sendall(stream.read())
    elif what == b"hash":
        connection.sendall(hashlib.sha256(stream.read()).hexdigest().encode())
    elif what == b"flood":
        try:
            while True:
                connection.sendall(b"x" * 65536)
        except OSError:
            print("flood ended", flush=True)
    elif what == b"bye":
        connection.sendall(b"bye")
        connection.shutdown(socket.SHUT_WR)
        print("rest", len(stream.read()), flush=True)
    elif what == b"reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()
server = socket.create_server(("127.0.0.1", 0))
print("port", server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
)";

/// What a client does with a port or path, in Python: `connect()` gives a connection.
Finished client(const std::string& where, const std::string& script) {
  return run({"/usr/bin/python3", "-c",
              "import hashlib, os, socket, sys, threading, time\n"
              "def connect():\n"
              "    where = sys.argv[1]\n"
              "    if '/' in where:\n"
              "        connection = socket.socket(socket.AF_UNIX)\n"
              "        connection.connect(where)\n"
              "        return connection\n"
              "    return socket.create_connection(where.split(':'))\n"
              "def read(connection):\n"
              "    return connection.makefile('rb').read()\n" +
                  script,
              where},
             in_time);
}

struct Served {
  TempDir dir;
  Work work{"exec /usr/bin/python3 -c '" + std::string(kServer) + "'", {"--no-prefix"}};
  std::string port;

  Served() {
    work.run.wait_for_output("port", in_time);
    REQUIRE(wait_until(
        [&] {
          work.run.is_running();
          return lines_of(work.run.out()).size() >= 2 * Work::ranks;
        },
        in_time));
    port = first_port();
  }
  std::string first_port() const {
    for (const auto& line : lines_of(work.run.out())) {
      if (line.starts_with("port ")) return line.substr(5);
    }
    return {};
  }
  Words forward_words(const Words& forwards) const {
    Words words = {"forward", "--hosts", work.host.address()};
    words.insert(words.end(), forwards.begin(), forwards.end());
    return words;
  }
};

/// "127.0.0.1:1234" of the line that names what it goes to.
std::string listening_at(const std::string& out) {
  return out.substr(0, out.find(' '));
}

}  // namespace

TEST_CASE(
    "forward: connections arrive at the port beside the rank and both halves end by "
    "themselves") {
  Served served;
  Process forward(cli(served.forward_words({"0:work:1:" + served.port})));
  forward.wait_for_output("-> work[1]:" + served.port, in_time);
  const auto at = listening_at(forward.out());
  const auto echoed = client(at,
                             "data = os.urandom(5_000_000)\n"
                             "c = connect()\n"
                             "def send():\n"
                             "    c.sendall(b'echo\\n' + data)\n"
                             "    c.shutdown(socket.SHUT_WR)\n"
                             "threading.Thread(target=send).start()\n"
                             "print(read(c) == data)\n");
  INFO(echoed.err << forward.err());
  CHECK(echoed.out == "True\n");
  const auto many = client(at,
                           "def one(i):\n"
                           "    c = connect()\n"
                           "    c.sendall(b'hash\\n' + str(i).encode() * 10000)\n"
                           "    c.shutdown(socket.SHUT_WR)\n"
                           "    ok = read(c).decode() == "
                           "hashlib.sha256(str(i).encode() * 10000).hexdigest()\n"
                           "    good.append(ok)\n"
                           "good = []\n"
                           "all = [threading.Thread(target=one, args=(i,)) for i in range(20)]\n"
                           "[t.start() for t in all]\n"
                           "[t.join() for t in all]\n"
                           "print(good.count(True))\n");
  INFO(many.err << forward.err());
  CHECK(many.out == "20\n");
  // The server's half ends first; what the client still sends arrives.
  const auto bye = client(at,
                          "c = connect()\n"
                          "c.sendall(b'bye\\n')\n"
                          "print(read(c))\n"
                          "c.sendall(b'y' * 100_000)\n"
                          "c.close()\n");
  CHECK(bye.out == "b'bye'\n");
  served.work.run.wait_for_output("rest 100000", in_time);
  forward.send_signal(SIGTERM);
  CHECK(forward.wait_exit(in_time) == ExitStatus::exited(143));
}

TEST_CASE(
    "forward: a reader that stops slows down its own connection only, and its end ends the "
    "other side") {
  Served served;
  Process forward(cli(served.forward_words({"0:work:0:" + served.port})));
  forward.wait_for_output("->", in_time);
  const auto done = client(listening_at(forward.out()),
                           "flood = connect()\n"
                           "flood.sendall(b'flood\\n')\n"
                           "flood.recv(1)\n"
                           "for i in range(5):\n"
                           "    c = connect()\n"
                           "    c.sendall(b'echo\\n' + b'z' * 1000)\n"
                           "    c.shutdown(socket.SHUT_WR)\n"
                           "    print(len(read(c)))\n"
                           "flood.close()\n");
  INFO(done.err << forward.err());
  CHECK(done.out == "1000\n1000\n1000\n1000\n1000\n");
  served.work.run.wait_for_output("flood ended", in_time);
}

TEST_CASE(
    "forward: a unix socket of this user alone, which goes with the command; what is refused "
    "is said") {
  Served served;
  const auto path = served.dir / "socket";
  Process forward(cli(served.forward_words({path + ":work:0:" + served.port, "0:work:0:1"})));
  forward.wait_for_output("-> work[0]:1\n", in_time);
  CHECK(std::filesystem::status(path).permissions() == std::filesystem::perms(0600));
  const auto done = client(path,
                           "c = connect()\n"
                           "c.sendall(b'echo\\nhello')\n"
                           "c.shutdown(socket.SHUT_WR)\n"
                           "print(read(c))\n");
  CHECK(done.out == "b'hello'\n");
  const auto lines = lines_of(forward.out());
  REQUIRE(lines.size() == 2);
  const auto refused = client(listening_at(lines[1]), "print(read(connect()))\n");
  CHECK(refused.out == "b''\n");
  REQUIRE(wait_until(
      [&] {
        forward.is_running();
        return says(forward.err(), "work[0]:1: meshbus: 127.0.0.1:1: Connection refused");
      },
      in_time));
  CHECK(served.work.audited("forward", served.port).size() == 1);
  forward.send_signal(SIGINT);
  CHECK(forward.wait_exit(in_time) == ExitStatus::exited(130));
  CHECK_FALSE(std::filesystem::exists(path));

  CHECK(run_cli(served.forward_words({"80:work"})).status == ExitStatus::exited(2));
  CHECK(run_cli(served.forward_words({"0:work:80"})).status == ExitStatus::exited(2));
  CHECK(run_cli(served.forward_words({"0:nowork:0:80"})).status == ExitStatus::exited(1));
}

TEST_CASE("attacks: forward: another user of this machine reaches no rank by a port on loopback" *
          doctest::test_suite(need::root)) {
  Served served;
  Process forward(cli(served.forward_words({"0:work:0:" + served.port})));
  forward.wait_for_output("->", in_time);
  const auto at = listening_at(forward.out());
  const std::string talk =
      "import socket, sys\n"
      "host, port = sys.argv[1].split(':')\n"
      "c = socket.create_connection((host, int(port)))\n"
      "try:\n"
      "    c.sendall(b'echo\\nhello')\n"
      "    c.shutdown(socket.SHUT_WR)\n"
      "    print(c.makefile('rb').read())\n"
      "except OSError:\n"
      "    print(b'')\n";
  for (const bool is_other : {true, false}) {
    Words words;
    if (is_other) words = {"setpriv", "--reuid=4711", "--regid=4711", "--clear-groups"};
    words.insert(words.end(), {"/usr/bin/python3", "-c", talk, at});
    const auto done = run(words, in_time);
    INFO(done.err << forward.err());
    CHECK(done.out == (is_other ? "b''\n" : "b'hello'\n"));
  }
  forward.is_running();
  CHECK(says(forward.err(), "is refused: it comes from user 4711"));
  CHECK(served.work.audited("forward", served.port).size() == 1);
}

TEST_CASE("forward: a connection that the server resets is said") {
  Served served;
  Process forward(cli(served.forward_words({"0:work:0:" + served.port})));
  forward.wait_for_output("->", in_time);
  const auto done = client(listening_at(forward.out()),
                           "c = connect()\n"
                           "c.sendall(b'reset\\n')\n"
                           "print(read(c))\n");
  INFO(done.err << forward.err());
  CHECK(done.out == "b''\n");
  forward.wait_for_output("Connection reset by peer", in_time);
}

TEST_CASE("forward: with few descriptors connections wait for one another, and all are carried") {
  Served served;
  std::string line = "ulimit -n 100; exec";
  for (const auto& word : cli(served.forward_words({"0:work:0:" + served.port})))
    line += " " + word;
  Process forward({"sh", "-c", line});
  forward.wait_for_output("->", in_time);
  // At two descriptors each they are more than can be open at a time.
  const auto done = client(listening_at(forward.out()),
                           "import concurrent.futures\n"
                           "def one(i):\n"
                           "    c = connect()\n"
                           "    c.sendall(b'echo\\n' + str(i).encode())\n"
                           "    c.shutdown(socket.SHUT_WR)\n"
                           "    return read(c) == str(i).encode()\n"
                           "with concurrent.futures.ThreadPoolExecutor(60) as pool:\n"
                           "    print(list(pool.map(one, range(60))).count(True))\n");
  INFO(done.err << forward.err());
  CHECK(done.out == "60\n");
  CHECK(forward.is_running());
}
