#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "meshbus/name.h"
#include "meshbus/result.h"

/// Addresses of hosts, procs, actors and ports. They are computed, never looked up.
///
///     using namespace meshbus;
///     HostAddr host = *HostAddr::parse("tcp:h1:7420");  // == HostAddr::parse("tcp://h1:7420")
///     host.zmq_endpoint();                              // "tcp://h1:7420"
///     ProcId proc(host, proc_name(*Name::parse("trainers-13Se1Maqzryj"), 3));
///     proc.to_string();                                 // "tcp:h1:7420,trainers_3-13Se1Maqzryj"
///     proc.agent().to_string();             // "tcp:h1:7420,trainers_3-13Se1Maqzryj,agent[0]"
///     host_agent(host).port(2).to_string();             // "tcp:h1:7420,service,agent[0][2]"
///     std::uint64_t key = proc.key();                   // the form in envelopes
///     HostAddr::parse("tcp:h1:99999").error();
///         // parse_error: host address: at 7: expected a port ...
///
/// All of these are plain values: copy, compare, hash and print them on any thread. Every parse()
/// reads the whole text, answers errors as parse_error with the position as a byte offset from 0,
/// and for every value v: T::parse(v.to_string()) == v.
namespace [[gnu::visibility("default")]] meshbus {

namespace text {
class Scanner;
}

/// How a host is reached.
enum class Transport : std::uint8_t {
  tcp,          ///< `tcp:HOST:PORT`
  unix_socket,  ///< `unix:/path` or `unix:@abstract`
  local,        ///< `local:N`, inside one process
};

/// Where a host's broker listens: `tcp:h1:7420`, `tcp:10.0.0.1:7420`, `tcp:[::1]:7420`, `tcp:*:0`,
/// `unix:/run/m/broker`, `unix:@name`, `local:7`.
///
/// Kept in one canonical form, so that equal hosts have equal texts and keys: DNS names in lower
/// case, IPv6 as RFC 5952 writes it, numbers without leading zeros. Socket paths and abstract names
/// have no commas, double quotes or control characters (the texts that addresses are written into
/// use these), are UTF-8 and have at most 107 bytes (sockaddr_un).
class HostAddr {
 public:
  /// `host`: a DNS name, an IPv4 or IPv6 address (with or without brackets, with a zone or not), or
  /// `*` for all interfaces. Port 0 means any. Errors: parse_error.
  [[nodiscard]] static Result<HostAddr> tcp(std::string_view host, std::uint16_t port);
  /// `path`: absolute, or `@` + an abstract name, or empty for any. Errors: parse_error.
  [[nodiscard]] static Result<HostAddr> unix_socket(std::string_view path);
  /// An address inside this process; 0 means any.
  static HostAddr local(std::uint64_t number);

  /// Reads `tcp:…`, `unix:…`, `local:…` and ZeroMQ's `tcp://…`, `ipc://…`, `inproc://…` (of which
  /// `*` as port or path means any).
  [[nodiscard]] static Result<HostAddr> parse(std::string_view text);
  /// For parsers of longer texts inside meshbus: reads a whole part.
  [[nodiscard]] static Result<HostAddr> parse(text::Scanner part);

  Transport transport() const noexcept { return transport_; }  ///< Which kind of address it is.
  /// tcp: the host without brackets; otherwise empty.
  std::string_view host() const noexcept {
    return transport_ == Transport::tcp ? std::string_view(name_) : std::string_view();
  }
  /// tcp: the port; otherwise 0.
  std::uint16_t port() const noexcept {
    return transport_ == Transport::tcp ? static_cast<std::uint16_t>(number_) : std::uint16_t{0};
  }
  /// unix socket: the path, or `@` + the abstract name; otherwise empty.
  std::string_view path() const noexcept {
    return transport_ == Transport::unix_socket ? std::string_view(name_) : std::string_view();
  }
  /// local: the number; otherwise 0.
  std::uint64_t number() const noexcept { return transport_ == Transport::local ? number_ : 0; }

  /// Port 0, `unix:` and `local:0`: serving it gives a concrete address. Nobody can connect to it.
  bool is_any() const noexcept;
  /// Tcp on all interfaces (`*`, 0.0.0.0, [::]): good for listening, no address for others.
  bool is_wildcard() const noexcept;
  /// 127.0.0.0/8, [::1], `localhost` and names below it.
  bool is_loopback() const noexcept;
  /// 169.254.0.0/16, fe80::/10.
  bool is_link_local() const noexcept;
  /// Whether it may be advertised to other machines: tcp, and none of the above.
  bool is_reachable_from_elsewhere() const noexcept;
  /// IPv6 literal: the socket needs ZMQ_IPV6.
  bool is_ipv6() const noexcept;

  /// `tcp:h1:7420`
  std::string to_string() const;
  /// As ZeroMQ writes it: `tcp://h1:7420`, `ipc:///run/m/broker`, `ipc://@name`, `inproc://7`; any
  /// as `*`: `tcp://*:*`, `ipc://*`. parse() reads it back.
  std::string zmq_endpoint() const;
  /// key_of(to_string()): never 0.
  std::uint64_t key() const noexcept;

  /// tcp before unix before local; then by host and port, path or number.
  friend auto operator<=>(const HostAddr&, const HostAddr&) = default;
  friend bool operator==(const HostAddr&, const HostAddr&) = default;
  friend std::ostream& operator<<(std::ostream& out, const HostAddr& address);

 private:
  HostAddr(Transport transport, std::string name, std::uint64_t number)
      : transport_(transport), name_(std::move(name)), number_(number) {}

  Transport transport_;
  std::string name_;
  std::uint64_t number_;
};

class ActorId;
class PortId;

/// A proc: `tcp:h1:7420,trainers_3-13Se1Maqzryj`.
class ProcId {
 public:
  ProcId(HostAddr host, ProcName name)
      : host_(std::move(host)), name_(std::move(name)) {}  ///< Makes it of its parts.
  [[nodiscard]] static Result<ProcId> parse(
      std::string_view text);  ///< Reads what to_string() printed. Errors: parse_error.
  [[nodiscard]] static Result<ProcId> parse(text::Scanner part);

  const HostAddr& host() const noexcept { return host_; }  ///< Where it is.
  const ProcName& name() const noexcept { return name_; }  ///< The name of the proc on its host.
  /// `PROC,NAME[pid]`
  ActorId actor(Name name, std::uint64_t pid = 0) const;
  /// The proc's agent: always `PROC,agent[0]`.
  ActorId agent() const;

  std::string to_string() const;  ///< As above, and as parse() reads it.
  /// key_of(to_string()): never 0.
  std::uint64_t key() const noexcept;

  /// By host, then name.
  friend auto operator<=>(const ProcId&, const ProcId&) = default;
  friend bool operator==(const ProcId&, const ProcId&) = default;
  friend std::ostream& operator<<(std::ostream& out, const ProcId& id);

 private:
  HostAddr host_;
  ProcName name_;
};

/// An actor: `tcp:h1:7420,trainers_3-13Se1Maqzryj,counter[0]`. When parsed, `[0]` may be left out;
/// it is always printed.
class ActorId {
 public:
  ActorId(ProcId proc, Name name, std::uint64_t pid = 0)
      : proc_(std::move(proc)), name_(std::move(name)), pid_(pid) {}  ///< Makes it of its parts.
  [[nodiscard]] static Result<ActorId> parse(
      std::string_view text);  ///< Reads what to_string() printed. Errors: parse_error.
  [[nodiscard]] static Result<ActorId> parse(text::Scanner part);

  const ProcId& proc() const noexcept { return proc_; }  ///< Where it lives.
  const Name& name() const noexcept { return name_; }    ///< Its name there.
  /// Tells actors of one name and proc apart. Not an operating system's pid.
  std::uint64_t pid() const noexcept { return pid_; }
  /// `ACTOR[number]`
  PortId port(std::uint32_t number) const;

  std::string to_string() const;  ///< As above, and as parse() reads it.

  /// By proc, then name, then pid.
  friend auto operator<=>(const ActorId&, const ActorId&) = default;
  friend bool operator==(const ActorId&, const ActorId&) = default;
  friend std::ostream& operator<<(std::ostream& out, const ActorId& id);

 private:
  ProcId proc_;
  Name name_;
  std::uint64_t pid_;
};

/// A port of an actor: `tcp:h1:7420,trainers_3-13Se1Maqzryj,counter[0][2]`. Both brackets are
/// needed.
class PortId {
 public:
  PortId(ActorId actor, std::uint32_t number)
      : actor_(std::move(actor)), number_(number) {}  ///< Makes it of its parts.
  [[nodiscard]] static Result<PortId> parse(
      std::string_view text);  ///< Reads what to_string() printed. Errors: parse_error.
  [[nodiscard]] static Result<PortId> parse(text::Scanner part);

  const ActorId& actor() const noexcept { return actor_; }  ///< Whose it is.
  /// 32 bits, as in an envelope.
  std::uint32_t number() const noexcept { return number_; }

  std::string to_string() const;  ///< As above, and as parse() reads it.

  /// By actor, then number.
  friend auto operator<=>(const PortId&, const PortId&) = default;
  friend bool operator==(const PortId&, const PortId&) = default;
  friend std::ostream& operator<<(std::ostream& out, const PortId& id);

 private:
  ActorId actor_;
  std::uint32_t number_;
};

/// The proc that a host's own actors live in: `HOST,service`.
ProcId host_service(const HostAddr& host);
/// A host's agent: always `HOST,service,agent[0]`.
ActorId host_agent(const HostAddr& host);

}  // namespace meshbus

template <>
struct std::hash<meshbus::HostAddr> {
  std::size_t operator()(const meshbus::HostAddr& address) const noexcept;
};
template <>
struct std::hash<meshbus::ProcId> {
  std::size_t operator()(const meshbus::ProcId& id) const noexcept;
};
template <>
struct std::hash<meshbus::ActorId> {
  std::size_t operator()(const meshbus::ActorId& id) const noexcept;
};
template <>
struct std::hash<meshbus::PortId> {
  std::size_t operator()(const meshbus::PortId& id) const noexcept;
};
