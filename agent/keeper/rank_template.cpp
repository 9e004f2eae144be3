#include "agent/keeper/rank_template.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "agent/os/packet.h"
#include "agent/os/template_link.h"

namespace meshbus::keeper {

namespace {

using namespace std::chrono_literals;
namespace template_link = os::template_link;

// Restarts of a mesh come within that time and find the template warm.
constexpr auto kIdleLimit = 10s;

bool has_proc(const QueuedProcess& queued, std::uint64_t id) {
  return std::any_of(queued.procs.begin(), queued.procs.end(),
                     [&](const os::ProcSpec& proc) { return proc.id == id; });
}

}  // namespace

std::optional<QueuedProcess> RankTemplate::next() {
  if (!is_ready_ || flight_ || waiting_.empty() || !reason_.empty()) return std::nullopt;
  QueuedProcess first = std::move(waiting_.front());
  waiting_.pop_front();
  return first;
}

std::optional<RankTemplate::Flight> RankTemplate::land() {
  return std::exchange(flight_, std::nullopt);
}

RankTemplate::Said RankTemplate::hear() {
  os::Packet packet;
  Said said;
  const os::Transfer transfer = os::receive_packet(link_.get(), packet);
  if (transfer == os::Transfer::lost) said.kind = Said::Kind::closed;
  if (transfer != os::Transfer::done) return said;
  template_link::Report report;
  const auto nonsense = [&] {
    said.kind = Said::Kind::failed;
    said.reason = "the template said something that is not in the protocol of templates";
    return std::move(said);
  };
  if (packet.bytes.size() < sizeof report) return nonsense();
  std::memcpy(&report, packet.bytes.data(), sizeof report);
  if (report.magic != template_link::kMagic) return nonsense();
  switch (report.what) {
    case template_link::What::ready:
      is_ready_ = true;
      said.kind = Said::Kind::ready;
      return said;
    case template_link::What::born:
      if (packet.fds.size() != 1 || !flight_) return nonsense();
      said.kind = Said::Kind::born;
      said.pidfd = std::move(packet.fds.front());
      return said;
    case template_link::What::failed: {
      const std::size_t size =
          std::min(packet.bytes.size() - sizeof report, template_link::kLongestReason);
      said.kind = Said::Kind::failed;
      said.reason.assign(reinterpret_cast<const char*>(packet.bytes.data()) + sizeof report, size);
      if (said.reason.empty()) said.reason = "the template says no reason";
      return said;
    }
  }
  return nonsense();
}

bool RankTemplate::is_asked_for(std::uint64_t id) const {
  return flight_ && has_proc(flight_->queued, id);
}

bool RankTemplate::knows(std::uint64_t id) const {
  return is_asked_for(id) ||
         std::any_of(waiting_.begin(), waiting_.end(),
                     [&](const QueuedProcess& queued) { return has_proc(queued, id); });
}

bool RankTemplate::cancel(std::uint64_t id) {
  if (is_asked_for(id)) {
    flight_.reset();
    return true;
  }
  return std::erase_if(waiting_,
                       [&](const QueuedProcess& queued) { return has_proc(queued, id); }) != 0;
}

std::vector<QueuedProcess> RankTemplate::take_all() {
  std::vector<QueuedProcess> all;
  if (flight_) all.push_back(std::move(flight_->queued));
  flight_.reset();
  std::move(waiting_.begin(), waiting_.end(), std::back_inserter(all));
  waiting_.clear();
  return all;
}

bool RankTemplate::is_unborn(pid_t pid) const {
  return flight_ && ::getpgid(pid) == pid_;
}

void RankTemplate::count(int change) {
  copies_ += change;
  if (copies_ == 0) idle_since_ = Clock::now();
}

std::optional<RankTemplate::Clock::time_point> RankTemplate::expiry() const {
  if (copies_ != 0 || !waiting_.empty() || flight_) return std::nullopt;
  return idle_since_ + kIdleLimit;
}

}  // namespace meshbus::keeper
