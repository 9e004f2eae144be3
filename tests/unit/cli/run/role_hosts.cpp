// Which hosts of a job are whose (spec 17.6).
#include "cli/run/role_hosts.h"

#include <doctest/doctest.h>

using meshbus::cli::HostList;
using meshbus::cli::RunArguments;
using meshbus::cli::share_hosts;
using Numbers = std::vector<std::uint64_t>;

namespace {

HostList hosts_of(const std::vector<std::string>& words) {
  HostList list{.words = {}, .source = "--hosts", .settings = {}};
  for (const auto& word : words) list.words.push_back({word, "--hosts"});
  return list;
}

RunArguments run_of(std::size_t roles) {
  RunArguments run;
  run.roles.resize(roles);
  run.has_roles = true;
  for (std::size_t i = 0; i < roles; ++i) run.roles[i].name = "r" + std::to_string(i);
  return run;
}

std::string problem_of(RunArguments run, const std::vector<HostList>& own, bool is_said) {
  const auto shared = share_hosts(run, own, is_said);
  REQUIRE_FALSE(shared.has_value());
  return shared.error().detail();
}

}  // namespace

TEST_CASE("role_hosts: roles without hosts of their own share those of the job") {
  auto run = run_of(2);
  run.hosts = 3;
  run.roles[1].on = {{1, 3}};
  REQUIRE(share_hosts(run, {{}, {}}, true).has_value());
  CHECK(run.hosts == 3);
  CHECK(run.roles[0].hosts.empty());
  CHECK(run.roles[1].hosts == Numbers{1, 2});
}

TEST_CASE("role_hosts: hosts of a role that are started here are further ones") {
  auto run = run_of(3);
  run.hosts = 2;
  run.roles[2].on = {{1, 2}};
  REQUIRE(share_hosts(run, {{}, hosts_of({"1"}), hosts_of({"2"})}, true).has_value());
  CHECK(run.hosts == 5);
  CHECK(run.roles[0].hosts == Numbers{0, 1});
  CHECK(run.roles[1].hosts == Numbers{2});
  CHECK(run.roles[2].hosts == Numbers{4});
}

TEST_CASE("role_hosts: the host that is there by default is only for roles without hosts") {
  auto run = run_of(2);
  REQUIRE(share_hosts(run, {hosts_of({"1"}), hosts_of({"1"})}, false).has_value());
  CHECK(run.hosts == 2);
  CHECK(run.roles[0].hosts == Numbers{0});
  CHECK(run.roles[1].hosts == Numbers{1});
  auto other = run_of(2);
  REQUIRE(share_hosts(other, {{}, hosts_of({"1"})}, false).has_value());
  CHECK(other.hosts == 2);
  CHECK(other.roles[0].hosts == Numbers{0});
}

TEST_CASE("role_hosts: a machine that several roles name is one host") {
  auto run = run_of(2);
  REQUIRE(share_hosts(run, {hosts_of({"ssh:h1", "h2"}), hosts_of({"ssh:h2", "ssh:h3"})}, false)
              .has_value());
  CHECK(run.from == RunArguments::From::ssh);
  CHECK(run.list.words.size() == 3);
  CHECK(run.roles[0].hosts == Numbers{0, 1});
  CHECK(run.roles[1].hosts == Numbers{1, 2});
}

TEST_CASE("role_hosts: hosts of different kinds, and numbers that there are not, are refused") {
  auto run = run_of(2);
  run.hosts = 2;
  CHECK(problem_of(run, {{}, hosts_of({"tcp:h1:7420"})}, true) ==
        "r1: its hosts are running hosts, and others of the job are started on this machine: take "
        "hosts of one kind");
  CHECK(problem_of(run, {{}, hosts_of({"0"})}, true) ==
        "r1: --hosts takes 1 to 1024 hosts on this machine, not 0");
  run.roles[1].on = {{2, 3}};
  CHECK(problem_of(run, {{}, {}}, true) ==
        "r1: there is no host 2 for --on; there are 2 hosts, numbered from 0");
}

TEST_CASE("role_hosts: in a Slurm job numbers are checked when its nodes are known") {
  auto run = run_of(2);
  run.from = RunArguments::From::slurm;
  run.roles[1].on = {{7, 8}};
  REQUIRE(share_hosts(run, {{}, {}}, true).has_value());
  CHECK(run.roles[0].hosts.empty());
  CHECK(run.roles[1].hosts == Numbers{7});
}
