#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/mpi/letter.h"

namespace meshbus::mpi {

/// Gives every participating host what all of them have given: an allgather of one blob per host.
/// Each sends its part to the lowest host among them, the root, which sends the whole back: two
/// letters a host. One object per helper; it lives on the reactor's thread, and calls nothing
/// later.
class Exchange {
 public:
  /// The parts in the order of their hosts, one behind the other.
  using Done = std::function<void(std::string whole)>;
  /// A letter to these hosts, this one never among them.
  using Send = std::function<void(const std::vector<std::uint64_t>& to, Letter letter)>;

  Exchange(std::uint64_t self, Send send) : self_(self), send_(std::move(send)) {}

  /// `key` is the same at all participants and never used again. `hosts` are the participants,
  /// ascending, this host among them.
  void begin(const std::string& key, std::vector<std::uint64_t> hosts, std::string part, Done done);
  /// A part or a whole has come, before or after begin().
  void on_letter(std::uint64_t from, Letter letter);

 private:
  struct Open {
    std::vector<std::uint64_t> hosts;  ///< Empty: this host has not begun.
    std::map<std::uint64_t, std::string> parts;
    Done done;
  };
  void finish_if_complete(const std::string& key);

  std::uint64_t self_;
  Send send_;
  std::map<std::string, Open> open_;
};

}  // namespace meshbus::mpi
