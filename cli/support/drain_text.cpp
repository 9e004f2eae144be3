#include "cli/support/drain_text.h"

#include "common/base/requester_text.h"

namespace meshbus::cli {

std::string drain_scope(const std::string& mesh, const std::string& owner) {
  return (mesh.empty() ? "all meshes" : "mesh " + mesh) + (owner.empty() ? "" : " of " + owner);
}

std::string drain_text(const DrainReport& drain) {
  std::string text =
      drain_scope(drain.mesh, drain.owner) + ", asked for by " +
      (drain.requester.empty() ? "an unknown sender" : requester_text(drain.requester)) + ": " +
      drain.reason;
  if (drain.left > 0)
    text += "; " + std::to_string(drain.left) + (drain.left == 1 ? " proc" : " procs") + " left";
  return text + (drain.hold ? "; held" : "");
}

}  // namespace meshbus::cli
