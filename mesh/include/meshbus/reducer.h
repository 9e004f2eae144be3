#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "meshbus/overlay.h"
#include "meshbus/result.h"
#include "meshbus/status_mesh.h"

/// How the replies of many ranks become one.
///
///     using namespace meshbus;
///     Reducer sum = *Reducers::builtin().find("sum");
///     ReplyValue total = *sum.lift(ReplyValue(std::int64_t{3}));
///     sum.combine(total, ReplyValue(std::int64_t{4}));  // total is 7
///     Reducers::builtin().find("avg").error();
///         // not_exist: reducer avg: there are all, any, count, ...
namespace [[gnu::visibility("default")]] meshbus {

/// What a reply carries that can be reduced. Text is whatever bytes a user-defined reducer takes; a
/// TextOverlay holds such bytes by rank.
using ReplyValue =
    std::variant<bool, std::int64_t, double, std::string, StatusOverlay, TextOverlay>;
/// "number"-like names for errors: "bool", "int64", "double", "bytes", "statuses", "overlay".
std::string_view kind_of(const ReplyValue& value) noexcept;
/// The text that an actor answers to say this, and that Reducer::read takes: `true`, `42`, `0.5` (a
/// double always has a point, an exponent, or no digits), `0..3=A` for an overlay (overlay.h),
/// bytes as they are. Doubles come back exactly.
std::string to_text(const ReplyValue& value);

/// Combining must be associative, because hosts on the way reduce what comes first. If it is also
/// commutative, the result does not depend on the order of arrival. Plain functions: they hold no
/// clock, socket or thread and may be called on any.
struct Reducer {
  std::string name;  ///< For people and errors.
  /// What an answer says: a number for sum, min and max, whole ones being int64 and others double;
  /// `true` or `false` for any and all; an overlay for overlay; whatever it is for count and those
  /// of users. Errors: configuration_error.
  std::function<Result<ReplyValue>(std::string_view answer)> read;
  /// Whether it is something that combine() takes. What strangers send is asked about first.
  /// Errors: configuration_error.
  std::function<Result<void>(const ReplyValue& value)> check;
  /// What one rank's reply counts for: itself, or 1 for `count`. Errors: configuration_error when
  /// this reducer cannot take such a value.
  std::function<Result<ReplyValue>(ReplyValue reply)> lift;
  /// Takes `update`, lifted or combined already, into `into`; it is the later one. Errors:
  /// configuration_error when they do not go together; too_large when an integer sum does not fit
  /// in 64 bits. Then `into` is unchanged.
  std::function<Result<void>(ReplyValue& into, const ReplyValue& update)> combine;
};

/// Reducers by name: a request carries the name, and each host on the way looks it up.
class Reducers {
 public:
  /// `overlay` (the later one wins, rank by rank), `sum`, `min`, `max` (int64 or double; NaN is
  /// passed over by min and max), `count` (of ranks, whatever they said), `any`, `all` (bool).
  static const Reducers& builtin();

  /// Adds one of the user's: `combine(into, update)` of bytes, for replies that are bytes. Errors:
  /// configuration_error when the name is not [A-Za-z_][A-Za-z0-9_]* or is taken.
  Result<void> add(std::string name,
                   std::function<std::string(std::string into, const std::string& update)> combine);
  /// Errors: not_exist, with the names that there are.
  Result<Reducer> find(std::string_view name) const;

 private:
  void put(Reducer reducer);

  std::map<std::string, Reducer, std::less<>> by_name_;
};

}  // namespace meshbus
