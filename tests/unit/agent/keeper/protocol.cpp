#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <optional>
#include <random>

#include "agent/keeper/protocol.h"

using namespace meshbus::keeper;
using namespace meshbus::os;
using meshbus::ErrorCode;
using meshbus::UniqueFd;

namespace {

UniqueFd some_fd() {
  return UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC));
}

SpawnBatch some_batch(std::size_t procs) {
  SpawnBatch batch;
  batch.shared.program = "prog";
  batch.shared.argv = {"zero", "", "two"};
  batch.shared.env = {"A=1", "B="};
  batch.shared.cwd = "/tmp";
  batch.shared.mesh = "m";
  batch.shared.is_template = true;
  batch.shared.settings.new_session = false;
  batch.shared.parent_death_signal = 15;
  batch.shared.settings.limits = {{7, 10, 20}};
  batch.shared.settings.group = {.memory = 1ull << 40, .pids = 64, .cpu_milli = 1500};
  for (std::size_t i = 0; i < procs; ++i) {
    ProcSpec& proc = batch.procs.emplace_back();
    proc.id = i + 100;
    proc.env = {"RANK=" + std::to_string(i)};
    proc.stdin_choice = Stdio::pipe;
    proc.stderr_choice = Stdio::inherit;
    proc.placement = {.cpus = {static_cast<std::uint32_t>(i), 1023},
                      .memory = Placement::Memory::only,
                      .memory_nodes = {3}};
    if (i % 2 == 0) proc.bootstrap = some_fd();
  }
  return batch;
}

RequestHandlers ignore_requests() {
  return {.on_spawn = [](SpawnBatch) {},
          .on_signal = [](const Signal&) {},
          .on_hold = [](const Hold&) {},
          .on_mark = [](Mark) {},
          .on_kill_mesh = [](const KillMesh&) {},
          .on_forget = [](const Forget&) {},
          .on_close_input = [](const CloseInput&) {}};
}
EventHandlers ignore_events() {
  return {.on_birth = [](Birth) {},
          .on_exit = [](const Exit&) {},
          .on_gone = [](const Gone&) {},
          .on_replayed = [] {},
          .on_signalled = [](const Signalled&) {}};
}

}  // namespace

TEST_CASE("keeper protocol: a spawn request arrives as it was sent, with its descriptors") {
  auto batch = some_batch(3);
  auto packet = make_spawn_packet(batch.shared, batch.procs);
  REQUIRE(packet.has_value());
  CHECK(packet->fds.size() == 3);  // the memfd and two bootstraps
  int calls = 0;
  auto handlers = ignore_requests();
  handlers.on_spawn = [&](SpawnBatch got) {
    ++calls;
    CHECK(got.shared.program == "prog");
    CHECK(got.shared.argv == std::vector<std::string>{"zero", "", "two"});
    CHECK(got.shared.env == std::vector<std::string>{"A=1", "B="});
    CHECK(got.shared.cwd == "/tmp");
    CHECK(got.shared.mesh == "m");
    CHECK(got.shared.is_template);
    CHECK_FALSE(got.shared.settings.new_session);
    CHECK(got.shared.parent_death_signal == 15);
    CHECK(got.shared.settings.group ==
          GroupLimits{.memory = 1ull << 40, .pids = 64, .cpu_milli = 1500});
    REQUIRE(got.shared.settings.limits.size() == 1);
    CHECK(got.shared.settings.limits[0].hard == 20);
    REQUIRE(got.procs.size() == 3);
    CHECK(got.procs[2].id == 102);
    CHECK(got.procs[2].env == std::vector<std::string>{"RANK=2"});
    CHECK(got.procs[2].bootstrap);
    CHECK_FALSE(got.procs[1].bootstrap);
    CHECK(got.procs[1].stdin_choice == Stdio::pipe);
    CHECK(got.procs[1].stdout_choice == Stdio::pipe);
    CHECK(got.procs[1].stderr_choice == Stdio::inherit);
    CHECK(got.procs[2].placement ==
          Placement{.cpus = {2, 1023}, .memory = Placement::Memory::only, .memory_nodes = {3}});
  };
  CHECK(decode_requests(std::move(*packet), handlers).has_value());
  CHECK(calls == 1);
}

TEST_CASE("keeper protocol: which process a proc joins arrives, or is a variable for old keepers") {
  auto batch = some_batch(3);
  batch.procs[0].is_joinable = true;
  batch.procs[2].is_joinable = true;
  batch.procs[2].beside = 17;
  auto packet = make_spawn_packet(batch.shared, batch.procs);
  REQUIRE(packet.has_value());
  auto handlers = ignore_requests();
  int calls = 0;
  handlers.on_spawn = [&](SpawnBatch got) {
    ++calls;
    REQUIRE(got.procs.size() == 3);
    CHECK(got.procs[0].is_joinable);
    CHECK(got.procs[0].beside == 0);
    CHECK_FALSE(got.procs[1].is_joinable);
    CHECK(got.procs[2].beside == 17);
    CHECK(got.procs[2].env == std::vector<std::string>{"RANK=2"});
  };
  CHECK(decode_requests(std::move(*packet), handlers).has_value());
  CHECK(calls == 1);
  batch = some_batch(1);
  for (const char* wrong : {"MESHBUS_KEEPER_BESIDE=", "MESHBUS_KEEPER_BESIDE=1x"}) {
    batch.procs[0].env = {wrong};
    auto refused = make_spawn_packet(batch.shared, batch.procs);
    REQUIRE(refused.has_value());
    CHECK_FALSE(decode_requests(std::move(*refused), ignore_requests()).has_value());
  }
}

TEST_CASE(
    "keeper protocol: who shares the process of whom arrives as it was sent; with nobody to share "
    "it with it is refused") {
  const auto send = [](const std::vector<std::uint32_t>& places) {
    auto batch = some_batch(0);
    for (const auto place : places) {
      ProcSpec& proc = batch.procs.emplace_back();
      proc.place = place;
      if (place == 0) proc.bootstrap = some_fd();
    }
    std::vector<std::uint32_t> got;
    auto handlers = ignore_requests();
    handlers.on_spawn = [&](SpawnBatch arrived) {
      for (const auto& proc : arrived.procs) got.push_back(proc.place);
    };
    const auto done =
        decode_requests(std::move(*make_spawn_packet(batch.shared, batch.procs)), handlers);
    return done ? std::optional(got) : std::nullopt;
  };
  CHECK(send({0, 1, 2, 0, 0, 1}) == std::vector<std::uint32_t>{0, 1, 2, 0, 0, 1});
  for (const auto& places :
       std::vector<std::vector<std::uint32_t>>{{1}, {0, 2}, {0, 1, 1}, {0, 1, 3}})
    CHECK_FALSE(send(places).has_value());
}

TEST_CASE("keeper protocol: what cannot be a command is refused before it is sent") {
  auto batch = some_batch(1);
  batch.shared.argv.push_back(std::string("a\0b", 3));
  CHECK(make_spawn_packet(batch.shared, batch.procs).error().code() ==
        ErrorCode::configuration_error);
  batch = some_batch(1);
  batch.shared.program.clear();
  CHECK(make_spawn_packet(batch.shared, batch.procs).error().code() ==
        ErrorCode::configuration_error);
  batch = some_batch(1);
  batch.shared.env.assign(9, std::string(2u << 20, 'x'));
  CHECK(make_spawn_packet(batch.shared, batch.procs).error().code() == ErrorCode::too_large);
}

TEST_CASE("keeper protocol: events arrive in order, each with its own descriptors") {
  EventPacker packer;
  Birth birth;
  birth.id = 1;
  birth.pid = 42;
  birth.pidfd = some_fd();
  birth.stderr_pipe = some_fd();
  birth.started_realtime_ns = 5;
  packer.add(std::move(birth));
  Birth failed;
  failed.id = 2;
  failed.failure = SpawnFailure{SpawnStage::exec, 2, "/no/such/file"};
  packer.add(std::move(failed));
  packer.add(Exit{.id = 1,
                  .signaled = true,
                  .code = 9,
                  .core_dumped = true,
                  .max_rss_kib = 77,
                  .memory_kills = 3,
                  .memory_limit_hit = true});
  packer.add(Gone{1});
  packer.add(Replayed{});
  packer.add(Signalled{.token = 7, .id = 5, .error = EPERM});
  std::string order;
  EventHandlers handlers{
      .on_birth =
          [&](Birth got) {
            order += "b" + std::to_string(got.id);
            if (got.id == 2) {
              REQUIRE(got.failure.has_value());
              CHECK(got.failure->stage == SpawnStage::exec);
              CHECK(got.failure->error == 2);
              CHECK(got.failure->file == "/no/such/file");
              return;
            }
            CHECK(got.pid == 42);
            CHECK(got.pidfd);
            CHECK(got.stderr_pipe);
            CHECK_FALSE(got.stdout_pipe);
            CHECK(got.started_realtime_ns == 5);
          },
      .on_exit =
          [&](const Exit& got) {
            order += "e" + std::to_string(got.id);
            CHECK(got.signaled);
            CHECK(got.core_dumped);
            CHECK(got.code == 9);
            CHECK(got.max_rss_kib == 77);
            CHECK(got.memory_kills == 3);
            CHECK(got.memory_limit_hit);
          },
      .on_gone = [&](const Gone& got) { order += "g" + std::to_string(got.id); },
      .on_replayed = [&] { order += "r"; },
      .on_signalled =
          [&](const Signalled& got) {
            order += "s" + std::to_string(got.token);
            CHECK(got.id == 5);
            CHECK(got.error == EPERM);
          },
  };
  CHECK(decode_events(packer.take(), handlers).has_value());
  CHECK(order == "b1b2e1g1rs7");
  CHECK(packer.empty());
}

TEST_CASE(
    "keeper protocol: a packet never takes more descriptors or bytes than one datagram has room "
    "for") {
  EventPacker packer;
  std::size_t births = 0;
  while (!packer.full()) {
    Birth birth;
    birth.id = births++;
    birth.pidfd = some_fd();
    birth.stdin_pipe = some_fd();
    birth.stdout_pipe = some_fd();
    birth.stderr_pipe = some_fd();
    packer.add(std::move(birth));
  }
  CHECK(births >= kMaxProcsPerBatch);
  CHECK(packer.take().fds.size() <= kMaxPacketFds);
  while (!packer.full()) {
    Birth failed;
    failed.failure = SpawnFailure{SpawnStage::exec, 2, std::string(100'000, 'f')};
    packer.add(std::move(failed));
  }
  CHECK(packer.take().bytes.size() <= kMaxPacketBytes);
}

TEST_CASE("keeper protocol: damaged packets are refused and never crash") {
  std::mt19937 random(20260101);
  EventPacker packer;
  packer.add(Exit{.id = 1});
  packer.add(Gone{1});
  Birth failed;
  failed.failure = SpawnFailure{SpawnStage::lookup, 2, "file"};
  packer.add(std::move(failed));
  const auto events = packer.take().bytes;
  const std::vector<Signal> signals{{1, 9, true}, {2, 15, false}};
  const auto requests = make_signal_packet(signals).bytes;
  const auto batch = some_batch(2);
  const auto spec = encode_batch(batch.shared, batch.procs).value();
  const auto damaged = [&](std::vector<std::byte> bytes) {
    if (random() % 3 == 0) bytes.resize(random() % (bytes.size() + 1));
    for (unsigned i = random() % 4; i > 0 && !bytes.empty(); --i)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    if (random() % 8 == 0) bytes.push_back(std::byte{1});
    return bytes;
  };
  for (int round = 0; round < 20'000; ++round) {
    (void)decode_events({damaged(events), {}}, ignore_events());
    (void)decode_requests({damaged(requests), {}}, ignore_requests());
    (void)decode_batch(damaged(spec), {});
  }
  CHECK(decode_batch(spec, {}).error().code() ==
        ErrorCode::malformed_message);  // a bootstrap was announced and did not come
  CHECK(decode_events({{}, {}}, ignore_events()).error().code() == ErrorCode::malformed_message);
  CHECK(decode_requests({requests, {}}, ignore_requests()).has_value());
  auto longer = requests;
  longer.push_back(std::byte{0});
  CHECK(decode_requests({longer, {}}, ignore_requests()).error().code() ==
        ErrorCode::malformed_message);
}

TEST_CASE("keeper protocol: a hold arrives as it was sent, and a cut one is refused") {
  const auto packet = make_hold_packet({.id = 7, .for_ms = 5000, .percent = 60, .most = 16});
  int calls = 0;
  auto handlers = ignore_requests();
  handlers.on_hold = [&](const Hold& hold) {
    ++calls;
    CHECK(hold.id == 7);
    CHECK(hold.for_ms == 5000);
    CHECK(hold.percent == 60);
    CHECK(hold.most == 16);
  };
  CHECK(decode_requests({packet.bytes, {}}, handlers).has_value());
  CHECK(calls == 1);
  auto cut = packet.bytes;
  cut.pop_back();
  CHECK_FALSE(decode_requests({std::move(cut), {}}, handlers).has_value());
  CHECK(calls == 1);
}
