#include "cli/mesh/progress_command.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/text_error.h"
#include "common/base/unique_fd.h"

namespace meshbus::cli {
namespace {

int run() {
  const char* const path = std::getenv("MESHBUS_PROGRESS");
  if (path == nullptr || *path == '\0') {
    complain("progress: MESHBUS_PROGRESS is not set: this is no rank of a mesh");
    return kUsage;
  }
  const UniqueFd file(::open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!file || ::futimens(file.get(), nullptr) != 0) {
    complain(std::string("progress: ") + path + ": " + std::strerror(errno));
    return kFailed;
  }
  return 0;
}

}  // namespace

void add_progress(CLI::App& app, Commands& commands) {
  commands.add(
      app, "progress",
      {.meaning = "In a rank: say that it makes progress (see run --stall-after)",
       .examples = {"progress"},
       .details =
           "The same without this command: write to the file that MESHBUS_PROGRESS names, or set "
           "its time. In a shell: : > \"$MESHBUS_PROGRESS\"; in Python: meshbus.progress().",
       .exit_codes = "0; 1 the file cannot be written"},
      [] { return run(); });
}

}  // namespace meshbus::cli
