// What procs write and read.
#include <doctest/doctest.h>

#include "tests/integration/agent/harness.h"

#include "wire/bus_generated.h"
#include "wire/lifecycle_generated.h"
#include "wire/logs_generated.h"

using namespace std::chrono_literals;

namespace meshbus::test {
namespace {

void wait_output(AgentHarness& harness, const std::string& mesh, std::size_t ranks) {
  harness.wait("the end of the output", [&] {
    const auto& known = harness.launcher->mesh(mesh);
    return known.size() == ranks && std::all_of(known.begin(), known.end(), [](const auto& entry) {
             return entry.second.output_ended;
           });
  });
}

std::string stream(AgentHarness& harness, wire::SpawnProcsT request) {
  request.output = wire::OutputMode::stream;
  return harness.spawn(std::move(request));
}

/// 1 MiB in lines of different lengths, made by awk in the proc and by us.
const char* const mebibyte_script =
    "awk 'BEGIN { for (i = 0; n < 1048576; ++i) { s = sprintf(\"%d:%s\", i, "
    "substr(\"abcdefghijklmnopqrstuvwxyz\", 1, i % 27)); n += "
    "length(s) + 1; print s } }'";
std::string mebibyte() {
  std::string text;
  for (int i = 0; text.size() < 1048576; ++i)
    text += std::to_string(i) + ":" +
            std::string("abcdefghijklmnopqrstuvwxyz").substr(0, static_cast<std::size_t>(i % 27)) +
            "\n";
  return text;
}

TEST_CASE("agent: streamed output is exact, of both streams, with the last line unfinished") {
  AgentHarness harness;
  const auto mesh = stream(
      harness,
      harness.shell(
          "printf 'a\\0b\\377\\n'; echo err >&2; printf 'rank %s of %s' $RANK $WORLD_SIZE", 3));
  wait_output(harness, mesh, 3);
  for (const auto& [number, rank] : harness.launcher->mesh(mesh)) {
    CHECK(rank.out == std::string("a\0b\xff\n", 5) + "rank " + std::to_string(number) + " of 3");
    CHECK(rank.err == "err\n");
  }
  harness.wait_ended(mesh, 3);
  CHECK(harness.launcher->problems.empty());
}

TEST_CASE("agent: 1 MiB from a proc that exits at once, by several ranks") {
  AgentHarness harness;
  const auto mesh = stream(harness, harness.shell(mebibyte_script, 4));
  wait_output(harness, mesh, 4);
  const std::string expected = mebibyte();
  for (const auto& [number, rank] : harness.launcher->mesh(mesh)) CHECK((rank.out == expected));
  harness.wait_ended(mesh, 4);
}

TEST_CASE("agent: a line of 1 MiB without a newline comes whole") {
  AgentHarness harness;
  const auto mesh = stream(harness, harness.shell("head -c 1048576 /dev/zero | tr '\\0' x"));
  wait_output(harness, mesh, 1);
  CHECK((harness.rank(mesh).out == std::string(1048576, 'x')));
}

TEST_CASE("agent: a slow owner slows the procs, and nothing is lost") {
  AgentHarness harness;
  harness.launcher->takes_output = false;
  const auto mesh = stream(harness, harness.shell(mebibyte_script));
  harness.wait_state(mesh, wire::ProcState::ready);
  harness.wait("the first output", [&] { return harness.rank(mesh).out.size() > 100'000; });
  harness.run_for(500ms);
  CHECK(harness.rank(mesh).out.size() <= 256 * 1024);
  CHECK(harness.rank(mesh).state() == wire::ProcState::ready);  // waits for its pipe
  // Others are not slowed.
  const auto other = harness.run_shell("exit 0");
  harness.wait_ended(other);
  harness.launcher->takes_output = true;
  wire::OutputTakenT taken;
  taken.mesh = mesh;
  taken.bytes = std::exchange(harness.launcher->untaken, 0);
  harness.launcher->bus().tell(Destination::to_agent(harness.host()), taken);
  wait_output(harness, mesh, 1);
  CHECK((harness.rank(mesh).out == mebibyte()));
}

TEST_CASE("agent: a proc that ended while its owner was slow: its last output comes later") {
  AgentHarness harness;
  harness.launcher->takes_output = false;
  // One rank fills what may be ahead; the other one's few bytes wait behind.
  const auto mesh =
      stream(harness,
             harness.shell(
                 "if [ $RANK = 0 ]; then yes | head -c 1000000; else sleep 0.5; echo done; fi", 2));
  harness.wait("rank 1 to end", [&] { return harness.rank(mesh, 1).exit_report.has_value(); });
  CHECK(harness.rank(mesh, 1).out.empty());
  CHECK_FALSE(harness.rank(mesh, 1).output_ended);
  harness.launcher->takes_output = true;
  wire::OutputTakenT taken;
  taken.mesh = mesh;
  taken.bytes = std::exchange(harness.launcher->untaken, 0);
  harness.launcher->bus().tell(Destination::to_agent(harness.host()), taken);
  wait_output(harness, mesh, 2);
  CHECK(harness.rank(mesh, 1).out == "done\n");
  CHECK(harness.rank(mesh, 0).out.size() == 1'000'000);
}

TEST_CASE("agent: OutputTaken from somebody else opens nothing") {
  AgentHarness harness;
  harness.launcher->takes_output = false;
  const auto stranger = harness.make_launcher("client");
  const auto mesh = stream(harness, harness.shell(mebibyte_script));
  harness.wait("the first output", [&] { return harness.rank(mesh).out.size() > 100'000; });
  wire::OutputTakenT taken;
  taken.mesh = mesh;
  taken.bytes = 1 << 30;
  stranger->bus().tell(Destination::to_agent(harness.host()), taken);
  harness.run_for(300ms);
  CHECK(harness.rank(mesh).out.size() <= 256 * 1024);
  harness.stop(mesh, 0ms);
  harness.wait_ended(mesh);
}

TEST_CASE("agent: captured only: a flood does not stop anybody, and the tail is right") {
  AgentHarness harness;
  const auto mesh = harness.run_shell("yes flood | head -c 18000000 >&2; echo end >&2; exit 5", 2);
  harness.wait_ended(mesh, 2);
  std::string expected;
  for (int i = 0; i < 99; ++i) expected += "flood\n";
  for (const auto& [number, rank] : harness.launcher->mesh(mesh)) {
    CHECK(rank.states.back().exit_code() == 5);
    const std::string tail(rank.exit_report->stderr_tail.begin(),
                           rank.exit_report->stderr_tail.end());
    CHECK(tail == "flood\nflood\n" + expected.substr(0, 6 * 96) + "flood\nend\n");
    CHECK(rank.out.empty());
  }
}

TEST_CASE("agent: a proc that closes its output lives on, and its end is told") {
  AgentHarness harness;
  const auto mesh = stream(harness, harness.shell("echo first; exec >&- 2>&-; sleep 0.3; exit 4"));
  wait_output(harness, mesh, 1);
  CHECK(harness.rank(mesh).out == "first\n");
  harness.wait_ended(mesh);
  CHECK(harness.rank(mesh).states.back().exit_code() == 4);
}

TEST_CASE("agent: what cannot be started has an end of output too") {
  AgentHarness harness;
  const auto mesh = stream(harness, harness.command({"/no/such/file"}, 2));
  wait_output(harness, mesh, 2);
  harness.wait_ended(mesh, 2);
}

wire::WriteInputT input(const std::string& mesh, std::string data, bool end = false) {
  wire::WriteInputT write;
  write.mesh = mesh;
  write.data.assign(data.begin(), data.end());
  write.end = end;
  return write;
}

TEST_CASE("agent: stdin by WriteInput, more than a pipe holds, then its end") {
  AgentHarness harness;
  auto request = harness.command({"cat"}, 2);
  request.input_ranks = {wire::RankInterval(0, 1)};
  const auto mesh = stream(harness, std::move(request));
  const std::string text = mebibyte().substr(0, 900'000);
  // Before the birth, perhaps: it waits then.
  CHECK(harness.ask<wire::Ack>(input(mesh, "begin\n")).has_value());
  CHECK(harness.ask<wire::Ack>(input(mesh, text)).has_value());
  CHECK(harness.ask<wire::Ack>(input(mesh, "", true)).has_value());
  wait_output(harness, mesh, 2);
  CHECK((harness.rank(mesh).out == "begin\n" + text));
  CHECK(harness.rank(mesh, 1).out.empty());
  harness.wait_ended(mesh, 2);
  CHECK(harness.ask<wire::Ack>(input(mesh, "x")).error().code() == ErrorCode::not_exist);
}

TEST_CASE("agent: stdin that is not read, not there, or given up") {
  AgentHarness harness;
  auto request = harness.shell("exec sleep 300", 2);
  request.input_ranks = {wire::RankInterval(0, 1)};
  const auto mesh = harness.spawn(std::move(request));
  harness.wait_state(mesh, wire::ProcState::ready, 2);
  auto to_null = input(mesh, "x");
  to_null.rank = 1;
  CHECK(harness.ask<wire::Ack>(to_null).error().code() == ErrorCode::refused);
  to_null.rank = 9;
  CHECK(harness.ask<wire::Ack>(to_null).error().code() == ErrorCode::not_exist);
  CHECK(harness.ask<wire::Ack>(input("nobody-13Se1Maqzryj", "x")).error().code() ==
        ErrorCode::not_exist);
  // Nobody reads: the first one waits, a second one is refused, and the end of the proc answers the
  // first.
  std::optional<Result<ControlMessage>> first;
  harness.launcher->bus().request(
      Destination::to_agent(harness.host()), input(mesh, std::string(500'000, 'x')), 30s,
      [&](Result<ControlMessage> answer) { first = std::move(answer); });
  CHECK(harness.ask<wire::Ack>(input(mesh, "y")).error().code() == ErrorCode::refused);
  CHECK_FALSE(first.has_value());
  harness.stop(mesh, 0ms);
  harness.wait("the first answer", [&] { return first.has_value(); });
  CHECK(first->error().code() == ErrorCode::not_exist);
  harness.wait_ended(mesh, 2);

  auto closer = harness.shell("exec <&-; sleep 300");
  closer.input_ranks = {wire::RankInterval(0, 1)};
  const auto closed = harness.spawn(std::move(closer));
  harness.wait("the pipe to break",
               [&] { return !harness.ask<wire::Ack>(input(closed, "x")).has_value(); });
  CHECK(harness.ask<wire::Ack>(input(closed, "x")).error().code() == ErrorCode::not_exist);
  harness.stop(closed, 0ms);
  harness.wait_ended(closed);
}

}  // namespace
}  // namespace meshbus::test
