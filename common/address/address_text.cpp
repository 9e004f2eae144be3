#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <utility>

#include "mesh/text.h"
#include "meshbus/address.h"

// How the addresses of hosts are read, into their one canonical form.
namespace meshbus {
namespace {

constexpr std::size_t kMaxPath = sizeof(sockaddr_un::sun_path) - 1;
constexpr std::size_t kMaxDnsName = 253;
constexpr std::size_t kMaxDnsLabel = 63;
constexpr std::size_t kMaxZone = 15;  // IF_NAMESIZE without its NUL

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

/// Whether the resolver would take the name for an IPv4 address, in one of inet_aton's strange
/// spellings too: its last label is a number.
bool ends_in_number(std::string_view host) noexcept {
  if (host.ends_with('.')) host.remove_suffix(1);
  std::string_view last = host.substr(host.rfind('.') + 1);  // npos + 1 is 0
  const bool hexadecimal = last.starts_with("0x") || last.starts_with("0X");
  if (hexadecimal) last.remove_prefix(2);
  if (last.empty()) return hexadecimal;
  return std::all_of(last.begin(), last.end(), [&](char c) {
    return is_digit(c) || (hexadecimal && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')));
  });
}

Result<std::string> parse_ipv4(text::Scanner part) {
  const std::string host(part.rest());
  in_addr address{};
  if (::inet_pton(AF_INET, host.c_str(), &address) == 1) return host;  // accepts one spelling only
  return part.problem_at(
      part.position(),
      "expected four numbers up to 255 with dots between (an IPv4 address), found '" + host + "'");
}

/// Without brackets.
Result<std::string> parse_ipv6(text::Scanner part) {
  const std::string_view whole = part.rest();
  const std::size_t percent = std::min(whole.find('%'), whole.size());
  const std::string digits(whole.substr(0, percent));
  in6_addr address{};
  if (digits.find('\0') != std::string::npos ||
      ::inet_pton(AF_INET6, digits.c_str(), &address) != 1) {
    return part.problem_at(part.position(),
                           "expected an IPv6 address, found " + text::quoted(digits));
  }
  std::array<char, INET6_ADDRSTRLEN> canonical{};
  ::inet_ntop(AF_INET6, &address, canonical.data(), canonical.size());
  std::string out(canonical.data());
  if (percent == whole.size()) return out;
  text::Scanner zone = part.part("host address", part.position() + percent + 1, part.end());
  const std::string_view name = zone.rest();
  if (name.empty() || name.size() > kMaxZone) {
    return zone.problem_at(zone.position(),
                           "expected the name of an interface of 1 to 15 characters, found " +
                               std::to_string(name.size()));
  }
  for (; !zone.at_end(); zone.advance(1)) {
    const char c = zone.peek();
    if (!is_letter_or_digit(c) && c != '_' && c != '-' && c != '.')
      return zone.unexpected("a letter, a digit or one of _ - .");
  }
  return out + "%" + std::string(name);
}

Result<std::string> parse_dns_name(text::Scanner part) {
  const std::size_t begin = part.position();
  const std::string_view name = part.rest();
  if (name.size() > kMaxDnsName + (name.ends_with('.') ? 1 : 0)) {
    return part.problem_at(begin, "expected a host name of at most 253 characters, found " +
                                      std::to_string(name.size()));
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
      if (previous == '-')
        return part.unexpected_at(part.position() - 1,
                                  "a letter or a digit at the end of a part of a host name");
      if (length > kMaxDnsLabel)
        return part.problem_at(label,
                               "expected a part of a host name of at most 63 characters, found " +
                                   std::to_string(length));
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
  if (path.front() != '/' && path.front() != '@')
    return part.unexpected("'/' or '@' (an absolute path or an abstract name)");
  if (path.size() == 1)
    return part.unexpected_at(part.end(),
                              path == "/" ? "the path of a socket" : "an abstract name");
  if (!text::is_utf8(path)) {
    // Find the first bad byte: the longest good prefix is at most 3 bytes short of a full
    // character.
    std::size_t good = 0;
    for (std::size_t i = 1; i <= std::min(path.size(), kMaxPath + 4); ++i) {
      if (text::is_utf8(path.substr(0, i))) good = i;
    }
    return part.unexpected_at(begin + good, "UTF-8");
  }
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(path[i]);
    if (byte < 0x20 || byte == 0x7F || byte == ',' || byte == '"') {
      return part.unexpected_at(begin + i,
                                "a path without commas, double quotes and control characters");
    }
  }
  if (path.size() > kMaxPath) {
    return part.problem_at(begin + kMaxPath,
                           "expected a socket path of at most 107 bytes (sockaddr_un), found " +
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
  if (Result<void> end = tail.expect_end("the end of the port"); !end)
    return fail(std::move(end).error());
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
  if (Result<void> end = part.expect_end("the end of the number"); !end)
    return fail(std::move(end).error());
  return HostAddr::local(*number);
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

}  // namespace meshbus
