#include "agent/host/lifecycle/error_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "agent/host/model/error_note.h"
#include "agent/host/model/mesh.h"
#include "common/base/unique_fd.h"

namespace meshbus::host {
namespace {

constexpr std::size_t kMostRead = 64 * 1024;

/// A rank may have put anything in its place: nothing that it names is followed or waited for. A
/// second name of another file, or a file of somebody else than `owner` and this host, is not what
/// a rank has written there.
std::string read_file(const std::string& path, uid_t owner) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  if (status.st_nlink != 1) return {};
  if (status.st_uid != owner && status.st_uid != ::geteuid()) return {};
  std::string text(kMostRead, '\0');
  const auto size = ::read(fd.get(), text.data(), text.size());
  text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  return text;
}

}  // namespace

std::string ErrorFiles::path_of(const Proc& proc) const {
  const auto& variables = proc.mesh.spec.command.environment;
  const bool is_given = std::any_of(variables.begin(), variables.end(), [](const auto& variable) {
    return variable.first == kVariable;
  });
  if (folder_ == nullptr || is_given) return {};
  return folder_->path() + "/" + proc.mesh.name + "." + std::to_string(proc.rank()) + ".error";
}

std::string ErrorFiles::take(const Proc& proc) const {
  if (folder_ == nullptr || folder_->is_empty()) return {};
  const auto path = path_of(proc);
  if (path.empty()) return {};
  const auto& settings = proc.mesh.spec.command.settings;
  auto text = read_file(path, settings.uid.value_or(::geteuid()));
  ::unlink(path.c_str());
  return text.empty() ? text : error_note(text);
}

}  // namespace meshbus::host
