#include "meshbus/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <ostream>
#include <utility>

#include "mesh/text.h"
#include "meshbus/key.h"

namespace meshbus {
namespace {

constexpr std::size_t max_path = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::size_t max_dns_name = 253;
constexpr std::size_t max_dns_label = 63;
constexpr std::size_t max_zone = 15;  // IF_NAMESIZE without its NUL

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}
bool is_letter_or_digit(char c) noexcept {
  return text::is_identifier_part(c) && c != '_';
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

/// Whether the resolver would take the name for an IPv4 address, in one of inet_aton's strange spellings too: its last label is a number.
bool ends_in_number(std::string_view host) noexcept {
  if (host.ends_with('.')) host.remove_suffix(1);
  std::string_view last = host.substr(host.rfind('.') + 1);  // npos + 1 is 0
  const bool hexadecimal = last.starts_with("0x") || last.starts_with("0X");
  if (hexadecimal) last.remove_prefix(2);
  if (last.empty()) return hexadecimal;
  return std::all_of(last.begin(), last.end(),
                     [&](char c) { return is_digit(c) || (hexadecimal && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))); });
}

Result<std::string> parse_ipv4(text::Scanner part) {
  const std::string host(part.rest());
  in_addr address{};
  if (::inet_pton(AF_INET, host.c_str(), &address) == 1) return host;  // accepts one spelling only
  return part.problem_at(part.position(), "expected four numbers up to 255 with dots between (an IPv4 address), found '" + host + "'");
}

/// Without brackets.
Result<std::string> parse_ipv6(text::Scanner part) {
  const std::string_view whole = part.rest();
  const std::size_t percent = std::min(whole.find('%'), whole.size());
  const std::string digits(whole.substr(0, percent));
  in6_addr address{};
  if (digits.find('\0') != std::string::npos || ::inet_pton(AF_INET6, digits.c_str(), &address) != 1) {
    return part.problem_at(part.position(), "expected an IPv6 address, found " + text::quoted(digits));
  }
  std::array<char, INET6_ADDRSTRLEN> canonical{};
  ::inet_ntop(AF_INET6, &address, canonical.data(), canonical.size());
  std::string out(canonical.data());
  if (percent == whole.size()) return out;
  text::Scanner zone = part.part("host address", part.position() + percent + 1, part.end());
  const std::string_view name = zone.rest();
  if (name.empty() || name.size() > max_zone) {
    return zone.problem_at(zone.position(),
                           "expected the name of an interface of 1 to 15 characters, found " + std::to_string(name.size()));
  }
  for (; !zone.at_end(); zone.advance(1)) {
    const char c = zone.peek();
    if (!is_letter_or_digit(c) && c != '_' && c != '-' && c != '.') return zone.unexpected("a letter, a digit or one of _ - .");
  }
  return out + "%" + std::string(name);
}

Result<std::string> parse_dns_name(text::Scanner part) {
  const std::size_t begin = part.position();
  const std::string_view name = part.rest();
  if (name.size() > max_dns_name + (name.ends_with('.') ? 1 : 0)) {
    return part.problem_at(begin, "expected a host name of at most 253 characters, found " + std::to_string(name.size()));
  }
  std::size_t label = begin;
  char previous = '.';
  for (;; part.advance(1)) {
    const bool end = part.at_end();
    const char c = end ? '.' : part.peek();
    if (c == '.') {
      const std::size_t length = part.position() - label;
      if (end && length == 0 && label != begin) break;  // a trailing dot: a name from the root
      if (length == 0) return part.unexpected("a host name");
      if (previous == '-') return part.unexpected_at(part.position() - 1, "a letter or a digit at the end of a part of a host name");
      if (length > max_dns_label)
        return part.problem_at(label, "expected a part of a host name of at most 63 characters, found " + std::to_string(length));
      if (end) break;
      label = part.position() + 1;
    } else if (!is_letter_or_digit(c) && c != '_' && !(c == '-' && previous != '.')) {
      return part.unexpected(c == ':' ? "a host name (an IPv6 address stands in brackets)"
                                      : "a host name (letters, digits, '-', '_', '.')");
    }
    previous = c;
  }
  return lower(name);
}

/// A host as it stands in a text: IPv6 in brackets.
Result<std::string> parse_host(text::Scanner part) {
  if (part.rest() == "*") return std::string("*");
  if (part.accept('[')) {
    if (!part.rest().ends_with(']')) return part.unexpected_at(part.end(), "']'");
    return parse_ipv6(part.part("host address", part.position(), part.end() - 1));
  }
  Result<std::string> name = parse_dns_name(part);
  if (name && ends_in_number(*name)) return parse_ipv4(part);
  return name;
}

/// A path, `@` + an abstract name, or nothing.
Result<std::string> parse_path(text::Scanner part) {
  const std::size_t begin = part.position();
  const std::string_view path = part.rest();
  if (path.empty()) return std::string();
  if (path.front() != '/' && path.front() != '@') return part.unexpected("'/' or '@' (an absolute path or an abstract name)");
  if (path.size() == 1) return part.unexpected_at(part.end(), path == "/" ? "the path of a socket" : "an abstract name");
  if (!text::is_utf8(path)) {
    // Find the first bad byte: the longest good prefix is at most 3 bytes short of a full character.
    std::size_t good = 0;
    for (std::size_t i = 1; i <= std::min(path.size(), max_path + 4); ++i) {
      if (text::is_utf8(path.substr(0, i))) good = i;
    }
    return part.unexpected_at(begin + good, "UTF-8");
  }
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(path[i]);
    if (byte < 0x20 || byte == 0x7F || byte == ',' || byte == '"') {
      return part.unexpected_at(begin + i, "a path without commas, double quotes and control characters");
    }
  }
  if (path.size() > max_path) {
    return part.problem_at(begin + max_path, "expected a socket path of at most 107 bytes (sockaddr_un), found " +
                                                 std::to_string(path.size()) + ": use a shorter directory");
  }
  return std::string(path);
}

Result<HostAddr> parse_tcp(text::Scanner part, bool stars) {
  const std::size_t begin = part.position();
  const std::size_t colon = part.rest().rfind(':');
  const std::size_t bracket = part.rest().rfind(']');
  if (colon == std::string_view::npos || (bracket != std::string_view::npos && bracket > colon)) {
    return part.unexpected_at(part.end(), "':' and a port");
  }
  const Result<std::string> host = parse_host(part.part("host address", begin, begin + colon));
  if (!host) return fail(host.error());
  text::Scanner tail = part.part("host address", begin + colon + 1, part.end());
  std::uint64_t port = 0;
  if (!(stars && tail.accept('*'))) {
    const Result<std::uint64_t> number = tail.number("a port", 65535);
    if (!number) return fail(number.error());
    port = *number;
  }
  if (Result<void> end = tail.expect_end("the end of the port"); !end) return fail(std::move(end).error());
  return HostAddr::tcp(*host, static_cast<std::uint16_t>(port));
}

Result<HostAddr> parse_unix(const text::Scanner& part, bool stars) {
  if (stars && part.rest() == "*") return HostAddr::unix_socket("");
  const Result<std::string> path = parse_path(part);
  if (!path) return fail(path.error());
  return HostAddr::unix_socket(*path);
}

Result<HostAddr> parse_local(text::Scanner part) {
  const Result<std::uint64_t> number = part.number("a number");
  if (!number) return fail(number.error());
  if (Result<void> end = part.expect_end("the end of the number"); !end) return fail(std::move(end).error());
  return HostAddr::local(*number);
}

/// The IPv4 or IPv6 bytes of a canonical host, IPv4-mapped ones as IPv4. Nothing for names.
struct Literal {
  bool v4 = false;
  bool v6 = false;
  std::array<std::uint8_t, 16> bytes{};
};

Literal literal(std::string_view host) noexcept {
  Literal out;
  std::array<char, INET6_ADDRSTRLEN> text{};
  host = host.substr(0, host.find('%'));
  if (host.size() >= text.size()) return out;
  std::copy(host.begin(), host.end(), text.begin());
  if (::inet_pton(AF_INET, text.data(), out.bytes.data()) == 1) {
    out.v4 = true;
  } else if (::inet_pton(AF_INET6, text.data(), out.bytes.data()) == 1) {
    constexpr std::array<std::uint8_t, 12> mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    out.v4 = std::equal(mapped.begin(), mapped.end(), out.bytes.begin());
    out.v6 = !out.v4;
    if (out.v4) std::copy(out.bytes.begin() + 12, out.bytes.end(), out.bytes.begin());
  }
  return out;
}

/// The last comma of a part; addresses and names hold none.
Result<std::size_t> find_comma(const text::Scanner& part, std::string_view expected) {
  const std::size_t comma = part.rest().rfind(',');
  if (comma == std::string_view::npos) return part.unexpected_at(part.end(), expected);
  return part.position() + comma;
}

Result<std::uint64_t> parse_index(text::Scanner& part, std::string_view expected, std::uint64_t maximum) {
  if (Result<void> open = part.expect('['); !open) return fail(std::move(open).error());
  Result<std::uint64_t> number = part.number(expected, maximum);
  if (!number) return number;
  if (Result<void> close = part.expect(']'); !close) return fail(std::move(close).error());
  return number;
}

/// `PROC,NAME` up to the first '[' after the last comma; `brackets` is left standing there.
Result<std::pair<ProcId, Name>> parse_proc_and_name(const text::Scanner& part, text::Scanner& brackets) {
  const Result<std::size_t> comma = find_comma(part, "',' and the name of an actor");
  if (!comma) return fail(comma.error());
  Result<ProcId> proc = ProcId::parse(part.part("proc id", part.position(), *comma));
  if (!proc) return fail(std::move(proc).error());
  const std::string_view tail = part.rest().substr(*comma + 1 - part.position());
  const std::size_t name_end = *comma + 1 + std::min(tail.find('['), tail.size());
  Result<Name> name = Name::parse(part.part("name", *comma + 1, name_end));
  if (!name) return fail(std::move(name).error());
  brackets.advance(name_end - brackets.position());
  return std::pair(std::move(*proc), std::move(*name));
}

}  // namespace

Result<HostAddr> HostAddr::tcp(std::string_view host, std::uint16_t port) {
  const text::Scanner part("host address", host);
  const bool bare_ipv6 = host.find(':') != std::string_view::npos && !host.starts_with('[');
  Result<std::string> canonical = bare_ipv6 ? parse_ipv6(part) : parse_host(part);
  if (!canonical) return fail(std::move(canonical).error());
  return HostAddr(Transport::tcp, std::move(*canonical), port);
}

Result<HostAddr> HostAddr::unix_socket(std::string_view path) {
  Result<std::string> checked = parse_path(text::Scanner("host address", path));
  if (!checked) return fail(std::move(checked).error());
  return HostAddr(Transport::unix_socket, std::move(*checked), 0);
}

HostAddr HostAddr::local(std::uint64_t number) {
  return {Transport::local, {}, number};
}

Result<HostAddr> HostAddr::parse(std::string_view text) {
  return parse(text::Scanner("host address", text));
}

Result<HostAddr> HostAddr::parse(text::Scanner part) {
  if (part.accept("tcp://")) return parse_tcp(part, true);
  if (part.accept("ipc://")) return parse_unix(part, true);
  if (part.accept("inproc://")) return parse_local(part);
  if (part.accept("tcp:")) return parse_tcp(part, false);
  if (part.accept("unix:")) return parse_unix(part, false);
  if (part.accept("local:")) return parse_local(part);
  return part.unexpected("tcp:HOST:PORT, unix:/PATH, unix:@NAME or local:N");
}

bool HostAddr::is_any() const noexcept {
  return transport_ == Transport::unix_socket ? name_.empty() : number_ == 0;
}

bool HostAddr::is_wildcard() const noexcept {
  if (transport_ != Transport::tcp) return false;
  if (name_ == "*") return true;
  const Literal address = literal(name_);
  const std::size_t size = address.v4 ? 4 : 16;
  return (address.v4 || address.v6) &&
         std::all_of(address.bytes.begin(), address.bytes.begin() + size, [](std::uint8_t byte) { return byte == 0; });
}

bool HostAddr::is_loopback() const noexcept {
  if (transport_ != Transport::tcp) return false;
  std::string_view name = name_;
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name == "localhost" || name.ends_with(".localhost")) return true;
  const Literal address = literal(name_);
  if (address.v4) return address.bytes[0] == 127;
  constexpr std::array<std::uint8_t, 16> one = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return address.v6 && address.bytes == one;
}

bool HostAddr::is_link_local() const noexcept {
  if (transport_ != Transport::tcp) return false;
  const Literal address = literal(name_);
  if (address.v4) return address.bytes[0] == 169 && address.bytes[1] == 254;
  return address.v6 && address.bytes[0] == 0xFE && (address.bytes[1] & 0xC0) == 0x80;
}

bool HostAddr::is_reachable_from_elsewhere() const noexcept {
  return transport_ == Transport::tcp && !is_any() && !is_wildcard() && !is_loopback() && !is_link_local();
}

bool HostAddr::is_ipv6() const noexcept {
  return transport_ == Transport::tcp && name_.find(':') != std::string::npos;
}

std::string HostAddr::to_string() const {
  switch (transport_) {
    case Transport::tcp: return "tcp:" + (is_ipv6() ? "[" + name_ + "]" : name_) + ":" + std::to_string(number_);
    case Transport::unix_socket: return "unix:" + name_;
    case Transport::local: break;
  }
  return "local:" + std::to_string(number_);
}

std::string HostAddr::zmq_endpoint() const {
  switch (transport_) {
    case Transport::tcp: return "tcp://" + (is_ipv6() ? "[" + name_ + "]" : name_) + ":" + (number_ == 0 ? "*" : std::to_string(number_));
    case Transport::unix_socket: return "ipc://" + (name_.empty() ? "*" : name_);
    case Transport::local: break;
  }
  return "inproc://" + std::to_string(number_);
}

std::uint64_t HostAddr::key() const noexcept {
  return key_of(to_string());
}

std::ostream& operator<<(std::ostream& out, const HostAddr& address) {
  return out << address.to_string();
}

Result<ProcId> ProcId::parse(std::string_view text) {
  return parse(text::Scanner("proc id", text));
}

Result<ProcId> ProcId::parse(text::Scanner part) {
  const Result<std::size_t> comma = find_comma(part, "',' and the name of a proc");
  if (!comma) return fail(comma.error());
  Result<HostAddr> host = HostAddr::parse(part.part("host address", part.position(), *comma));
  if (!host) return fail(std::move(host).error());
  Result<ProcName> name = ProcName::parse(part.part("proc name", *comma + 1, part.end()));
  if (!name) return fail(std::move(name).error());
  return ProcId(std::move(*host), std::move(*name));
}

ActorId ProcId::actor(Name name, std::uint64_t pid) const {
  return {*this, std::move(name), pid};
}

ActorId ProcId::agent() const {
  return {*this, Name::agent(), 0};
}

std::string ProcId::to_string() const {
  return host_.to_string() + "," + name_.to_string();
}

std::uint64_t ProcId::key() const noexcept {
  return key_of(to_string());
}

std::ostream& operator<<(std::ostream& out, const ProcId& id) {
  return out << id.to_string();
}

Result<ActorId> ActorId::parse(std::string_view text) {
  return parse(text::Scanner("actor id", text));
}

Result<ActorId> ActorId::parse(text::Scanner part) {
  text::Scanner brackets = part;
  Result<std::pair<ProcId, Name>> parsed = parse_proc_and_name(part, brackets);
  if (!parsed) return fail(std::move(parsed).error());
  std::uint64_t pid = 0;
  if (!brackets.at_end()) {
    const Result<std::uint64_t> index = parse_index(brackets, "a pid", std::numeric_limits<std::uint64_t>::max());
    if (!index) return fail(index.error());
    pid = *index;
  }
  if (Result<void> end = brackets.expect_end("the end of the actor id"); !end) return fail(std::move(end).error());
  return ActorId(std::move(parsed->first), std::move(parsed->second), pid);
}

PortId ActorId::port(std::uint32_t number) const {
  return {*this, number};
}

std::string ActorId::to_string() const {
  return proc_.to_string() + "," + name_.to_string() + "[" + std::to_string(pid_) + "]";
}

std::ostream& operator<<(std::ostream& out, const ActorId& id) {
  return out << id.to_string();
}

Result<PortId> PortId::parse(std::string_view text) {
  return parse(text::Scanner("port id", text));
}

Result<PortId> PortId::parse(text::Scanner part) {
  text::Scanner brackets = part;
  Result<std::pair<ProcId, Name>> parsed = parse_proc_and_name(part, brackets);
  if (!parsed) return fail(std::move(parsed).error());
  const Result<std::uint64_t> pid = parse_index(brackets, "a pid", std::numeric_limits<std::uint64_t>::max());
  if (!pid) return fail(pid.error());
  const Result<std::uint64_t> port = parse_index(brackets, "a port number", std::numeric_limits<std::uint32_t>::max());
  if (!port) return fail(port.error());
  if (Result<void> end = brackets.expect_end("the end of the port id"); !end) return fail(std::move(end).error());
  return PortId(ActorId(std::move(parsed->first), std::move(parsed->second), *pid), static_cast<std::uint32_t>(*port));
}

std::string PortId::to_string() const {
  return actor_.to_string() + "[" + std::to_string(number_) + "]";
}

std::ostream& operator<<(std::ostream& out, const PortId& id) {
  return out << id.to_string();
}

ProcId host_service(const HostAddr& host) {
  return {host, Name::service()};
}

ActorId host_agent(const HostAddr& host) {
  return host_service(host).agent();
}

}  // namespace meshbus

std::size_t std::hash<meshbus::HostAddr>::operator()(const meshbus::HostAddr& address) const noexcept {
  return static_cast<std::size_t>(address.key());
}
std::size_t std::hash<meshbus::ProcId>::operator()(const meshbus::ProcId& id) const noexcept {
  return static_cast<std::size_t>(id.key());
}
std::size_t std::hash<meshbus::ActorId>::operator()(const meshbus::ActorId& id) const noexcept {
  return static_cast<std::size_t>(meshbus::key_of(id.to_string()));
}
std::size_t std::hash<meshbus::PortId>::operator()(const meshbus::PortId& id) const noexcept {
  return static_cast<std::size_t>(meshbus::key_of(id.to_string()));
}
