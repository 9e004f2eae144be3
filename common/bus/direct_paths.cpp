#include "common/bus/direct_paths.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <sodium.h>

#include "common/base/log.h"
#include "common/bus/destination.h"

namespace meshbus {
namespace {

constexpr std::chrono::seconds kWatchLimit{10};
constexpr std::chrono::seconds kReport{1};

Destination to_proc(std::uint64_t proc) {
  return {proc, 0, {}};
}

}  // namespace

DirectPaths::DirectPaths(Reactor& reactor, Postbox& postbox, Requests& requests,
                         Responder& responder, ShareInbox& inbox, Backlog backlog, Deliver deliver)
    : reactor_(reactor),
      postbox_(postbox),
      requests_(requests),
      responder_(responder),
      inbox_(inbox),
      events_(path_events(std::move(backlog), std::move(deliver))) {}

DirectPaths::~DirectPaths() {
  reactor_.cancel(report_timer_);
  reactor_.cancel(idle_timer_);
}

DirectPath::Events DirectPaths::path_events(Backlog backlog, Deliver deliver) {
  return {.backlog = std::move(backlog),
          .on_message = std::move(deliver),
          .on_room =
              [this](const DirectPath& path) {
                postbox_.with_direct([&](DirectOutlets& outlets, Outbox&) {
                  outlets.set_blocked(path.proc(), false);
                });
                flush();
              },
          .on_blocked =
              [this](const DirectPath& path) {
                postbox_.with_direct([&](DirectOutlets& outlets, Outbox& outbox) {
                  outlets.put_off(path.proc(), outbox);
                });
              },
          .on_ended = [this](DirectPath& path) { end(path.shared_from_this()); }};
}

void DirectPaths::set_wanted(bool is_wanted) {
  is_wanted_ = is_wanted;
  apply();
}

void DirectPaths::set_allowed(bool is_allowed) {
  is_allowed_ = is_allowed;
  apply();
}

void DirectPaths::apply() {
  const bool is_enabled = is_wanted_ && is_allowed_;
  if (!is_enabled) end_all();
  postbox_.with_direct([&](DirectOutlets& outlets, Outbox&) { outlets.set_enabled(is_enabled); });
}

DirectPaths::PathPtr DirectPaths::find(std::uint64_t proc) const {
  const auto found = paths_.find(proc);
  return found == paths_.end() ? nullptr : found->second;
}

std::size_t DirectPaths::inbox_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const auto& [proc, path] : paths_) bytes += path->inbox_bytes();
  return bytes;
}

// --- as the one that asks -------------------------------------------------------------------

void DirectPaths::call(std::uint64_t proc, const ShareTicket& ticket,
                       std::chrono::milliseconds limit,
                       std::function<void(Result<std::string>)> answer) {
  const wire::DirectHeader header(ticket.first, ticket.second);
  const auto id = requests_.open_call(to_proc(proc), limit, std::move(answer));
  if (!requests_.post_call(id, to_proc(proc), 0, limit, bytes_of(&header, sizeof header), {},
                           kFlagDirect))
    requests_.fail_later(id, Requests::queue_is_full());
}

void DirectPaths::begin(std::uint64_t proc) {
  if (const PathPtr path = find(proc)) return ask(path);
  const auto expected = expected_.find(proc);
  const bool is_expected = expected != expected_.end() && reactor_.now() < expected->second;
  if (is_expected || !begun_.insert(proc).second) return;
  call(proc, {}, kLimit,
       [this, proc, alive = std::weak_ptr<void>(alive_)](const Result<std::string>& answer) {
         if (alive.expired() || begun_.erase(proc) == 0) return;
         if (find(proc) != nullptr) return;  // the other end was quicker
         if (answer) return offer(proc, *answer);
         log::debug("bus: no direct path: " + answer.error().to_string());
         // Counting begins anew, unless the other end will never take one.
         if (answer.error().code() == ErrorCode::queue_full) forget(proc);
       });
}

void DirectPaths::offer(std::uint64_t proc, const std::string& inbox) {
  auto ends = DirectSocket::make_pair();
  ShareTicket ticket;
  randombytes_buf(&ticket, sizeof ticket);
  const auto put = ends ? ShareInbox::put(inbox, ticket, ends->second.get()) : fail(ends.error());
  if (!put) return log::debug("bus: no direct path: " + put.error().to_string());
  ask(add(proc, std::move(ends->first), ticket));
}

DirectPaths::PathPtr DirectPaths::add(std::uint64_t proc, DirectSocket socket,
                                      const ShareTicket& ticket) {
  const auto path =
      std::make_shared<DirectPath>(reactor_, proc, std::move(socket), ticket, events_);
  paths_[proc] = path;
  return path;
}

void DirectPaths::ask(const PathPtr& path) {
  if (!asked_.insert(path->proc()).second) return;
  postbox_.with_direct([&](DirectOutlets& outlets, Outbox&) { outlets.hold(path->proc()); });
  call(path->proc(), path->ticket(), kAskLimit,
       [this, path, alive = std::weak_ptr<void>(alive_)](const Result<std::string>& answer) {
         if (!alive.expired()) on_asked(path, answer.has_value());
       });
}

void DirectPaths::on_asked(const PathPtr& path, bool is_well) {
  if (find(path->proc()) != path) return;
  asked_.erase(path->proc());
  postbox_.with_direct([&](DirectOutlets& outlets, Outbox& outbox) {
    if (is_well) return outlets.open(path->proc());
    outlets.put_off(path->proc(), outbox);
  });
  // The other end never had it.
  if (!is_well && !path->is_bound()) paths_.erase(path->proc());
}

bool DirectPaths::flush() {
  if (!is_wanted_ || !is_allowed_) return false;
  std::vector<std::uint64_t> wanted;
  bool has_sent = false;
  for (;;) {
    const auto front = postbox_.with_direct([&](DirectOutlets& outlets, Outbox&) {
      wanted = outlets.take_wanted();
      return outlets.front();
    });
    for (const auto one : std::exchange(wanted, {})) begin(one);
    if (!front) break;
    has_sent = send_to(front->proc, *front->frame, *front->sent) || has_sent;
  }
  if (has_sent) report_later();
  return has_sent;
}

void DirectPaths::count(const Frame& frame) {
  traffic_.messages += frame.count;
  traffic_.bytes += frame.bytes;
}

bool DirectPaths::send_to(std::uint64_t proc, const Frame& frame, std::size_t& sent) {
  const PathPtr path = find(proc);
  const auto outcome = path == nullptr ? DirectSocket::Outcome::ended : path->send(frame, sent);
  if (outcome == DirectSocket::Outcome::ended) {
    forget(proc);
    return false;
  }
  const bool has_left = outcome == DirectSocket::Outcome::done;
  if (has_left) count(frame);
  postbox_.with_direct([&](DirectOutlets& outlets, Outbox&) {
    if (has_left) return outlets.pop(proc);
    outlets.set_blocked(proc, true);
  });
  return has_left;
}

DirectPaths::SentNow DirectPaths::send_by(
    const PathPtr& path, const std::function<Postbox::Direct(const Postbox::SendFrame&)>& send) {
  using Outcome = Postbox::Direct::Outcome;
  auto outcome = DirectSocket::Outcome::not_now;
  const auto sent = send([&](const Frame& frame, std::size_t& from) {
    outcome = path->try_send(frame, from);
    if (outcome == DirectSocket::Outcome::done) count(frame);
    return outcome == DirectSocket::Outcome::done;
  });
  if (outcome == DirectSocket::Outcome::ended) {
    // What has begun goes through the broker.
    forget(path->proc());
    return {.has_left = sent.outcome == Outcome::begun};
  }
  if (sent.outcome == Outcome::none) return {};
  if (sent.outcome == Outcome::sent) {
    report_later();
    return {.has_left = true};
  }
  return {.full = path->shared_descriptor(),
          .begun = sent.outcome == Outcome::begun ? sent.sequence : 0};
}

DirectPaths::SentNow DirectPaths::send_now(const Destination& to, std::uint32_t port, Bytes body) {
  const PathPtr path = find(to.proc);
  if (path == nullptr) return {};
  return send_by(path, [&](const Postbox::SendFrame& send) {
    const auto sent = postbox_.send_direct(to.proc, to.host, port, body, send);
    if (sent.outcome != Postbox::Direct::Outcome::behind) return sent;
    postbox_.with_direct(
        [&](DirectOutlets& outlets, Outbox&) { outlets.set_blocked(to.proc, false); });
    flush();
    return postbox_.send_direct(to.proc, to.host, port, body, send);
  });
}

DirectPaths::SentNow DirectPaths::go_on(std::uint64_t proc, std::uint64_t begun) {
  const PathPtr path = find(proc);
  // It went through the broker.
  if (path == nullptr) return {.has_left = true};
  const auto sent = send_by(path, [&](const Postbox::SendFrame& send) {
    return postbox_.with_direct([&](DirectOutlets& outlets, Outbox&) -> Postbox::Direct {
      auto* const outlet = outlets.find_leaving(proc, begun);
      if (outlet != nullptr && !send(outlet->leaving->frame, outlet->leaving->sent))
        return {Postbox::Direct::Outcome::begun, begun};
      if (outlet != nullptr) outlet->leaving.reset();
      return {Postbox::Direct::Outcome::sent, begun};
    });
  });
  // For what waits behind it.
  if (sent.has_left) flush();
  return sent;
}

void DirectPaths::keep(std::uint64_t proc, std::uint64_t begun) {
  postbox_.with_direct([&](DirectOutlets& outlets, Outbox&) {
    if (auto* const outlet = outlets.find_leaving(proc, begun)) outlets.keep_leaving(*outlet);
  });
  flush();
}

void DirectPaths::report_later() {
  if (report_timer_ != 0) return;
  report_timer_ = reactor_.after(kReport, [this] {
    report_timer_ = 0;
    responder_.tell(Destination::to_broker(), wire::DirectTrafficT(traffic_), wire::Lane::control);
  });
}

// --- as the one that is asked ---------------------------------------------------------------

void DirectPaths::on_call(const wire::Envelope& from, const wire::CallHeader& header, Bytes body) {
  const auto answer = answer_to(from, body);
  // Through the broker: what waits for the path may wait for this.
  if (answer) return responder_.answer_call(from, header, *answer, kFlagDirect);
  responder_.fail_call(from, header, answer.error(), kFlagDirect);
}

Result<std::string> DirectPaths::answer_to(const wire::Envelope& from, Bytes body) {
  wire::DirectHeader direct;
  if (body.size() != sizeof direct)
    return fail(ErrorCode::malformed_message, "a direct path without its header");
  std::memcpy(&direct, body.data(), sizeof direct);
  if (!is_wanted_ || !is_allowed_ || !postbox_.is_of_host(from, 0))
    return fail(ErrorCode::no_such_port, "no direct paths here");
  const ShareTicket ticket{direct.ticket_first(), direct.ticket_second()};
  if (ticket == ShareTicket()) return answer_to_question(from);
  if (auto accepted = accept(from, ticket); !accepted) return fail(accepted.error());
  return std::string();
}

Result<std::string> DirectPaths::answer_to_question(const wire::Envelope& from) {
  const auto proc = from.source_proc();
  // When both ask at once, the offer of the one with the larger key counts.
  if (begun_.contains(proc) && from.destination_proc() > proc)
    return fail(ErrorCode::queue_full, "a direct path is offered by this side");
  if (paths_.size() >= DirectOutlets::kMostPaths && !paths_.contains(proc))
    return fail(ErrorCode::queue_full, "this proc has as many direct paths as it may");
  std::erase_if(expected_, [now = reactor_.now()](const auto& one) { return one.second < now; });
  expected_[proc] = reactor_.now() + 2 * kLimit;
  return inbox_.address();
}

Result<void> DirectPaths::accept(const wire::Envelope& from, const ShareTicket& ticket) {
  const auto proc = from.source_proc();
  const PathPtr known = find(proc);
  if (known != nullptr && known->ticket() == ticket) {
    if (!known->is_bound()) bind(*known, from);
    return {};
  }
  expected_.erase(proc);
  auto descriptor = inbox_.take(ticket);
  if (!descriptor) return fail(descriptor.error());
  auto socket = DirectSocket::adopt(std::move(*descriptor));
  if (!socket) return fail(socket.error());
  if (known != nullptr) end(known);
  const PathPtr path = add(proc, std::move(*socket), ticket);
  bind(*path, from);
  ask(path);
  return {};
}

void DirectPaths::bind(DirectPath& path, const wire::Envelope& from) {
  path.bind(from, is_held_);
  watch(path.proc());
  watch_idle();
}

void DirectPaths::receive_from(std::uint64_t proc) {
  if (const PathPtr path = find(proc)) path->receive_all();
}

void DirectPaths::hold_data(bool is_held) {
  is_held_ = is_held;
  for (const auto& [proc, path] : paths_) path->hold(is_held);
}

// --- ends -----------------------------------------------------------------------------------

void DirectPaths::end(const PathPtr& path) {
  path->end();
  if (find(path->proc()) != path) return;
  paths_.erase(path->proc());
  asked_.erase(path->proc());
  postbox_.with_direct(
      [&](DirectOutlets& outlets, Outbox& outbox) { outlets.forget(path->proc(), outbox); });
}

void DirectPaths::end_all() {
  begun_.clear();
  expected_.clear();
  while (!paths_.empty()) {
    const PathPtr path = paths_.begin()->second;
    end(path);
  }
}

void DirectPaths::forget(std::uint64_t proc) {
  if (const PathPtr path = find(proc)) return end(path);
  postbox_.with_direct(
      [&](DirectOutlets& outlets, Outbox& outbox) { outlets.forget(proc, outbox); });
}

void DirectPaths::on_session_lost() {
  is_allowed_ = false;
  traffic_ = {};
  watches_.clear();
  apply();
}

void DirectPaths::watch(std::uint64_t proc) {
  // One lasts until the proc ends, and serves the paths to it that come later.
  if (watches_.contains(proc)) return;
  wire::WatchT watch;
  watch.key = proc;
  const auto sequence = requests_.request(
      Destination::to_broker(), std::move(watch), kWatchLimit,
      [this, proc, alive = std::weak_ptr<void>(alive_)](const Result<ControlMessage>& answer) {
        if (!alive.expired() && !answer) watches_.erase(proc);
      });
  if (const auto id = requests_.of_sequence(sequence)) watches_[proc] = *id;
}

bool DirectPaths::on_gone(std::uint64_t request) {
  const auto found = std::ranges::find_if(
      watches_, [request](const auto& watch) { return watch.second == request; });
  if (found == watches_.end()) return false;
  const auto proc = found->first;
  watches_.erase(found);
  forget(proc);
  // What it had taken has no answer any more; what it had not comes back.
  const Error gone(ErrorCode::fate_unknown, "it has ended; whether it was done is not known");
  requests_.fail_to({proc, 0}, gone);
  requests_.fail_to({proc, postbox_.own_host()}, gone);
  return true;
}

void DirectPaths::watch_idle() {
  if (idle_timer_ != 0) return;
  idle_timer_ = reactor_.after(kIdle, [this] {
    idle_timer_ = 0;
    std::vector<PathPtr> idle;
    for (const auto& [proc, path] : paths_) {
      if (!path->take_used() && !asked_.contains(proc)) idle.push_back(path);
    }
    for (const auto& path : idle) end(path);
    if (!paths_.empty()) watch_idle();
  });
}

}  // namespace meshbus
