#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "broker/peers/credit_ledger.h"

namespace meshbus {

/// Casts whose copies have not all left: the sender of a cast gets credit for it when they have.
/// Each has an account, which its copies are charged to instead of the sender. Pure.
class CastCredits {
 public:
  using Account = ConnectionId;
  static bool is_account(ConnectionId id) noexcept { return id > kConnectionsEnd; }

  /// Takes the charge of a cast. The account stays until close(), however many copies leave before.
  Account open(Charge& charge) {
    accounts_.emplace(++last_, Entry{charge.take(), 1});
    return last_;
  }
  /// A copy of so many bytes.
  Charge charge_copy(Account account, std::size_t bytes) {
    accounts_.at(account).left += bytes;
    return {account, bytes};
  }
  /// Bytes of copies have left, or were not kept. The charge of the cast, when they were the last.
  std::optional<Charge> release(Account account, std::size_t bytes) {
    const auto found = accounts_.find(account);
    if (found == accounts_.end()) return std::nullopt;
    Entry& entry = found->second;
    entry.left -= std::min(bytes, entry.left);
    if (entry.left > 0) return std::nullopt;
    const Charge charge = entry.charge;
    accounts_.erase(found);
    return charge;
  }
  /// There are no more copies. The charge of the cast, when all of them have left already.
  std::optional<Charge> close(Account account) { return release(account, 1); }
  bool empty() const noexcept { return accounts_.empty(); }

 private:
  struct Entry {
    Charge charge;
    std::size_t left;
  };
  std::unordered_map<Account, Entry> accounts_;
  Account last_ = kConnectionsEnd;
};

}  // namespace meshbus
