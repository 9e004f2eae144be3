#include "agent/stacks/user_look.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <set>
#include <string>

#include "common/base/os_error.h"
#include "common/base/unique_fd.h"
#include "wire/control_generated.h"

namespace meshbus::stacks {
namespace {

/// No answer is longer.
constexpr std::size_t kLargestAnswer = 1u << 20;

/// The new process. Its exit says whether it has written its answer.
int answer_as(const UserIds& user, const std::vector<ProcessReader::Target>& targets,
              const LookLimits& limits, int to) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  ::alarm(kLookSeconds);
  ::close(STDOUT_FILENO);
  if (!become_user(user)) return 1;
  StackTable table;
  look(targets, limits, table);
  const auto text = table.encode();
  for (std::size_t at = 0; at < text.size();) {
    const auto n = ::write(to, text.data() + at, text.size() - at);
    if (n <= 0) return 1;
    at += static_cast<std::size_t>(n);
  }
  return 0;
}

std::string read_all(int from) {
  std::string text;
  std::array<char, 65536> piece{};
  while (text.size() <= kLargestAnswer) {
    const auto n = ::read(from, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(piece.data(), static_cast<std::size_t>(n));
  }
  return text;
}

/// Null: it is no answer.
const wire::Stacks* find_answer(const std::string& text) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  flatbuffers::Verifier verifier(bytes, text.size());
  if (text.size() > kLargestAnswer || !wire::VerifyControlBuffer(verifier)) return nullptr;
  return wire::GetControl(bytes)->body_as_Stacks();
}

}  // namespace

std::map<UserIds, std::vector<ProcessReader::Target>> look(
    const std::vector<ProcessReader::Target>& targets, const LookLimits& limits,
    StackTable& table) {
  ProcessReader reader(table, limits.is_kernel_only);
  for (const auto& target : targets) {
    if (table.size() > limits.room || std::chrono::steady_clock::now() > limits.until)
      table.leave_out(target.rank);
    else
      reader.read(target);
  }
  return reader.take_others();
}

void look_as(const UserIds& user, const std::vector<ProcessReader::Target>& targets,
             const LookLimits& limits, StackTable& table) {
  std::set<std::uint64_t> ranks;
  for (const auto& target : targets) ranks.insert(target.rank);
  const auto fail_all = [&](const std::string& why) {
    for (const auto rank : ranks)
      table.add_problem(rank, "its processes of user " + std::to_string(user.user) +
                                  " could not be looked at: " + why);
  };
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_all(os_error("pipe"));
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const auto pid = ::fork();
  if (pid < 0) return fail_all(os_error("fork"));
  if (pid == 0) ::_exit(answer_as(user, targets, limits, writing.get()));
  writing.reset();
  const auto text = read_all(reading.get());
  // It may go on writing, or not end.
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  const auto* const answer = find_answer(text);
  if (answer == nullptr) return fail_all("the process that looked as this user gave no answer");
  table.add(*answer, ranks);
}

}  // namespace meshbus::stacks
