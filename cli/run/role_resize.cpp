#include "cli/run/role_resize.h"

#include <algorithm>

#include "cli/run/say.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {

std::string RoleResize::refusal() const {
  if (parts_.mpi != nullptr) return "an MPI job has the ranks that it began with";
  if (role_.torch) return "a torch job has the ranks that it began with";
  if (!parts_.is_started) return "its ranks are still being started; order it again later";
  if (events_.is_stopping()) return "its run is stopping it";
  return {};
}

std::vector<HostAddr> RoleResize::choose(std::uint64_t blocks) const {
  const auto& present = parts_.mesh->ref().hosts();
  std::vector<HostAddr> places;
  for (const auto& spare : spares_) {
    if (places.size() == blocks) break;
    if (std::find(present.begin(), present.end(), spare) == present.end()) places.push_back(spare);
  }
  if (places.empty()) return {};
  for (std::size_t i = 0; places.size() < blocks; ++i)
    places.push_back(present[i % present.size()]);
  return places;
}

Result<ResizeReport> RoleResize::carry_out(const ResizeOrder& order) const {
  const auto prefix = name_.empty() ? std::string() : name_ + ": ";
  if (const auto why = refusal(); !why.empty())
    return fail(parts_.is_started ? ErrorCode::refused : ErrorCode::would_block, prefix + why);
  const auto leaving = order.leaving();
  if (!leaving.empty()) events_.begin_leaving(leaving.front().begin);
  const bool is_free = order.is_growth() && order.hosts().empty();
  const auto done = order.carry_out(is_free ? choose(order.blocks()) : std::vector<HostAddr>());
  // After host_unreachable it is smaller all the same.
  if (!done && !leaving.empty() && done.error().code() != ErrorCode::host_unreachable)
    events_.keep_leaving();
  if (!done) {
    say(prefix + order.requester() +
        " has ordered another size, which was not done: " + error_words(done.error()));
    return done;
  }
  const auto& ranks = order.is_growth() ? done->came : leaving;
  say(prefix + (order.is_growth() ? "grown by ranks " : "shrunk by ranks ") + to_string(ranks) +
      " to " + std::to_string(done->size) + ", as " + order.requester() + " has ordered");
  return done;
}

}  // namespace meshbus::cli
