#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/python/bind/pending.h"
#include "meshbus/result.h"

namespace meshbus::python {

/// Collects the answers of a call to many ranks, and fills a Pending with all of them when the last
/// one is there: a list of bodies and exceptions, by ordinal. From any thread.
class Gathering {
 public:
  explicit Gathering(std::uint64_t ranks);

  const std::shared_ptr<Pending>& pending() const { return pending_; }
  void put(std::uint64_t ordinal, Result<std::string> answer);

 private:
  std::mutex mutex_;
  std::vector<Result<std::string>> answers_;
  std::uint64_t left_;
  std::shared_ptr<Pending> pending_ = std::make_shared<Pending>();
};

}  // namespace meshbus::python
