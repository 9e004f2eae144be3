// What meshbus-hands reads about the process whose place it takes.
#include <doctest/doctest.h>

#include <sys/resource.h>

#include "agent/hands/cgroup_lines.h"
#include "agent/hands/environment.h"
#include "agent/hands/process_texts.h"
#include "agent/os/terminal_records.h"

using namespace meshbus;
using namespace meshbus::hands;

namespace {

using Entries = std::vector<std::string>;

constexpr char kMounts[] =
    "30 1 0:26 / /sys/fs/cgroup/unified rw shared:4 - cgroup2 cgroup2 rw\n"
    "31 1 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 1 0:28 /docker/ab /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "33 1 0:29 / /with\\040blank rw - cgroup cgroup rw,pids\n"
    "garbage\n";

}  // namespace

TEST_CASE("cgroup_lines: /proc/PID/cgroup is read line by line") {
  const auto lines = parse_cgroups("4:cpu,cpuacct:/a\n1:name=systemd:/b\n0::/c:d\nnonsense\n");
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].controllers == "cpu,cpuacct");
  CHECK(lines[0].path == "/a");
  CHECK_FALSE(lines[0].is_v2());
  CHECK(lines[2].is_v2());
  CHECK(lines[2].path == "/c:d");
}

TEST_CASE("cgroup_lines: the directory of a cgroup is below the mount of its hierarchy") {
  CHECK(find_cgroup_directory(kMounts, {"", "/meshbus-1/mesh-a"}) ==
        "/sys/fs/cgroup/unified/meshbus-1/mesh-a");
  CHECK(find_cgroup_directory(kMounts, {"", "/"}) == "/sys/fs/cgroup/unified");
  CHECK(find_cgroup_directory(kMounts, {"cpu,cpuacct", "/x"}) == "/sys/fs/cgroup/cpu,cpuacct/x");
  CHECK(find_cgroup_directory(kMounts, {"memory", "/docker/ab/x"}) == "/sys/fs/cgroup/memory/x");
  CHECK(find_cgroup_directory(kMounts, {"pids", "/p"}) == "/with blank/p");
  CHECK_FALSE(find_cgroup_directory(kMounts, {"memory", "/docker/abc"}));
  CHECK_FALSE(find_cgroup_directory(kMounts, {"", "/../outside"}));
  CHECK_FALSE(find_cgroup_directory(kMounts, {"freezer", "/x"}));
}

TEST_CASE("process_texts: user, groups and umask of a status") {
  const auto user = parse_status(
      "Name:\tsh (x)\nUmask:\t0027\nUid:\t1000\t1001\t1002\t1003\nGid:\t5\t6\t7\t8\n"
      "Groups:\t4 24 27 \nNoNewPrivs:\t1\n");
  REQUIRE(user);
  CHECK(user->users == std::array<uid_t, 3>{1000, 1001, 1002});
  CHECK(user->user_groups == std::array<gid_t, 3>{5, 6, 7});
  CHECK(user->groups == std::vector<gid_t>{4, 24, 27});
  CHECK(user->umask == 027);
  CHECK(user->has_no_new_privs);
  CHECK_FALSE(parse_status("Uid:\t1\n"));
  CHECK_FALSE(parse_status(""));
}

TEST_CASE("process_texts: limits and the start of a process") {
  const auto limits = parse_limits(
      "Limit                     Soft Limit           Hard Limit           Units     \n"
      "Max cpu time              unlimited            unlimited            seconds   \n"
      "Max open files            1024                 20000                files     \n"
      "Max unheard of            1                    2                    miles     \n");
  REQUIRE(limits.size() == 2);
  CHECK(limits[0].soft == RLIM_INFINITY);
  CHECK(limits[1].resource == RLIMIT_NOFILE);
  CHECK(limits[1].soft == 1024);
  CHECK(limits[1].hard == 20000);
  CHECK(parse_start_ticks("7 (a) b) S 1 7 7 0 -1 4 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1") == 4711);
  CHECK_FALSE(parse_start_ticks("7 (a) S 1"));
  CHECK_FALSE(parse_start_ticks(""));
}

TEST_CASE("environment: a command has that of its rank, and what its requester sets over it") {
  const Entries given = {"MESHBUS_RANK:RANK=3",
                         "MESHBUS_RANK:MESHBUS_MESH=m-1",
                         "MESHBUS_RANK:PATH=/bin",
                         "MESHBUS_HANDS:TERM=xterm",
                         "MESHBUS_HANDS:MARK=mine",
                         "MESHBUS_BOOTSTRAP=1:2:3",
                         "OTHER=thing"};
  // The process has changed its environment before it executed what runs now.
  CHECK(choose_environment({"MARK=its", "RANK=3", "MESHBUS_MESH=m-1", "MESHBUS_BOOTSTRAP=9:1:2"},
                           given) ==
        Entries{"RANK=3", "MESHBUS_MESH=m-1", "TERM=xterm", "MARK=mine"});
  // Its process is another rank's, or a template's.
  CHECK(choose_environment({"RANK=0", "MESHBUS_MESH=m-1", "A=b"}, given) ==
        Entries{"RANK=3", "MESHBUS_MESH=m-1", "PATH=/bin", "TERM=xterm", "MARK=mine"});
}

TEST_CASE("terminal_records: what was added comes out, however it is cut") {
  std::string bytes;
  const std::string typed(3 * os::kMostTerminalBytes + 5, 'x');
  os::add_terminal_input(bytes, typed);
  os::add_terminal_size(bytes, {40, 100});
  os::add_terminal_record(bytes, os::TerminalRecord::end_of_file, {});
  for (const std::size_t step : {std::size_t{1}, std::size_t{1000}, bytes.size()}) {
    os::TerminalRecords records;
    std::string input;
    int sizes = 0;
    int ends = 0;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      records.add(std::string_view(bytes).substr(at, step));
      os::TerminalRecord type{};
      for (std::string_view body; records.next(type, body);) {
        if (type == os::TerminalRecord::input) input += body;
        if (type == os::TerminalRecord::size && body.size() == sizeof(os::TerminalSize)) ++sizes;
        if (type == os::TerminalRecord::end_of_file) ++ends;
      }
    }
    CHECK((input == typed));
    CHECK(sizes == 1);
    CHECK(ends == 1);
  }
}
