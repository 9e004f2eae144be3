#include "bench/crowd.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "bench/end.h"
#include "bench/measured.h"
#include "common/base/message_part.h"
#include "common/bus/bus.h"
#include "common/loop/reactor.h"
#include "common/security/token.h"
#include "common/wire/control.h"
#include "common/wire/frame.h"
#include "common/zmtp/broker_socket.h"
#include "meshbus/name.h"
#include "wire/bus_generated.h"

namespace meshbus::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

/// Descriptors of a process before it has any of our sockets.
constexpr std::size_t kOtherDescriptors = 64;
constexpr std::size_t kDescriptorsPerPeer = 1;
/// More would make registering wait for one process instead of the broker.
constexpr std::size_t kMostPeersPerProcess = 4000;
/// Bytes of data that a peer takes before it says so: less than any broker lets wait.
constexpr std::size_t kCreditStep = 64 * 1024;
constexpr std::uint32_t kPort = 1;

std::size_t raised_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, 1U << 20U));
}

std::size_t peers_per_process() {
  const std::size_t limit = raised_descriptor_limit();
  return limit <= kOtherDescriptors + kDescriptorsPerPeer
             ? 1
             : std::min(kMostPeersPerProcess, (limit - kOtherDescriptors) / kDescriptorsPerPeer);
}

/// One peer: says Hello, and takes what comes.
class BarePeer {
 public:
  /// A message of data has come for that peer.
  using OnData = std::function<void(BarePeer&, const wire::Envelope&)>;

  /// Throws std::system_error; EAGAIN: the broker has not taken those before yet.
  BarePeer(Reactor& reactor, const std::string& endpoint, std::string name, const OnData& on_data)
      : name_(std::move(name)), on_data_(on_data) {
    BrokerSocket::Events events;
    events.on_open = [this] { say_hello(); };
    // on_ended follows.
    events.on_handshake_failed = [](BrokerSocket::Failure) {};
    events.on_readable = [this] { return take_some(); };
    events.on_writable = [this] { flush(); };
    events.on_ended = [](const std::string& why) { throw std::runtime_error(why); };
    connection_ = BrokerSocket::open(reactor, {.endpoint = endpoint}, std::move(events));
  }

  /// The host's address, once the broker has registered this peer; empty before.
  const std::string& host() const noexcept { return host_; }

  void send(wire::Lane lane, wire::Envelope envelope, const std::string& body) {
    envelope.mutate_lane(lane);
    FrameWriter writer(lane);
    writer.add(envelope, body);
    send_frame(writer.finish());
  }

 private:
  void say_hello() {
    wire::HelloT hello;
    hello.version = 1;
    hello.peer = name_;
    hello.kind = wire::PeerKind::launcher;
    hello.incarnation = random_u64();
    hello.pid = static_cast<std::uint32_t>(::getpid());
    send(wire::Lane::control, wire::Envelope(), encode_control({}, std::move(hello)));
  }
  bool take_some() {
    constexpr int most_at_once = 64;
    for (int i = 0; i < most_at_once; ++i) {
      std::vector<MessagePart> parts;
      if (!connection_->receive(parts)) return false;
      take(parts);
    }
    return true;
  }
  void take(std::vector<MessagePart>& parts) {
    auto reader = must(FrameReader::open(parts));
    FrameReader::Message message;
    while (reader.next(message)) {
      if (message.envelope.lane() == wire::Lane::data) {
        taken_ += sizeof message.envelope + message.body.size();
        on_data_(*this, message.envelope);
      } else if (host_.empty()) {
        take_welcome(message.body);
      }
    }
    if (taken_ - announced_ >= kCreditStep) send_frame(FrameWriter(wire::Lane::control).finish());
  }
  void take_welcome(Bytes body) {
    const auto control = must(ControlMessage::decode(body));
    if (const auto* refusal = control.body_as<wire::Refusal>())
      throw std::runtime_error("the broker refuses a peer: " + text_of(refusal->detail()));
    const auto* welcome = control.body_as<wire::Welcome>();
    if (welcome == nullptr)
      throw std::runtime_error("the broker answers a Hello with " + control.body_name());
    host_ = welcome->host()->str();
  }
  void send_frame(Frame frame) {
    frame.set_credit(taken_);
    announced_ = taken_;
    waiting_.push_back(std::move(frame));
    flush();
  }
  void flush() {
    while (!waiting_.empty() && connection_->send(waiting_.front())) waiting_.pop_front();
  }

  std::string name_;
  const OnData& on_data_;
  std::unique_ptr<BrokerSocket> connection_;
  std::deque<Frame> waiting_;
  std::string host_;
  std::uint64_t taken_ = 0;
  std::uint64_t announced_ = 0;
};

/// The peers of this process.
class Peers {
 public:
  Peers(const std::string& endpoint, std::uint64_t seed, std::size_t begin, std::size_t count)
      : endpoint_(endpoint), seed_(seed), begin_(begin), count_(count) {
    peers_.reserve(count);
  }
  /// Registers all of them. Returns the address of their host.
  std::string join() {
    const auto give_up = Clock::now() + kAnswerLimit;
    while (joined() < count_) {
      const bool is_room = peers_.size() < count_ && peers_.size() - joined() < kMostAtOnce;
      if (is_room && connect_next()) continue;
      reactor_.turn(std::chrono::milliseconds(10));
      if (Clock::now() > give_up)
        throw std::runtime_error("the broker does not answer a peer's Hello");
    }
    return peers_.back()->host();
  }
  /// Until stdin ends.
  void serve() {
    reactor_.watch(STDIN_FILENO, EPOLLIN, [this](std::uint32_t) { reactor_.stop(); });
    reactor_.run();
    reactor_.forget(STDIN_FILENO);
  }

 private:
  /// What waits for its Welcome: fewer than a broker lets connect at a time.
  static constexpr std::size_t kMostAtOnce = 64;

  /// False: later.
  bool connect_next() {
    try {
      peers_.push_back(std::make_unique<BarePeer>(
          reactor_, endpoint_, crowd_name(seed_, begin_ + peers_.size()).to_string(), on_data_));
      return true;
    } catch (const std::system_error& error) {
      if (error.code() != std::errc::resource_unavailable_try_again) throw;
      return false;
    }
  }
  /// Welcomes mostly come in the order of Hellos: a peer is looked at again only until it has its
  /// own.
  std::size_t joined() {
    while (joined_ < peers_.size() && !peers_[joined_]->host().empty()) ++joined_;
    return joined_;
  }
  void on_data(BarePeer& peer, const wire::Envelope& envelope) {
    if (++received_ < count_) return;
    received_ = 0;
    wire::Envelope answer;
    answer.mutate_destination_proc(envelope.source_proc());
    answer.mutate_destination_host(envelope.source_host());
    answer.mutate_sequence(1);
    answer.mutate_port(kPort);
    answer.mutate_kind(wire::Kind::message);
    peer.send(wire::Lane::data, answer, {});
  }

  std::string endpoint_;
  std::uint64_t seed_;
  std::size_t begin_;
  std::size_t count_;
  std::size_t joined_ = 0;
  std::size_t received_ = 0;
  Reactor reactor_;
  BarePeer::OnData on_data_ = [this](BarePeer& peer, const wire::Envelope& envelope) {
    on_data(peer, envelope);
  };
  std::vector<std::unique_ptr<BarePeer>> peers_;
};

/// Sends to all peers of a crowd.
class FanOut {
 public:
  FanOut(const Crowd& crowd, const std::string& endpoint) : waits_for_(crowd.processes()) {
    for (const ProcId& peer : crowd.peers()) to_.push_back(Destination::to(peer));
    Session::Options session;
    session.endpoint = endpoint;
    session.hello.peer = must(Name::make("client")).to_string();
    session.hello.kind = wire::PeerKind::launcher;
    session.hello.incarnation = random_u64();
    Bus::Events events;
    events.on_refused = [](const Error& error) { throw std::runtime_error(error.to_string()); };
    events.on_undeliverable = [](const wire::Envelope&, const Error& error) {
      throw std::runtime_error(error.to_string());
    };
    events.on_data = [this](const wire::Envelope&, const wire::CallHeader&, Bytes) { ++answers_; };
    bus_.emplace(reactor_, std::move(session), Dispatcher(), std::move(events));
    turn_until([this] { return bus_->is_up(); });
  }
  /// One message for each, until all have it; in microseconds.
  double round(const std::string& body) {
    answers_ = 0;
    const auto begin = Clock::now();
    reactor_.post([&] {
      for (const Destination& to : to_) must_send(to, body);
    });
    turn_until([this] { return answers_ >= waits_for_; });
    return Microseconds(Clock::now() - begin).count();
  }

 private:
  void must_send(const Destination& to, const std::string& body) {
    if (const auto sent = bus_->send(to, kPort, body); !sent)
      throw std::runtime_error(sent.error().to_string());
  }
  template <typename Predicate>
  void turn_until(const Predicate& predicate) {
    const auto give_up = Clock::now() + kAnswerLimit;
    while (!predicate()) {
      reactor_.turn(std::chrono::seconds(1));
      throw_if_interrupted();
      if (Clock::now() > give_up) throw std::runtime_error("a message did not reach all peers");
    }
  }

  Reactor reactor_;
  std::vector<Destination> to_;
  std::size_t waits_for_;
  std::size_t answers_ = 0;
  std::optional<Bus> bus_;
};

}  // namespace

ProcName crowd_name(std::uint64_t seed, std::size_t index) {
  return must(Name::make("client", seed + index));
}

void check_descriptors(std::size_t peers, pid_t broker) {
  peers_per_process();
  if (broker == 0) return;
  rlimit limit{};
  if (::prlimit(broker, RLIMIT_NOFILE, nullptr, &limit) != 0)
    return;  // another user's: the broker will say so itself
  const std::size_t needed = peers + 4 * kOtherDescriptors;
  if (limit.rlim_max >= needed) return;
  throw std::runtime_error(std::to_string(peers) + " peers need about " + std::to_string(needed) +
                           " descriptors in the broker, which may have " +
                           std::to_string(limit.rlim_max) +
                           " (ulimit -Hn); raise that, or take fewer peers");
}

int run_crowd_process(const std::string& endpoint, std::uint64_t seed, std::size_t begin,
                      std::size_t count) {
  raised_descriptor_limit();
  std::printf("ready\n");
  std::fflush(stdout);
  for (char c = 0; c != '\n';) {
    if (::read(0, &c, 1) != 1) return 0;
  }
  Peers peers(endpoint, seed, begin, count);
  std::printf("up %s\n", peers.join().c_str());
  std::fflush(stdout);
  peers.serve();
  return 0;
}

Crowd::Crowd(std::vector<std::string> program, const std::string& endpoint, std::size_t peers)
    : seed_(random_u64() / 2), count_(peers) {
  program.front() = own_folder() + program.front();
  const std::size_t most = peers_per_process();
  for (std::size_t begin = 0; begin < peers; begin += most) {
    auto argv = program;
    argv.insert(argv.end(), {endpoint, std::to_string(seed_), std::to_string(begin),
                             std::to_string(std::min(most, peers - begin))});
    processes_.push_back(std::make_unique<Child>(std::move(argv)));
  }
  for (auto& process : processes_) process->read_line();
}

std::chrono::nanoseconds Crowd::join() {
  const auto begin = Clock::now();
  for (auto& process : processes_) process->write_line("go");
  std::string up;
  for (auto& process : processes_) up = process->read_line();
  const auto took = Clock::now() - begin;
  host_ = must(HostAddr::parse(up.substr(up.find(' ') + 1)));
  return took;
}

std::vector<pid_t> Crowd::pids() const {
  std::vector<pid_t> pids;
  for (const auto& process : processes_) pids.push_back(process->pid());
  return pids;
}

std::vector<ProcId> Crowd::peers() const {
  std::vector<ProcId> peers;
  peers.reserve(count_);
  for (std::size_t i = 0; i < count_; ++i) peers.emplace_back(*host_, crowd_name(seed_, i));
  return peers;
}

FanOutFigures fan_out(const Crowd& crowd, const std::string& endpoint, const CpuMeter& cpu,
                      std::size_t size, std::size_t count) {
  constexpr std::size_t warm_up = 3;
  FanOut sender(crowd, endpoint);
  const std::string body(size, 'x');
  for (std::size_t i = 0; i < warm_up; ++i) sender.round(body);
  const auto before = cpu ? cpu() : std::chrono::nanoseconds(0);
  const auto begin = Clock::now();
  std::vector<double> times;
  for (std::size_t i = 0; i < count; ++i) times.push_back(sender.round(body));
  const Microseconds took = Clock::now() - begin;
  const double messages = static_cast<double>(count * crowd.peers().size());
  FanOutFigures figures{.per_s = messages / took.count() * 1e6};
  if (cpu) figures.cpu_us = Microseconds(cpu() - before).count() / messages;
  figures.p50_us = percentile(times, 50);
  figures.p99_us = percentile(times, 99);
  return figures;
}

std::size_t memory_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  std::size_t total = 0, resident = 0;
  if (!(file >> total >> resident))
    throw std::runtime_error("cannot read the memory of process " + std::to_string(pid));
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace meshbus::bench
