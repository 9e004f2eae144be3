// What meshbus-hands reads about the process whose place it takes.
#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <elf.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>

#include "agent/hands/capabilities.h"
#include "agent/hands/carrier.h"
#include "agent/hands/cgroup_lines.h"
#include "agent/hands/environment.h"
#include "agent/hands/process_texts.h"
#include "agent/os/terminal_records.h"
#include "common/base/unique_fd.h"

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

template <typename Word>
std::string auxv_of(const std::vector<Word>& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(Word)};
}

std::optional<ProcessUser> own_user() {
  std::ifstream file("/proc/self/status");
  return parse_status(std::string{std::istreambuf_iterator<char>(file), {}});
}

/// In a process of its own, which ends with what `check` returns.
template <typename Check>
bool holds_in_child(Check check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check() ? 0 : 1);
  int status = -1;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

/// A connection whose other end was reset.
UniqueFd reset_connection() {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(listener.get(), at, size) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), at, &size) == 0);
  UniqueFd ours(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(ours.get(), at, size) == 0);
  const UniqueFd other(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const linger now{.l_onoff = 1, .l_linger = 0};
  REQUIRE(::setsockopt(other.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
  return ours;
}

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
  CHECK(user->users == std::array<uid_t, 4>{1000, 1001, 1002, 1003});
  CHECK(user->user_groups == std::array<gid_t, 4>{5, 6, 7, 8});
  CHECK(user->groups == std::vector<gid_t>{4, 24, 27});
  CHECK(user->umask == 027);
  CHECK(user->has_no_new_privs);
  CHECK_FALSE(parse_status("Uid:\t1\n"));
  CHECK_FALSE(parse_status(""));
}

TEST_CASE("process_texts: a process of one user, and one that runs a setuid program") {
  const auto is_one = [](const std::string& users, const std::string& groups) {
    const auto user = parse_status("Uid:\t" + users + "\nGid:\t" + groups + "\n");
    REQUIRE(user);
    return user->has_one_user();
  };
  CHECK(is_one("1000 1000 1000 1000", "5 5 5 5"));
  CHECK_FALSE(is_one("1000 0 0 0", "5 5 5 5"));
  CHECK_FALSE(is_one("1000 1000 0 1000", "5 5 5 5"));
  CHECK_FALSE(is_one("1000 1000 1000 0", "5 5 5 5"));
  CHECK_FALSE(is_one("1000 1000 1000 1000", "5 0 0 0"));
  CHECK_FALSE(parse_status("Uid:\t1 1 1\nGid:\t1 1 1 1\n"));
}

TEST_CASE("process_texts: whether a program was executed with more rights, in 64 and 32 bits") {
  CHECK(is_secure_execution(auxv_of<std::uint64_t>({AT_PAGESZ, 4096, AT_SECURE, 1, 0, 0})));
  CHECK_FALSE(is_secure_execution(auxv_of<std::uint64_t>({AT_PAGESZ, 4096, AT_SECURE, 0, 0, 0})));
  CHECK(is_secure_execution(auxv_of<std::uint32_t>({AT_PAGESZ, 4096, AT_SECURE, 1, 0, 0})));
  CHECK_FALSE(is_secure_execution(auxv_of<std::uint32_t>({AT_PAGESZ, 4096, AT_SECURE, 0, 0, 0})));
  CHECK_FALSE(is_secure_execution("short"));
  CHECK_FALSE(is_secure_execution(""));
}

TEST_CASE("process_texts: capabilities and filters of a status") {
  const auto user = parse_status(
      "Uid:\t1 1 1 1\nGid:\t1 1 1 1\nCapInh:\t0000000000000001\nCapPrm:\t000001ffffffffff\n"
      "CapEff:\t0000000000000002\nCapBnd:\t00000000a80425fb\nCapAmb:\t0000000000000004\n"
      "Seccomp:\t2\nSeccomp_filters:\t3\n");
  REQUIRE(user);
  CHECK((user->capabilities == Capabilities{.inheritable = 1,
                                            .permitted = 0x1ffffffffff,
                                            .effective = 2,
                                            .bounding = 0xa80425fb,
                                            .ambient = 4}));
  CHECK(user->is_filtered);
  CHECK(user->filters == 3);
}

TEST_CASE("capabilities: they are lowered to those wanted, and not raised") {
  const auto before = own_user();
  REQUIRE(before);
  CHECK(holds_in_child([&] {
    const Capabilities all{~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL};
    return lower_bounds(all) && lower_capabilities(all) &&
           own_user()->capabilities == before->capabilities;
  }));
  CHECK(holds_in_child([] {
    if (!lower_capabilities({})) return false;
    const auto user = own_user();
    return user->capabilities.permitted == 0 && user->capabilities.effective == 0;
  }));
  // CAP_SETPCAP: only with it may the bounding set be lowered.
  if ((before->capabilities.effective >> 8U & 1U) == 0) return;
  CHECK(holds_in_child([&] {
    const auto wanted = before->capabilities.bounding & ~1ULL;
    return lower_bounds({.bounding = wanted}) && own_user()->capabilities.bounding == wanted;
  }));
}

TEST_CASE("carrier: a connection that was reset is no end like any other") {
  const auto connection = reset_connection();
  Carrier carrier(connection.get(), -1);
  carrier.read();
  CHECK(carrier.is_done());
  CHECK(carrier.error() == ECONNRESET);
  Carrier stopped(-1, connection.get());
  stopped.push("what nobody takes");
  stopped.stop();
  CHECK(stopped.is_done());
  CHECK(stopped.error() == 0);
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
