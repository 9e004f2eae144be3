#include "broker/casts/relayed_casts.h"

#include <algorithm>
#include <utility>

namespace meshbus {

std::vector<CastBranch> cast_branches(std::size_t hosts, std::size_t width) {
  std::vector<CastBranch> branches;
  const std::size_t count = std::min(hosts, width);
  for (std::size_t i = 0, first = 0; i < count; ++i) {
    const std::size_t size = hosts / count + (i < hosts % count ? 1 : 0);
    branches.push_back({first, size});
    first += size;
  }
  return branches;
}

bool RelayedCasts::is_reached(std::uint64_t host, Time now) const {
  const auto found = direct_until_.find(host);
  return found == direct_until_.end() || found->second <= now;
}

void RelayedCasts::add(std::uint64_t number, MessagePart body, std::vector<std::uint64_t> hosts,
                       Time now) {
  bytes_ += body.size();
  casts_.push_back({number, std::move(body), std::move(hosts), now, now});
}

RelayedCasts::Cast* RelayedCasts::find(std::uint64_t number) {
  const auto found = std::find_if(casts_.begin(), casts_.end(),
                                  [&](const Cast& cast) { return cast.number == number; });
  return found == casts_.end() ? nullptr : &*found;
}

bool RelayedCasts::is_under_way(std::uint64_t number, std::uint64_t host) const {
  // The newest cast is what is mostly asked about.
  const auto found = std::find_if(casts_.rbegin(), casts_.rend(),
                                  [&](const Cast& cast) { return cast.number == number; });
  return found != casts_.rend() &&
         std::find(found->hosts.begin(), found->hosts.end(), host) != found->hosts.end();
}

void RelayedCasts::here(std::uint64_t number, std::uint64_t host, Time now) {
  Cast* cast = find(number);
  if (cast == nullptr || std::erase(cast->hosts, host) == 0) return;
  cast->progress = now;
  drop_done();
}

void RelayedCasts::drop_done() {
  std::erase_if(casts_, [this](const Cast& cast) {
    if (!cast.hosts.empty()) return false;
    bytes_ -= cast.body.size();
    return true;
  });
}

void RelayedCasts::look(Time now, const Send& send) {
  std::erase_if(direct_until_, [now](const auto& one) { return one.second <= now; });
  Time progress{};
  for (Cast& cast : casts_) {
    progress = std::max(progress, cast.progress);
    if (now - cast.began >= limits_.limit) cast.hosts.clear();
    if (now - progress < kStalled) continue;
    // A body that a link has taken arrives, or its host is lost.
    std::erase_if(cast.hosts, [&](std::uint64_t host) {
      direct_until_[host] = now + kDirect;
      return send(host, cast.number, cast.body);
    });
  }
  drop_done();
}

}  // namespace meshbus
