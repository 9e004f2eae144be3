#include "tests/bench/party.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <utility>

#include "bench/child.h"
#include "bench/measured.h"
#include "broker/broker.h"
#include "common/security/token.h"
#include "meshbus/name.h"
#include "tests/bench/end.h"
#include "wire/bus_generated.h"
#include "wire/lifecycle_generated.h"

namespace meshbus::bench {

namespace {

/// What a sender has ready at the most, beside what is on the way.
constexpr std::size_t kReady = 256 * 1024;

[[noreturn]] void fail_with(const Error& error) {
  throw std::runtime_error(error.to_string());
}

void say_name(Party& party) {
  std::printf("%s\n", party.bus().self()->to_string().c_str());
  std::fflush(stdout);
}

}  // namespace

Party::Party(const std::string& address, Dispatcher handlers, Bus::Events events) {
  const auto name = Name::make("client");
  if (!name) fail_with(name.error());
  Session::Options session;
  session.endpoint = address;
  session.hello.peer = name->to_string();
  session.hello.kind = wire::PeerKind::launcher;
  session.hello.incarnation = random_u64();
  events.on_refused = [](const Error& error) { fail_with(error); };
  bus_.emplace(reactor_, std::move(session), std::move(handlers), std::move(events));
  turn_until([this] { return bus_->is_up(); });
}

void Party::turn() {
  reactor_.turn(std::chrono::seconds(1));
  throw_if_interrupted();
}

std::chrono::nanoseconds ask(Party& party, const Destination& reader) {
  const auto begin = Reactor::Clock::now();
  std::optional<Result<ControlMessage>> answer;
  party.bus().request(reader, wire::GetFreePortT(), kAnswerLimit,
                      [&](Result<ControlMessage> result) { answer = std::move(result); });
  // At once, as a call from a program's thread would.
  party.bus().flush_early();
  party.turn_until([&] { return answer.has_value(); });
  if (!*answer) fail_with(answer->error());
  return Reactor::Clock::now() - begin;
}

int run_reader(const std::string& address, const Taking& taking) {
  Party* self = nullptr;
  Dispatcher handlers;
  handlers.on<wire::GetFreePort>(Role::observe,
                                 [&](const Request& request, const wire::GetFreePort&) {
                                   self->bus().answer(request, wire::AckT());
                                 });
  Bus::Events events;
  events.on_data = [&](const wire::Envelope&, const wire::CallHeader&, Bytes) {
    if (taking.busy.count() > 0) {
      for (const auto end = Reactor::Clock::now() + taking.busy; Reactor::Clock::now() < end;) {
      }
    }
    if (taking.pause.count() == 0) return;
    self->bus().hold_data(true);
    self->reactor().after(taking.pause, [&] { self->bus().hold_data(false); });
  };
  Party party(address, std::move(handlers), std::move(events));
  self = &party;
  party.bus().hold_data(taking.is_stopped);
  say_name(party);
  for (;;) party.turn();
}

int run_sender(const std::string& address, const std::string& reader, std::size_t size) {
  const auto proc = ProcId::parse(reader);
  if (!proc) fail_with(proc.error());
  const Destination to = Destination::to(*proc);
  const std::string body(size, 'x');
  Bus::Events events;
  events.on_undeliverable = [](const wire::Envelope&, const Error& error) {
    if (error.code() != ErrorCode::queue_full) fail_with(error);
  };
  Party party(address, {}, std::move(events));
  say_name(party);
  Bus& bus = party.bus();
  for (;;) {
    // As long as something leaves there is room again; then the reader's credit wakes the loop.
    bool is_full = false;
    while (bus.queued_bytes() < kReady && !is_full) {
      while (bus.queued_bytes() < kReady && !is_full) {
        const auto sent = bus.send(to, 1, body);
        is_full = !sent && sent.error().code() == ErrorCode::queue_full;
        if (!sent && !is_full) fail_with(sent.error());
      }
      bus.flush_early();
    }
    party.turn();
  }
}

int run_broker(const std::string& path, bool is_forgetting) {
  Reactor reactor;
  BrokerOptions options;
  options.binds = {must(HostAddr::parse("tcp:127.0.0.1:0")), must(HostAddr::parse("unix:" + path))};
  options.insecure = true;
  if (is_forgetting) options.capabilities &= ~kCapabilityResume;
  const auto broker = must(Broker::start(reactor, std::move(options)));
  std::printf("ready\n");
  std::fflush(stdout);
  reactor.watch(STDIN_FILENO, EPOLLIN, [&](std::uint32_t) { reactor.stop(); });
  reactor.run();
  return 0;
}

}  // namespace meshbus::bench
