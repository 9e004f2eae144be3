#include "meshbus/status.h"

#include <algorithm>
#include <array>
#include <limits>
#include <ostream>

#include "mesh/duration.h"
#include "mesh/text.h"

namespace meshbus {
namespace {

// In the order of their numbers.
constexpr std::array<std::string_view, 8> kNames = {
    "Unknown", "NotExist", "Initializing", "Running", "Stopping", "Stopped", "Failed", "Timeout"};

Result<Status> read_reason(text::Scanner& scanner) {
  if (scanner.accept("\"\"")) return Status(Status::Kind::failed);
  Result<std::string> reason = scanner.label();
  if (!reason) return fail(std::move(reason).error());
  return Status::failed(std::move(*reason));
}

Result<Status> read_duration(text::Scanner& scanner) {
  const std::size_t begin = scanner.position();
  constexpr std::uint64_t limit = std::numeric_limits<std::int64_t>::max();
  const Result<std::uint64_t> number = scanner.number("a duration (250ms, 30s)", limit);
  if (!number) return fail(number.error());
  if (scanner.accept("ms")) return Status::timeout(std::chrono::milliseconds(*number));
  if (!scanner.accept('s')) return scanner.unexpected("'ms' or 's'");
  if (*number > limit / 1000)
    return scanner.problem_at(begin, "expected a duration of at most 2^63 ms, found a longer one");
  return Status::timeout(std::chrono::milliseconds(*number * 1000));
}

}  // namespace

std::string_view to_string(Status::Kind kind) noexcept {
  const auto index = static_cast<std::size_t>(kind);
  return kNames[index < kNames.size() ? index : 0];
}

Status Status::failed(std::string reason) {
  Status status(Kind::failed);
  if (reason.empty()) return status;
  if (!text::is_utf8(reason)) {
    const std::string quoted = text::quoted(reason);
    reason = text::Scanner("reason", quoted).label().value();  // what quoted() makes can be read
  }
  status.reason_ = std::make_shared<const std::string>(std::move(reason));
  return status;
}

const std::string& Status::reason() const noexcept {
  static const std::string none;
  return reason_ == nullptr ? none : *reason_;
}

Status Status::timeout(std::chrono::milliseconds after) noexcept {
  Status status(Kind::timeout);
  status.duration_ = std::max(after, std::chrono::milliseconds(0));
  return status;
}

std::string Status::to_string() const {
  std::string out(meshbus::to_string(kind_));
  if (reason_ != nullptr) out += "(" + text::quoted(*reason_) + ")";
  if (duration_.count() != 0) out += "(" + duration_text(duration_) + ")";
  return out;
}

Result<Status> Status::parse(std::string_view text) {
  text::Scanner scanner("status", text);
  scanner.skip_spaces();
  Result<Status> status = read(scanner);
  if (!status) return status;
  scanner.skip_spaces();
  if (Result<void> end = scanner.expect_end("the end"); !end) return fail(std::move(end).error());
  return status;
}

Result<Status> Status::read(text::Scanner& scanner) {
  const std::size_t begin = scanner.position();
  std::size_t length = 0;
  while (length < scanner.rest().size() && text::is_identifier_part(scanner.rest()[length]))
    ++length;
  const auto name = std::find(kNames.begin(), kNames.end(), scanner.rest().substr(0, length));
  if (name == kNames.end())
    return scanner.unexpected_at(
        begin, "Unknown, NotExist, Initializing, Running, Stopping, Stopped, Failed or Timeout");
  scanner.advance(length);
  const auto kind = static_cast<Kind>(name - kNames.begin());
  if (kind < Kind::failed || !scanner.accept('(')) return Status(kind);
  scanner.skip_spaces();
  Result<Status> status = kind == Kind::failed ? read_reason(scanner) : read_duration(scanner);
  if (!status) return status;
  scanner.skip_spaces();
  if (Result<void> close = scanner.expect(')'); !close) return fail(std::move(close).error());
  return status;
}

[[gnu::visibility("default")]] std::strong_ordering operator<=>(const Status& a,
                                                                const Status& b) noexcept {
  if (const auto order = a.kind_ <=> b.kind_; order != 0) return order;
  if (const auto order = a.duration_.count() <=> b.duration_.count(); order != 0) return order;
  if (a.reason_ == b.reason_) return std::strong_ordering::equal;
  return a.reason() <=> b.reason();
}

[[gnu::visibility("default")]] std::ostream& operator<<(std::ostream& out, const Status& status) {
  return out << status.to_string();
}

}  // namespace meshbus
