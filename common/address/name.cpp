#include "meshbus/name.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <ostream>
#include <system_error>

#include "mesh/text.h"
#include "meshbus/key.h"

namespace meshbus {
namespace {

constexpr std::string_view kBase58 = "123456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ";
constexpr std::array<std::string_view, 4> kReserved = {"service", "local", "agent", "controller"};
constexpr std::string_view kBaseForm = "a letter or '_', then letters, digits and '_'";

std::string print_uuid(std::uint64_t uuid) {
  std::string out(Name::uuid_length, kBase58[0]);
  for (std::size_t i = out.size(); uuid != 0; uuid /= 58) out[--i] = kBase58[uuid % 58];
  return out;
}

Result<std::uint64_t> parse_uuid(text::Scanner part) {
  const std::size_t begin = part.position();
  if (part.at_end())
    return part.problem_at(begin,
                           "MissingUuid: expected 12 base58 characters after '-', found the end");
  std::uint64_t uuid = 0;
  for (; !part.at_end(); part.advance(1)) {
    const std::size_t digit = kBase58.find(part.peek());
    if (digit == std::string_view::npos) {
      return part.unexpected_as("InvalidUuid",
                                "a base58 character (1-9, a-z but l, A-Z but I and O)");
    }
    if (part.position() - begin == Name::uuid_length)
      return part.unexpected_as("InvalidUuid", "the end after 12 base58 characters");
    if (__builtin_mul_overflow(uuid, std::uint64_t{58}, &uuid) ||
        __builtin_add_overflow(uuid, std::uint64_t{digit}, &uuid)) {
      return part.problem_at(begin,
                             "InvalidUuid: expected a number of 64 bits, found a larger one");
    }
  }
  if (part.position() - begin < Name::uuid_length)
    return part.unexpected_as("InvalidUuid", "12 base58 characters");
  return uuid;
}

/// The characters of a base; its length is for the caller to judge. Reads `part` whole.
Result<std::string> parse_base(text::Scanner part) {
  const std::string base(part.rest());
  if (base.empty())
    return part.problem_at(part.position(),
                           "MissingName: expected " + std::string(kBaseForm) + ", found none");
  if (!text::is_identifier_start(part.peek())) return part.unexpected_as("InvalidName", kBaseForm);
  for (; !part.at_end(); part.advance(1)) {
    if (!text::is_identifier_part(part.peek()))
      return part.unexpected_as("InvalidName", "a letter, a digit or '_'");
  }
  return base;
}

Result<void> check_length(const text::Scanner& part, std::size_t length) {
  if (length <= Name::max_base) return {};
  return part.problem_at(
      part.position() + Name::max_base,
      "InvalidName: expected a base of at most 63 characters, found " + std::to_string(length));
}

struct Parts {
  text::Scanner base_text;
  std::string base;
  std::optional<std::uint64_t> uuid;
};

Result<Parts> split(const text::Scanner& whole) {
  const std::size_t dash = whole.rest().rfind('-');
  const std::size_t begin = whole.position();
  const std::size_t base_end = dash == std::string_view::npos ? whole.end() : begin + dash;
  Parts parts{whole.part("name", begin, base_end), {}, {}};
  Result<std::string> base = parse_base(parts.base_text);
  if (!base) return fail(std::move(base).error());
  parts.base = std::move(*base);
  if (dash != std::string_view::npos) {
    Result<std::uint64_t> uuid = parse_uuid(whole.part("name", base_end + 1, whole.end()));
    if (!uuid) return fail(std::move(uuid).error());
    if (Name::is_reserved(parts.base)) {
      return whole.problem_at(begin, "InvalidName: expected a base that is not reserved, found '" +
                                         parts.base + "', which carries no uuid");
    }
    parts.uuid = *uuid;
  }
  return parts;
}

/// Where the create rank's '_' stands in a base, or npos when there is no create rank.
std::size_t find_rank(std::string_view base) {
  const std::size_t underscore = base.rfind('_');
  if (underscore == 0 || underscore == std::string_view::npos) return std::string_view::npos;
  const std::string_view digits = base.substr(underscore + 1);
  const bool canonical = digits == "0" || (!digits.empty() && digits.front() != '0');
  std::uint64_t rank = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  return canonical && error == std::errc() && stop == digits.data() + digits.size()
             ? underscore
             : std::string_view::npos;
}

}  // namespace

Result<Name> Name::make(std::string_view base) {
  std::uint64_t uuid = 0;
  // 8 bytes come whole or not at all; EINTR can only happen while the kernel's pool is not ready
  // yet.
  while (::getrandom(&uuid, sizeof uuid, 0) != sizeof uuid) {
    if (errno != EINTR)
      return fail(ErrorCode::io_error,
                  "name: getrandom: " + std::generic_category().message(errno));
  }
  return make(base, uuid);
}

Result<Name> Name::make(std::string_view base, std::uint64_t uuid) {
  Result<Name> name = plain(base);
  if (!name) return name;
  if (is_reserved(base)) {
    return fail(ErrorCode::parse_error, "name: at 0: InvalidName: '" + name->base_ +
                                            "' is reserved for the system: choose another name");
  }
  name->uuid_ = uuid;
  return name;
}

Result<Name> Name::plain(std::string_view base) {
  const text::Scanner part("name", base);
  Result<std::string> parsed = parse_base(part);
  if (!parsed) return fail(std::move(parsed).error());
  if (Result<void> length = check_length(part, parsed->size()); !length)
    return fail(std::move(length).error());
  return Name(std::move(*parsed), std::nullopt);
}

Result<Name> Name::parse(std::string_view text) {
  return parse(text::Scanner("name", text));
}

Result<Name> Name::parse(text::Scanner part) {
  Result<Parts> parts = split(part);
  if (!parts) return fail(std::move(parts).error());
  if (Result<void> length = check_length(parts->base_text, parts->base.size()); !length)
    return fail(std::move(length).error());
  return Name(std::move(parts->base), parts->uuid);
}

Name Name::service() {
  return {"service", std::nullopt};
}
Name Name::local() {
  return {"local", std::nullopt};
}
Name Name::agent() {
  return {"agent", std::nullopt};
}
Name Name::controller() {
  return {"controller", std::nullopt};
}

bool Name::is_reserved(std::string_view base) noexcept {
  for (const std::string_view name : kReserved) {
    if (base == name) return true;
  }
  return false;
}

std::string Name::to_string() const {
  return uuid_ ? base_ + "-" + print_uuid(*uuid_) : base_;
}

[[gnu::visibility("default")]] std::ostream& operator<<(std::ostream& out, const Name& name) {
  return out << name.to_string();
}

Result<ProcName> ProcName::parse(std::string_view text) {
  return parse(text::Scanner("proc name", text));
}

Result<ProcName> ProcName::parse(text::Scanner part) {
  const Result<Parts> parts = split(part);
  if (!parts) return fail(parts.error());
  const std::size_t rank =
      parts->base.size() > Name::max_base ? find_rank(parts->base) : std::string_view::npos;
  const std::size_t length = rank == std::string_view::npos ? parts->base.size() : rank;
  if (Result<void> fits = check_length(parts->base_text, length); !fits)
    return fail(std::move(fits).error());
  return ProcName(std::string(part.rest()));
}

[[gnu::visibility("default")]] std::ostream& operator<<(std::ostream& out, const ProcName& name) {
  return out << name.to_string();
}

[[gnu::visibility("default")]] ProcName proc_name(const Name& mesh, std::uint64_t create_rank) {
  std::string text = mesh.base() + "_" + std::to_string(create_rank);
  if (mesh.uuid()) text += "-" + print_uuid(*mesh.uuid());
  return ProcName(std::move(text));
}

Result<MeshProc> parse_proc_name(const ProcName& name) {
  return parse_proc_name(name.to_string());
}

Result<MeshProc> parse_proc_name(std::string_view text) {
  const text::Scanner whole("proc name", text);
  Result<Parts> parts = split(whole);
  if (!parts) return fail(std::move(parts).error());
  const std::size_t underscore = find_rank(parts->base);
  if (underscore == std::string_view::npos) {
    return whole.problem_at(
        parts->base.size(),
        "InvalidName: expected a create rank ('_3') at the end of the base, found " +
            text::quoted(parts->base));
  }
  std::uint64_t rank = 0;
  std::from_chars(parts->base.data() + underscore + 1, parts->base.data() + parts->base.size(),
                  rank);
  const std::string_view base = std::string_view(parts->base).substr(0, underscore);
  Result<Name> mesh = parts->uuid ? Name::make(base, *parts->uuid) : Name::plain(base);
  if (!mesh) return fail(std::move(mesh).error());
  return MeshProc{std::move(*mesh), rank};
}

}  // namespace meshbus

std::size_t std::hash<meshbus::Name>::operator()(const meshbus::Name& name) const noexcept {
  // The uuid alone tells nearly all names apart; spread it, as it may have been chosen by somebody.
  return static_cast<std::size_t>(meshbus::key_of(name.base()) ^
                                  (name.uuid().value_or(0) * 0x9E3779B97F4A7C15U));
}

std::size_t std::hash<meshbus::ProcName>::operator()(const meshbus::ProcName& name) const noexcept {
  return static_cast<std::size_t>(meshbus::key_of(name.to_string()));
}
