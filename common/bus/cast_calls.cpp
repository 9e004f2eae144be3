#include "common/bus/cast_calls.h"

#include <utility>

#include "common/base/quantity.h"

namespace meshbus {

CastCalls::~CastCalls() {
  for (const auto& [id, call] : calls_) reactor_.cancel(call.timer);
}

void CastCalls::add(std::uint64_t id, std::shared_ptr<const CastPlan> to,
                    std::chrono::milliseconds deadline, Answer answer) {
  Call& call = calls_[id];
  call.left = to->targets.size();
  call.is_open.assign(to->targets.size(), true);
  call.to = std::move(to);
  call.answer = std::move(answer);
  call.timer = reactor_.after(deadline, [this, id, deadline] {
    fail(id, Error(ErrorCode::timeout, "no answer within " + duration_to_text(deadline)));
  });
}

void CastCalls::add_sequence(std::uint64_t id, std::uint64_t sequence) {
  calls_.at(id).sequences.push_back(sequence);
  if (sequence != 0) id_of_sequence_.emplace(sequence, id);
}

void CastCalls::drop(std::uint64_t id) {
  const auto call = calls_.extract(id);
  if (call) reactor_.cancel(call.mapped().timer);
}

void CastCalls::finish(std::uint64_t id, std::uint64_t ordinal, Result<std::string> answer) {
  const auto found = calls_.find(id);
  if (found == calls_.end() || !found->second.is_open[ordinal]) return;
  Call& call = found->second;
  call.is_open[ordinal] = false;
  if (--call.left > 0) {
    // A copy: the handler may make more calls, or end this one.
    const Answer tell = call.answer;
    tell(ordinal, std::move(answer));
    return;
  }
  const Call done = std::move(call);
  calls_.erase(found);
  for (const auto sequence : done.sequences) id_of_sequence_.erase(sequence);
  reactor_.cancel(done.timer);
  done.answer(ordinal, std::move(answer));
}

void CastCalls::fail_later(std::uint64_t id, Ordinals ordinals, Error error) {
  reactor_.post([this, id, error = std::move(error), ordinals = std::move(ordinals),
                 alive = std::weak_ptr<void>(alive_)] {
    for (const auto ordinal : ordinals) {
      if (!alive.expired()) finish(id, ordinal, meshbus::fail(error));
    }
  });
}

void CastCalls::fail(std::uint64_t id, const Error& error) {
  const auto found = calls_.find(id);
  if (found == calls_.end()) return;
  const std::vector<bool> is_open = found->second.is_open;
  for (std::uint64_t ordinal = 0; ordinal < is_open.size(); ++ordinal) {
    if (is_open[ordinal]) finish(id, ordinal, meshbus::fail(error));
  }
}

void CastCalls::fail_returned(const wire::Envelope& envelope, std::uint64_t own_host,
                              const Error& error) {
  const auto found = id_of_sequence_.find(envelope.sequence());
  if (found == id_of_sequence_.end()) return;
  const std::uint64_t id = found->second;
  const auto plan = calls_.at(id).to;
  const std::uint64_t host = envelope.destination_host();
  if (envelope.destination_proc() != 0) {
    // One copy; its rank's host must be the one that the envelope names.
    const auto at = plan->ordinal_of_proc.find(envelope.destination_proc());
    if (at != plan->ordinal_of_proc.end() &&
        plan->targets[at->second].host == (host == 0 ? own_host : host))
      finish(id, at->second, meshbus::fail(error));
    return;
  }
  for (std::size_t index = 0; index < plan->pieces.size(); ++index) {
    const auto call = calls_.find(id);
    if (call == calls_.end()) return;
    // Only this piece came back.
    if (call->second.sequences[index] != envelope.sequence()) continue;
    for (const auto ordinal : plan->pieces[index].ordinals) {
      if (host == 0 || host == own_host || plan->targets[ordinal].host == host)
        finish(id, ordinal, meshbus::fail(error));
    }
  }
}

void CastCalls::fail_to(std::uint64_t proc, const Error& error) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ordinals;
  for (const auto& [id, call] : calls_) {
    const auto found = call.to->ordinal_of_proc.find(proc);
    if (found != call.to->ordinal_of_proc.end()) ordinals.emplace_back(id, found->second);
  }
  for (const auto& [id, ordinal] : ordinals) finish(id, ordinal, meshbus::fail(error));
}

void CastCalls::fail_all(const Error& error) {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, call] : calls_) ids.push_back(id);
  for (const auto id : ids) fail(id, error);
}

}  // namespace meshbus
