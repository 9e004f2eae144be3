#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/bus/bus.h"
#include "wire/forward.h"

namespace meshbus {

/// Adds up what brokers and peers have counted and says whether every message is accounted for
/// (spec 9.1): sent = delivered + returned + of unknown fate + dropped for a reason + on its way. A
/// plain value.
class Conservation {
 public:
  /// The counters of one broker, as its monitor publishes them.
  void add(std::string_view name, const wire::BrokerCountersT& counters);
  /// Those of one peer.
  void add(std::string_view name, const Bus::Traffic& traffic);

  /// A line for each sum that does not hold, with its numbers; empty when all is well. The sums of
  /// brokers and of senders hold at any time; those over all peers hold when all peers were added
  /// and nothing is on its way.
  std::vector<std::string> problems() const;
  /// "1000 sent = 990 taken + 4 returned + 6 of unknown fate + 0 on their way"
  std::string to_string() const;

 private:
  std::vector<std::string> problems_;
  Bus::Traffic all_;
};

}  // namespace meshbus
