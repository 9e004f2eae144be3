#include "common/wire/tap_filter.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "common/base/did_you_mean.h"
#include "common/base/quantity.h"
#include "common/wire/frame.h"
#include "mesh/text.h"
#include "meshbus/address.h"
#include "meshbus/key.h"
#include "wire/frame_generated.h"

namespace meshbus {
namespace {

/// More would cost every message that passes.
constexpr std::size_t kMostValues = 64;

/// Whether the text is the pattern, in which * stands for any text.
bool is_like(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, tried = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      tried = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++tried;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::optional<std::uint64_t> parse_key(std::string_view text) {
  if (!text.starts_with("0x")) return std::nullopt;
  std::uint64_t key = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), key, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return key;
}

}  // namespace

class TapFilter::Parser {
 public:
  explicit Parser(std::string_view text) : scanner_("filter", text) {}

  Result<TapFilter> run() {
    TapFilter filter;
    for (;;) {
      scanner_.skip_spaces();
      if (scanner_.at_end()) return filter;
      auto term = read_term();
      if (!term) return fail(term.error());
      filter.terms_.push_back(std::move(*term));
    }
  }

 private:
  struct Word {
    std::string_view text;
    std::size_t at;
  };
  Word word_until(std::string_view ends) {
    const Word word{scanner_.rest().substr(0, scanner_.rest().find_first_of(ends)),
                    scanner_.position()};
    scanner_.advance(word.text.size());
    return word;
  }

  Result<Term> read_term() {
    static constexpr std::array<std::pair<std::string_view, Field>, 10> fields{
        {{"from", Field::from},
         {"to", Field::to},
         {"proc", Field::proc},
         {"from.host", Field::from_host},
         {"to.host", Field::to_host},
         {"host", Field::host},
         {"kind", Field::kind},
         {"lane", Field::lane},
         {"port", Field::port},
         {"size", Field::size}}};
    static constexpr std::array<std::pair<std::string_view, Operator>, 6> operators{
        {{"!=", Operator::is_not},
         {"<=", Operator::at_most},
         {">=", Operator::at_least},
         {"=", Operator::is},
         {"<", Operator::less},
         {">", Operator::more}}};
    const Word name = word_until("=!<> \t");
    const auto* const field = std::find_if(fields.begin(), fields.end(),
                                           [&](const auto& one) { return one.first == name.text; });
    if (field == fields.end()) {
      std::array<std::string_view, fields.size()> names;
      std::transform(fields.begin(), fields.end(), names.begin(),
                     [](const auto& one) { return one.first; });
      const auto near = did_you_mean(name.text, names);
      return scanner_.problem_at(
          name.at,
          near.empty()
              ? "expected one of from, to, proc, from.host, to.host, host, kind, lane, port, size"
              : "there is no such field; did you mean " + std::string(near) + "?");
    }
    const std::size_t at = scanner_.position();
    const auto* const op =
        std::find_if(operators.begin(), operators.end(),
                     [this](const auto& one) { return scanner_.accept(one.first); });
    if (op == operators.end()) return scanner_.unexpected("=, !=, <, <=, > or >=");
    Term term{field->second, op->second, {}};
    const bool is_number = term.field == Field::port || term.field == Field::size;
    if (!is_number && term.op != Operator::is && term.op != Operator::is_not)
      return scanner_.problem_at(at, std::string(name.text) + " can be compared by = and != only");
    do {
      const Word word = word_until("| \t");
      auto value = read_value(term.field, word);
      if (!value) return fail(value.error());
      if (++values_ > kMostValues)
        return scanner_.problem_at(word.at,
                                   "too many values: at most " + std::to_string(kMostValues));
      term.values.push_back(std::move(*value));
    } while (scanner_.accept('|'));
    if (term.values.size() > 1 && term.op != Operator::is && term.op != Operator::is_not)
      return scanner_.problem_at(at, "one value only can be compared by <, <=, > and >=");
    return term;
  }

  Result<Value> read_value(Field field, const Word& word) const {
    if (word.text.empty()) return scanner_.unexpected_at(word.at, "a value");
    switch (field) {
      case Field::from:
      case Field::to:
      case Field::proc: return read_proc(word);
      case Field::from_host:
      case Field::to_host:
      case Field::host: return read_host(word);
      case Field::kind:
        return read_choice(word, wire::EnumNamesKind(), "control, message, call, reply or error");
      case Field::lane: return read_choice(word, wire::EnumNamesLane(), "control or data");
      case Field::port:
        if (const auto port = parse_whole(word.text); port && *port <= UINT32_MAX)
          return Value{.pattern = {}, .number = *port};
        return scanner_.unexpected_at(word.at, "a port number");
      case Field::size: break;
    }
    if (const auto bytes = parse_bytes(word.text)) return Value{.pattern = {}, .number = *bytes};
    return scanner_.unexpected_at(word.at, "a number of bytes like " + std::string(kBytesExamples));
  }

  Result<Value> read_choice(const Word& word, const char* const* names,
                            std::string_view expected) const {
    for (std::uint64_t i = 0; names[i] != nullptr; ++i)
      if (word.text == names[i]) return Value{.pattern = {}, .number = i};
    return scanner_.unexpected_at(word.at, expected);
  }

  Result<Value> read_proc(const Word& word) const {
    if (word.text == "broker") return Value{.pattern = {}, .number = 0, .is_key = true};
    if (const auto key = parse_key(word.text))
      return Value{.pattern = {}, .number = *key, .is_key = true};
    if (word.text.find('*') != std::string_view::npos)
      return Value{.pattern = std::string(word.text)};
    if (word.text.find(',') == std::string_view::npos) {
      if (const auto name = ProcName::parse(word.text); !name)
        return scanner_.problem_at(word.at, name.error().detail());
      return Value{.pattern = std::string(word.text)};
    }
    const auto proc = ProcId::parse(word.text);
    if (!proc) return scanner_.problem_at(word.at, proc.error().detail());
    return Value{.pattern = {}, .number = proc->key(), .is_key = true};
  }

  Result<Value> read_host(const Word& word) const {
    if (const auto key = parse_key(word.text))
      return Value{.pattern = {}, .number = *key, .is_key = true};
    if (word.text.find('*') != std::string_view::npos)
      return Value{.pattern = std::string(word.text)};
    const auto host = HostAddr::parse(word.text);
    if (!host) return scanner_.problem_at(word.at, host.error().detail());
    return Value{.pattern = {}, .number = host->key(), .is_key = true};
  }

  text::Scanner scanner_;
  std::size_t values_ = 0;
};

Result<TapFilter> TapFilter::parse(std::string_view text) {
  if (text.size() > kTapFilterLimit)
    return fail(ErrorCode::parse_error,
                "filter: it has " + std::to_string(text.size()) + " bytes, above the limit of " +
                    std::to_string(kTapFilterLimit) + "; * stands for many names");
  // A line break ends the topic that a filter is a part of.
  if (const auto at = text.find('\n'); at != std::string_view::npos)
    return text::Scanner("filter", text).problem_at(at, "a line break has no place here");
  return Parser(text).run();
}

bool TapFilter::is_proc(const Value& value, std::uint64_t proc, std::uint64_t host,
                        const NameOf& name_of) {
  if (value.is_key) return proc == value.number;
  if (proc == 0) return false;
  const std::string_view known = name_of(proc);
  if (!known.empty()) {
    const bool is_whole = value.pattern.find(',') != std::string::npos;
    return is_like(value.pattern, is_whole ? known : known.substr(known.rfind(',') + 1));
  }
  // A proc of another host is known by its key only. What its key would be is known.
  const std::string_view its_host = name_of(host);
  if (its_host.empty() || value.pattern.find('*') != std::string::npos) return false;
  return key_of(std::string(its_host) + "," + value.pattern) == proc;
}

bool TapFilter::is_host(const Value& value, std::uint64_t host, const NameOf& name_of) {
  return value.is_key ? host == value.number : is_like(value.pattern, name_of(host));
}

bool TapFilter::holds(const Term& term, const Value& value, const wire::Envelope& envelope,
                      const NameOf& name_of) {
  const auto number = [&](std::uint64_t actual) {
    switch (term.op) {
      case Operator::is:
      case Operator::is_not: return actual == value.number;
      case Operator::less: return actual < value.number;
      case Operator::at_most: return actual <= value.number;
      case Operator::more: return actual > value.number;
      case Operator::at_least: return actual >= value.number;
    }
    return false;
  };
  const auto from = [&] {
    return is_proc(value, envelope.source_proc(), envelope.source_host(), name_of);
  };
  const auto to = [&] {
    return is_proc(value, envelope.destination_proc(), envelope.destination_host(), name_of);
  };
  switch (term.field) {
    case Field::from: return from();
    case Field::to: return to();
    case Field::proc: return from() || to();
    case Field::from_host: return is_host(value, envelope.source_host(), name_of);
    case Field::to_host: return is_host(value, envelope.destination_host(), name_of);
    case Field::host:
      return is_host(value, envelope.source_host(), name_of) ||
             is_host(value, envelope.destination_host(), name_of);
    case Field::kind: return number(static_cast<std::uint64_t>(envelope.kind()));
    case Field::lane: return number(static_cast<std::uint64_t>(envelope.lane()));
    case Field::port: return number(envelope.port());
    case Field::size: return number(envelope.length());
  }
  return false;
}

bool TapFilter::matches(const wire::Envelope& envelope, const NameOf& name_of) const {
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    const bool any = std::any_of(term.values.begin(), term.values.end(), [&](const Value& value) {
      return holds(term, value, envelope, name_of);
    });
    return any != (term.op == Operator::is_not);
  });
}

Result<TapRequest> TapRequest::parse(std::string_view topic) {
  if (!topic.starts_with(kTapTopic) || !topic.ends_with('\n'))
    return fail(ErrorCode::parse_error,
                "a tap subscribes to \"tap/BODIES/FILTER\" and a line break");
  const std::string_view rest = topic.substr(kTapTopic.size(), topic.size() - kTapTopic.size() - 1);
  const std::size_t slash = rest.find('/');
  const auto bodies = parse_whole(rest.substr(0, slash));
  if (slash == std::string_view::npos || !bodies || *bodies > kBodyLimit)
    return fail(ErrorCode::parse_error,
                "behind \"tap/\" comes how many bytes of each body are wanted, 0 to " +
                    std::to_string(kBodyLimit) + ", and another \"/\"");
  auto filter = TapFilter::parse(rest.substr(slash + 1));
  if (!filter) return fail(filter.error());
  return TapRequest{static_cast<std::uint32_t>(*bodies), std::move(*filter),
                    std::string(rest.substr(slash + 1))};
}

std::string tap_topic(std::uint32_t bodies, std::string_view filter) {
  return std::string(kTapTopic) + std::to_string(bodies) + "/" + std::string(filter) + "\n";
}

}  // namespace meshbus
