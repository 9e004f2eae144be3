#include "meshbus/reducer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>

#include "mesh/text.h"

namespace meshbus {
namespace {

/// What quotes an answer has so much of it.
constexpr std::size_t kQuoted = 40;

Error unreadable(const std::string& name, std::string_view expected, std::string_view answer) {
  return {ErrorCode::configuration_error,
          "reducer " + name + ": expected " + std::string(expected) + ", found " +
              text::quoted(answer.substr(0, kQuoted)) + (answer.size() > kQuoted ? "..." : "")};
}

/// A number that is the whole text.
template <typename T>
std::optional<T> whole_number(std::string_view text) {
  T value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<ReplyValue> read_number(const std::string& name, std::string_view answer) {
  if (const auto integer = whole_number<std::int64_t>(answer)) return *integer;
  // A whole number that does not fit must not lose its last digits silently.
  const bool is_integer =
      !answer.empty() && answer.find_first_not_of("-0123456789") == std::string_view::npos;
  if (const auto number = whole_number<double>(answer); number && !is_integer) return *number;
  return fail(unreadable(name, is_integer ? "a number of 64 bits" : "a number", answer));
}

Result<ReplyValue> read_bool(const std::string& name, std::string_view answer) {
  if (answer == "true") return true;
  if (answer == "false") return false;
  return fail(unreadable(name, "true or false", answer));
}

Result<ReplyValue> read_overlay(const std::string& name, std::string_view answer) {
  auto overlay = parse_overlay(answer);
  if (!overlay)
    return fail(ErrorCode::configuration_error,
                "reducer " + name + ": " + overlay.error().detail());
  return std::move(*overlay);
}

Result<ReplyValue> read_bytes(const std::string&, std::string_view answer) {
  return std::string(answer);
}

using Read = Result<ReplyValue> (*)(const std::string& name, std::string_view answer);

/// Makes a reducer of a function over pairs of one type each; `combine(into, update)` returns
/// whether it could. Values of other types are errors that name the types it takes.
template <typename... Taken, typename Combine>
Reducer reducer_of(std::string name, Read read, std::string takes, Combine combine) {
  Reducer reducer;
  reducer.name = name;
  reducer.read = [name, read](std::string_view answer) { return read(name, answer); };
  reducer.check = [name, takes](const ReplyValue& value) -> Result<void> {
    if ((std::holds_alternative<Taken>(value) || ...)) return {};
    return fail(ErrorCode::configuration_error, "reducer " + name + ": expected " + takes +
                                                    ", found " + std::string(kind_of(value)));
  };
  reducer.lift = [check = reducer.check](ReplyValue reply) -> Result<ReplyValue> {
    if (Result<void> fine = check(reply); !fine) return fail(std::move(fine).error());
    return reply;
  };
  reducer.combine = [name, check = reducer.check, combine](
                        ReplyValue& into, const ReplyValue& update) -> Result<void> {
    for (const ReplyValue* value : {&std::as_const(into), &update}) {
      if (Result<void> fine = check(*value); !fine) return fine;
    }
    if (into.index() != update.index())
      return fail(ErrorCode::configuration_error,
                  "reducer " + name + ": " + std::string(kind_of(into)) + " and " +
                      std::string(kind_of(update)) + " do not go together");
    bool fits = true;
    std::visit(
        [&](auto& mine) {
          using T = std::decay_t<decltype(mine)>;
          if constexpr ((std::is_same_v<T, Taken> || ...))
            fits = combine(mine, *std::get_if<T>(&update));
        },
        into);
    if (!fits)
      return fail(ErrorCode::too_large, "reducer " + name + ": the result does not fit in 64 bits");
    return {};
  };
  return reducer;
}

bool add_up(std::int64_t& into, std::int64_t update) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(into, update, &sum)) return false;
  into = sum;
  return true;
}

constexpr auto kSumUp = [](auto& into, const auto& update) {
  if constexpr (std::is_same_v<std::decay_t<decltype(into)>, std::int64_t>) {
    return add_up(into, update);
  } else {
    into += update;
    return true;
  }
};

/// Whether a number should take the place of another one: NaN never does, and gives way to
/// anything.
template <typename T, typename Less>
bool wins(T update, T into, Less less) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(into)) return true;
  }
  return less(update, into);
}

}  // namespace

std::string_view kind_of(const ReplyValue& value) noexcept {
  constexpr std::array<std::string_view, 6> names = {"bool",  "int64",    "double",
                                                     "bytes", "statuses", "overlay"};
  static_assert(names.size() == std::variant_size_v<ReplyValue>);
  return names[value.index()];
}

std::string to_text(const ReplyValue& value) {
  struct Writer {
    std::string operator()(bool truth) const { return truth ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const {
      std::array<char, 32> digits{};
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
      std::string text(digits.data(), end);
      // Otherwise it would be read as an integer.
      if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
      return text;
    }
    std::string operator()(const std::string& bytes) const { return bytes; }
    std::string operator()(const StatusOverlay& statuses) const {
      return to_string(statuses.map([](const Status& status) { return status.to_string(); }));
    }
    std::string operator()(const TextOverlay& overlay) const { return to_string(overlay); }
  };
  return std::visit(Writer(), value);
}

const Reducers& Reducers::builtin() {
  static const Reducers reducers = [] {
    Reducers all;
    all.put(reducer_of<StatusOverlay, TextOverlay>(
        "overlay", read_overlay, "statuses or an overlay", [](auto& into, const auto& update) {
          into.merge(update);
          return true;
        }));
    all.put(reducer_of<std::int64_t, double>("sum", read_number, "numbers", kSumUp));
    all.put(reducer_of<std::int64_t, double>("min", read_number, "numbers",
                                             [](auto& into, const auto& update) {
                                               if (wins(update, into, std::less<>())) into = update;
                                               return true;
                                             }));
    all.put(reducer_of<std::int64_t, double>("max", read_number, "numbers",
                                             [](auto& into, const auto& update) {
                                               if (wins(update, into, std::greater<>()))
                                                 into = update;
                                               return true;
                                             }));
    all.put(reducer_of<bool>("any", read_bool, "bools", [](bool& into, bool update) {
      into = into || update;
      return true;
    }));
    all.put(reducer_of<bool>("all", read_bool, "bools", [](bool& into, bool update) {
      into = into && update;
      return true;
    }));
    Reducer count = reducer_of<std::int64_t>("count", read_bytes, "counts", add_up);
    count.lift = [](const ReplyValue&) -> Result<ReplyValue> { return std::int64_t{1}; };
    all.put(std::move(count));
    return all;
  }();
  return reducers;
}

void Reducers::put(Reducer reducer) {
  std::string name = reducer.name;
  by_name_.emplace(std::move(name), std::move(reducer));
}

Result<void> Reducers::add(
    std::string name,
    std::function<std::string(std::string into, const std::string& update)> combine) {
  if (!text::is_identifier(name))
    return fail(ErrorCode::configuration_error,
                "reducer " + text::quoted(name) + ": a name is made of letters, digits and '_'");
  if (by_name_.contains(name) || builtin().by_name_.contains(name))
    return fail(ErrorCode::configuration_error,
                "reducer " + name + ": there is one of that name already");
  put(reducer_of<std::string>(
      name, read_bytes, "bytes",
      [combine = std::move(combine)](std::string& into, const std::string& update) {
        into = combine(std::move(into), update);
        return true;
      }));
  return {};
}

Result<Reducer> Reducers::find(std::string_view name) const {
  if (const auto found = by_name_.find(name); found != by_name_.end()) return found->second;
  if (this != &builtin()) {
    if (const auto found = builtin().by_name_.find(name); found != builtin().by_name_.end())
      return found->second;
  }
  std::string known;
  for (const Reducers* reducers : {&builtin(), this}) {
    if (reducers == &builtin() && !known.empty()) break;
    for (const auto& [other, reducer] : reducers->by_name_)
      known += (known.empty() ? "" : ", ") + other;
  }
  return fail(ErrorCode::not_exist, "reducer " + text::quoted(name) + ": there are " + known);
}

}  // namespace meshbus
