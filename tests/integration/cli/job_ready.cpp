// When the roles of a job are ready, and what is read of their words and files (spec 17.6).
#include <doctest/doctest.h>

#include <fstream>

#include "tests/world/command_line.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

std::string write_job(const TempDir& dir, const std::string& text) {
  const auto path = dir / "job.toml";
  std::ofstream(path) << text;
  return path;
}

}  // namespace

TEST_CASE("cli: a role that ends without its ready-text was never ready") {
  const TempDir dir;
  const auto job = write_job(dir, R"(
[roles.a]
shell = "echo nobody asked"
ready-text = "listening"
[roles.b]
command = ["sleep", "600"]
after = ["a"]
)");
  const auto finished = run_cli({"run", "--job", job});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(143));
  CHECK(has(finished.err, "role b cannot be started any more: a has ended without its ready-text"));
}

TEST_CASE("cli: a rank that is started again has to be ready again") {
  const TempDir dir;
  // Rank 1 becomes ready when rank 0 has been ready, has failed and runs again, which role c holds
  // up before it is ready.
  const auto job = write_job(dir, R"(
[roles.a]
procs = 2
restart = "on-failure:1"
ready-text = "listening"
shell = """
if [ $RANK = 1 ]; then
  until [ -e $DIR/again ]; do sleep 0.05; done
  echo listening
  exec sleep 600
fi
if [ $MESHBUS_RESTARTS = 0 ]; then echo listening; exit 3; fi
touch $DIR/again
until [ -e $DIR/late ]; do sleep 0.05; done
echo first > $DIR/order
echo listening
exec sleep 600
"""
[roles.b]
shell = "cat $DIR/order"
after = ["a"]
ends-job = true
[roles.c]
shell = "until [ -e $DIR/again ]; do sleep 0.05; done; sleep 0.5; touch $DIR/late; exec sleep 600"
)");
  const auto finished =
      run_cli({"run", "--job", job}, {.environment = {{"DIR", dir.path().string()}}});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(has(finished.out, "first\n"));
}

TEST_CASE("cli: a : with a flag behind it is a word of a program when it is written \\:") {
  const auto finished = run_cli({"run", "--name", "a", "--", "echo", "\\:", "-n", "--", "x"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(0));
  CHECK(has(finished.out, ": -n -- x\n"));
}

TEST_CASE("cli: another name of a file is not read as what a rank has written") {
  StandingHost host;
  const auto finished =
      run_cli({"run", "--hosts", host.address(), "--", "sh", "-c",
               "f=$TORCHELASTIC_ERROR_FILE; echo '{\"message\": \"a secret\"}' >$f.own && "
               "ln $f.own $f || exit 9; exit 4"});
  INFO(finished.err);
  CHECK(finished.status == ExitStatus::exited(4));
  CHECK_FALSE(has(finished.err, "a secret"));
}
