#include "agent/host/services/program_release.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "agent/host/records/ledger.h"
#include "agent/host/streams/output_spool.h"
#include "agent/keeper/protocol.h"
#include "common/base/release.h"

namespace meshbus::host {
namespace {

constexpr std::string_view kTakesOver = "takes over: ";
constexpr std::size_t kLongestRelease = 64;

std::string_view take_line(std::string_view& text) {
  const auto end = std::min(text.find('\n'), text.size());
  const auto line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= kLongestRelease &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

}  // namespace

std::string ProgramRelease::own_formats() {
  return "keeper " + keeper::protocol_version() + ", ledger " + std::to_string(Ledger::kFormat) +
         ", spool " + std::to_string(OutputSpool::kFormat);
}

std::string ProgramRelease::own_text(const std::string& program) {
  return program + " " + std::string(this_release()) + "\n" + std::string(kTakesOver) +
         own_formats() + "\n";
}

Result<ProgramRelease> ProgramRelease::parse(std::string_view text, std::string_view program) {
  ProgramRelease found;
  auto first = take_line(text);
  if (first.substr(0, program.size()) != program || first.size() <= program.size() ||
      !is_word(first.substr(program.size() + 1)))
    return fail(ErrorCode::refused, "it does not say '" + std::string(program) +
                                        " RELEASE' when it is started with --release: it is no " +
                                        std::string(program) +
                                        ", or of a release that cannot be upgraded to in place");
  found.release = first.substr(program.size() + 1);
  while (!text.empty()) {
    const auto line = take_line(text);
    if (line.starts_with(kTakesOver)) found.takes_over.emplace_back(line.substr(kTakesOver.size()));
  }
  return found;
}

Result<void> ProgramRelease::check_takes_over() const {
  const auto own = own_formats();
  if (std::find(takes_over.begin(), takes_over.end(), own) != takes_over.end()) return {};
  std::string others;
  for (const auto& one : takes_over) others += (others.empty() ? "" : " or ") + one;
  return fail(ErrorCode::refused,
              "release " + release + " cannot go on with the procs of this host: it reads " +
                  (others.empty() ? "nothing of other agents" : others) + ", and here is " + own +
                  "; end the host when it is idle, and start it again with that release");
}

Result<void> check_trusted(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0)
    return fail(ErrorCode::io_error, path + ": " + std::strerror(errno));
  if (status.st_uid != 0 && status.st_uid != ::geteuid())
    return fail(ErrorCode::refused, path + " belongs to user " + std::to_string(status.st_uid) +
                                        ", neither to root nor to the user of this host");
  constexpr mode_t others = S_IWGRP | S_IWOTH;
  // In a sticky folder others cannot replace what is ours.
  const bool is_sticky = S_ISDIR(status.st_mode) && (status.st_mode & S_ISVTX) != 0;
  if ((status.st_mode & others) != 0 && !is_sticky)
    return fail(ErrorCode::refused, path + " may be changed by others: chmod go-w " + path);
  const auto slash = path.rfind('/');
  if (path == "/" || slash == std::string::npos) return {};
  return check_trusted(slash == 0 ? "/" : path.substr(0, slash));
}

}  // namespace meshbus::host
