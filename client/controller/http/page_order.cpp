#include "client/controller/http/page_order.h"

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "client/src/base/parse_ranks.h"
#include "client/src/base/parse_signal.h"

namespace meshbus {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kMostGrace{24 * 3600};

Error wrong(const std::string& field, const std::string& expected) {
  return Error(ErrorCode::parse_error, field + ": expected " + expected);
}

/// Reads the fields of one object, and knows which are left.
class Fields {
 public:
  explicit Fields(const json& object) : object_(object) {}

  /// Nothing: the field is not there.
  Result<std::optional<std::string>> text(const std::string& name) {
    const auto* const value = take(name);
    if (value == nullptr) return std::optional<std::string>();
    if (!value->is_string()) return fail(wrong(name, "a text"));
    return std::optional(value->get<std::string>());
  }
  Result<bool> flag(const std::string& name) {
    const auto* const value = take(name);
    if (value == nullptr) return false;
    if (!value->is_boolean()) return fail(wrong(name, "true or false"));
    return value->get<bool>();
  }
  Result<std::optional<double>> number(const std::string& name) {
    const auto* const value = take(name);
    if (value == nullptr) return std::optional<double>();
    if (!value->is_number()) return fail(wrong(name, "a number"));
    return std::optional(value->get<double>());
  }
  /// Errors: parse_error, when there is one that nobody has read.
  Result<void> expect_end() const {
    for (const auto& [name, value] : object_.items()) {
      if (known_.contains(name)) continue;
      std::string known;
      for (const auto& one : known_) known += (known.empty() ? "" : ", ") + one;
      return fail(ErrorCode::parse_error,
                  "there is no field '" + name.substr(0, 40) + "' here; there are " + known);
    }
    return {};
  }

 private:
  const json* take(const std::string& name) {
    known_.insert(name);
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  const json& object_;
  std::set<std::string> known_;
};

Result<void> read_stop(Fields& fields, PageOrder& order) {
  auto reason = fields.text("reason");
  if (!reason) return fail(reason.error());
  order.reason = reason->value_or("");
  if (order.reason.size() > PageOrder::kMostReason)
    return fail(
        wrong("reason", "at most " + std::to_string(PageOrder::kMostReason) + " bytes of text"));
  const auto grace = fields.number("grace_s");
  if (!grace) return fail(grace.error());
  if (!*grace) return {};
  if (!(**grace >= 0 && **grace <= static_cast<double>(kMostGrace.count())))
    return fail(wrong("grace_s", "seconds from 0 to " + std::to_string(kMostGrace.count())));
  order.grace = std::chrono::milliseconds(static_cast<std::int64_t>(**grace * 1000));
  return {};
}

Result<void> read_signal(Fields& fields, PageOrder& order) {
  const auto text = fields.text("signal");
  if (!text) return fail(text.error());
  if (!*text) return fail(wrong("signal", "a name like USR1, or a number as a text"));
  const auto signal = parse_signal(**text);
  if (!signal) return fail(ErrorCode::parse_error, "signal: " + signal.error().detail());
  order.signal = *signal;
  return {};
}

Result<void> read_stacks(Fields& fields, PageOrder& order) {
  const auto is_kernel_only = fields.flag("kernel_only");
  if (!is_kernel_only) return fail(is_kernel_only.error());
  order.is_kernel_only = *is_kernel_only;
  return {};
}

struct Kind {
  std::string_view path;
  PageOrder::Verb verb;
  Result<void> (*read)(Fields&, PageOrder&);
};
constexpr std::array kKinds{Kind{"/api/stop", PageOrder::Verb::stop, read_stop},
                            Kind{"/api/signal", PageOrder::Verb::signal, read_signal},
                            Kind{"/api/stacks", PageOrder::Verb::stacks, read_stacks}};

}  // namespace

Result<PageOrder> PageOrder::parse(std::string_view path, std::string_view body) {
  for (const auto& kind : kKinds) {
    if (kind.path != path) continue;
    const auto object = json::parse(body, nullptr, false);
    if (!object.is_object())
      return fail(ErrorCode::parse_error, "the body of this request is a JSON object");
    Fields fields(object);
    auto mesh = fields.text("mesh");
    if (!mesh) return fail(mesh.error());
    if (!*mesh || (*mesh)->empty()) return fail(wrong("mesh", "the name of a mesh"));
    PageOrder order{.verb = kind.verb, .mesh = std::move(**mesh)};
    const auto ranks = fields.text("ranks");
    if (!ranks) return fail(ranks.error());
    if (*ranks) {
      auto parsed = parse_ranks(**ranks);
      if (!parsed) return fail(wrong("ranks", "ranks like \"0-5,7\""));
      order.ranks = std::move(*parsed);
    }
    if (auto read = kind.read(fields, order); !read) return fail(read.error());
    if (auto end = fields.expect_end(); !end) return fail(end.error());
    return order;
  }
  return fail(ErrorCode::not_exist, "the API has no such path");
}

}  // namespace meshbus
