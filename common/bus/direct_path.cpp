#include "common/bus/direct_path.h"

#include <sched.h>

#include <vector>

#include "common/base/log.h"
#include "common/bus/direct_outlets.h"

namespace meshbus {
namespace {

/// Bytes that one turn reads, and that wait to be handed out, at most.
constexpr std::size_t kShare = 1024 * 1024;

bool has_one_cpu() {
  cpu_set_t cpus;
  return ::sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) == 1;
}

}  // namespace

DirectPath::DirectPath(Reactor& reactor, std::uint64_t proc, DirectSocket socket,
                       const ShareTicket& ticket, const Events& events)
    : reactor_(reactor),
      proc_(proc),
      ticket_(ticket),
      events_(events),
      socket_(std::move(socket)),
      pace_(/*may_linger=*/!has_one_cpu()) {}

DirectPath::~DirectPath() {
  forget();
}

void DirectPath::forget() {
  reactor_.cancel(std::exchange(blocked_, 0));
  reactor_.cancel(std::exchange(pause_, 0));
  reactor_.forget_socket(this);
}

void DirectPath::bind(const wire::Envelope& source, bool is_held) {
  source_ = source;
  is_bound_ = true;
  inbox_.set_held(is_held);
  watch(/*for_writing=*/false);
}

void DirectPath::watch(bool for_writing) {
  // The socket has room again with each frame that the other end reads: only a sender that waits
  // for it is woken.
  reactor_.watch_edges(this, socket_.descriptor(),
                       EPOLLIN | EPOLLRDHUP | (for_writing ? EPOLLOUT : 0U),
                       [weak = weak_from_this()] {
                         const auto path = weak.lock();
                         return path != nullptr && path->on_event();
                       });
}

DirectSocket::Outcome DirectPath::try_send(const Frame& frame, std::size_t& sent) {
  const std::size_t before = sent;
  const auto outcome = socket_.send(frame, sent);
  if (sent > before) is_used_ = has_moved_ = true;
  return outcome;
}

DirectSocket::Outcome DirectPath::send(const Frame& frame, std::size_t& sent) {
  const auto outcome = try_send(frame, sent);
  if (outcome != DirectSocket::Outcome::not_now) return outcome;
  is_full_ = true;
  if (blocked_ == 0) {
    watch(/*for_writing=*/true);
    watch_blocked();
  }
  return outcome;
}

void DirectPath::watch_blocked() {
  has_moved_ = false;
  blocked_ = reactor_.after(kBlocked, [weak = weak_from_this()] {
    const auto path = weak.lock();
    if (path == nullptr) return;
    if (path->has_moved_) return path->watch_blocked();
    path->blocked_ = 0;
    path->watch(/*for_writing=*/false);
    path->events_.on_blocked(*path);
  });
}

void DirectPath::on_writable() {
  is_full_ = false;
  events_.on_room(*this);
  if (is_full_ || blocked_ == 0) return;
  reactor_.cancel(std::exchange(blocked_, 0));
  watch(/*for_writing=*/false);
}

bool DirectPath::on_event() {
  const auto held_here = shared_from_this();
  if (blocked_ != 0) on_writable();
  if (inbox_.is_held()) return false;  // hold() calls again
  if (must_wait()) return false;
  const auto before = socket_.received();
  const auto got = read(/*all=*/false);
  const bool has_large = socket_.received() - before > kInlineLimit;
  const auto outcome = hand_out(/*all=*/false);
  if (!is_bound_) return false;
  const bool is_over = got == DirectSocket::Outcome::ended && inbox_.empty();
  if (is_over || outcome == DataInbox::Outcome::malformed) {
    events_.on_ended(*this);
    return false;
  }
  return outcome == DataInbox::Outcome::more || got != DirectSocket::Outcome::not_now ||
         pace_.lingers(has_large);
}

bool DirectPath::must_wait() {
  const std::size_t backlog = events_.backlog();
  if (!pace_.has_enough(backlog) || !pace_.must_wait(backlog, reactor_.now())) return false;
  if (pause_ == 0)
    pause_ = reactor_.after(kPause, [weak = weak_from_this()] {
      const auto path = weak.lock();
      if (path == nullptr) return;
      path->pause_ = 0;
      path->reactor_.call_again(path.get());
    });
  return true;
}

DirectSocket::Outcome DirectPath::read(bool all) {
  // A sender may go on sending meanwhile: that is for the next time.
  const auto end = socket_.received() + (all ? socket_.waiting() : kShare);
  while (socket_.received() < end && (all || inbox_.bytes() < kShare)) {
    std::vector<MessagePart> parts;
    const auto outcome = socket_.receive(parts);
    if (outcome != DirectSocket::Outcome::done) return outcome;
    const auto reader = FrameReader::open(parts);
    if (!reader || reader->header().lane() != wire::Lane::data) {
      log::warn("bus: a direct path has brought what is no frame, and is closed");
      return DirectSocket::Outcome::ended;
    }
    inbox_.push(std::move(parts), *reader);
    is_used_ = true;
  }
  return DirectSocket::Outcome::done;
}

DataInbox::Outcome DirectPath::hand_out(bool all) {
  bool is_fit = true;
  const auto outcome = inbox_.hand_out(
      all, [&](FrameReader::Message& message, const std::shared_ptr<const void>& frame) {
        wire::Envelope& envelope = message.envelope;
        is_fit = is_fit && DirectOutlets::is_fit(envelope, message.body.size());
        if (!is_fit) return inbox_.clear();
        envelope.mutate_source_proc(source_.source_proc());
        envelope.mutate_source_host(source_.source_host());
        envelope.mutate_source_incarnation(source_.source_incarnation());
        envelope.mutate_role(source_.role());
        events_.on_message(message, frame);
      });
  return is_fit ? outcome : DataInbox::Outcome::malformed;
}

void DirectPath::receive_all() {
  if (!is_bound_) return;
  const auto held_here = shared_from_this();
  const auto got = read(/*all=*/true);
  const auto outcome = hand_out(/*all=*/true);
  if (is_bound_ &&
      (got == DirectSocket::Outcome::ended || outcome == DataInbox::Outcome::malformed))
    events_.on_ended(*this);
}

void DirectPath::end() {
  const auto held_here = shared_from_this();
  socket_.end_reading();
  forget();
  if (!std::exchange(is_bound_, false)) return;
  read(/*all=*/true);
  hand_out(/*all=*/true);
}

void DirectPath::hold(bool is_held) {
  inbox_.set_held(is_held);
  if (!is_held) reactor_.call_again(this);
}

}  // namespace meshbus
