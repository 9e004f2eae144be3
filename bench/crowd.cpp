#include "bench/crowd.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include <zmq.hpp>

#include "bench/end.h"
#include "bench/measured.h"
#include "common/base/unique_fd.h"
#include "common/bus/bus.h"
#include "common/loop/reactor.h"
#include "common/security/token.h"
#include "common/wire/control.h"
#include "common/wire/frame.h"
#include "meshbus/name.h"
#include "wire/bus_generated.h"

namespace meshbus::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

/// Descriptors of a process before it has any of our sockets.
constexpr std::size_t kOtherDescriptors = 64;
constexpr std::size_t kDescriptorsPerPeer = 2;
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
  BarePeer(zmq::context_t& context, const std::string& endpoint, std::uint64_t seed,
           std::size_t index)
      : socket_(context, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.connect(endpoint);
    wire::HelloT hello;
    hello.version = 1;
    hello.peer = crowd_name(seed, index).to_string();
    hello.kind = wire::PeerKind::launcher;
    hello.incarnation = random_u64();
    hello.pid = static_cast<std::uint32_t>(::getpid());
    send(wire::Lane::control, wire::Envelope(), encode_control({}, std::move(hello)));
  }
  int fd() { return socket_.get(zmq::sockopt::fd); }

  /// The host's address, when the broker has registered this peer.
  std::string wait_welcome() {
    socket_.set(zmq::sockopt::rcvtimeo,
                static_cast<int>(std::chrono::milliseconds(kAnswerLimit).count()));
    auto parts = receive(zmq::recv_flags::none);
    socket_.set(zmq::sockopt::rcvtimeo, -1);
    if (parts.empty()) throw std::runtime_error("the broker does not answer a peer's Hello");
    auto reader = must(FrameReader::open(parts));
    FrameReader::Message message;
    if (!reader.next(message)) throw std::runtime_error("the broker answers a Hello with nothing");
    const auto control = must(ControlMessage::decode(message.body));
    if (const auto* refusal = control.body_as<wire::Refusal>())
      throw std::runtime_error("the broker refuses a peer: " + text_of(refusal->detail()));
    const auto* welcome = control.body_as<wire::Welcome>();
    if (welcome == nullptr)
      throw std::runtime_error("the broker answers a Hello with " + control.body_name());
    return welcome->host()->str();
  }

  /// Takes all there is; how many messages of data that were, and the envelope of the last one.
  std::size_t drain(wire::Envelope& last) {
    std::size_t count = 0;
    for (auto parts = receive(zmq::recv_flags::dontwait); !parts.empty();
         parts = receive(zmq::recv_flags::dontwait)) {
      auto reader = must(FrameReader::open(parts));
      FrameReader::Message message;
      while (reader.next(message)) {
        if (message.envelope.lane() != wire::Lane::data) continue;
        ++count;
        last = message.envelope;
        taken_ += sizeof message.envelope + message.body.size();
      }
      if (taken_ - announced_ >= kCreditStep) send_frame(FrameWriter(wire::Lane::control).finish());
    }
    return count;
  }

  void send(wire::Lane lane, wire::Envelope envelope, const std::string& body) {
    envelope.mutate_lane(lane);
    FrameWriter writer(lane);
    writer.add(envelope, body);
    send_frame(writer.finish());
  }

 private:
  void send_frame(Frame frame) {
    frame.set_credit(taken_);
    announced_ = taken_;
    for (std::size_t i = 0; i < frame.parts.size(); ++i)
      socket_.send(frame.parts[i],
                   i + 1 < frame.parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
  std::vector<zmq::message_t> receive(zmq::recv_flags how) {
    std::vector<zmq::message_t> parts;
    do {
      zmq::message_t part;
      if (!socket_.recv(part, parts.empty() ? how : zmq::recv_flags::none)) return {};
      parts.push_back(std::move(part));
    } while (parts.back().more());
    return parts;
  }

  zmq::socket_t socket_;
  std::uint64_t taken_ = 0;
  std::uint64_t announced_ = 0;
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
    bus_.emplace(reactor_, context_, std::move(session), Dispatcher(), std::move(events));
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
  zmq::context_t context_{1};
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
  zmq::context_t context(1);
  context.set(zmq::ctxopt::max_sockets, static_cast<int>(count + 16));
  std::printf("ready\n");
  std::fflush(stdout);
  for (char c = 0; c != '\n';) {
    if (::read(0, &c, 1) != 1) return 0;
  }
  std::vector<std::unique_ptr<BarePeer>> peers;
  peers.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    peers.push_back(std::make_unique<BarePeer>(context, endpoint, seed, begin + i));
  std::string host;
  for (auto& peer : peers) host = peer->wait_welcome();
  std::printf("up %s\n", host.c_str());
  std::fflush(stdout);

  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  const auto watch = [&](int fd, std::uint32_t events, std::size_t index) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = index;
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      throw std::runtime_error("epoll_ctl failed");
  };
  for (std::size_t i = 0; i < count; ++i) watch(peers[i]->fd(), EPOLLIN | EPOLLET, i);
  watch(0, EPOLLIN, count);
  std::size_t received = 0;
  wire::Envelope last;
  const auto drain = [&](std::size_t index) {
    received += peers[index]->drain(last);
    if (received < count) return;
    received -= count;
    wire::Envelope answer;
    answer.mutate_destination_proc(last.source_proc());
    answer.mutate_destination_host(last.source_host());
    answer.mutate_sequence(1);
    answer.mutate_port(kPort);
    answer.mutate_kind(wire::Kind::message);
    peers[index]->send(wire::Lane::data, answer, {});
    // A send may swallow the sign that something has come.
    received += peers[index]->drain(last);
  };
  for (std::size_t i = 0; i < count; ++i) drain(i);
  for (;;) {
    epoll_event events[256];
    const int ready = ::epoll_wait(epoll.get(), events, 256, -1);
    for (int i = 0; i < ready; ++i) {
      if (events[i].data.u64 == count) return 0;
      drain(events[i].data.u64);
    }
  }
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
