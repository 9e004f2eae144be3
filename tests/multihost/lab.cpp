// The lab itself: what it promises to the other tests.
#include "tests/lab/lab.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "tests/support/environment.h"
#include "tests/support/process_table.h"
#include "tests/support/temp_dir.h"

using namespace std::chrono_literals;
using namespace meshbus::test;

namespace {

namespace fs = std::filesystem;

// For what must come, on a busy machine.
constexpr std::chrono::milliseconds in_time(30'000);

/// How many hosts the largest lab has. Read before main(), which removes all our variables from the environment.
const std::size_t many_hosts = [] {
  const char* text = std::getenv("MESHBUS_LAB_HOSTS");
  return text == nullptr ? std::size_t{16} : static_cast<std::size_t>(std::atoi(text));
}();

/// Processes that are in one of these namespaces.
std::string users_of(const std::vector<std::string>& namespaces) {
  const std::set<std::string> wanted(namespaces.begin(), namespaces.end());
  std::string found;
  for (const ProcessInfo& one : all_processes()) {
    for (const char* kind : {"net", "pid", "mnt", "uts", "ipc"}) {
      std::error_code gone;
      const auto its = fs::read_symlink("/proc/" + std::to_string(one.pid) + "/ns/" + kind, gone);
      if (!gone && wanted.contains(its.string())) {
        found += one.to_string() + "\n";
        break;
      }
    }
  }
  return found;
}

std::string interfaces() {
  return read_file("/proc/net/dev").substr(0, 0) + run({"ip", "-o", "link"}, in_time).out;
}
std::string mounts() {
  return read_file("/proc/self/mountinfo");
}

/// Whether one host reaches another: an answer to a ping within `patience`.
bool reaches(const Lab::Host& from, const Lab::Host& to, std::chrono::milliseconds patience = 500ms) {
  const std::string seconds = std::to_string(static_cast<double>(patience.count()) / 1000);
  return from.run({"ping", "-n", "-c", "1", "-W", seconds, to.address()}, in_time).status == ExitStatus::exited(0);
}

long milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start).count();
}

void up_and_down(std::size_t hosts) {
  const std::string links = interfaces(), mounted = mounts();
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::string> namespaces;
  std::string room, cgroup;
  long up = 0;
  {
    Lab lab(hosts);
    up = milliseconds_since(start);
    CHECK(lab.size() == hosts);
    namespaces = lab.namespaces();
    room = lab.room();
    cgroup = lab.cgroup();
    CHECK(std::set<std::string>(namespaces.begin(), namespaces.end()).size() == (hosts + 1) * 5);
    CHECK(reaches(lab.host(0), lab.host(hosts - 1), 5s));
    CHECK(users_of(namespaces) != "");
    CHECK(fs::exists(room));
  }
  const long down = milliseconds_since(start) - up;
  CHECK(users_of(namespaces) == "");
  CHECK_FALSE(fs::exists(room));
  CHECK_FALSE((!cgroup.empty() && fs::exists(cgroup)));
  CHECK(interfaces() == links);
  CHECK(mounts() == mounted);
  MESSAGE(hosts << " hosts: up and looked at after " << up << " ms, down in " << down << " ms");
}

}  // namespace

TEST_CASE("lab: three hosts come up and go, and nothing is left") {
  up_and_down(3);
}

TEST_CASE("lab: many hosts come up and go, and nothing is left") {
  up_and_down(many_hosts);
}
