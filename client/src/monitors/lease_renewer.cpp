#include "client/src/monitors/lease_renewer.h"

#include <utility>

namespace meshbus {

std::vector<LeaseRenewer::Lease> LeaseRenewer::due(std::vector<Lease> all, Time now) {
  std::map<std::string, Time> next;
  std::erase_if(all, [&](const Lease& lease) {
    if (lease.shortest.count() == 0) return true;
    const auto known = due_.find(lease.name);
    const bool is_due = known == due_.end() || now >= known->second;
    next.emplace(lease.name, is_due ? now + lease.shortest / 3 : known->second);
    return !is_due;
  });
  due_ = std::move(next);
  return all;
}

}  // namespace meshbus
