#include "cli/bench/bench_middle.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <stdexcept>

#include "common/base/unique_fd.h"
#include "common/base/unix_peer.h"
#include "meshbus/address.h"

namespace meshbus::cli {
namespace {

/// The process that listens at a unix socket, or 0 when that cannot be told.
pid_t listener_of(const HostAddr& host) {
  if (host.transport() != Transport::unix_socket) return 0;
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto path = host.path();
  if (!fd || path.size() >= sizeof address.sun_path) return 0;
  std::memcpy(address.sun_path, path.data(), path.size());
  const bool is_abstract = path.starts_with('@');
  if (is_abstract) address.sun_path[0] = '\0';
  const auto length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + (is_abstract ? 0 : 1));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return 0;
  const auto peer = unix_peer_of(fd.get());
  return peer ? peer->pid : 0;
}

}  // namespace

BenchMiddle::BenchMiddle(const BenchArguments& arguments) {
  const std::size_t count = arguments.verb == BenchVerb::link ? 2 : 1;
  if (arguments.hosts.empty()) {
    brokers_.emplace(count, arguments.is_unix    ? bench::BrokerLink::unix_socket
                            : arguments.is_curve ? bench::BrokerLink::tcp_with_keys
                                                 : bench::BrokerLink::tcp);
    for (std::size_t i = 0; i < count; ++i) {
      endpoints_.push_back(brokers_->endpoint(i));
      pids_.push_back(brokers_->pid(i));
    }
    return;
  }
  if (arguments.hosts.size() != count)
    throw std::runtime_error(
        count == 1 ? "--host takes one host here"
                   : "--host takes two hosts here: A,B, one for each end of the link");
  for (const std::string& word : arguments.hosts) {
    const auto host = HostAddr::parse(word);
    if (!host) throw std::runtime_error("--host " + word + ": " + host.error().detail());
    endpoints_.push_back(host->zmq_endpoint());
    pids_.push_back(listener_of(*host));
  }
}

bench::CpuMeter BenchMiddle::cpu() const {
  if (std::find(pids_.begin(), pids_.end(), 0) != pids_.end()) return {};
  return [this] {
    std::chrono::nanoseconds sum{0};
    for (const pid_t pid : pids_) sum += bench::cpu_of(pid);
    return sum;
  };
}

}  // namespace meshbus::cli
