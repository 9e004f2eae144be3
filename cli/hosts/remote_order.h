#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/warden/warden.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus::cli {

/// A line of JSON that a launcher says to a host which it starts from afar
/// (client/src/launch/remote_start.h): an object of texts and lists of texts. What else is in it
/// does not count. A plain value.
struct RemoteLine {
  std::map<std::string, std::string> texts = {};
  std::map<std::string, std::vector<std::string>> lists = {};

  /// Errors: malformed_message.
  static Result<RemoteLine> parse(const std::string& line);
  /// Empty: it is not there.
  std::string text(const std::string& key) const;
  std::vector<std::string> list(const std::string& key) const;
};

/// Writes what both lines of a launcher mean, the order and the hosts, into `options`, for a host
/// at `own`. Errors: malformed_message. Pure.
Result<void> apply_remote_order(const RemoteLine& order, const RemoteLine& hosts,
                                const HostAddr& own, WardenOptions& options);

}  // namespace meshbus::cli
