#include "broker/observe/audit_trail.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/wire/control.h"
#include "tests/support/temp_dir.h"
#include "wire/bus_generated.h"
#include "wire/frame_generated.h"
#include "wire/hands_generated.h"
#include "wire/lifecycle_generated.h"

using namespace meshbus;
using namespace std::chrono_literals;
using meshbus::test::TempDir;

namespace {

using LineJson = nlohmann::json;

const HostAddr kTrailHost = *HostAddr::parse("tcp:h1:7420");
const AuditTrail::Time kTrailStart{1000s};

struct WrittenTrail {
  WrittenTrail()
      : trail(*EventLog::open(dir / "audit", 1 << 20), kTrailHost, [this] { return now; }) {}
  std::vector<LineJson> lines() {
    std::vector<LineJson> all;
    const auto list = trail.find(0, 1 << 20);
    for (const auto& event : list.events) all.push_back(LineJson::parse(event->text));
    return all;
  }
  TempDir dir;
  AuditTrail::Time now = kTrailStart;
  AuditTrail trail;
};

AuditedPrincipal operator_alice() {
  return {.by = "operator alice",
          .role = wire::Role::operate,
          .address = "10.0.0.2",
          .peer = "tcp:h1:7420,client-13Se1Maqzryj",
          .pid = 4711};
}

wire::Envelope sent_by(const std::string& peer) {
  wire::Envelope envelope;
  envelope.mutate_source_proc(ProcId::parse(peer)->key());
  return envelope;
}

wire::Envelope answer_to(const std::string& peer) {
  wire::Envelope envelope;
  envelope.mutate_destination_proc(ProcId::parse(peer)->key());
  return envelope;
}

std::string spawn_request(std::uint64_t id) {
  wire::SpawnProcsT spawn;
  spawn.mesh = "train-13Se1Maqzryj";
  spawn.region = std::make_unique<wire::RegionT>();
  spawn.hosts = {"tcp:h1:7420"};
  spawn.create_ranks = {{0, 4}, {7, 8}};
  spawn.command = std::make_unique<wire::CommandT>();
  spawn.command->program = "/bin/sh";
  spawn.command->arguments = {"sh", "-c", "echo \x1b[31m"};
  auto variable = std::make_unique<wire::KeyValueT>();
  variable->key = "PASSWORD";
  variable->value = "secret";
  spawn.command->environment.push_back(std::move(variable));
  spawn.owner = "tcp:h1:7420,client-13Se1Maqzryj";
  return encode_control({.id = id}, std::move(spawn));
}

std::string exec_request(std::uint64_t id, std::uint64_t exec) {
  wire::StartExecT start;
  start.mesh = "train-13Se1Maqzryj";
  start.rank = 3;
  start.requester = operator_alice().peer;
  start.exec = exec;
  start.arguments = {"cat", "/etc/hosts"};
  auto variable = std::make_unique<wire::KeyValueT>();
  variable->key = "PASSWORD";
  variable->value = "secret";
  start.environment.push_back(std::move(variable));
  return encode_control({.id = id}, std::move(start));
}

std::string exec_started(std::uint64_t id) {
  return encode_control({.id = id, .is_answer = true}, wire::ExecStartedT());
}

std::string exec_ended(std::uint64_t exec, const std::string& reason) {
  wire::ExecEndedT ended;
  ended.exec = exec;
  ended.signal = 9;
  ended.reason = reason;
  return encode_control({}, std::move(ended));
}

std::string refusal_of(std::uint64_t id, const std::string& detail) {
  wire::RefusalT refusal;
  refusal.code = wire::ErrorCode::unauthorised;
  refusal.detail = detail;
  return encode_control({.id = id, .is_answer = true}, std::move(refusal));
}

}  // namespace

TEST_CASE("audit_trail: a request is written down with its answer, and no environment") {
  WrittenTrail written;
  const auto who = operator_alice();
  written.trail.on_control(who, "", sent_by(who.peer), spawn_request(9));
  CHECK(written.lines().empty());
  CHECK(written.trail.is_waiting(ProcId::parse(who.peer)->key()));
  // The answer of another request, and to somebody else.
  written.trail.on_answer(answer_to(who.peer), refusal_of(8, "no"));
  written.trail.on_answer(answer_to("tcp:h1:7420,client-13Se1Maqzryk"), refusal_of(9, "no"));
  CHECK(written.lines().empty());
  written.trail.on_answer(answer_to(who.peer),
                          encode_control({.id = 9, .is_answer = true}, wire::AckT()));
  REQUIRE(written.lines().size() == 1);
  const LineJson line = written.lines().front();
  CHECK(line.at("host") == "tcp:h1:7420");
  CHECK(line.at("by") == "operator alice");
  CHECK(line.at("role") == "operator");
  CHECK(line.at("address") == "10.0.0.2");
  CHECK(line.at("peer") == who.peer);
  CHECK(line.at("pid") == 4711);
  CHECK(line.at("verb") == "spawn");
  CHECK(line.at("to").is_null());
  CHECK(line.at("mesh") == "train-13Se1Maqzryj");
  CHECK(line.at("ranks") == "0-3,7");
  CHECK(line.at("what") == "sh -c echo \x1b[31m");
  CHECK(line.at("outcome") == "ok");
  CHECK_FALSE(written.trail.is_waiting(ProcId::parse(who.peer)->key()));
  std::ifstream file(written.dir / "audit.jsonl");
  const std::string raw((std::istreambuf_iterator<char>(file)), {});
  CHECK(raw.find("secret") == std::string::npos);
  CHECK(raw.find('\x1b') == std::string::npos);
}

TEST_CASE("audit_trail: what only reads, and what goes with every job, is left out") {
  WrittenTrail written;
  const auto who = operator_alice();
  wire::GetStateT get;
  get.mesh = "train-13Se1Maqzryj";
  written.trail.on_control(who, "", sent_by(who.peer), encode_control({.id = 1}, std::move(get)));
  wire::RenewLeaseT renew;
  renew.meshes = {"train-13Se1Maqzryj"};
  written.trail.on_control(who, "", sent_by(who.peer), encode_control({.id = 2}, std::move(renew)));
  written.trail.on_control(who, "", sent_by(who.peer), "no control message");
  written.trail.end("over");
  CHECK(written.lines().empty());
}

TEST_CASE("audit_trail: what goes with every job is a line when somebody asks who may not") {
  WrittenTrail written;
  auto who = operator_alice();
  who.by = "observer olga";
  who.role = wire::Role::observe;
  const auto ask = [&](std::uint64_t id, auto request) {
    written.trail.on_control(who, "", sent_by(who.peer),
                             encode_control({.id = id}, std::move(request)));
    written.trail.on_answer(answer_to(who.peer), refusal_of(id, "no"));
  };
  ask(1, wire::GetFreePortT());
  wire::RenewLeaseT renew;
  renew.meshes = {"train-13Se1Maqzryj", "other-13Se1Maqzryj"};
  ask(2, std::move(renew));
  wire::WriteInputT write;
  write.mesh = "train-13Se1Maqzryj";
  write.rank = 3;
  ask(3, std::move(write));
  const auto lines = written.lines();
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].at("verb") == "take port");
  CHECK(lines[0].at("by") == "observer olga");
  CHECK(lines[0].at("outcome") == "refused: no");
  CHECK(lines[1].at("verb") == "renew lease");
  CHECK(lines[1].at("mesh") == "train-13Se1Maqzryj");
  CHECK(lines[1].at("what") == "and 1 more");
  CHECK(lines[2].at("verb") == "write input");
  CHECK(lines[2].at("ranks") == "3");
}

TEST_CASE("audit_trail: refusals, requests without an answer, and those for other hosts") {
  WrittenTrail written;
  const auto who = operator_alice();
  written.trail.on_control(who, "tcp:h2:7420", sent_by(who.peer), spawn_request(1));
  written.trail.on_answer(answer_to(who.peer), refusal_of(1, "needs role operator"));
  written.trail.on_control(who, "", sent_by(who.peer), spawn_request(2));
  written.now += 61s;
  written.trail.on_control(who, "", sent_by(who.peer), spawn_request(3));
  written.trail.end("the broker ended");
  const auto lines = written.lines();
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].at("to") == "tcp:h2:7420");
  CHECK(lines[0].at("outcome") == "refused: needs role operator");
  CHECK(lines[1].at("outcome") == "no answer yet");
  CHECK(lines[2].at("outcome") == "the broker ended");
}

TEST_CASE("audit_trail: over a link a requester has the name that its key fits, and no other") {
  WrittenTrail written;
  const auto through =
      AuditedPrincipal::over_link(*HostAddr::parse("tcp:h2:7420"), wire::Role::operate);
  const std::string peer = "tcp:h1:7420,client-13Se1Maqzryj";
  written.trail.on_control(through, "", sent_by(peer), spawn_request(0));
  written.trail.on_control(through, "", sent_by("tcp:h2:7420,client-13Se1Maqzryk"),
                           spawn_request(0));
  const auto lines = written.lines();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].at("by") == "host tcp:h2:7420");
  CHECK(lines[0].at("peer") == peer);
  CHECK(lines[1].at("peer").is_null());
}

TEST_CASE("audit_trail: those with few rights push nothing out of it") {
  WrittenTrail written;
  AuditedPrincipal eve{.by = "observer eve", .role = wire::Role::observe};
  for (int i = 0; i < 1000; ++i) {
    written.now += 1us;
    written.trail.note(eve, "message", {}, "refused: no");
  }
  CHECK(written.lines().size() == 11);
  for (int i = 0; i < 100; ++i) written.trail.note(operator_alice(), "join", "host h9", "ok");
  CHECK(written.lines().size() == 111);
}

TEST_CASE("audit_trail: many connections hide no refusal, and what is left out is counted") {
  WrittenTrail written;
  AuditedPrincipal eve{.by = "observer eve", .role = wire::Role::observe};
  for (int i = 0; i < 30; ++i) written.trail.note(eve, "connect", {}, "ok");
  written.trail.note(eve, "stop", {}, "refused: no");
  REQUIRE(written.lines().size() == 12);
  CHECK(written.lines().back().at("outcome") == "refused: no");
  written.now += 1100ms;
  for (int i = 0; i < 2; ++i) written.trail.note(eve, "connect", {}, "ok");
  CHECK(written.lines().back().at("lost_before") == 19);
}

TEST_CASE("audit_trail: many refused messages hide no request that is refused") {
  WrittenTrail written;
  auto eve = operator_alice();
  eve.by = "observer eve";
  eve.role = wire::Role::observe;
  for (int i = 0; i < 30; ++i) written.trail.note(eve, "message", {}, "refused: no");
  written.trail.on_control(eve, "", sent_by(eve.peer), spawn_request(1));
  written.trail.on_answer(answer_to(eve.peer), refusal_of(1, "needs role operator"));
  REQUIRE(written.lines().size() == 12);
  CHECK(written.lines().back().at("verb") == "spawn");
  CHECK(written.lines().back().at("outcome") == "refused: needs role operator");
}

TEST_CASE("audit_trail: many refused requests hide no refusal of another kind or principal") {
  WrittenTrail written;
  AuditedPrincipal eve{.by = "observer eve", .role = wire::Role::observe};
  AuditedPrincipal mallory{.by = "observer mallory", .role = wire::Role::observe};
  for (int i = 0; i < 100; ++i) written.trail.note(eve, "stop", {}, "refused: no");
  for (int i = 0; i < 100; ++i) {
    for (const auto* who : {&eve, &mallory})
      written.trail.note(*who, "shutdown", {}, "refused: no");
  }
  const auto lines = written.lines();
  REQUIRE(lines.size() == 13);
  CHECK(lines[11].at("by") == "observer eve");
  CHECK(lines[11].at("verb") == "shutdown");
  CHECK(lines[12].at("by") == "observer mallory");
}

TEST_CASE("audit_trail: a full disk stops nothing, and is counted") {
  const TempDir dir;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  AuditTrail trail(*EventLog::open(dir / "audit", 1 << 20), kTrailHost, [] { return kTrailStart; });
  rlimit full = before;
  full.rlim_cur = 0;
  auto* const handler = ::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &full) == 0);
  trail.note(operator_alice(), "join", "host h9", "ok");
  trail.note(operator_alice(), "join", "host h9", "ok");
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  ::signal(SIGXFSZ, handler);
  CHECK(trail.lost() == 2);
  trail.note(operator_alice(), "join", "host h9", "ok");
  const auto list = trail.find(0, 1 << 20);
  REQUIRE(list.events.size() == 1);
  CHECK(LineJson::parse(list.events.front()->text).at("lost_before") == 2);
}

TEST_CASE("audit_trail: it is read page by page, and takes no more than its size") {
  const TempDir dir;
  AuditTrail trail(*EventLog::open(dir / "audit", 64 * 1024), kTrailHost,
                   [] { return kTrailStart; });
  for (int i = 0; i < 1000; ++i) trail.note(operator_alice(), "join", std::to_string(i), "ok");
  std::size_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path()))
    bytes += entry.file_size();
  CHECK(bytes <= 64 * 1024);
  std::vector<int> seen;
  for (std::uint64_t from = 0;;) {
    const auto page = trail.find(from, 2000);
    CHECK(page.events.size() <= 10);
    for (const auto& event : page.events)
      seen.push_back(std::stoi(LineJson::parse(event->text).at("what").get<std::string>()));
    if (!page.more) break;
    REQUIRE(page.next > from);
    from = page.next;
  }
  REQUIRE(seen.size() > 50);
  CHECK(seen.back() == 999);
  for (std::size_t i = 1; i < seen.size(); ++i) CHECK(seen[i] == seen[i - 1] + 1);
}

TEST_CASE("audit_trail: an exec has a line when it begins and one when it ends") {
  WrittenTrail written;
  const auto who = operator_alice();
  const auto key = ProcId::parse(who.peer)->key();
  auto from_agent = answer_to(who.peer);
  from_agent.mutate_role(wire::Role::host);
  written.trail.on_control(who, "", sent_by(who.peer), exec_request(9, 77));
  written.trail.on_answer(answer_to(who.peer), exec_started(9));
  REQUIRE(written.lines().size() == 1);
  CHECK(written.lines()[0].at("verb") == "exec");
  CHECK(written.lines()[0].at("ranks") == "3");
  CHECK(written.lines()[0].at("what") == "cat /etc/hosts");
  CHECK(written.lines()[0].dump().find("secret") == std::string::npos);
  CHECK(written.trail.is_waiting(key));
  // Only an agent knows the end.
  written.trail.on_answer(answer_to(who.peer), exec_ended(77, "a lie"));
  written.trail.on_answer(from_agent, exec_ended(78, "of another one"));
  CHECK(written.lines().size() == 1);
  written.trail.on_answer(from_agent, exec_ended(77, "rank 3 has ended"));
  REQUIRE(written.lines().size() == 2);
  CHECK(written.lines()[1].at("verb") == "exec ended");
  CHECK(written.lines()[1].at("by") == "operator alice");
  CHECK(written.lines()[1].at("what") == "cat /etc/hosts");
  CHECK(written.lines()[1].at("outcome") == "signal 9: rank 3 has ended");
  CHECK_FALSE(written.trail.is_waiting(key));
  // One that is refused has no end.
  written.trail.on_control(who, "", sent_by(who.peer), exec_request(10, 79));
  written.trail.on_answer(answer_to(who.peer), refusal_of(10, "exec.limit"));
  CHECK(written.lines().back().at("outcome") == "refused: exec.limit");
  CHECK_FALSE(written.trail.is_waiting(key));
}

TEST_CASE("audit_trail: of execs whose ends do not come the oldest are given up") {
  WrittenTrail written;
  const auto who = operator_alice();
  constexpr std::uint64_t kMany = 4200;
  for (std::uint64_t i = 1; i <= kMany; ++i) {
    written.now += 1s;
    written.trail.on_control(who, "", sent_by(who.peer), exec_request(i, i));
    written.trail.on_answer(answer_to(who.peer), exec_started(i));
  }
  auto from_agent = answer_to(who.peer);
  from_agent.mutate_role(wire::Role::host);
  written.trail.on_answer(from_agent, exec_ended(1, "too late"));
  written.trail.on_answer(from_agent, exec_ended(kMany, "the last one"));
  const auto lines = written.lines();
  std::size_t given_up = 0;
  for (const auto& line : lines) {
    if (line.at("outcome") == "not heard of") ++given_up;
    CHECK(line.at("outcome") != "signal 9: too late");
  }
  // The log keeps the latest lines only.
  CHECK(given_up > 0);
  CHECK(given_up <= kMany - 4096);
  CHECK(lines.back().at("outcome") == "signal 9: the last one");
}
