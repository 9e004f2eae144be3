#include "cli/doctor/judge.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

using namespace meshbus;
using namespace meshbus::cli::doctor;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::int64_t kNow = 1'800'000'000;

/// A machine without fault.
HostFacts sound_facts() {
  HostFacts facts;
  facts.descriptors = {1024, 524'288};
  facts.locked_memory = {8 * kMiB, 8 * kMiB};
  facts.tasks = TaskFacts{300, 60'000, "RLIMIT_NPROC"};
  facts.storage = {{.use = kRunDirectory,
                    .path = "/run/user/7/meshbus",
                    .free_bytes = 800 * kMiB,
                    .size_bytes = 900 * kMiB,
                    .free_files = 100'000,
                    .device = 1},
                   {.use = kTemporaryFiles,
                    .path = "/tmp",
                    .free_bytes = 9000 * kMiB,
                    .size_bytes = 90'000 * kMiB,
                    .free_files = 100'000,
                    .device = 2},
                   {.use = kSharedMemory,
                    .path = "/dev/shm",
                    .free_bytes = 64 * kMiB,
                    .size_bytes = 64 * kMiB,
                    .free_files = 100'000,
                    .device = 3}};
  facts.name = {"h1", {"10.0.0.1"}, {}};
  return facts;
}

HostExam sound_host(const std::string& host) {
  HostExam exam{.host = host, .node = host, .version = "1.0"};
  exam.facts = sound_facts();
  exam.clock = ClockReading{.ahead = 3ms, .error = 1ms};
  return exam;
}

/// This machine and that many hosts, all linked, without fault.
SiteExam sound_site(std::size_t count) {
  SiteExam site{.hosts = {{.host = kThisMachine, .node = "desk", .version = "1.0"}},
                .links = {},
                .time = kNow};
  site.hosts.front().clock = ClockReading{};
  for (std::size_t i = 1; i <= count; ++i) {
    site.hosts.push_back(sound_host("tcp:h" + std::to_string(i) + ":7420"));
    for (std::size_t j = 0; j < i; ++j)
      site.links.push_back({.from = j, .to = i, .round_trip = 300us, .bytes_per_s = 900e6});
  }
  return site;
}

/// The one finding of that site; fails when there are others.
Finding only_finding(const SiteExam& site) {
  const auto findings = judge(site);
  for (const auto& finding : findings) INFO(line_of(finding));
  REQUIRE(findings.size() == 1);
  return findings.front();
}

/// The one finding of a host with these facts.
Finding only_finding(const HostFacts& facts) {
  auto site = sound_site(2);
  site.hosts[1].facts = facts;
  const auto finding = only_finding(site);
  CHECK(finding.hosts == std::vector<std::string>{"tcp:h1:7420"});
  CHECK_FALSE(finding.remedy.empty());
  return finding;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

LinkExam& link(SiteExam& site, std::size_t from, std::size_t to) {
  return *std::find_if(site.links.begin(), site.links.end(),
                       [&](const LinkExam& one) { return one.from == from && one.to == to; });
}

}  // namespace

TEST_CASE("doctor judge: sound hosts have no finding") {
  for (const std::size_t count : {0U, 1U, 2U, 5U}) CHECK(judge(sound_site(count)).empty());
}

TEST_CASE("doctor judge: low limits are errors when a host cannot work, else warnings") {
  auto facts = sound_facts();
  facts.descriptors = {256, 256};
  CHECK(only_finding(facts).severity == Severity::error);
  CHECK(only_finding(facts).code == "descriptors");
  CHECK(has(only_finding(facts).text, "256 files"));
  facts.descriptors = {1024, 2048};
  CHECK(only_finding(facts).severity == Severity::warning);
  facts.descriptors = {512, 65'536};
  CHECK(has(only_finding(facts).text, "ranks may open 512 files"));

  facts = sound_facts();
  facts.tasks = TaskFacts{990, 1000, "RLIMIT_NPROC"};
  CHECK(only_finding(facts).severity == Severity::error);
  CHECK(has(only_finding(facts).text, "10 more processes and threads can be made (990 of 1000"));
  CHECK(has(only_finding(facts).remedy, "nproc"));
  facts.tasks = TaskFacts{1200, 1000, "/sys/fs/cgroup/x/pids.max"};
  CHECK(has(only_finding(facts).text, "0 more"));
  CHECK(has(only_finding(facts).remedy, "TasksMax"));
  facts.tasks->limit = 1400;
  CHECK(only_finding(facts).severity == Severity::warning);

  // Only with such devices.
  facts = sound_facts();
  facts.has_infiniband = true;
  CHECK(only_finding(facts).code == "locked_memory");
  facts.locked_memory = {kUnlimited, kUnlimited};
  auto site = sound_site(1);
  site.hosts[1].facts = facts;
  CHECK(judge(site).empty());
}

TEST_CASE("doctor judge: a full disk is an error, a nearly full one a warning, each disk once") {
  auto facts = sound_facts();
  facts.storage[0].free_bytes = 4096;
  CHECK(only_finding(facts).severity == Severity::error);
  CHECK(
      has(only_finding(facts).text, "run directory (/run/user/7/meshbus) is full: 4.00K of 900M"));
  facts.storage[0].free_bytes = 20 * kMiB;
  CHECK(only_finding(facts).severity == Severity::warning);
  // The same file system is one finding.
  facts.storage[1].device = facts.storage[0].device;
  facts.storage[1].free_bytes = 20 * kMiB;
  CHECK(has(only_finding(facts).text, "run directory"));

  facts = sound_facts();
  facts.storage[1].free_files = 3;
  CHECK(has(only_finding(facts).text, "3 more files"));
  facts = sound_facts();
  facts.storage[2].free_bytes = 0;
  CHECK(only_finding(facts).severity == Severity::warning);
  CHECK(has(only_finding(facts).remedy, "--shm-size"));
  facts = sound_facts();
  facts.storage[0].problem = "it is mounted read-only";
  CHECK(only_finding(facts).severity == Severity::error);
}

TEST_CASE("doctor judge: a name that leads nowhere counts only where other machines need it") {
  auto facts = sound_facts();
  facts.name.addresses = {"127.0.1.1"};
  CHECK(only_finding(facts).code == "name");
  CHECK(has(only_finding(facts).text, "resolves to 127.0.1.1"));
  facts.name = {"h1", {}, "Name or service not known"};
  CHECK(has(only_finding(facts).text, "does not resolve"));
  auto site = sound_site(1);
  site.hosts[0].node = site.hosts[1].node;
  site.hosts[1].facts = facts;
  CHECK(judge(site).empty());
}

TEST_CASE("doctor judge: keys that have expired, or soon will, and those that cannot be used") {
  auto facts = sound_facts();
  facts.keys = {{.path = "/k/alice.pub", .problem = {}, .expires = kNow - 1}};
  CHECK(has(only_finding(facts).text, "/k/alice.pub has expired on 2027-01-15T07:59:59Z"));
  facts.keys[0].expires = kNow + 3 * 86'400;
  CHECK(has(only_finding(facts).text, "expires on"));
  facts.keys[0].problem = "/k/alice.pub: others may write to it";
  CHECK(only_finding(facts).severity == Severity::error);
  facts.keys = {{.path = "/k/alice.pub", .problem = {}, .expires = kNow + 30 * 86'400}};
  auto site = sound_site(1);
  site.hosts[1].facts = facts;
  CHECK(judge(site).empty());
}

TEST_CASE("doctor judge: a host without cgroups is told where systemd could give it some") {
  auto facts = sound_facts();
  facts.cgroup_problem = "it may not write there";
  auto site = sound_site(1);
  site.hosts[1].facts = facts;
  site.hosts[1].containment = "sweep";
  CHECK(judge(site).empty());
  site.hosts[1].facts->has_systemd = true;
  CHECK(has(only_finding(site).text, "it may not write there"));
  CHECK(has(only_finding(site).remedy, "Delegate=yes"));
  site.hosts[1].containment = "cgroup v2";
  CHECK(judge(site).empty());
}

TEST_CASE("doctor judge: sessions that end, and what dead hosts have left") {
  auto facts = sound_facts();
  facts.session = {"session-3.scope", true, true};
  CHECK(has(only_finding(facts).text, "killed at logout"));
  facts.session.is_killed_at_logout = false;
  CHECK(has(only_finding(facts).remedy, "enable-linger"));
  facts = sound_facts();
  facts.leftovers = {"/run/host-1", "/run/host-2"};
  CHECK(has(only_finding(facts).text, "/run/host-1 and 1 more"));
}

TEST_CASE("doctor judge: a wrong key is not called silence, and silence no wrong key") {
  auto site = sound_site(2);
  site.hosts[2] = {.host = "tcp:h2:7420", .code = ErrorCode::unauthorised, .problem = "no key"};
  site.links.resize(1);
  CHECK(only_finding(site).code == "wrong_key");
  site.hosts[2].code = ErrorCode::host_unreachable;
  CHECK(only_finding(site).code == "no_answer");
  CHECK(only_finding(site).severity == Severity::error);
}

TEST_CASE("doctor judge: the clock that differs from most is wrong, also when it is ours") {
  auto site = sound_site(3);
  site.hosts[2].clock = ClockReading{.ahead = 5s, .error = 1ms};
  auto finding = only_finding(site);
  CHECK(finding.hosts == std::vector<std::string>{"tcp:h2:7420"});
  CHECK(finding.text == "its clock is 5.0 s ahead of the others'");
  CHECK(finding.severity == Severity::warning);
  site.hosts[2].clock->ahead = -300s;
  CHECK(has(only_finding(site).text, "300 s behind"));
  CHECK(only_finding(site).severity == Severity::error);

  site = sound_site(3);
  for (std::size_t i = 1; i < 4; ++i) site.hosts[i].clock->ahead = 10s;
  finding = only_finding(site);
  CHECK(finding.hosts == std::vector<std::string>{kThisMachine});
  CHECK(has(finding.text, "10.0 s behind the others'"));

  // A slow answer leaves it open.
  site = sound_site(3);
  site.hosts[2].clock = ClockReading{.ahead = 2s, .error = 1500ms};
  CHECK(judge(site).empty());
  // With two clocks nobody knows which one is right.
  site = sound_site(1);
  site.hosts[1].clock->ahead = 2s;
  site.hosts[1].facts->is_clock_synchronised = false;
  CHECK(only_finding(site).text ==
        "its clock is 2.0 s ahead of this machine's (nothing keeps it in step)");
}

TEST_CASE("doctor judge: releases that differ are named by host") {
  auto site = sound_site(3);
  site.hosts[3].version = "0.9";
  CHECK(only_finding(site).text == "it runs meshbus 0.9, others run 1.0");
}

TEST_CASE("doctor judge: a host that is bad with several others is one finding") {
  auto site = sound_site(4);
  for (const std::size_t other : {0U, 1U, 2U}) {
    link(site, other, 3).round_trip = 80ms;
    link(site, other, 3).bytes_per_s = 2e6;
  }
  auto finding = only_finding(site);
  CHECK(finding.severity == Severity::warning);
  CHECK(finding.hosts == std::vector<std::string>{"tcp:h3:7420"});
  CHECK(has(finding.text, "slow with 3 of the 4 hosts that were tried with it"));
  CHECK(has(finding.text, "a round trip takes 80 ms, and 2.0 MB/s get through"));
  // No network is between hosts of this machine.
  for (const char* here : {"unix:/run/meshbus/bus", "tcp:127.0.0.2:7420", "tcp:[::1]:7420"}) {
    site = sound_site(2);
    site.hosts[1].host = here;
    link(site, 0, 1).bytes_per_s = 2e6;
    CHECK(judge(site).empty());
    link(site, 1, 2).bytes_per_s = 2e6;
    CHECK(only_finding(site).code == "slow");
  }

  // Where what stays within a machine is slow, too, nothing can be said of its network.
  site = sound_site(3);
  for (const std::size_t other : {1U, 2U}) {
    link(site, other, 3).round_trip = 33ms;
    link(site, other, 3).bytes_per_s = 12e6;
  }
  site.hosts[3].own_pace = Pace{9ms, 100e6};
  finding = only_finding(site);
  CHECK(finding.code == "busy");
  CHECK(finding.hosts == std::vector<std::string>{"tcp:h3:7420"});
  CHECK(has(finding.text,
            "with tcp:h1:7420 a round trip takes 33 ms, and 12.0 MB/s get through; "
            "within it a round trip takes 9.0 ms, and 100 MB/s get through"));
  site.hosts[3].own_pace = Pace{1ms, 100e6};
  CHECK(only_finding(site).code == "slow");
  site.hosts[3].own_pace = Pace{9ms, 2e9};
  CHECK(only_finding(site).code == "slow");

  site = sound_site(4);
  link(site, 2, 4).code = ErrorCode::timeout;
  link(site, 2, 4).problem = "no answer";
  finding = only_finding(site);
  CHECK(finding.code == "cut");
  CHECK(finding.text == "no way between it and tcp:h4:7420: no answer");
  link(site, 2, 4).code = ErrorCode::unroutable;
  CHECK(only_finding(site).code == "not_linked");
  link(site, 2, 4).code = ErrorCode::unauthorised;
  CHECK(only_finding(site).code == "wrong_key");
}

TEST_CASE("doctor judge: hosts with the same fault share a line, errors come first") {
  auto site = sound_site(5);
  for (std::size_t i = 1; i < 6; ++i) site.hosts[i].facts->descriptors = {512, 65'536};
  site.hosts[5].facts->storage[0].free_bytes = 0;
  const auto findings = judge(site);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].code == "disk");
  CHECK(findings[1].hosts.size() == 5);
  CHECK(has(line_of(findings[1]),
            "warning: tcp:h1:7420, tcp:h2:7420, tcp:h3:7420 and 2 more: ranks may open 512"));
}

TEST_CASE("doctor judge: a host that holds off procs is an error, its broker's restarts are none") {
  auto site = sound_site(1);
  site.hosts[1].drains = {{"all meshes", "maintenance", true}};
  CHECK(only_finding(site).severity == Severity::error);
  CHECK(has(only_finding(site).remedy, "--resume"));
  site = sound_site(1);
  site.hosts[1].broker_restarts = 2;
  CHECK(only_finding(site).severity == Severity::warning);
  site = sound_site(1);
  site.hosts[1].upgrades = {"releases: warden and keeper 0.1.0, broker and agent 0.2.0"};
  CHECK(only_finding(site).code == "upgrade");
  CHECK(only_finding(site).severity == Severity::warning);
  site = sound_site(1);
  site.hosts[1].facts_problem = "proc_creation_error: ...";
  CHECK(only_finding(site).code == "not_examined");
  CHECK(only_finding(site).severity == Severity::error);
  // An observer may look all the same.
  site.hosts[1].facts_code = ErrorCode::unauthorised;
  CHECK(only_finding(site).severity == Severity::warning);
  CHECK(has(only_finding(site).remedy, "operator"));
}
