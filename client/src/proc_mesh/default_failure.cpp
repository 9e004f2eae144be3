#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "client/src/proc_mesh/proc_mesh_impl.h"

namespace meshbus {

void handle_failure_by_default(ContextCore& core, Connection& connection, const std::weak_ptr<MeshMonitor>& monitor,
                               const RankReport& failure) {
  const auto mesh = monitor.lock();
  if (mesh == nullptr) return;
  std::string text = "meshbus: mesh " + mesh->name() + ": " + failure.describe() + "\n";
  if (!failure.stderr_tail.empty()) {
    text += "meshbus: its last lines on stderr:\n" + failure.stderr_tail;
    if (text.back() != '\n') text += '\n';
  }
  const bool is_ours = !mesh->progress().is_handed_over();
  if (is_ours) text += "meshbus: nobody handles failures of this mesh: it is stopped, and this launcher ends\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
  if (!is_ours) return;
  const auto stopped = stop_ranks(core, connection, *mesh,
                                  {.reason = failure.describe(), .grace = {}, .deadline = {}, .ranks = {}, .because = failure.rank});
  if (!stopped) std::fprintf(stderr, "meshbus: %s\n", stopped.error().to_string().c_str());
  const int code = mesh->progress().outcome().exit_code();
  std::fflush(nullptr);
  // Not exit(): static objects would be destroyed under the feet of the other threads. Hosts that this process started end with it.
  ::_exit(code == 0 ? 125 : code);
}

}  // namespace meshbus
