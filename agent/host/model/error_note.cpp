#include "agent/host/model/error_note.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "mesh/text.h"

namespace meshbus::host {
namespace {

constexpr std::size_t kMostMessage = 200;
constexpr std::size_t kMostNote = 300;
constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// As it may be shown, and not longer; a character is never cut in two.
std::string bounded(std::string_view line, std::size_t most) {
  std::string text = text::visible(line);
  if (text.size() <= most) return text;
  std::size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

std::string_view first_line(std::string_view text) {
  text = trimmed(text);
  return trimmed(text.substr(0, text.find('\n')));
}

/// The last line of a traceback that says where: `File "train.py", line 3, in step`.
std::string_view last_place(std::string_view traceback) {
  std::string_view place;
  while (!traceback.empty()) {
    const auto end = traceback.find('\n');
    const auto line = trimmed(traceback.substr(0, end));
    if (line.starts_with("File \"")) place = line;
    traceback.remove_prefix(end == std::string_view::npos ? traceback.size() : end + 1);
  }
  return place;
}

const std::string* text_in(const nlohmann::json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_string() ? found->get_ptr<const std::string*>() : nullptr;
}

}  // namespace

std::string error_note(std::string_view file) {
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return bounded(first_line(file), kMostMessage);
  // A message of its own is a text; @record wraps it.
  const nlohmann::json* message = &json;
  if (const auto inner = json.find("message"); inner != json.end() && inner->is_object())
    message = &*inner;
  const auto* const words = text_in(*message, "message");
  if (words == nullptr) return bounded(first_line(file), kMostMessage);
  std::string note = bounded(first_line(*words), kMostMessage);
  const auto extra = message->find("extraInfo");
  const auto* const traceback = extra == message->end() ? nullptr : text_in(*extra, "py_callstack");
  const auto place = traceback == nullptr ? std::string_view() : last_place(*traceback);
  if (place.empty()) return note;
  return bounded(note, kMostMessage) + " (" + bounded(place, kMostNote - kMostMessage - 3) + ")";
}

}  // namespace meshbus::host
