#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/bench/comparison.h"
#include "tests/bench/traffic.h"

namespace meshbus::bench {

/// NATS by bare sockets and by its C library. Adds the ways that can be measured here.
class Nats {
 public:
  static constexpr const char* kNote = "nats bare writes small messages 64 KiB at once";

  /// `comparison` tells which ways are left out, and why.
  explicit Nats(Comparison& comparison);

  /// `prefix` stands before the names of the sides, `about` before what tells them apart.
  void add_to(std::vector<Side>& sides, Between between, const std::string& prefix,
              const std::string& about, const std::function<Figures(const Way&)>& measure) const;

 private:
  bool has_server_;
  bool has_library_;
};

}  // namespace meshbus::bench
