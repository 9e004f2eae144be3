#include "broker/links/link.h"

#include <algorithm>

#include "common/base/log.h"
#include "wire/frame_generated.h"

namespace meshbus {
namespace {

/// Bytes of data, and of control, that may be sent and not acknowledged: some 3 ms of 10 Gbit/s,
/// and an acknowledgement is never later than kAckStep bytes or kAckDelay.
constexpr std::size_t kLinkWindow = 4 * 1024 * 1024;
constexpr std::size_t kAckStep = 128 * 1024;
constexpr std::chrono::milliseconds kAckDelay{20};
constexpr std::chrono::milliseconds kLinkRetry{1};
constexpr std::size_t kPastIncarnations = 64;

}  // namespace

Link::Link(Reactor& reactor, Resolver& resolver, Counters& counters, HostAddr host, Options options,
           Events events, LinkStream::Memory memory)
    : reactor_(reactor),
      resolver_(resolver),
      counters_(counters),
      host_(std::move(host)),
      key_(host_.key()),
      options_(std::move(options)),
      events_(std::move(events)),
      outbox_(options_.limits, /*link=*/true),
      stream_(kLinkWindow, memory) {}

Link::~Link() {
  for (const auto timer :
       {limit_timer_, slice_timer_, retry_timer_, ack_timer_, progress_timer_, fault_timer_})
    reactor_.cancel(timer);
}

bool Link::push(const wire::Envelope& envelope, Bytes body, MessagePart* detached) {
  if (way_ == Way::none) choose();
  if (held() == 0) progress_ = reactor_.now();
  bool is_queued = outbox_.push(envelope, body, detached);
  if (!is_queued) {
    // One turn may bring more than a queue holds.
    flush();
    is_queued = outbox_.push(envelope, body, detached);
  }
  if (way_ == Way::none && !options_.is_dialled) give_up(not_dialled());
  touch();
  return is_queued;
}

Error Link::not_dialled() const {
  return {ErrorCode::host_unreachable, "the broker of " + host_.to_string() +
                                           " is no longer connected, and it came over tcp: "
                                           "nobody connects to that socket for it"};
}

void Link::touch() {
  if (!std::exchange(is_touched_, true)) events_.on_touched(*this);
}

void Link::choose() {
  if (inbound_ != nullptr) {
    take_way(Way::inbound);
    return;
  }
  if (!options_.is_dialled && !has_own()) return;
  way_ = Way::own;
  if (is_own_up()) {
    take_way(Way::own);
  } else if (!has_own()) {
    opened_ = reactor_.now();
    open();
  }
}

void Link::take_way(Way way) {
  way_ = way;
  is_for_incarnation_ = true;
  lost_.reset();
  progress_ = reactor_.now();
  stream_.rewind();
  touch();
}

Result<void> Link::may_attach(std::uint64_t theirs) const {
  if (fault_.is_cut(reactor_.now()))
    return fail(ErrorCode::link_lost, "the link to " + host_.to_string() + " is cut on purpose");
  if (std::find(past_incarnations_.begin(), past_incarnations_.end(), theirs) ==
      past_incarnations_.end())
    return {};
  return fail(ErrorCode::identity_mismatch,
              "this incarnation of the broker of " + host_.to_string() + " is over: " +
                  (incarnation() == 0 ? "it has said that it ends" : "a later one has been met"));
}

Result<void> Link::meet(std::uint64_t theirs, std::uint64_t capabilities) {
  if (auto may = may_attach(theirs); !may) return may;
  if (stream_.memory().incarnation != theirs) {
    if (stream_.memory().incarnation != 0)
      end_incarnation("another incarnation of that broker answers");
    stream_.begin_incarnation(theirs);
  }
  capabilities_ = capabilities;
  is_resuming_ = (capabilities & kCapabilityResume) != 0;
  return {};
}

void Link::end_incarnation(const std::string& why) {
  const auto over = incarnation();
  if (over == 0) return;
  has_said_bye_ = false;
  past_incarnations_.push_back(over);
  if (past_incarnations_.size() > kPastIncarnations) past_incarnations_.pop_front();
  stream_.begin_incarnation(0);
  log::info("link to " + host_.to_string() + ": " + why);
  if (is_for_incarnation_)
    give_up(Error(ErrorCode::link_lost,
                  "the broker of " + host_.to_string() + " that this was for is gone: " + why));
  if (session_incarnation_ == over) {
    retire_session();
    if (way_ == Way::own) way_ = Way::none;
  }
  drop_inbound();
}

void Link::attach(Peer& inbound) {
  // Ends what there is of an earlier incarnation.
  if (auto met = meet(inbound.identity.incarnation, inbound.identity.capabilities); !met) return;
  inbound_ = &inbound;
  if (way_ == Way::own && is_own_up()) return;
  take_way(Way::inbound);
}

void Link::detach(const Peer& inbound, bool is_last) {
  if (inbound_ != &inbound) return;

  inbound_ = nullptr;
  touch();
  if (way_ == Way::inbound) {
    way_ = Way::none;
    lost_ = reactor_.now();
  }
  if ((is_last || has_said_bye_) && is_resuming_ && inbound.identity.incarnation == incarnation()) {
    // What it has said by our own session may not be read yet.
    has_said_bye_ = is_own_up() && session_incarnation_ == incarnation();
    if (!has_said_bye_) end_incarnation("it has ended in order");
  }
  if (way_ != Way::none || held() == 0) return;
  choose();
  if (way_ == Way::none) give_up(not_dialled());
}

void Link::drop_inbound() {
  if (inbound_ == nullptr) return;
  Peer& superseded = *inbound_;
  detach(superseded, /*is_last=*/false);
  events_.on_superseded(superseded);
}

void Link::give_up(const Error& error) {
  lost_.reset();
  is_for_incarnation_ = false;
  // Emptied first: on_return may push into this very link again.
  Outbox unsent = std::exchange(outbox_, outbox_.emptied());
  const Error unknown(ErrorCode::fate_unknown,
                      "it was sent to " + host_.to_string() +
                          ", which has not said that it took it: " + error.detail());
  stream_.give_up(
      [&](const wire::Envelope& envelope, Bytes) { events_.on_return(envelope, unknown); });
  unsent.drain([&](const wire::Envelope& envelope, Bytes) { events_.on_return(envelope, error); });
}

bool Link::on_frame(const FrameReader& frame, std::uint64_t theirs) {
  if (theirs != incarnation()) return false;
  // A connection that ends is read until it is gone. What is left out here comes again.
  if (is_resuming_ && fault_.is_cut(reactor_.now())) return false;
  if (!is_resuming_) return true;
  if (const auto done = stream_.acknowledge(frame.link().ack()); done > 0) {
    counters_.delivered += done;
    progress_ = reactor_.now();
    if (!outbox_.empty()) touch();
  }
  const auto number = frame.link().sequence();
  if (number == 0) return true;
  const bool is_new = stream_.take(number);
  if (!is_new) ++counters_.duplicate_frames;
  if (ack_owed_ == 0 && ack_timer_ == 0) {
    ack_timer_ = reactor_.after(kAckDelay, [this] {
      ack_timer_ = 0;
      if (ack_owed_ == 0) return;
      is_ack_due_ = true;
      touch();
    });
  }
  ack_owed_ += frame.size();
  if (ack_owed_ >= kAckStep) {
    is_ack_due_ = true;
    touch();
  }
  return is_new;
}

Listener::Sent Link::send(Way way, Frame& frame, std::uint64_t number) {
  if (way == Way::inbound) {
    frame.set_link(number, stream_.taken());
    const auto sent = events_.send(*inbound_, frame);
    if (sent != Listener::Sent::yes) return sent;
  } else if (!session_->send(frame, number)) {
    return Listener::Sent::full;
  }
  ack_owed_ = 0;
  is_ack_due_ = false;
  return Listener::Sent::yes;
}

void Link::flush() {
  is_touched_ = false;
  if (const auto open = fault_.closed_until(reactor_.now())) {
    if (retry_timer_ == 0) {
      retry_timer_ = reactor_.at(*open, [this] {
        retry_timer_ = 0;
        touch();
      });
    }
    if (held() > 0) watch_progress();
    return;
  }
  if (is_way_up()) {
    while (Frame* kept = stream_.replay()) {
      Frame frame = kept->renewed();
      if (const auto sent = send(way_, frame, stream_.replay_number());
          sent != Listener::Sent::yes) {
        if (sent == Listener::Sent::full) retry_later();
        return;
      }
      ++counters_.replayed_frames;
      stream_.replayed();
    }
    while (Frame* frame = outbox_.front()) {
      if (is_resuming_ && !stream_.has_room(*frame)) break;  // an acknowledgement touches us
      Frame copy = frame->shared();  // a connection that ends may have taken parts of it
      if (const auto sent = send(way_, copy, stream_.next_number()); sent != Listener::Sent::yes) {
        if (sent == Listener::Sent::full) retry_later();
        return;
      }
      if (is_resuming_) {
        stream_.keep(std::move(*frame));
      } else {
        stream_.pass();
        progress_ = reactor_.now();
        counters_.delivered += frame->count;
      }
      outbox_.pop();
    }
  }
  if (is_ack_due_) send_ack();
  if (held() > 0) watch_progress();
}

void Link::send_ack() {
  // Without any connection there is nothing to do: the next one begins with it.
  const Way way = is_way_up()           ? way_
                  : inbound_ != nullptr ? Way::inbound
                  : is_own_up()         ? Way::own
                                        : Way::none;
  if (way == Way::none) return;
  Frame frame = FrameWriter(wire::Lane::control, /*link=*/true).finish();
  if (send(way, frame, 0) == Listener::Sent::full) retry_later();
}

void Link::retry_later() {
  if (retry_timer_ != 0) return;
  retry_timer_ = reactor_.after(kLinkRetry, [this] {
    retry_timer_ = 0;
    touch();
  });
}

void Link::watch_progress() {
  if (progress_timer_ != 0) return;
  progress_timer_ = reactor_.after(options_.delivery_limit / 4, [this] {
    progress_timer_ = 0;
    if (held() == 0) return;
    if (is_way_up() && reactor_.now() - progress_ >= options_.delivery_limit) {
      // Connected, and yet nothing is taken: the other broker hangs.
      const std::string why = "the broker of " + host_.to_string() + " has taken nothing for " +
                              std::to_string(options_.delivery_limit.count()) +
                              " ms (delivery.limit)";
      drop_inbound();
      way_ = Way::own;
      end_own(Error(ErrorCode::link_lost, why));
      return;
    }
    watch_progress();
  });
}

void Link::close(const std::string& reason) {
  flush();
  if (is_own_up()) {
    session_->close(reason);
    return;
  }
  end_own(Error(ErrorCode::host_unreachable, "this host ends: " + reason));
}

}  // namespace meshbus
