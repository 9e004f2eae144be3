#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>

#include "meshbus/result.h"

/// How a resource stands: a host, a proc or an actor.
///
///     using namespace meshbus;
///     Status status = Status::Kind::running;
///     status.has_reached(Status::Kind::initializing);    // true: statuses go one way
///     status.is_healthy();                               // true
///     Status::failed("exit 3").to_string();              // Failed("exit 3")
///     Status::timeout(std::chrono::seconds(30));         // Timeout(30s)
///     *Status::parse("Timeout(1500ms)");                 // and back
///     Status().has_reached(Status::Kind::not_exist);     // false: unknown satisfies no wait
namespace [[gnu::visibility("default")]] meshbus {
namespace text {
class Scanner;
}

/// A plain value, ordered: Unknown, NotExist, Initializing, Running, Stopping, Stopped, Failed
/// (then by reason), Timeout (then by duration).
class Status {
 public:
  /// The numbers travel (schemas/types.fbs): append only.
  enum class Kind : std::uint8_t {
    unknown = 0,       ///< Nobody could say. Satisfies no wait.
    not_exist = 1,     ///< There is no such resource (yet).
    initializing = 2,  ///< Being started.
    running = 3,       ///< Alive.
    stopping = 4,      ///< Being stopped.
    stopped = 5,       ///< Ended as asked, or (a proc) by exiting, whatever its code.
    failed = 6,        ///< Ended otherwise; the reason says how.
    timeout =
        7,  ///< Did not get there in time, and was given up; the duration says after how long.
  };

  /// Few of the statuses of a mesh are different (see value_mesh.h).
  static constexpr bool is_interned = true;

  /// Unknown.
  Status() noexcept = default;
  /// Failed without a reason, Timeout without a duration. A number that is none of the kinds is
  /// unknown. Implicit on purpose.
  Status(Kind kind) noexcept
      : kind_(kind > Kind::timeout ? Kind::unknown : kind) {
  }  // NOLINT(google-explicit-constructor)
  /// Bytes of the reason that are not UTF-8 become U+FFFD, so that every status prints and travels.
  static Status failed(std::string reason);
  /// Below zero is zero.
  static Status timeout(std::chrono::milliseconds after) noexcept;

  Kind kind() const noexcept { return kind_; }  ///< Which one, without reason or duration.
  /// Empty unless failed.
  const std::string& reason() const noexcept;
  /// Zero unless timeout.
  std::chrono::milliseconds duration() const noexcept { return duration_; }

  /// Stopping, Stopped, Failed, Timeout.
  bool is_terminating() const noexcept { return kind_ >= Kind::stopping; }
  /// Stopped, Failed, Timeout: nothing comes after it.
  bool is_terminated() const noexcept { return kind_ >= Kind::stopped; }
  /// Failed, Timeout.
  bool is_failure() const noexcept { return kind_ >= Kind::failed; }
  /// Initializing, Running.
  bool is_healthy() const noexcept { return kind_ == Kind::initializing || kind_ == Kind::running; }
  /// Whether a wait for at least `minimum` is over. Never when unknown.
  bool has_reached(Kind minimum) const noexcept {
    return kind_ != Kind::unknown && kind_ >= minimum;
  }

  /// `Running`, `Failed("exit 3")`, `Timeout(30s)`, `Timeout(1500ms)`; `Failed` without a reason,
  /// `Timeout` without a duration.
  std::string to_string() const;
  /// Reads what to_string() printed; white space around tokens is skipped. Errors: parse_error,
  /// with the position as a byte offset from 0.
  static Result<Status> parse(std::string_view text);
  /// For parsers of longer texts inside meshbus: reads a status and stops behind it.
  static Result<Status> read(text::Scanner& scanner);

  friend bool operator==(const Status& a, const Status& b) noexcept {
    return a.kind_ == b.kind_ && a.duration_ == b.duration_ &&
           (a.reason_ == b.reason_ || a.reason() == b.reason());
  }
  friend std::strong_ordering operator<=>(const Status& a, const Status& b) noexcept;
  friend std::ostream& operator<<(std::ostream& out, const Status& status);

 private:
  Kind kind_ = Kind::unknown;
  std::chrono::milliseconds duration_{0};
  std::shared_ptr<const std::string>
      reason_;  // shared by copies: many ranks fail for one reason; null = empty
};

/// "Initializing". Never null.
std::string_view to_string(Status::Kind kind) noexcept;

}  // namespace meshbus
