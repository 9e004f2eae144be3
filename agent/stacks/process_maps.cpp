#include "agent/stacks/process_maps.h"

#include <algorithm>
#include <charconv>

#include "agent/stacks/proc_files.h"

namespace meshbus::stacks {
namespace {

std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const auto word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

bool read_number(std::string_view text, int base, std::uint64_t& number) {
  const auto* const end = text.data() + text.size();
  return !text.empty() && std::from_chars(text.data(), end, number, base).ptr == end;
}

bool parse_line(std::string_view line, Mapping& mapping) {
  const auto range = take_word(line);
  const auto dash = range.find('-');
  if (dash == std::string_view::npos || !read_number(range.substr(0, dash), 16, mapping.begin) ||
      !read_number(range.substr(dash + 1), 16, mapping.end))
    return false;
  const auto rights = take_word(line);
  mapping.is_executable = rights.size() > 2 && rights[2] == 'x';
  if (!read_number(take_word(line), 16, mapping.offset)) return false;
  mapping.device = take_word(line);
  if (!read_number(take_word(line), 10, mapping.inode)) return false;
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  mapping.path = line;
  return mapping.begin < mapping.end;
}

}  // namespace

ProcessMaps ProcessMaps::parse(std::string_view text) {
  ProcessMaps maps;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    Mapping mapping;
    if (parse_line(line, mapping)) maps.mappings_.push_back(std::move(mapping));
  }
  std::sort(maps.mappings_.begin(), maps.mappings_.end(),
            [](const Mapping& a, const Mapping& b) { return a.begin < b.begin; });
  return maps;
}

ProcessMaps ProcessMaps::read(pid_t pid) {
  return parse(read_proc_file(pid, "maps"));
}

const Mapping* ProcessMaps::find(std::uint64_t address) const {
  auto after = std::upper_bound(
      mappings_.begin(), mappings_.end(), address,
      [](std::uint64_t wanted, const Mapping& mapping) { return wanted < mapping.begin; });
  if (after == mappings_.begin()) return nullptr;
  --after;
  return address < after->end ? &*after : nullptr;
}

}  // namespace meshbus::stacks
