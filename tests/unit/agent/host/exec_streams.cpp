// The streams of an exec (schemas/hands.fbs), on the host's side.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "agent/host/hands/exec_input.h"
#include "agent/host/hands/exec_output.h"
#include "agent/host/hands/exec_pipes.h"

using namespace meshbus;
using namespace meshbus::host;

namespace {

constexpr auto kOut = wire::Stream::out;

/// A pipe whose write end does not block.
struct TestPipe {
  TestPipe() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    reading = UniqueFd(ends[0]);
    writing = UniqueFd(ends[1]);
  }
  std::string read() const {
    std::array<char, 65536> bytes{};
    const auto n = ::read(reading.get(), bytes.data(), bytes.size());
    return {bytes.data(), n < 0 ? 0 : static_cast<std::size_t>(n)};
  }
  UniqueFd reading, writing;
};

struct Outcome {
  std::optional<Result<void>> result;
  ExecInput::Done done() {
    return [this](Result<void> how) { result = std::move(how); };
  }
};

}  // namespace

TEST_CASE(
    "exec_output: it is numbered and kept until it is taken, and asks for no more than fits") {
  ExecOutput output(1000);
  output.add(kOut, "abc");
  output.add(wire::Stream::err, "def");
  const auto* first = output.next();
  REQUIRE(first != nullptr);
  CHECK(first->sequence == 1);
  CHECK(bytes_of(first->data) == "abc");
  REQUIRE(output.next() != nullptr);
  CHECK(output.next() == nullptr);
  output.taken(1);
  output.resend();
  const auto* again = output.next();
  REQUIRE(again != nullptr);
  CHECK(again->sequence == 2);
  CHECK(output.next() == nullptr);
  output.taken(2);
  CHECK(output.is_all_taken());

  CHECK(output.wants_more());
  output.add(kOut, std::string(1000, 'x'));
  CHECK_FALSE(output.wants_more());
  output.end(kOut);
  CHECK(output.last() == 4);
  // What was never sent is not taken either, but that much may be claimed.
  output.taken(100);
  CHECK(output.wants_more());
  CHECK(output.is_all_taken());
  CHECK(output.next() == nullptr);
}

TEST_CASE("exec_output: what could not be sent is the next one again") {
  ExecOutput output(1000);
  output.add(kOut, "a");
  REQUIRE(output.next() != nullptr);
  output.put_back();
  const auto* again = output.next();
  REQUIRE(again != nullptr);
  CHECK(again->sequence == 1);
}

TEST_CASE("exec_input: bytes arrive once, whatever is sent twice, and none may be missing") {
  Reactor reactor;
  TestPipe pipe;
  int closed = 0;
  ExecInput input(reactor, false, [&] { ++closed; });
  Outcome first;
  input.write(0, "hello ", false, first.done());
  CHECK_FALSE(first.result);  // there is no process yet
  input.attach(std::move(pipe.writing));
  REQUIRE(first.result);
  CHECK(*first.result);
  Outcome again;
  input.write(0, "hello ", false, again.done());
  REQUIRE(again.result);
  CHECK(*again.result);
  Outcome gap;
  input.write(100, "x", false, gap.done());
  REQUIRE(gap.result);
  CHECK(gap.result->error().code() == ErrorCode::out_of_range);
  Outcome rest;
  input.write(3, "lo world", true, rest.done());
  REQUIRE(rest.result);
  CHECK(*rest.result);
  CHECK(pipe.read() == "hello world");
  CHECK(closed == 1);
  Outcome late;
  input.write(11, "x", false, late.done());
  REQUIRE(late.result);
  CHECK(late.result->error().code() == ErrorCode::not_exist);
}

TEST_CASE("exec_input: a full pipe is waited for; the same bytes again get the answer") {
  Reactor reactor;
  TestPipe pipe;
  ExecInput input(reactor, false, [] {});
  input.attach(std::move(pipe.writing));
  const std::string much(200'000, 'x');
  Outcome first;
  input.write(0, much, false, first.done());
  CHECK_FALSE(first.result);
  Outcome other;
  input.write(much.size(), "y", false, other.done());
  REQUIRE(other.result);
  CHECK(other.result->error().code() == ErrorCode::refused);
  Outcome again;
  input.write(0, much, false, again.done());
  CHECK(first.result);
  CHECK_FALSE(again.result);
  std::size_t got = 0;
  while (!again.result) {
    got += pipe.read().size();
    reactor.turn(std::chrono::milliseconds(10));
  }
  while (const auto n = pipe.read().size()) got += n;
  CHECK(*again.result);
  CHECK(got == much.size());
  Outcome last;
  input.write(much.size(), much, false, last.done());
  CHECK_FALSE(last.result);
  input.close("it has ended");
  REQUIRE(last.result);
  CHECK(last.result->error().detail() == "it has ended");
}

TEST_CASE("exec_input: of a terminal the end comes once, and of many sizes the latest one") {
  Reactor reactor;
  TestPipe pipe;
  ExecInput input(reactor, true, [] {});
  input.attach(std::move(pipe.writing));
  const std::string much(200'000, 'x');
  Outcome first;
  input.write(0, much, true, first.done());
  CHECK_FALSE(first.result);
  // They wait behind what is typed.
  for (std::uint16_t rows = 1; rows <= 1000; ++rows) input.resize({rows, 80});
  Outcome again;
  input.write(0, much, true, again.done());
  os::TerminalRecords records;
  std::size_t typed = 0;
  int ends = 0;
  std::vector<std::uint16_t> sizes;
  const auto read = [&] {
    const auto bytes = pipe.read();
    records.add(bytes);
    os::TerminalRecord type{};
    for (std::string_view body; records.next(type, body);) {
      if (type == os::TerminalRecord::input) typed += body.size();
      if (type == os::TerminalRecord::end_of_file) ++ends;
      os::TerminalSize size;
      if (type != os::TerminalRecord::size || body.size() != sizeof size) continue;
      std::memcpy(&size, body.data(), sizeof size);
      sizes.push_back(size.rows);
    }
    return bytes.size();
  };
  while (!again.result) {
    read();
    reactor.turn(std::chrono::milliseconds(10));
  }
  while (read() > 0) {
  }
  CHECK(*again.result);
  CHECK(typed == much.size());
  CHECK(ends == 1);
  CHECK(sizes == std::vector<std::uint16_t>{1000});
}

TEST_CASE("exec_input: more than a request may hold is refused and counts for nothing") {
  Reactor reactor;
  TestPipe pipe;
  ExecInput input(reactor, false, [] {});
  input.attach(std::move(pipe.writing));
  Outcome much;
  const std::string too_much((1 << 20) + 1, 'x');
  input.write(0, too_much, false, much.done());
  REQUIRE(much.result);
  REQUIRE_FALSE(*much.result);
  CHECK(much.result->error().code() == ErrorCode::too_large);
  Outcome fine;
  input.write(0, "fine", false, fine.done());
  REQUIRE(fine.result);
  CHECK(pipe.read() == "fine");
}

TEST_CASE("exec_pipes: streams end with what is there, although another process holds them open") {
  Reactor reactor;
  TestPipe out;
  TestPipe err;
  const std::string much(50'000, 'x');
  int news = 0;
  ExecPipes pipes(reactor, 1000, [&] { ++news; });
  pipes.attach(std::move(out.reading), std::move(err.reading));
  REQUIRE(::write(out.writing.get(), much.data(), much.size()) ==
          static_cast<ssize_t>(much.size()));
  REQUIRE(::write(err.writing.get(), "why", 3) == 3);
  pipes.finish();
  CHECK(pipes.are_ended());
  CHECK(news == 1);
  std::string got_out;
  std::string got_err;
  int ends = 0;
  while (const auto* message = pipes.output().next()) {
    (message->stream == kOut ? got_out : got_err) += bytes_of(message->data);
    if (message->end) ++ends;
  }
  CHECK((got_out == much));
  CHECK(got_err == "why");
  CHECK(ends == 2);
  // What is written later is nobody's.
  pipes.finish();
  const auto last = pipes.output().last();
  REQUIRE(::write(out.writing.get(), "x", 1) == 1);
  reactor.turn(std::chrono::milliseconds(0));
  CHECK(pipes.output().last() == last);
}
