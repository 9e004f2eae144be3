// Benchmark large: bodies that are larger than a message may be, between two procs of one host
// beside memcpy, and of two hosts beside a tcp stream. Programs on the public libraries
// (tests/bench/public).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/base/unique_fd.h"
#include "tests/bench/benches.h"
#include "tests/bench/program.h"

namespace meshbus::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Direction = Bar::Direction;

/// Does it again and again for so long.
template <typename Once>
Figures repeat(std::size_t size, std::chrono::milliseconds duration, Once once) {
  once();
  std::size_t count = 0;
  const auto start = Clock::now();
  do {
    once();
    ++count;
  } while (Clock::now() - start < duration);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const double per_s = static_cast<double>(count) / seconds;
  return {
      {"per_s", per_s}, {"mb_per_s", per_s * static_cast<double>(size) / 1e6}, {"us", 1e6 / per_s}};
}

/// Between two buffers whose pages are there.
Figures by_memcpy(std::size_t size, std::chrono::milliseconds duration) {
  const std::vector<char> from(size, 'x');
  std::vector<char> to(size);
  return repeat(size, duration, [&] {
    std::memcpy(to.data(), from.data(), size);
    asm volatile("" : : "r"(to.data()) : "memory");
  });
}

/// The two ends of a connection over the loopback interface.
struct Stream {
  UniqueFd out, in;
  Stream() : out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (::bind(listener.get(), at, size) != 0 || ::listen(listener.get(), 1) != 0 ||
        ::getsockname(listener.get(), at, &size) != 0 || ::connect(out.get(), at, size) != 0)
      throw std::runtime_error("no connection over the loopback interface");
    in = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
};

/// As many bytes from one thread to another, each of which is answered with one.
Figures by_tcp(std::size_t size, std::chrono::milliseconds duration) {
  Stream stream;
  std::thread reader([&] {
    std::vector<char> to(size);
    std::size_t filled = 0;
    for (;;) {
      const auto got = ::read(stream.in.get(), to.data() + filled, size - filled);
      if (got <= 0) return;
      filled += static_cast<std::size_t>(got);
      if (filled < size) continue;
      filled = 0;
      if (::write(stream.in.get(), "y", 1) != 1) return;
    }
  });
  const std::vector<char> from(size, 'x');
  auto figures = repeat(size, duration, [&] {
    std::size_t sent = 0;
    while (sent < size) {
      const auto put = ::write(stream.out.get(), from.data() + sent, size - sent);
      if (put <= 0) throw std::runtime_error("the stream broke");
      sent += static_cast<std::size_t>(put);
    }
    char answer = 0;
    if (::read(stream.out.get(), &answer, 1) != 1) throw std::runtime_error("the stream broke");
  });
  ::shutdown(stream.out.get(), SHUT_RDWR);
  reader.join();
  return figures;
}

}  // namespace

int run_large(const Settings& settings, const Amounts& amounts) {
  Comparison comparison("large", "bodies above 1 MiB, Proc::send from main() to a handler",
                        settings);
  comparison.note("the handler reads a byte of each page of the body");
  const std::chrono::milliseconds duration(amounts.duration_ms);
  for (const std::size_t size : amounts.sizes) {
    const auto ours = [&](const std::string& what, const char* about) {
      return Side{what, Part::ours, about,
                  [=] { return by_program("large-" + what, size, amounts.duration_ms); }};
    };
    comparison.add({.size = static_cast<double>(size),
                    .unit = "B between two procs of one host",
                    .sides = {{"memcpy", Part::floor, "between two buffers that were used before",
                               [=] { return by_memcpy(size, duration); }},
                              ours("made", "a SharedBody::make() that is sent again and again"),
                              ours("copied", "a string, which send() copies once")},
                    .bars = {{"per_s", "made", "memcpy", Direction::at_least, 0.6, 1.0},
                             {"per_s", "copied", "memcpy", Direction::at_least, {}, {}}}});
    comparison.add({.size = static_cast<double>(size),
                    .unit = "B between two hosts",
                    .sides = {{"tcp", Part::floor, "a stream between two threads, on loopback",
                               [=] { return by_tcp(size, duration); }},
                              ours("far", "two hosts of this machine, linked by tcp")},
                    .bars = {{"per_s", "far", "tcp", Direction::at_least, 0.9, {}}}});
  }
  return comparison.run();
}

}  // namespace meshbus::bench
