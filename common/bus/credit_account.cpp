#include "common/bus/credit_account.h"

#include <algorithm>

namespace meshbus {
namespace {

/// Credit is returned after this time at the latest, so that a broker does not take a slow receiver
/// for a stopped one. The time begins with the first byte to announce, unless this is a link: most
/// of what is taken is answered soon, and the answer announces it, too.
constexpr std::chrono::milliseconds kCreditTime{250};
/// Taken control is announced, too, after this many bytes.
constexpr std::uint64_t kControlStep = 256 * 1024;

}  // namespace

void CreditAccount::reset() noexcept {
  is_credited_ = false;
  sent_ = credit_ = taken_ = announced_ = control_ = 0;
  waiting_since_ = {};
}

void CreditAccount::on_credit(std::uint64_t credit) noexcept {
  credit_ = std::clamp(credit, credit_, std::max(credit_, sent_));
}

bool CreditAccount::is_due(Time now) noexcept {
  if (taken_ - announced_ < kCreditStep && control_ < kControlStep) {
    if (taken_ == announced_) return false;
    if (waiting_since_ == Time{}) waiting_since_ = now;
    if (now - (is_link_ ? due_at_ : waiting_since_) < kCreditTime) return false;
  }
  due_at_ = now;
  return true;
}

}  // namespace meshbus
