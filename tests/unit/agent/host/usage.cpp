#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "agent/host/lifecycle/proc_usage.h"

namespace meshbus::host {
namespace {

TEST_CASE("proc_usage: CPU times and start are read, whatever the process is called") {
  for (const std::string name : {"train", "a) R 1 2 (b", "", ") ) ) 9"}) {
    ProcUsage usage;
    CHECK(parse_stat("123 (" + name +
                         ") S 1 123 123 0 -1 4194304 5 6 7 8 150 25 3 4 20 0 12 0 987654321 1000 2 "
                         "18446744073709551615\n",
                     100, usage));
    CHECK(usage.user_us == 1'500'000);
    CHECK(usage.system_us == 250'000);
    CHECK(usage.start_ticks == 987654321);
  }
}

TEST_CASE("proc_usage: what is no such text is refused") {
  for (const std::string text :
       {"", "123", "123 (sh", "123 (sh)", "123 (sh) S 1 2 3",
        "123 (sh) S 1 123 123 0 -1 4194304 5 6 7 8 150 25 3 4 20 0 12 0"}) {
    ProcUsage usage;
    CAPTURE(text);
    CHECK_FALSE(parse_stat(text, 100, usage));
  }
  ProcUsage usage;
  CHECK_FALSE(parse_stat("1 (x) S", 0, usage));
}

TEST_CASE("proc_usage: memory and threads are read; who is dead has none") {
  ProcUsage usage;
  parse_status(
      "Name:\tVmRSS: 1 kB\nVmPeak:\t  9000 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 "
      "kB\nThreads:\t7\n",
      usage);
  CHECK(usage.peak_rss_bytes == 2 << 20);
  CHECK(usage.rss_bytes == 1 << 20);
  CHECK(usage.threads == 7);
  parse_status("Name:\tzombie\nState:\tZ (zombie)\nThreads:\t1\n", usage);
  CHECK(usage.rss_bytes == 0);
  CHECK(usage.peak_rss_bytes == 0);
}

TEST_CASE("proc_usage: this very process") {
  const auto before = read_usage(::getpid());
  REQUIRE(before);
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const auto after = read_usage(::getpid());
  REQUIRE(after);
  CHECK(after->descriptors == before->descriptors + 2);
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK(after->start_ticks == before->start_ticks);
  CHECK(before->rss_bytes > 1 << 20);
  CHECK(before->peak_rss_bytes >= before->rss_bytes);
  CHECK(before->threads >= 1);
  CHECK_FALSE(read_usage(0));
  CHECK_FALSE(read_usage(-1));
}

}  // namespace
}  // namespace meshbus::host
