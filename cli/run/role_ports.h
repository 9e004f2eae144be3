#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "meshbus/result.h"

namespace meshbus::cli {

/// The ports that the roles of a job were given: no two of a machine have the same one. Pure.
class RolePorts {
 public:
  using Ask = std::function<Result<std::uint16_t>()>;

  /// A port of that machine for another role. `ask` finds one that is free there now, and may find
  /// the same one again. Errors: those of `ask`; io_error: it finds none but those that are taken.
  Result<std::uint16_t> find(const std::string& machine, const Ask& ask);

 private:
  std::set<std::pair<std::string, std::uint16_t>> taken_;
};

}  // namespace meshbus::cli
