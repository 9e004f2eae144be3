// meshbus_lab_delay A B: passes every frame between two network interfaces, in both directions and
// in order, and holds it back for a while. For kernels without sch_netem. Reads lines "DELAY_US
// JITTER_US" on stdin, answers each with "ok", and ends at the end of stdin.
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

/// struct virtio_net_hdr, whose header is no valid C++. It keeps checksums and segments that the
/// card was to make.
constexpr std::size_t offload_header = 10;
constexpr std::size_t largest_frame = 66'000 + offload_header;
constexpr int most_per_turn = 64;
/// What a cable holds in one direction; a real one drops too when it is given more than it takes.
constexpr std::size_t most_bytes = 64 << 20;

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "meshbus_lab_delay: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

int open_interface(const char* name) {
  const int fd = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
  if (fd < 0) die("packet socket");
  constexpr int on = 1, buffer = 8 << 20;
  if (::setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0) die("PACKET_VNET_HDR");
  if (::setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0)
    die("PACKET_IGNORE_OUTGOING");
  for (const int one : {SO_RCVBUFFORCE, SO_SNDBUFFORCE}) {
    if (::setsockopt(fd, SOL_SOCKET, one, &buffer, sizeof buffer) != 0) die("socket buffers");
  }
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(::if_nametoindex(name));
  if (address.sll_ifindex == 0) die(std::string("interface ") + name);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    die(std::string("bind to ") + name);
  packet_mreq all{};  // frames are for others
  all.mr_ifindex = address.sll_ifindex;
  all.mr_type = PACKET_MR_PROMISC;
  if (::setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) != 0)
    die(std::string("promiscuous mode of ") + name);
  return fd;
}

/// One direction.
struct Way {
  struct Held {
    Clock::time_point due;
    std::vector<char> frame;
  };
  int from;
  int to;
  std::deque<Held> held;
  std::size_t bytes = 0;
  Clock::time_point last_due{};
};

microseconds delay{0}, jitter{0};
std::mt19937_64 random_bits(1);

void take(Way& way) {
  static std::array<char, largest_frame> buffer;
  std::normal_distribution<double> spread(0, 1);
  for (int i = 0; i < most_per_turn; ++i) {
    const ssize_t got = ::read(way.from, buffer.data(), buffer.size());
    if (got <= static_cast<ssize_t>(offload_header)) return;
    const auto size = static_cast<std::size_t>(got);
    if (way.bytes + size > most_bytes) continue;
    const auto more =
        microseconds(static_cast<long>(static_cast<double>(jitter.count()) * spread(random_bits)));
    way.last_due = std::max(way.last_due, Clock::now() + std::max(microseconds(0), delay + more));
    way.held.push_back({way.last_due, {buffer.data(), buffer.data() + size}});
    way.bytes += size;
  }
}

void give(Way& way, Clock::time_point now) {
  while (!way.held.empty() && way.held.front().due <= now) {
    const auto& frame = way.held.front().frame;
    // A full queue or a link that is down loses the frame, as it would on a cable.
    if (::write(way.to, frame.data(), frame.size()) < 0 && errno != ENOBUFS && errno != EAGAIN &&
        errno != ENETDOWN && errno != EINVAL)
      die("send");
    way.bytes -= frame.size();
    way.held.pop_front();
  }
}

/// False at the end of stdin.
bool read_settings() {
  static std::string text;
  std::array<char, 256> buffer;
  const ssize_t got = ::read(0, buffer.data(), buffer.size());
  if (got <= 0) return false;
  text.append(buffer.data(), static_cast<std::size_t>(got));
  for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1)) {
    long new_delay = 0, new_jitter = 0;
    if (std::sscanf(text.c_str(), "%ld %ld", &new_delay, &new_jitter) != 2) {
      std::fprintf(stderr, "meshbus_lab_delay: expected two numbers, got \"%s\"\n",
                   text.substr(0, end).c_str());
      return false;
    }
    delay = microseconds(new_delay);
    jitter = microseconds(new_jitter);
    std::puts("ok");
    std::fflush(stdout);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: meshbus_lab_delay INTERFACE INTERFACE\n");
    return 2;
  }
  const std::array fds = {open_interface(argv[1]), open_interface(argv[2])};
  std::array ways = {Way{fds[0], fds[1], {}, 0, {}}, Way{fds[1], fds[0], {}, 0, {}}};
  const int timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  const int set = ::epoll_create1(EPOLL_CLOEXEC);
  for (const int fd : {fds[0], fds[1], timer, 0}) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0) die("epoll");
  }
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    std::array<epoll_event, 8> events;
    const int count = ::epoll_wait(set, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == 0 && !read_settings()) return 0;
      if (fd == fds[0]) take(ways[0]);
      if (fd == fds[1]) take(ways[1]);
    }
    const auto now = Clock::now();
    auto next = Clock::time_point::max();
    for (Way& way : ways) {
      give(way, now);
      if (!way.held.empty()) next = std::min(next, way.held.front().due);
    }
    itimerspec when{};
    if (next != Clock::time_point::max()) {
      const auto left = std::max(std::chrono::nanoseconds(1), std::chrono::nanoseconds(next - now));
      when.it_value = {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    }
    ::timerfd_settime(timer, 0, &when, nullptr);
  }
}
