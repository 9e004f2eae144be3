#include "client/controller/lease_book.h"

#include <algorithm>

namespace meshbus {

void LeaseBook::set(const std::map<std::string, std::chrono::milliseconds>& leases) {
  std::erase_if(leases_, [&](const auto& entry) { return !leases.contains(entry.first); });
  for (const auto& [mesh, length] : leases) {
    auto& lease = leases_[mesh];
    // A shorter one may lapse before the renewal of the longer one comes.
    if (length < lease.length) lease.due = {};
    lease.length = length;
  }
  find_due();
}

void LeaseBook::find_due() {
  due_.reset();
  for (const auto& [mesh, lease] : leases_) due_ = due_ ? std::min(*due_, lease.due) : lease.due;
}

std::vector<std::string> LeaseBook::renew(Time now) {
  std::vector<std::string> meshes;
  for (auto& [mesh, lease] : leases_) {
    meshes.push_back(mesh);
    lease.due = now + lease.length / 3;
  }
  find_due();
  return meshes;
}

void LeaseBook::failed(const std::vector<std::string>& meshes, Time now) {
  auto again = kAskAgain;
  for (const auto& [mesh, lease] : leases_) again = std::min(again, lease.length / 6);
  for (const auto& mesh : meshes) {
    if (const auto found = leases_.find(mesh); found != leases_.end())
      found->second.due = std::min(found->second.due, now + again);
  }
  find_due();
}

}  // namespace meshbus
