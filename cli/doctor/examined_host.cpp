#include "cli/doctor/examined_host.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "cli/doctor/facts_json.h"
#include "cli/doctor/link_measure.h"
#include "cli/doctor/probe.h"
#include "cli/support/drain_text.h"
#include "cli/support/find_hosts.h"
#include "cli/support/upgrade_text.h"
#include "common/base/quantity.h"

namespace meshbus::cli::doctor {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

/// The fastest of a few round trips tells the clock best.
constexpr int kClockReadings = 8;
/// Probes end by themselves when this command was killed.
constexpr std::chrono::seconds kProbeLease{20};
constexpr std::chrono::milliseconds kProbeGrace{500};
constexpr std::chrono::seconds kStopLimit{5};

microseconds unix_time() {
  return std::chrono::duration_cast<microseconds>(
      std::chrono::system_clock::now().time_since_epoch());
}

}  // namespace

ExaminedHost::~ExaminedHost() {
  // A probe that this stop does not reach ends with its lease.
  for (auto* mesh : {&mesh_, &second_}) {
    if (*mesh)
      static_cast<void>(
          (*mesh)->stop({.reason = "examined", .grace = kProbeGrace, .deadline = kStopLimit}));
  }
}

HostExam ExaminedHost::examine(std::shared_ptr<Context> context, Limit limit) {
  context_ = std::move(context);
  HostExam exam{.host = address_.to_string()};
  auto host = HostMesh::attach(*context_, "doctor", {address_}, {.deadline = limit});
  if (!host) {
    const auto report = silent_host(address_, host.error());
    exam.code = report.code;
    exam.problem = report.problem;
    return exam;
  }
  host_.emplace(std::move(*host));
  ask_host(exam, limit);
  if (exam.code == ErrorCode::none) start_probe(exam, limit);
  if (probe_) read_clock(exam, limit);
  return exam;
}

void ExaminedHost::ask_host(HostExam& exam, Limit limit) {
  const auto states = host_->states(limit);
  const auto report = states ? states->front() : silent_host(address_, states.error());
  exam.code = report.code;
  exam.problem = report.problem;
  exam.node = report.node;
  exam.version = report.version;
  exam.containment = report.containment;
  exam.broker_restarts = report.broker_restarts;
  exam.upgrades = upgrade_lines(report);
  for (const auto& drain : report.drains)
    exam.drains.push_back({drain_scope(drain.mesh, drain.owner), drain.reason, drain.hold});
}

Result<ProcMesh> ExaminedHost::spawn_probe(Limit limit) {
  // It has the environment of the host, not ours: the host's settings and limits are what counts.
  return host_->spawn_n("doctor", 1,
                        {.kind = ProcKind::mesh,
                         .command = {"meshbus", "doctor", "--here"},
                         .follow_launcher = false,
                         .grace = kProbeGrace,
                         .ready_limit = limit,
                         .lease = kProbeLease},
                        {.on_failure = [](const RankReport&) {}});
}

void ExaminedHost::start_probe(HostExam& exam, Limit limit) {
  auto mesh = spawn_probe(limit);
  if (!mesh) {
    // The drain itself is a finding.
    if (mesh.error().code() == ErrorCode::refused && !exam.drains.empty()) return;
    exam.facts_code = mesh.error().code();
    exam.facts_problem = mesh.error().to_string();
    return;
  }
  mesh_.emplace(std::move(*mesh));
  const auto probe = mesh_->proc(0);
  if (probe) probe_ = probe->id();
  const auto text = ask(kFactsPort, {}, limit);
  auto facts = text ? parse_facts(*text) : Result<HostFacts>(fail(text.error()));
  if (facts) {
    exam.facts = std::move(*facts);
  } else {
    exam.facts_code = facts.error().code();
    exam.facts_problem = facts.error().to_string();
    probe_.reset();
  }
}

void ExaminedHost::read_clock(HostExam& exam, Limit limit) {
  for (int i = 0; i < kClockReadings; ++i) {
    const auto begin = Clock::now();
    const auto before = unix_time();
    const auto text = ask(kClockPort, {}, limit);
    const auto took = std::chrono::duration_cast<microseconds>(Clock::now() - begin);
    const auto theirs = text ? parse_whole<std::int64_t>(*text) : std::nullopt;
    if (!theirs) return;
    const ClockReading reading{microseconds(*theirs / 1000) - before - took / 2, took / 2};
    if (!exam.clock || reading.error < exam.clock->error) exam.clock = reading;
  }
}

LinkExam ExaminedHost::measure(const ExaminedHost& other, Limit limit) {
  LinkExam link;
  const auto answer = ask_pace(*other.probe_, limit);
  if (answer) {
    link.round_trip = answer->round_trip;
    link.bytes_per_s = answer->bytes_per_s;
  } else {
    link.code = answer.error().code();
    link.problem = answer.error().detail();
  }
  return link;
}

std::optional<Pace> ExaminedHost::measure_within(Limit limit) {
  // A proc that measures answers no call meanwhile: it cannot measure the way to itself.
  if (!second_ && !has_no_second_) {
    if (auto mesh = spawn_probe(limit)) second_.emplace(std::move(*mesh));
    has_no_second_ = !second_;
  }
  if (!second_) return std::nullopt;
  const auto second = second_->proc(0);
  if (!second) return std::nullopt;
  const auto answer = ask_pace(second->id(), limit);
  return answer ? std::optional(*answer) : std::nullopt;
}

Result<Pace> ExaminedHost::ask_pace(const ProcId& to, Limit limit) {
  const auto text = ask(kMeasurePort, to.to_string(), kMeasureTime + kMeasureLimit + limit);
  return text ? parse_answer(*text) : Result<Pace>(fail(text.error()));
}

Result<std::string> ExaminedHost::ask(std::uint32_t port, std::string_view body, Limit limit) {
  return context_->call(*probe_, port, body, limit);
}

}  // namespace meshbus::cli::doctor
