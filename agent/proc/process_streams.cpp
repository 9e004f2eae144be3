#include "agent/proc/process_streams.h"

#include <sys/stat.h>
#include <unistd.h>

namespace meshbus::mesh_proc {

ProcessStreams::ProcessStreams()
    : out_(file_of(STDOUT_FILENO).value_or(File())),
      err_(file_of(STDERR_FILENO).value_or(File())) {}

std::optional<ProcessStreams::File> ProcessStreams::file_of(int descriptor) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) return std::nullopt;
  return File{status.st_dev, status.st_ino};
}

void ProcessStreams::pass_to(std::uint64_t place, UniqueFd& out, UniqueFd& err) {
  replace(STDOUT_FILENO, out, out_);
  replace(STDERR_FILENO, err, err_);
  holder_ = place;
}

void ProcessStreams::replace(int stream, UniqueFd& by, File& known) {
  if (file_of(stream) == known) {
    ::dup2(by.get(), stream);
    known = file_of(stream).value_or(known);
  }
  by.reset();
}

}  // namespace meshbus::mesh_proc
