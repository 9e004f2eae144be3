#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/loop/reactor.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus {

/// The ZeroMQ endpoints, all literal, of an address: more than one when a host name has several.
/// Blocks for host names. Errors: host_unreachable.
Result<std::vector<std::string>> resolve_now(const HostAddr& address);

/// Looks host names up without blocking the reactor. A lookup cannot be cancelled, so each has a
/// thread of its own, a few at a time; they are left alone when this ends.
class Resolver {
 public:
  using Answer = std::function<void(Result<std::vector<std::string>>)>;
  explicit Resolver(Reactor& reactor);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// Calls `answer` on the reactor's thread in a later turn, unless this object is gone by then.
  /// Never for an address whose host is literal: see is_literal().
  void resolve(const HostAddr& address, Answer answer);
  /// Whether resolve_now() would not ask anybody.
  static bool is_literal(const HostAddr& address);

 private:
  struct Shared;
  void start_next();
  void refuse_later(Answer answer, std::string why);

  std::shared_ptr<Shared> shared_;
  struct Waiting {
    HostAddr address;
    Answer answer;
  };
  std::deque<Waiting> waiting_;
  std::size_t running_ = 0;
};

}  // namespace meshbus
