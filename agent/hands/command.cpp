#include "agent/hands/command.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "common/base/exit_codes.h"

namespace meshbus::hands {
namespace {

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const auto& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

void execute(const RankPlace& place, const Command& command) {
  if (const auto done = place.settle(); !done) {
    std::fprintf(stderr, "meshbus: the place of the rank cannot be taken: %s\n",
                 done.error().detail().c_str());
    ::_exit(exits::kOwnFailure);
  }
  const auto words = pointers_to(command.words);
  auto environment = pointers_to(command.environment);
  // execvp searches the PATH of the rank.
  environ = environment.data();
  ::execvp(words[0], words.data());
  const int error = errno;
  std::fprintf(stderr, "meshbus: %s: %s\n", words[0], std::strerror(error));
  ::_exit(error == ENOENT ? exits::kNotFound : exits::kCannotExecute);
}

void end_like(int status) {
  if (!WIFSIGNALED(status)) ::_exit(WEXITSTATUS(status));
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  const int signal = WTERMSIG(status);
  ::signal(signal, SIG_DFL);
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_UNBLOCK, &all, nullptr);
  ::raise(signal);
  ::_exit(exits::by_signal(signal));
}

}  // namespace meshbus::hands
