#include "meshbus/overlay.h"

#include "mesh/run_text.h"

namespace meshbus {
namespace {

bool is_word_part(char c) noexcept {
  return text::is_identifier_part(c) || c == '-' || c == '.';
}

bool is_word(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_word_part);
}

Result<std::string> parse_word(text::Scanner& scanner) {
  if (scanner.accept("\"\"")) return std::string();
  if (scanner.peek() == '"') return scanner.label();
  std::string word;
  for (; !scanner.at_end() && is_word_part(scanner.peek()); scanner.advance(1))
    word += scanner.peek();
  if (word.empty())
    return scanner.unexpected("a value (letters, digits, '_', '-', '.', or a quoted text)");
  return word;
}

}  // namespace

namespace run_text {

Result<Placed<char>> parse_interval(text::Scanner& scanner) {
  scanner.skip_spaces();
  const std::size_t position = scanner.position();
  const Result<std::uint64_t> begin = scanner.number("ranks (0..5)");
  if (!begin) return fail(begin.error());
  scanner.skip_spaces();
  if (!scanner.accept("..")) return scanner.unexpected("'..'");
  scanner.skip_spaces();
  const Result<std::uint64_t> end = scanner.number("the rank after the last one");
  if (!end) return fail(end.error());
  if (*begin >= *end)
    return scanner.problem_at(position, "expected ranks, found none in " + interval(*begin, *end));
  scanner.skip_spaces();
  return Placed<char>{{*begin, *end, 0}, position};
}

}  // namespace run_text

std::string to_string(const TextOverlay& overlay) {
  std::string out;
  for (const auto& [begin, end, value] : overlay.runs()) {
    if (!out.empty()) out += ',';
    out += run_text::interval(begin, end) + '=' + (is_word(value) ? value : text::quoted(value));
  }
  return out;
}

Result<TextOverlay> parse_overlay(std::string_view text) {
  text::Scanner scanner("overlay", text);
  std::vector<run_text::Placed<std::string>> placed;
  scanner.skip_spaces();
  if (scanner.at_end()) return TextOverlay();
  do {
    const auto interval = run_text::parse_interval(scanner);
    if (!interval) return fail(interval.error());
    if (Result<void> equals = scanner.expect('='); !equals) return fail(std::move(equals).error());
    scanner.skip_spaces();
    Result<std::string> value = parse_word(scanner);
    if (!value) return fail(std::move(value).error());
    placed.push_back(
        {{interval->run.begin, interval->run.end, std::move(*value)}, interval->position});
    scanner.skip_spaces();
  } while (scanner.accept(','));
  if (Result<void> end = scanner.expect_end("',' or the end"); !end)
    return fail(std::move(end).error());
  return run_text::collect(scanner, std::move(placed));
}

}  // namespace meshbus
