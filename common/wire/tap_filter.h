#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "meshbus/result.h"
#include "wire/forward.h"

namespace meshbus {

/// Which messages somebody wants to see copies of: terms with spaces between them, all of which
/// must hold. Empty takes everything.
///
///     from=trainers_* kind=call|message size>=64KiB port!=0
///
///     from to proc                a proc (`proc`: at either end): its name, HOST,NAME, its key as
///     0x…, or `broker`. * stands for any text, among
///                                 the procs that the broker knows by name: its own peers.
///     from.host to.host host      a host: its address, or its key as 0x…; * as above.
///     kind                        control message call reply error
///     lane                        control data
///     port size                   numbers; of bytes with units: 64KiB
///
/// FIELD=VALUE or FIELD!=VALUE, with several values VALUE|VALUE: any, none of them. Numbers also
/// with < <= > >=.
class TapFilter {
 public:
  /// The text behind the key of a proc or host; empty when it is not known.
  using NameOf = std::function<std::string_view(std::uint64_t key)>;

  /// Errors: parse_error, with the position.
  static Result<TapFilter> parse(std::string_view text);
  bool matches(const wire::Envelope& envelope, const NameOf& name_of) const;
  bool takes_all() const noexcept { return terms_.empty(); }

 private:
  enum class Field : std::uint8_t {
    from,
    to,
    proc,
    from_host,
    to_host,
    host,
    kind,
    lane,
    port,
    size
  };
  enum class Operator : std::uint8_t { is, is_not, less, at_most, more, at_least };
  struct Value {
    /// A pattern for a proc or host.
    std::string pattern;
    /// For a proc or host without *: its key, or 0 if it must be computed for each host; otherwise
    /// the number.
    std::uint64_t number = 0;
    bool is_key = false;
  };
  struct Term {
    Field field;
    Operator op;
    std::vector<Value> values;
  };
  class Parser;
  friend class Parser;

  static bool is_proc(const Value& value, std::uint64_t proc, std::uint64_t host,
                      const NameOf& name_of);
  static bool is_host(const Value& value, std::uint64_t host, const NameOf& name_of);
  static bool holds(const Term& term, const Value& value, const wire::Envelope& envelope,
                    const NameOf& name_of);

  std::vector<Term> terms_;
};

/// What a tap subscribes to (schemas/monitor.fbs).
struct TapRequest {
  std::uint32_t bodies = 0;
  TapFilter filter;
  /// As it was given.
  std::string text;

  /// Reads the topic "tap/BODIES/FILTER\n". Errors: parse_error.
  static Result<TapRequest> parse(std::string_view topic);
};
inline constexpr std::string_view kTapTopic = "tap/";
/// The file identifier of a TapBatch.
inline constexpr const char* kTapIdentifier = "MBT1";
/// The longest filter: a topic, too, is bounded.
inline constexpr std::size_t kTapFilterLimit = 1000;
std::string tap_topic(std::uint32_t bodies, std::string_view filter);

}  // namespace meshbus
