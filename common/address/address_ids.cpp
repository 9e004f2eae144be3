#include <algorithm>
#include <limits>
#include <ostream>
#include <utility>

#include "mesh/text.h"
#include "meshbus/address.h"
#include "meshbus/key.h"

// Procs, actors and ports: what stands behind the address of a host.
namespace meshbus {
namespace {

/// The last comma of a part; addresses and names hold none.
Result<std::size_t> find_comma(const text::Scanner& part, std::string_view expected) {
  const std::size_t comma = part.rest().rfind(',');
  if (comma == std::string_view::npos) return part.unexpected_at(part.end(), expected);
  return part.position() + comma;
}

Result<std::uint64_t> parse_index(text::Scanner& part, std::string_view expected,
                                  std::uint64_t maximum) {
  if (Result<void> open = part.expect('['); !open) return fail(std::move(open).error());
  Result<std::uint64_t> number = part.number(expected, maximum);
  if (!number) return number;
  if (Result<void> close = part.expect(']'); !close) return fail(std::move(close).error());
  return number;
}

/// `PROC,NAME` up to the first '[' after the last comma; `brackets` is left standing there.
Result<std::pair<ProcId, Name>> parse_proc_and_name(const text::Scanner& part,
                                                    text::Scanner& brackets) {
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

[[gnu::visibility("default")]] std::ostream& operator<<(std::ostream& out, const ProcId& id) {
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
    const Result<std::uint64_t> index =
        parse_index(brackets, "a pid", std::numeric_limits<std::uint64_t>::max());
    if (!index) return fail(index.error());
    pid = *index;
  }
  if (Result<void> end = brackets.expect_end("the end of the actor id"); !end)
    return fail(std::move(end).error());
  return ActorId(std::move(parsed->first), std::move(parsed->second), pid);
}

PortId ActorId::port(std::uint32_t number) const {
  return {*this, number};
}

std::string ActorId::to_string() const {
  return proc_.to_string() + "," + name_.to_string() + "[" + std::to_string(pid_) + "]";
}

[[gnu::visibility("default")]] std::ostream& operator<<(std::ostream& out, const ActorId& id) {
  return out << id.to_string();
}

Result<PortId> PortId::parse(std::string_view text) {
  return parse(text::Scanner("port id", text));
}

Result<PortId> PortId::parse(text::Scanner part) {
  text::Scanner brackets = part;
  Result<std::pair<ProcId, Name>> parsed = parse_proc_and_name(part, brackets);
  if (!parsed) return fail(std::move(parsed).error());
  const Result<std::uint64_t> pid =
      parse_index(brackets, "a pid", std::numeric_limits<std::uint64_t>::max());
  if (!pid) return fail(pid.error());
  const Result<std::uint64_t> port =
      parse_index(brackets, "a port number", std::numeric_limits<std::uint32_t>::max());
  if (!port) return fail(port.error());
  if (Result<void> end = brackets.expect_end("the end of the port id"); !end)
    return fail(std::move(end).error());
  return PortId(ActorId(std::move(parsed->first), std::move(parsed->second), *pid),
                static_cast<std::uint32_t>(*port));
}

std::string PortId::to_string() const {
  return actor_.to_string() + "[" + std::to_string(number_) + "]";
}

[[gnu::visibility("default")]] std::ostream& operator<<(std::ostream& out, const PortId& id) {
  return out << id.to_string();
}

ProcId host_service(const HostAddr& host) {
  return {host, Name::service()};
}

ActorId host_agent(const HostAddr& host) {
  return host_service(host).agent();
}

}  // namespace meshbus

std::size_t std::hash<meshbus::ProcId>::operator()(const meshbus::ProcId& id) const noexcept {
  return static_cast<std::size_t>(id.key());
}
std::size_t std::hash<meshbus::ActorId>::operator()(const meshbus::ActorId& id) const noexcept {
  return static_cast<std::size_t>(meshbus::key_of(id.to_string()));
}
std::size_t std::hash<meshbus::PortId>::operator()(const meshbus::PortId& id) const noexcept {
  return static_cast<std::size_t>(meshbus::key_of(id.to_string()));
}
