#include "common/bus/pending_requests.h"

#include <vector>

#include "common/base/quantity.h"
#include "common/wire/protocol.h"
#include "wire/control_generated.h"

namespace meshbus {

PendingRequests::~PendingRequests() {
  for (const auto& [id, pending] : pending_) reactor_.cancel(pending.timer);
}

void PendingRequests::add(std::uint64_t id, const Peer& to, std::chrono::milliseconds deadline,
                          Answer answer) {
  add(id, deadline, Pending{.to = to, .answer = std::move(answer)});
}

void PendingRequests::add_call(std::uint64_t id, const Peer& to, std::chrono::milliseconds deadline,
                               CallAnswer answer) {
  add(id, deadline, Pending{.to = to, .call_answer = std::move(answer)});
}

void PendingRequests::add(std::uint64_t id, std::chrono::milliseconds deadline, Pending pending) {
  pending.timer = reactor_.after(deadline, [this, id, deadline] {
    fail(id, Error(ErrorCode::timeout, "no answer within " + duration_to_text(deadline)));
  });
  of_proc_.emplace(pending.to.proc, id);
  pending_.emplace(id, std::move(pending));
}

void PendingRequests::set_sequence(std::uint64_t id, std::uint64_t sequence) {
  pending_.at(id).sequence = sequence;
  id_of_sequence_.emplace(sequence, id);
}

std::optional<std::uint64_t> PendingRequests::of_sequence(std::uint64_t sequence) const {
  const auto found = id_of_sequence_.find(sequence);
  if (found == id_of_sequence_.end()) return std::nullopt;
  return found->second;
}

const PendingRequests::Peer* PendingRequests::find(std::uint64_t id) const {
  const auto found = pending_.find(id);
  return found == pending_.end() ? nullptr : &found->second.to;
}

PendingRequests::Pending PendingRequests::take(std::map<std::uint64_t, Pending>::iterator at) {
  Pending pending = std::move(at->second);
  of_proc_.erase({pending.to.proc, at->first});
  id_of_sequence_.erase(pending.sequence);
  reactor_.cancel(pending.timer);
  pending_.erase(at);
  return pending;
}

void PendingRequests::finish(std::uint64_t id, Result<ControlMessage> answer) {
  const auto found = pending_.find(id);
  if (found == pending_.end() || !found->second.answer) return;
  const Pending pending = take(found);
  if (answer) {
    if (const auto* refusal = answer->body_as<wire::Refusal>())
      answer = meshbus::fail(from_wire(refusal->code()), text_of(refusal->detail()));
  }
  pending.answer(std::move(answer));
}

void PendingRequests::finish_call(std::uint64_t id, Result<std::string> answer) {
  const auto found = pending_.find(id);
  if (found == pending_.end() || !found->second.call_answer) return;
  const Pending pending = take(found);
  pending.call_answer(std::move(answer));
}

void PendingRequests::drop(std::uint64_t id) {
  if (const auto found = pending_.find(id); found != pending_.end()) take(found);
}

void PendingRequests::fail(std::uint64_t id, const Error& error) {
  finish(id, meshbus::fail(error));
  finish_call(id, meshbus::fail(error));
}

void PendingRequests::fail_later(std::uint64_t id, Error error) {
  reactor_.post([this, id, error = std::move(error), alive = std::weak_ptr<void>(alive_)] {
    if (!alive.expired()) fail(id, error);
  });
}

void PendingRequests::fail_to(const Peer& peer, const Error& error) {
  std::vector<std::uint64_t> ids;
  for (auto at = of_proc_.lower_bound({peer.proc, 0});
       at != of_proc_.end() && at->first == peer.proc; ++at) {
    if (pending_.at(at->second).to == peer) ids.push_back(at->second);
  }
  for (const auto id : ids) fail(id, error);
}

void PendingRequests::fail_all(const Error& error) {
  std::vector<std::uint64_t> ids;
  ids.reserve(pending_.size());
  for (const auto& [id, pending] : pending_) ids.push_back(id);
  for (const auto id : ids) fail(id, error);
}

}  // namespace meshbus
