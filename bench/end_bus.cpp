// Ends on our library as it is built into launchers and procs, without what they have besides.
#include <optional>
#include <stdexcept>
#include <utility>

#include "bench/child.h"
#include "bench/end.h"
#include "common/bus/bus.h"
#include "common/loop/reactor.h"
#include "common/security/token.h"
#include "meshbus/name.h"
#include "wire/frame_generated.h"

namespace meshbus::bench {

namespace {

[[noreturn]] void give_up(const Error& error) {
  throw std::runtime_error(error.to_string());
}

/// Bytes that a producer has waiting in the bus at most, beside what is on the way.
constexpr std::size_t kQueued = 256 * 1024;

class BusEnd : public End {
 public:
  BusEnd(const EndOptions& options, bool is_calls) : options_(options), is_calls_(is_calls) {
    if (options_.is_asker()) {
      const auto other = ProcId::parse(options_.other);
      if (!other) give_up(other.error());
      to_ = Destination::to(*other);
    }
    const auto name = Name::make("client");
    if (!name) give_up(name.error());
    Session::Options session;
    session.endpoint = options_.address;
    session.hello.peer = name->to_string();
    session.hello.kind = wire::PeerKind::launcher;
    session.hello.incarnation = random_u64();
    Bus::Events events;
    events.on_refused = give_up;
    events.on_undeliverable = [](const wire::Envelope&, const Error& error) { give_up(error); };
    events.on_data = [this](const wire::Envelope& envelope, const wire::CallHeader& header,
                            Bytes body) {
      call_ = {&envelope, &header};
      if (!options_.is_asker()) to_ = Destination::back(envelope);
      on_message(body);
      call_ = {};
    };
    bus_.emplace(reactor_, std::move(session), Dispatcher(), std::move(events));
    turn_until([this] { return bus_->is_up(); });
  }

  std::string name() const override { return bus_->self()->to_string(); }

  void send(std::string_view body) override {
    if (!is_calls_) {
      if (const auto sent = bus_->send(to_, 1, body); !sent) give_up(sent.error());
    } else if (options_.is_asker()) {
      bus_->call(to_, 1, body, kAnswerLimit, [this](const Result<std::string>& answer) {
        if (!answer) give_up(answer.error());
        on_message(*answer);
      });
    } else {
      bus_->answer_call(*call_.envelope, *call_.header, body);
    }
  }

  void send(const SharedBody& body) override {
    if (is_calls_) return send(body.bytes());
    if (const auto sent = bus_->send(to_, 1, body); !sent) give_up(sent.error());
  }

  // All happens inside of handlers, as programs do it: what a handler says leaves at the end of its
  // turn, or at once when it says so.
  void run(const Program& program) override {
    program_ = &program;
    is_done_ = false;
    reactor_.post([this] { produce(); });
    turn_until([this] { return is_done_; });
    program_ = nullptr;
  }

 private:
  template <typename Predicate>
  void turn_until(Predicate predicate) {
    auto heard = Reactor::Clock::now();
    while (!predicate()) {
      reactor_.turn(std::chrono::seconds(1));
      if (std::exchange(is_full_, false)) {
        produce();
        bus_->flush_early();
      }
      throw_if_interrupted();
      // Once a turn, not once a message: other ends read no clock there either.
      const auto now = Reactor::Clock::now();
      if (std::exchange(has_heard_, false)) heard = now;
      if (options_.is_asker() && heard + kAnswerLimit < now)
        throw std::runtime_error("no message through the broker");
    }
  }
  void on_message(Bytes body) {
    if (program_ == nullptr || is_done_) return;
    has_heard_ = true;
    is_done_ = !program_->consume(body);
    if (!is_done_) produce();
  }
  void produce() {
    if (program_ == nullptr || is_done_ || !program_->produce) return;
    // No more is made than the bus takes soon, as a program does that waits for room: what lies
    // about gets cold.
    while (bus_->queued_bytes() < kQueued) {
      if (!program_->produce()) return;
      if (options_.flush_each || bus_->queued_bytes() >= kQueued) bus_->flush_early();
    }
    is_full_ = true;
  }

  EndOptions options_;
  bool is_calls_;
  Reactor reactor_;
  Destination to_;
  /// What is being answered.
  struct {
    const wire::Envelope* envelope = nullptr;
    const wire::CallHeader* header = nullptr;
  } call_;
  const Program* program_ = nullptr;
  bool is_done_ = false;
  bool is_full_ = false;
  bool has_heard_ = false;
  std::optional<Bus> bus_;
};

}  // namespace

std::unique_ptr<End> make_bus_end(const EndOptions& options, bool is_calls) {
  return std::make_unique<BusEnd>(options, is_calls);
}

}  // namespace meshbus::bench
