#include "common/base/mpi_notice.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace meshbus::mpi {
namespace {

constexpr auto kWords =
    std::to_array<std::string_view>({"abort", "refused", "unfinalized", "begun", "never_begun"});
constexpr std::string_view kMark = "meshbus-mpi: ";

std::string_view next_word(std::string_view& rest) {
  const auto blank = rest.find(' ');
  const auto word = rest.substr(0, blank);
  rest.remove_prefix(blank == std::string_view::npos ? rest.size() : blank + 1);
  return word;
}

template <typename Number>
bool read_number(std::string_view word, Number& number) {
  const auto end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, number);
  return error == std::errc() && at == end;
}

}  // namespace

std::string Notice::to_line() const {
  std::string line = std::string(kMark) + std::string(kWords[static_cast<std::size_t>(kind)]) +
                     " " + std::to_string(rank) + " " + std::to_string(code) + " " +
                     std::to_string(attempt) + " " + std::to_string(time_us) + " " + text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line + "\n";
}

std::optional<Notice> Notice::parse(std::string_view line) {
  if (!line.starts_with(kMark)) return std::nullopt;
  line.remove_prefix(kMark.size());
  const auto* const word = std::find(kWords.begin(), kWords.end(), next_word(line));
  if (word == kWords.end()) return std::nullopt;
  Notice notice{.kind = static_cast<Kind>(word - kWords.begin())};
  if (!read_number(next_word(line), notice.rank) || !read_number(next_word(line), notice.code) ||
      !read_number(next_word(line), notice.attempt) ||
      !read_number(next_word(line), notice.time_us))
    return std::nullopt;
  notice.text = std::string(line);
  return notice;
}

}  // namespace meshbus::mpi
