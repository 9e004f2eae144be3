// meshbus_talker BROKER NAME PARTNER: a launcher that numbers what it sends to its partner, in both
// lanes, as fast as that is taken, and writes down what came, what came back, and what did not.
// "stop" on stdin: sends no more, and prints "settled" when the fate of all that it sent is known.
// "report", once the other one has settled as well: prints lines "WORD NUMBERS...", the last of
// which is "end".
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/bus/bus.h"
#include "meshbus/address.h"
#include "wire/frame_generated.h"
#include "wire/logs_generated.h"

using namespace meshbus;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::uint64_t kAhead = 400;
constexpr std::uint64_t kAheadControl = 50;

/// Numbers as "1-5 7 9-12".
std::string ranges(std::vector<std::uint64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
    text += " " + std::to_string(numbers[i]) + (end > i ? "-" + std::to_string(numbers[end]) : "");
    i = end + 1;
  }
  return text;
}

class Talker {
 public:
  Talker(const HostAddr& broker, const std::string& name, ProcId partner)
      : partner_(std::move(partner)) {
    Session::Options options;
    options.endpoint = broker.zmq_endpoint();
    options.hello.peer = name;
    options.hello.kind = wire::PeerKind::launcher;
    options.hello.incarnation = (static_cast<std::uint64_t>(::getpid()) << 32) + 1;
    Dispatcher handlers;
    handlers.on<wire::OutputTaken>(Role::observe,
                                   [this](const Request&, const wire::OutputTaken& message) {
                                     if (message.bytes() <= control_last_) ++disorders_;
                                     control_last_ = message.bytes();
                                     ++control_got_;
                                     // The partner may send more.
                                     wire::LogTakenT heard;
                                     heard.mesh = "x";
                                     heard.sequence = control_got_;
                                     bus_->tell(Destination::to(partner_), std::move(heard));
                                   });
    handlers.on<wire::LogTaken>(Role::observe,
                                [this](const Request&, const wire::LogTaken& message) {
                                  control_heard_ = message.sequence();
                                });
    Bus::Events events;
    events.on_data = [this](const wire::Envelope&, const wire::CallHeader&, Bytes body) {
      on_data(body);
    };
    events.on_undeliverable = [this](const wire::Envelope& envelope, const Error& error) {
      if (envelope.kind() == wire::Kind::control) {
        ++control_told_;
      } else {
        (error.code() == ErrorCode::fate_unknown ? unknown_ : returned_).push_back(envelope.port());
      }
    };
    bus_.emplace(reactor_, std::move(options), std::move(handlers), std::move(events));
    turn_end_ = reactor_.add_turn_end([this] { talk(); });
    reactor_.watch(STDIN_FILENO, EPOLLIN, [this](std::uint32_t) { on_stdin(); });
    tick();
  }
  void run() { reactor_.run(); }

 private:
  void on_data(Bytes body) {
    std::uint64_t number = 0;
    if (body.size() >= sizeof number) std::memcpy(&number, body.data(), sizeof number);
    if (number <= last_) ++disorders_;
    for (auto missing = last_ + 1; missing < number; ++missing) missing_.push_back(missing);
    last_ = std::max(last_, number);
    ++got_;
    const auto now = Clock::now();
    if (got_ > 1) silence_ = std::max(silence_, now - heard_);
    heard_ = now;
  }
  void talk() {
    if (!is_talking_ || !bus_->is_up()) return;
    for (int n = 0; n < 32 && bus_->traffic().outstanding < kAhead; ++n) {
      std::string body(sent_ % 50 == 0 ? 20'000 : 100, 'x');
      const auto number = sent_ + 1;
      std::memcpy(body.data(), &number, sizeof number);
      // The port is there to recognise it by.
      if (!bus_->send(Destination::to(partner_), static_cast<std::uint32_t>(number), body)) return;
      sent_ = number;
    }
    if (control_sent_ < control_heard_ + kAheadControl) {
      wire::OutputTakenT message;
      message.bytes = control_sent_ + 1;
      if (bus_->tell(Destination::to(partner_), std::move(message))) ++control_sent_;
    }
  }
  void on_stdin() {
    char text[64];
    const auto size = ::read(STDIN_FILENO, text, sizeof text);
    if (size <= 0) {
      reactor_.stop();
      return;
    }
    if (std::string_view(text, static_cast<std::size_t>(size)).starts_with("report")) {
      report();
      return;
    }
    is_talking_ = false;
    is_asked_ = true;
  }
  void report() {
    const auto traffic = bus_->traffic();
    std::printf("sent %llu\ngot %llu %llu\ndisorders %llu\nmissing%s\nreturned%s\nunknown%s\n",
                number(sent_), number(got_), number(last_), number(disorders_),
                ranges(missing_).c_str(), ranges(returned_).c_str(), ranges(unknown_).c_str());
    std::printf("control %llu %llu %llu\nsilence_ms %lld\nsums %llu %llu %llu %llu %llu\nend\n",
                number(control_sent_), number(control_got_), number(control_told_),
                static_cast<long long>(
                    std::chrono::duration_cast<std::chrono::milliseconds>(silence_).count()),
                number(traffic.sent.sent), number(traffic.sent.taken),
                number(traffic.sent.returned), number(traffic.sent.unknown), number(traffic.taken));
    std::fflush(stdout);
  }
  /// A turn now and then, even when nothing comes.
  void tick() {
    reactor_.after(std::chrono::milliseconds(5), [this] {
      if (is_asked_ && bus_->traffic().outstanding == 0) {
        is_asked_ = false;
        std::printf("settled\n");
        std::fflush(stdout);
      } else if (got_ > said_ + 1000) {
        said_ = got_;
        std::printf("heard %llu\n", number(got_));
        std::fflush(stdout);
      }
      tick();
    });
  }
  static unsigned long long number(std::uint64_t value) { return value; }

  ProcId partner_;
  Reactor reactor_;
  std::optional<Bus> bus_;
  std::uint64_t turn_end_ = 0;
  bool is_talking_ = true;
  bool is_asked_ = false;
  std::uint64_t sent_ = 0, got_ = 0, last_ = 0, said_ = 0, disorders_ = 0;
  std::uint64_t control_sent_ = 0, control_heard_ = 0, control_got_ = 0, control_last_ = 0,
                control_told_ = 0;
  std::vector<std::uint64_t> missing_, returned_, unknown_;
  Clock::time_point heard_{};
  Clock::duration silence_{};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: meshbus_talker BROKER NAME PARTNER\n", stderr);
    return 64;
  }
  const auto broker = HostAddr::parse(argv[1]);
  auto partner = ProcId::parse(argv[3]);
  if (!broker || !partner) {
    std::fputs("meshbus_talker: an address cannot be read\n", stderr);
    return 64;
  }
  Talker(*broker, argv[2], *partner).run();
  return 0;
}
