#include "cli/tap/tap_printer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "cli/support/rank_json.h"
#include "common/wire/control.h"
#include "common/wire/frame.h"
#include "mesh/text.h"
#include "wire/frame_generated.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Names are as long as people make them; more than that pushes the rest of one line to the right,
/// not of all that follow.
constexpr std::size_t kWidestColumn = 60;

std::string time_of(const TapMessage& message) {
  using std::chrono::system_clock;
  return time_text(system_clock::time_point(std::chrono::duration_cast<system_clock::duration>(
      std::chrono::nanoseconds(message.time_ns))));
}

/// A stranger's number may be any.
std::string name_of(wire::Kind kind) {
  const char* const name = wire::EnumNameKind(kind);
  return *name == '\0' ? std::to_string(static_cast<int>(kind)) : name;
}
std::string name_of(wire::Lane lane) {
  const char* const name = wire::EnumNameLane(lane);
  return *name == '\0' ? std::to_string(static_cast<int>(lane)) : name;
}

/// "SpawnProcs", when enough was copied to tell.
std::string control_name(const TapMessage& message) {
  if (message.envelope.kind() != wire::Kind::control || !message.has_whole_body()) return {};
  const auto control = ControlMessage::decode(message.body);
  return control ? control->body_name() : std::string();
}

bool has_call_header(wire::Kind kind) {
  return kind == wire::Kind::call || kind == wire::Kind::reply || kind == wire::Kind::error;
}

std::string proc_words(std::uint64_t proc, std::uint64_t host, const TapNames& names,
                       std::string_view own_host) {
  const std::string_view its_host = names.find(host);
  const std::string at =
      its_host == own_host ? "" : "@" + (its_host.empty() ? key_text(host) : std::string(its_host));
  if (proc == 0) return "broker" + at;
  const std::string_view name = names.find(proc);
  return (name.empty() ? key_text(proc) : std::string(name.substr(name.rfind(',') + 1))) + at;
}

Json known(std::string_view text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

std::string padded(std::string text, std::size_t width) {
  const std::size_t characters = text::num_characters(text);
  if (characters < width) text.append(width - characters, ' ');
  return text;
}

}  // namespace

std::string key_text(std::uint64_t key) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 60; shift >= 0; shift -= 4)
    text += digits[(key >> static_cast<unsigned>(shift)) & 0xfU];
  return text;
}

std::string to_base64(Bytes bytes) {
  constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t three = 0;
    for (std::size_t i = 0; i < 3; ++i)
      three =
          three << 8U | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      text += at + i > bytes.size() ? '=' : letters[three >> (18 - 6 * i) & 0x3fU];
  }
  return text;
}

std::string TapPrinter::header() const {
  if (json_) return {};
  return padded("TIME (UTC)", 17) + padded("FROM", from_width_ + 2) + padded("TO", to_width_ + 2) +
         "KIND     LANE     PORT        SIZE\n";
}

std::string TapPrinter::line(const TapMessage& message, const TapNames& names,
                             std::string_view host) {
  if (!json_) return text_line(message, names, host);
  const wire::Envelope& envelope = message.envelope;
  Json json = {
      {"number", message.number},
      {"time", time_of(message)},
      {"from",
       envelope.source_proc() == 0 ? Json("broker") : known(names.find(envelope.source_proc()))},
      {"from_key", key_text(envelope.source_proc())},
      {"from_host", known(names.find(envelope.source_host()))},
      {"from_host_key", key_text(envelope.source_host())},
      {"to", envelope.destination_proc() == 0 ? Json("broker")
                                              : known(names.find(envelope.destination_proc()))},
      {"to_key", key_text(envelope.destination_proc())},
      {"to_host", known(names.find(envelope.destination_host()))},
      {"to_host_key", key_text(envelope.destination_host())},
      {"kind", name_of(envelope.kind())},
      {"lane", name_of(envelope.lane())},
      {"port", envelope.port()},
      {"size", envelope.length()},
      {"sequence", envelope.sequence()},
      {"incarnation", key_text(envelope.source_incarnation())},
      {"hop", envelope.hop()},
      {"no_return", (envelope.flags() & kFlagNoReturn) != 0}};
  if (const auto control = control_name(message); !control.empty()) json["control"] = control;
  if (!message.body.empty()) json["body"] = to_base64(message.body);
  return dump(json) + "\n";
}

std::string TapPrinter::text_line(const TapMessage& message, const TapNames& names,
                                  std::string_view host) {
  const wire::Envelope& envelope = message.envelope;
  const std::string from =
      text::visible(proc_words(envelope.source_proc(), envelope.source_host(), names, host));
  const std::string to = text::visible(
      proc_words(envelope.destination_proc(), envelope.destination_host(), names, host));
  from_width_ = std::max(from_width_, std::min(text::num_characters(from), kWidestColumn));
  to_width_ = std::max(to_width_, std::min(text::num_characters(to), kWidestColumn));
  std::array<char, 64> numbers{};
  std::snprintf(numbers.data(), numbers.size(), "%-9s%-9s%-10u%6u",
                name_of(envelope.kind()).c_str(), name_of(envelope.lane()).c_str(), envelope.port(),
                envelope.length());
  std::string line = time_of(message).substr(11, 15) + "  " + padded(from, from_width_) + "  " +
                     padded(to, to_width_) + "  " + numbers.data();
  if (const auto control = control_name(message); !control.empty())
    return line + "  " + control + "\n";
  Bytes body = message.body;
  if (has_call_header(envelope.kind()))
    body.remove_prefix(std::min(body.size(), sizeof(wire::CallHeader)));
  if (!body.empty()) line += "  " + text::visible(body) + (message.has_whole_body() ? "" : "...");
  return line + "\n";
}

std::string TapPrinter::missed_line(std::uint64_t count) const {
  return json_ ? "{\"missed\":" + std::to_string(count) + "}\n"
               : "[" + std::to_string(count) + " messages missed]\n";
}

std::string TapPrinter::interrupted_line() const {
  return json_ ? "{\"interrupted\":true}\n" : "[interrupted: what passed meanwhile is not known]\n";
}

}  // namespace meshbus::cli
