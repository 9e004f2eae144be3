#include "cli/hosts/remote_host.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "cli/hosts/remote_order.h"
#include "cli/support/exit_codes.h"
#include "common/base/machine_name.h"
#include "common/base/unique_fd.h"
#include "meshbus/address.h"
#include "meshbus/result.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongestLine = 8 << 20;

/// One line of stdin, and nothing beyond it: that is the lifeline's. Errors: io_error: it has
/// ended.
Result<std::string> read_line() {
  std::string line;
  for (char c = 0; line.size() < kLongestLine;) {
    const auto got = ::read(STDIN_FILENO, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return fail(ErrorCode::io_error, "the launcher ended while the host was starting");
    if (c == '\n') return line;
    line += c;
  }
  return fail(ErrorCode::malformed_message, "the launcher says more than it should");
}

void answer(const Json& json) {
  const auto text = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  [[maybe_unused]] const auto written = ::write(STDOUT_FILENO, text.data(), text.size());
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The first address of a name that is not this machine's loopback; the name where there is none.
std::string resolved(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return name;
  std::string address;
  for (const auto* at = found; at != nullptr && address.empty(); at = at->ai_next) {
    std::array<char, 128> text{};
    if (::getnameinfo(at->ai_addr, at->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) != 0)
      continue;
    const std::string one = text.data();
    if (!one.starts_with("127.") && one != "::1") address = one;
  }
  ::freeaddrinfo(found);
  return address.empty() ? name : address;
}

/// The address of this machine that packets to that one leave from. Empty: there is no way.
std::string address_towards(const std::string& ip) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (ip.empty() || ::getaddrinfo(ip.c_str(), "9", &hints, &found) != 0) return {};
  const UniqueFd fd(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  std::array<char, 128> text{};
  // Nothing is sent: the kernel only looks for the way.
  const bool is_known = fd && ::connect(fd.get(), found->ai_addr, found->ai_addrlen) == 0 &&
                        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
                        ::getnameinfo(reinterpret_cast<sockaddr*>(&own), size, text.data(),
                                      text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  ::freeaddrinfo(found);
  return is_known ? text.data() : "";
}

/// By which others reach this machine: where our launcher's connection came in, or the way to the
/// node that srun was started on.
std::string own_address() {
  // "CLIENT-IP CLIENT-PORT SERVER-IP SERVER-PORT"
  std::istringstream connection(environment("SSH_CONNECTION"));
  std::string client_ip, client_port, server_ip;
  const bool is_ssh = static_cast<bool>(connection >> client_ip >> client_port >> server_ip);
  if (const auto node = environment("SLURMD_NODENAME");
      !node.empty() && !environment("SLURM_STEP_ID").empty()) {
    // On many machines their own name means 127.0.1.1.
    const auto address = address_towards(environment("SLURM_LAUNCH_NODE_IPADDR"));
    return address.empty() || address.starts_with("127.") ? resolved(node) : address;
  }
  if (is_ssh) return server_ip;
  return resolved(machine_name());
}

/// Whether packets to that address end here: one can listen at it.
bool is_own_address(const std::string& text) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (text.empty() || ::getaddrinfo(text.c_str(), "0", &hints, &found) != 0) return false;
  const UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool is_own = fd && ::bind(fd.get(), found->ai_addr, found->ai_addrlen) == 0;
  ::freeaddrinfo(found);
  return is_own;
}

Result<RemoteLine> hear() {
  const auto line = read_line();
  return line ? RemoteLine::parse(*line) : fail(line.error());
}

Result<void> prepare(WardenOptions& options) {
  const auto order = hear();
  if (!order) return fail(order.error());
  const auto wanted = order->text("address");
  const auto address = HostAddr::tcp(is_own_address(wanted) ? wanted : own_address(), 0);
  if (!address) return fail(address.error().within("this machine's own address"));
  answer({{"address", std::string(address->host())}});
  const auto hosts = hear();
  if (!hosts) return fail(hosts.error());
  return apply_remote_order(*order, *hosts, *address, options);
}

}  // namespace

std::optional<int> prepare_remote(WardenOptions& options) {
  if (auto prepared = prepare(options); !prepared) {
    answer({{"error", prepared.error().detail()}});
    return kUnavailable;
  }
  options.print_ready = false;
  // Procs and roles are to have neither.
  options.lifeline_fd = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  options.ready_fd = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (options.lifeline_fd < 0 || options.ready_fd < 0 || null < 0) return kUnavailable;
  ::dup2(null, STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::close(null);
  return std::nullopt;
}

}  // namespace meshbus::cli
