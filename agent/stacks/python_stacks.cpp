#include "agent/stacks/python_stacks.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "agent/stacks/python_lines.h"

namespace meshbus::stacks {
namespace {

constexpr std::size_t kMostInterpreters = 64;
constexpr std::size_t kMostPythonThreads = 10'000;
constexpr std::uint64_t kLongestText = 4096;
constexpr std::uint64_t kLongestTable = 1u << 20;
/// 3.11.0, the first version whose threads know their numbers.
constexpr std::uint64_t kOldest = 0x030b0000;

std::string version_text(std::uint64_t version) {
  return std::to_string(version >> 24) + "." + std::to_string(version >> 16 & 255);
}

void append_utf8(std::string& text, std::uint32_t point) {
  const auto tail = [&](int shift) {
    text += static_cast<char>(0x80 | (point >> static_cast<unsigned>(shift) & 0x3f));
  };
  if (point < 0x80) {
    text += static_cast<char>(point);
  } else if (point < 0x800) {
    text += static_cast<char>(0xc0 | point >> 6);
    tail(0);
  } else if (point < 0x10000) {
    text += static_cast<char>(0xe0 | point >> 12);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xf0 | point >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

std::optional<PythonStacks> PythonStacks::find(pid_t pid, const ProcessMaps& maps,
                                               const ProcessMemory& memory, ImageCache& images,
                                               std::string& why_not) {
  for (const auto& mapping : maps.all()) {
    if (!mapping.is_executable || !mapping.is_file()) continue;
    const auto file = std::string_view(mapping.path).substr(mapping.path.find_last_of('/') + 1);
    if (!file.starts_with("python") && !file.starts_with("libpython")) continue;
    const auto placed = images.find(pid, mapping);
    if (placed.image == nullptr) continue;
    const auto runtime = placed.image->find_symbol("_PyRuntime");
    if (!runtime) continue;
    const auto version_at = placed.image->find_symbol("Py_Version");
    const auto version =
        version_at ? memory.word(*version_at + placed.bias) : std::optional<std::uint64_t>(0);
    if (!version) {
      why_not = "its Python cannot be read";
      if (memory.error() != 0)
        why_not += std::string(": reading its memory is refused (") + ::strerror(memory.error()) +
                   "); in a container allow it with --cap-add SYS_PTRACE";
      return std::nullopt;
    }
    const auto layout = PythonLayout::find(*version, memory, *runtime + placed.bias);
    if (!layout) {
      why_not = *version < kOldest ? "its Python is older than 3.11: native frames only"
                                   : "its Python is " + version_text(*version) +
                                         ", which is not known here: native frames only";
      return std::nullopt;
    }
    PythonStacks stacks(memory, *layout, placed.image);
    stacks.find_threads(*runtime + placed.bias);
    return stacks;
  }
  return std::nullopt;
}

void PythonStacks::find_threads(std::uint64_t runtime) {
  auto interpreter = memory_->word(runtime + layout_.interpreters).value_or(0);
  for (std::size_t i = 0; interpreter != 0 && i < kMostInterpreters; ++i) {
    auto thread = memory_->word(interpreter + layout_.threads).value_or(0);
    while (thread != 0 && threads_.size() < kMostPythonThreads) {
      const auto number = memory_->word(thread + layout_.thread_number).value_or(0);
      if (!threads_.emplace(static_cast<pid_t>(number), thread).second) break;
      thread = memory_->word(thread + layout_.next_thread).value_or(0);
    }
    interpreter = memory_->word(interpreter + layout_.next_interpreter).value_or(0);
  }
}

std::vector<PythonStacks::Frame> PythonStacks::walk(pid_t tid, std::size_t most) const {
  std::vector<Frame> frames;
  const auto thread = threads_.find(tid);
  if (thread == threads_.end()) return frames;
  auto holder = thread->second;
  if (layout_.c_frame) holder = memory_->word(holder + *layout_.c_frame).value_or(0);
  auto frame = holder == 0 ? 0 : memory_->word(holder + layout_.current_frame).value_or(0);
  while (frame != 0 && frames.size() < most) {
    const auto owner = memory_->get<std::uint8_t>(frame + layout_.owner);
    if (!owner) break;
    if (!layout_.is_entry && *owner == kOwnedByCStack) {
      if (!frames.empty()) frames.back().is_last_of_call = true;
    } else {
      Frame found;
      found.code = memory_->word(frame + layout_.code).value_or(0);
      found.instruction = memory_->word(frame + layout_.instruction).value_or(0);
      if (layout_.is_entry)
        found.is_last_of_call =
            memory_->get<std::uint8_t>(frame + *layout_.is_entry).value_or(0) != 0;
      frames.push_back(found);
    }
    frame = memory_->word(frame + layout_.previous).value_or(0);
  }
  return frames;
}

std::optional<std::string> PythonStacks::read_text(std::uint64_t object) const {
  const auto length = memory_->word(object + layout_.string_length);
  const auto state = memory_->get<std::uint32_t>(object + layout_.string_state);
  if (!length || !state || *length > kLongestText) return std::nullopt;
  const auto width = *state >> 2U & 7U;
  const bool is_compact = (*state >> 5U & 1U) != 0;
  const bool is_ascii = (*state >> 6U & 1U) != 0;
  if (!is_compact || (width != 1 && width != 2 && width != 4)) return std::nullopt;
  std::vector<unsigned char> bytes(*length * width);
  const auto at = object + (is_ascii ? layout_.ascii_header : layout_.unicode_header);
  if (!bytes.empty() && !memory_->read(at, bytes.data(), bytes.size())) return std::nullopt;
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += width) {
    std::uint32_t point = 0;
    for (std::size_t k = 0; k < width; ++k)
      point |= static_cast<std::uint32_t>(bytes[i + k]) << (8 * k);
    append_utf8(text, point);
  }
  return text;
}

std::optional<PythonStacks::Function> PythonStacks::resolve(const Frame& frame) const {
  const auto name_at = memory_->word(frame.code + layout_.qualified_name);
  const auto file_at = memory_->word(frame.code + layout_.filename);
  const auto table_at = memory_->word(frame.code + layout_.line_table);
  const auto first_line = memory_->get<std::int32_t>(frame.code + layout_.first_line);
  if (!name_at || !file_at || !table_at || !first_line) return std::nullopt;
  const auto name = read_text(*name_at);
  const auto file = read_text(*file_at);
  if (!name || !file) return std::nullopt;
  Function function{*name, *file, 0};
  const auto size = memory_->word(*table_at + layout_.bytes_size).value_or(0);
  std::vector<std::byte> table(std::min(size, kLongestTable));
  if (!table.empty() && memory_->read(*table_at + layout_.bytes_data, table.data(), table.size()))
    function.line = find_python_line(table, static_cast<std::uint32_t>(*first_line),
                                     frame.instruction - frame.code - layout_.instructions);
  return function;
}

}  // namespace meshbus::stacks
