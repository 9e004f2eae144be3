#include "tests/support/leftovers.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "tests/support/environment.h"
#include "tests/support/own_cgroups.h"
#include "tests/support/process_table.h"
#include "tests/support/sanitizer_scale.h"
#include "tests/support/wait.h"

namespace meshbus::test {

namespace fs = std::filesystem;

namespace {

// More than the product promises after the death of any one role (2 s, spec 4.7): that has tests of
// its own. Here a process that ends slowly, because other tests run beside this one, is none that
// was left behind.
constexpr std::chrono::milliseconds kTimeToCleanUp(10'000);

/// What this process has open. The names are for people; descriptors are told apart by their
/// number.
std::map<int, std::string> open_descriptors() {
  std::map<int, std::string> found;
  std::vector<fs::path> links;
  std::error_code ignored;
  for (auto at = fs::directory_iterator("/proc/self/fd", ignored); at != fs::directory_iterator();
       at.increment(ignored))
    links.push_back(*at);
  for (const auto& link : links) {
    const fs::path target = fs::read_symlink(link, ignored);
    // The listing itself had one open, which is gone by now.
    if (!target.empty()) found.emplace(std::atoi(link.filename().c_str()), target.string());
  }
  return found;
}

/// Everything but directories, since an empty run directory may stay, and but what ThreadSanitizer
/// writes while it starts: a process that is killed in that moment leaves it.
std::set<fs::path> files_below(const fs::path& root) {
  std::set<fs::path> found;
  std::error_code ignored;
  if (root.empty()) return found;
  for (auto at = fs::recursive_directory_iterator(root, ignored);
       at != fs::recursive_directory_iterator(); at.increment(ignored)) {
    if (at->path().filename().string().starts_with("tsan.rodata.")) continue;
    if (!fs::is_directory(at->symlink_status(ignored))) found.insert(at->path());
  }
  return found;
}

/// The children that are not spared; dead ones are reaped on the way and not returned.
std::vector<ProcessInfo> live_children(const std::set<pid_t>& spared) {
  auto children = children_of(::getpid());
  std::erase_if(children, [&](const ProcessInfo& child) {
    if (spared.contains(child.pid)) return true;
    return child.is_dead() && ::waitpid(child.pid, nullptr, WNOHANG) != 0;
  });
  return children;
}

}  // namespace

LeftoverCheck::LeftoverCheck()
    : files_(files_below(environment_root())),
      cgroups_(cgroups_below_own()),
      descriptors_(open_descriptors()) {
  for (const ProcessInfo& child : children_of(::getpid())) children_.insert(child.pid);
}

std::vector<std::string> LeftoverCheck::look() const {
  std::vector<std::string> problems;
  for (const ProcessInfo& child : live_children(children_)) {
    problems.push_back("a process is left: " + child.to_string());
    for (const ProcessInfo& below : descendants_of(child.pid))
      problems.push_back("  and below it: " + below.to_string());
  }
  for (const fs::path& file : files_below(environment_root())) {
    if (!files_.contains(file)) problems.push_back("a file is left: " + file.string());
  }
  for (const fs::path& cgroup : cgroups_below_own()) {
    if (!cgroups_.contains(cgroup)) problems.push_back("a cgroup is left: " + cgroup.string());
  }
  const auto descriptors = open_descriptors();
  for (const auto& [fd, target] : descriptors) {
    if (!descriptors_.contains(fd))
      problems.push_back("a descriptor is left open: " + std::to_string(fd) + " -> " + target);
  }
  for (const auto& [fd, target] : descriptors_) {
    if (!descriptors.contains(fd))
      problems.push_back("a descriptor of somebody else was closed: " + std::to_string(fd) +
                         " -> " + target);
  }
  return problems;
}

std::vector<std::string> LeftoverCheck::find(std::chrono::milliseconds grace) {
  std::vector<std::string> problems;
  wait_until([&] { return (problems = look()).empty(); }, grace);
  if (problems.empty()) return problems;
  kill_children(children_);
  std::error_code ignored;
  for (const fs::path& file : files_below(environment_root())) {
    if (!files_.contains(file)) fs::remove(file, ignored);
  }
  const auto cgroups = cgroups_below_own();
  for (auto cgroup = cgroups.rbegin(); cgroup != cgroups.rend();
       ++cgroup) {  // the inner ones first
    if (!cgroups_.contains(*cgroup)) ::rmdir(cgroup->c_str());
  }
  return problems;
}

void kill_children(const std::set<pid_t>& spared) {
  const auto none_left = [&] {
    const auto children = live_children(spared);
    for (const ProcessInfo& child : children) ::kill(child.pid, SIGKILL);
    return children.empty();
  };
  wait_until(none_left, std::chrono::seconds(5));
}

namespace {

std::array<char, 256> running_test{};
unsigned limit_seconds = 0;

void on_alarm(int) {
  const auto say = [](const char* text) {
    [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text, std::strlen(text));
  };
  say("the test case hangs, so it is ended here: ");
  say(running_test.data());
  say("\n");
  std::abort();  // doctest reports it, with the test's context
}

/// Runs before doctest's own reporter, so that what it adds to the statistics of a test case is in
/// the report.
class LeftoverListener : public doctest::IReporter {
 public:
  explicit LeftoverListener(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData& test) override {
    if (limit_seconds == 0) return;
    std::strncpy(running_test.data(), test.m_name, running_test.size() - 1);
    ::signal(SIGALRM, on_alarm);
    ::alarm(limit_seconds);
    check_.emplace();
  }

  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    ::alarm(0);
    if (!check_) return;
    if (crashed_) {
      // A signal handler of doctest's, and the program ends after it: no destructor will do this.
      kill_children({});
      std::error_code ignored;
      fs::remove_all(environment_root(), ignored);
      return;
    }
    const auto problems = check_->find(kTimeToCleanUp);
    check_.reset();
    if (problems.empty()) return;
    for (const std::string& one : problems)
      ADD_FAIL_CHECK_AT("tests/support/leftovers.cpp", 0, one);
    // doctest has already summed this test case up. The objects behind these references are its
    // own, and not const.
    auto& test = const_cast<doctest::CurrentTestCaseStats&>(stats);
    if (test.testCaseSuccess) ++failed_tests_;
    failed_asserts_ += static_cast<int>(problems.size());
    test.numAssertsFailedCurrentTest += static_cast<int>(problems.size());
    test.numAssertsCurrentTest += static_cast<int>(problems.size());
    test.failure_flags |= doctest::TestCaseFailureReason::AssertFailure;
    test.testCaseSuccess = false;
  }

  void test_run_end(const doctest::TestRunStats& stats) override {
    auto& all = const_cast<doctest::TestRunStats&>(stats);
    all.numTestCasesFailed += failed_tests_;
    all.numAssertsFailed += failed_asserts_;
    all.numAsserts += failed_asserts_;
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException& exception) override {
    crashed_ = crashed_ || exception.is_crash;
  }
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  std::optional<LeftoverCheck> check_;
  bool crashed_ = false;
  unsigned failed_tests_ = 0;
  int failed_asserts_ = 0;
};

REGISTER_LISTENER("leftovers", 1, LeftoverListener);

}  // namespace

void check_every_test_case(std::chrono::seconds limit) {
  const char* chosen = std::getenv("MESHBUS_TEST_CASE_SECONDS");
  limit_seconds = chosen == nullptr ? static_cast<unsigned>((limit * slowness).count())
                                    : static_cast<unsigned>(std::atoi(chosen));
}

}  // namespace meshbus::test
