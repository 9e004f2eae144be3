#include "agent/proc/runtime/message_run.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace meshbus;
using namespace meshbus::mesh_proc;

namespace {

wire::Envelope numbered(std::uint64_t sequence) {
  wire::Envelope envelope;
  envelope.mutate_sequence(sequence);
  return envelope;
}

const ProcProgram::Handler kHandler = [](Proc&, const Incoming&) { return std::string(); };

}  // namespace

TEST_CASE("message_run: is handled in order, and keeps the frames of its bodies until then") {
  auto frame = std::make_shared<const std::string>("ab");
  const std::weak_ptr<const std::string> watched = frame;
  MessageRun run;
  run.add(kHandler, numbered(1), Bytes(*frame).substr(0, 1), nullptr, frame);
  run.add_waiting(numbered(2));
  run.add(kHandler, numbered(3), Bytes(*frame).substr(1, 1), nullptr, frame);
  frame.reset();
  CHECK(run.size() == 3);
  std::string handled;
  run.run([&](const MessageRun::Message& message) { handled += message.body; });
  CHECK(handled == "ab");
  CHECK(watched.expired());
}

TEST_CASE("message_run: each message is told to be taken once, when its handler has begun") {
  MessageRuns runs;
  for (std::uint64_t i = 1; i <= 3; ++i)
    runs.open().add(kHandler, numbered(i), {}, nullptr, nullptr);
  CHECK(runs.untaken() == 3);
  const auto run = runs.close();
  CHECK(runs.untaken() == 3);
  std::vector<std::uint64_t> taken;
  const auto tell = [&] {
    runs.tell_taken([&](const wire::Envelope& envelope) { taken.push_back(envelope.sequence()); });
  };
  tell();
  CHECK(taken.empty());
  int handled = 0;
  run->run([&](const MessageRun::Message&) {
    if (++handled != 2) return;
    tell();
    CHECK(taken == std::vector<std::uint64_t>{1, 2});
    CHECK(runs.untaken() == 1);
  });
  tell();
  tell();
  CHECK(taken == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(runs.untaken() == 0);
}

TEST_CASE("message_run: runs are handled by one thread while another one fills and tells") {
  constexpr std::uint64_t kRuns = 200;
  MessageRuns runs;
  std::uint64_t next = 1, told = 0;
  const auto tell = [&] {
    runs.tell_taken([&](const wire::Envelope& envelope) { CHECK(envelope.sequence() == ++told); });
  };
  std::thread handlers;
  for (std::uint64_t i = 0; i < kRuns; ++i) {
    auto frame = std::make_shared<const std::string>("body");
    while (!runs.open().is_full())
      runs.open().add(kHandler, numbered(next++), *frame, nullptr, frame);
    if (handlers.joinable()) handlers.join();
    handlers = std::thread([run = runs.close()] {
      run->run([](const MessageRun::Message& message) { CHECK(message.body == "body"); });
    });
    tell();
  }
  handlers.join();
  tell();
  CHECK(told == kRuns * MessageRun::kMost);
  CHECK(runs.untaken() == 0);
}

TEST_CASE("message_run: a run that is not handled after all leaves nothing to wait for") {
  MessageRuns runs;
  runs.open().add(kHandler, numbered(1), {}, nullptr, nullptr);
  runs.close();
  runs.drop_last();
  CHECK(runs.untaken() == 0);
  CHECK_FALSE(runs.is_open());
}
