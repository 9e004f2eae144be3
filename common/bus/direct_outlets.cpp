#include "common/bus/direct_outlets.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/block_pool.h"

namespace meshbus {
namespace {

/// Procs whose messages are counted; with more of them counting begins anew.
constexpr std::size_t kMostCounted = 256;
/// A path that has never done is tried again after so many messages at most.
constexpr std::uint32_t kMostEnough = 1U << 16;
/// A path that has carried so many times as many messages as it was tried after was worth it.
constexpr std::uint64_t kWorthIt = 16;

}  // namespace

void DirectOutlets::Outlet::push(const wire::Envelope& envelope, Bytes body,
                                 MessagePart* detached) {
  if (is_full()) frames.push_back(open.finish());
  if (detached != nullptr) {
    open.add_detached(envelope, std::move(*detached));
  } else {
    open.add(envelope, body);
  }
  bytes += sizeof envelope + body.size();
  ++count;
}

void DirectOutlets::Outlet::keep_leaving() {
  Frame frame = std::move(leaving->frame);
  for (auto& part : frame.parts) {
    MessagePart copy = BlockPool::part(part.size());
    std::memcpy(copy.data(), part.data(), part.size());
    part = std::move(copy);
  }
  bytes += frame.bytes;
  count += frame.count;
  first_sent = leaving->sent;
  frames.push_front(std::move(frame));
  leaving.reset();
}

void DirectOutlets::keep_leaving(Outlet& outlet) {
  if (!outlet.leaving) return;
  bytes_ += outlet.leaving->frame.bytes;
  count_ += outlet.leaving->frame.count;
  outlet.keep_leaving();
}

bool DirectOutlets::is_fit(const wire::Envelope& envelope, std::size_t bytes) noexcept {
  return envelope.kind() != wire::Kind::control && bytes <= kMostBody &&
         (envelope.flags() & ~(kFlagDetached | kFlagNoReturn)) == 0;
}

DirectOutlets::Outlet* DirectOutlets::find(std::uint64_t proc) {
  if (last_ != nullptr && last_proc_ == proc) return last_;
  const auto found = outlets_.find(proc);
  if (found == outlets_.end()) return nullptr;
  last_proc_ = proc;
  last_ = &found->second;
  return last_;
}

DirectOutlets::Outlet* DirectOutlets::outlet_for(const wire::Envelope& envelope) {
  if (!is_enabled_) return nullptr;
  const auto proc = envelope.destination_proc();
  if (proc == own_) return nullptr;
  Outlet* const outlet = find(proc);
  if (outlet != nullptr && outlet->is_used()) return outlet;
  // Answers follow what they answer: the other end asks for the path.
  if (envelope.kind() != wire::Kind::message && envelope.kind() != wire::Kind::call) return nullptr;
  if (outlet == nullptr) {
    count_one(proc);
  } else if (++outlet->count_closed % outlet->enough == 0) {
    wanted_.push_back(proc);
  }
  return nullptr;
}

void DirectOutlets::count_one(std::uint64_t proc) {
  if (counts_.size() >= kMostCounted && !counts_.contains(proc)) counts_.clear();
  if (++counts_[proc] < kEnough) return;
  counts_.erase(proc);
  if (outlets_.size() >= kMostPaths) {
    if (std::erase_if(outlets_, [](const auto& one) { return !one.second.is_used(); }) == 0) return;
    last_ = nullptr;
  }
  outlets_.emplace(proc, Outlet());
  wanted_.push_back(proc);
}

std::vector<std::uint64_t> DirectOutlets::take_wanted() {
  return std::exchange(wanted_, {});
}

void DirectOutlets::hold(std::uint64_t proc) {
  outlets_[proc].state = Outlet::State::holding;
}

void DirectOutlets::open(std::uint64_t proc) {
  // Something may have gone through the broker since it was held.
  Outlet* const outlet = find(proc);
  if (outlet != nullptr && outlet->state == Outlet::State::holding)
    outlet->state = Outlet::State::open;
}

void DirectOutlets::set_blocked(std::uint64_t proc, bool is_blocked) {
  if (Outlet* const outlet = find(proc)) outlet->is_blocked = is_blocked;
}

void DirectOutlets::put_off(std::uint64_t proc, Outbox& outbox) {
  close(proc, outbox);
  Outlet* const outlet = find(proc);
  if (outlet == nullptr) return;
  const bool was_worth_it = outlet->carried >= kWorthIt * outlet->enough;
  outlet->enough = was_worth_it ? kEnough : std::min(2 * outlet->enough, kMostEnough);
  outlet->carried = 0;
}

void DirectOutlets::close(std::uint64_t proc, Outbox& outbox) {
  Outlet* const outlet = find(proc);
  if (outlet == nullptr) return;
  keep_leaving(*outlet);
  if (!outlet->open.empty()) outlet->frames.push_back(outlet->open.finish());
  bytes_ -= outlet->bytes;
  count_ -= outlet->count;
  for (auto& frame : outlet->frames) outbox.push_frame(std::move(frame));
  outlet->frames.clear();
  outlet->first_sent = 0;
  outlet->bytes = outlet->count = 0;
  outlet->state = Outlet::State::closed;
  outlet->is_blocked = false;
  outlet->count_closed = 0;
}

void DirectOutlets::forget(std::uint64_t proc, Outbox& outbox) {
  close(proc, outbox);
  outlets_.erase(proc);
  counts_.erase(proc);
  last_ = nullptr;
}

std::optional<DirectOutlets::Front> DirectOutlets::front() {
  if (count_ == 0) return std::nullopt;
  for (auto& [key, outlet] : outlets_) {
    if (outlet.state != Outlet::State::open || outlet.is_blocked || outlet.empty() ||
        outlet.leaving)
      continue;
    if (outlet.frames.empty()) outlet.frames.push_back(outlet.open.finish());
    return Front{key, &outlet.frames.front(), &outlet.first_sent};
  }
  return std::nullopt;
}

void DirectOutlets::pop(std::uint64_t proc) {
  Outlet& outlet = outlets_.at(proc);
  const Frame& frame = outlet.frames.front();
  outlet.bytes -= frame.bytes;
  outlet.count -= frame.count;
  outlet.carried += frame.count;
  bytes_ -= frame.bytes;
  count_ -= frame.count;
  outlet.frames.pop_front();
  outlet.first_sent = 0;
}

void DirectOutlets::push(Outlet& outlet, const wire::Envelope& envelope, Bytes body,
                         MessagePart* detached) {
  outlet.push(envelope, body, detached);
  bytes_ += sizeof envelope + body.size();
  ++count_;
}

}  // namespace meshbus
