#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "broker/links/link_table.h"
#include "common/loop/reactor.h"
#include "meshbus/result.h"
#include "wire/forward.h"

namespace meshbus {

/// Disturbs links on purpose (schemas/chaos.fbs), where the settings allow it. Lives on the
/// reactor's thread.
class LinkChaos {
 public:
  struct Options {
    bool is_allowed = false;
    std::chrono::milliseconds longest{0};
    std::uint64_t most = 0;
    std::string own_host;  ///< For people.
  };

  LinkChaos(Reactor& reactor, LinkTable& links, Options options)
      : reactor_(reactor), links_(links), options_(std::move(options)) {}

  /// Begins it; the link ends it. Returns what was done, in words. Errors: refused, out_of_range,
  /// parse_error, not_exist.
  Result<std::string> start(const wire::StartChaos& message);

 private:
  Result<void> check(const wire::StartChaos& message) const;

  Reactor& reactor_;
  LinkTable& links_;
  Options options_;
};

}  // namespace meshbus
