#include "cli/top/top_render.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/support/table.h"
#include "cli/support/usage_text.h"
#include "cli/top/row_text.h"
#include "cli/top/top_keys.h"

namespace meshbus::cli {
namespace {

using Mode = TopState::Mode;

constexpr std::array kHelp = {
    "Up Down PgUp PgDn Home End   move",
    "Enter Space Left Right       fold and unfold a host or a mesh",
    "f                            fold meshes, then hosts, then nothing",
    "/                            filter: words that a row must have; Esc ends it",
    "s, r                         sort by the next column; reverse the order",
    "N S C M A Q                  sort by name, state, CPU, memory, attempts, queue",
    "e                            also ranks that have ended in order",
    "w                            why: the first cause of an end, and what followed",
    "l                            logs: what a mesh or a rank writes, live",
    "t                            stacks: where the threads of a mesh or a rank are",
    "k                            send a signal (asks first)",
    "x                            stop (asks first)",
    "q                            quit",
    "",
    "CPU: CPUs kept busy. TRY: how often a rank was started again. QUEUE: messages",
    "that wait for a rank that does not take them. Figures of a host or a mesh are",
    "sums of the rows below that the filter leaves.",
};

/// One column of the list.
struct Column {
  Field field;
  std::string_view title;
  std::size_t width;
  bool is_right;
  /// Windows with fewer columns leave it out.
  std::size_t least;
};
constexpr std::array kColumns = {
    Column{Field::state, "STATE", 12, false, 0}, Column{Field::pid, "PID", 8, true, 110},
    Column{Field::cpu, "CPU", 5, true, 0},       Column{Field::time, "TIME", 7, true, 120},
    Column{Field::memory, "MEM", 6, true, 0},    Column{Field::threads, "THR", 5, true, 140},
    Column{Field::attempts, "TRY", 4, true, 0},  Column{Field::queue, "QUEUE", 6, true, 0},
    Column{Field::waits, "WAITS", 6, true, 130}, Column{Field::age, "UP", 7, true, 100},
};

std::size_t name_width(std::size_t columns) {
  return std::clamp<std::size_t>(columns * 3 / 10, 22, 56);
}

std::string clock_text(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 16> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%H:%M:%SZ", &utc)};
}

/// Texts of different inks, one behind the other.
class Writer {
 public:
  void add(std::string text, Ink ink = Ink::plain) {
    places_ += places_of(text);
    texts_.emplace_back(std::move(text), ink);
  }
  void add_if(std::uint64_t count, std::string_view word, Ink ink) {
    if (count == 0) return;
    add(std::string(is_first_ ? "" : ", ") + std::to_string(count) + " " + std::string(word), ink);
    is_first_ = false;
  }
  void begin_list() { is_first_ = true; }
  std::size_t places() const { return places_; }
  /// Returns the column behind.
  std::size_t write(Screen& screen, std::size_t row, std::size_t at) const {
    for (const auto& [text, ink] : texts_) at += screen.put(row, at, text, ink);
    return at;
  }

 private:
  std::vector<std::pair<std::string, Ink>> texts_;
  std::size_t places_ = 0;
  bool is_first_ = true;
};

/// The first line: the title and the time give way to the counts.
void draw_counts(Screen& screen, const Writer& counts, const std::string& time) {
  constexpr std::string_view kTitle = "meshbus top  ";
  const auto width = screen.columns();
  std::size_t at = 0;
  if (kTitle.size() + counts.places() + 1 + time.size() <= width)
    at = screen.put(0, 0, kTitle, Ink::bold);
  counts.write(screen, 0, at);
  if (at + counts.places() + 1 + time.size() <= width)
    screen.put_right(0, width, time, Ink::dim, time.size());
}

void draw_head(Screen& screen, const TopState& state) {
  const auto& view = state.view;
  Figures sum;
  double rate = 0;
  std::array<std::uint64_t, 3> hosts{};
  for (const auto& host : view.hosts) {
    ++hosts[static_cast<std::size_t>(host.state)];
    rate += host.messages_per_second;
  }
  for (const auto& mesh : view.meshes) {
    for (const auto& rank : mesh.ranks) sum.add(figures_of(*rank));
  }
  Writer first;
  first.add("hosts: ");
  first.add_if(hosts[1], "up", Ink::good);
  first.add_if(hosts[2], "lost", Ink::bad);
  first.add_if(hosts[0], "asked", Ink::warn);
  const auto lost =
      std::ranges::count(view.controllers, SiteHostState::lost, &SiteController::state);
  if (lost > 0) first.add("  controller lost", Ink::bad);
  first.add("  ranks: ");
  first.begin_list();
  first.add_if(sum.live, "live", Ink::good);
  first.add_if(sum.troubled, "in trouble", Ink::warn);
  first.add_if(sum.failed, "failed", Ink::bad);
  if (sum.live + sum.failed == 0) first.add("none", Ink::dim);
  if (view.cut != 0) first.add("  (" + std::to_string(view.cut) + " more not shown)", Ink::warn);
  draw_counts(screen, first, clock_text(view.time));
  Writer second;
  second.add("CPU " + load_text(sum.cpu) + "  memory " + memory_text(sum.memory) + "  messages " +
             rate_text(rate) + "/s  queued " + std::to_string(sum.queued) + "  sort " +
             std::string(to_string(state.tree.sort)) + (state.tree.is_reversed ? " reversed" : ""));
  if (!state.tree.filter.empty() && state.mode != Mode::filter)
    second.add("  filter " + state.tree.filter, Ink::warn);
  second.write(screen, 1, 0);
}

void draw_titles(Screen& screen, std::size_t line) {
  auto at = name_width(screen.columns()) + 1;
  screen.put(line, 0, "HOST MESH RANK");
  for (const auto& column : kColumns) {
    if (screen.columns() < column.least) continue;
    column.is_right
        ? screen.put_right(line, at + column.width, column.title, Ink::plain, column.width)
        : void(screen.put(line, at, column.title, Ink::plain, column.width));
    at += column.width + 1;
  }
  screen.put(line, at + 1, "LAST LINE");
  screen.paint(line, Ink::title);
}

void draw_row(Screen& screen, std::size_t line, const TreeRow& row,
              std::chrono::system_clock::time_point now) {
  const auto width = name_width(screen.columns());
  const auto is_host_lost = row.host->state == SiteHostState::lost;
  const auto base = is_host_lost && row.kind != TreeRow::Kind::host ? Ink::dim : Ink::plain;
  screen.put(line, 0, name_of(row), row.kind == TreeRow::Kind::host ? Ink::bold : base, width);
  auto at = width + 1;
  for (const auto& column : kColumns) {
    if (screen.columns() < column.least) continue;
    const auto ink = column.field == Field::state && base == Ink::plain ? ink_of(row) : base;
    const auto text = text_of(row, column.field, now);
    column.is_right ? screen.put_right(line, at + column.width, text, ink, column.width)
                    : void(screen.put(line, at, text, ink, column.width));
    at += column.width + 1;
  }
  screen.put(line, at + 1, text_of(row, Field::last_line, now), base);
}

/// The last line of the screen: what is asked, or what happened, or the keys.
void draw_foot(Screen& screen, const TopState& state) {
  const auto line = screen.rows() - 1;
  switch (state.mode) {
    case Mode::filter:
      screen.put(line, 0, "Filter (words; Enter keeps, Esc ends it): " + state.input + "_",
                 Ink::bold);
      return;
    case Mode::signal:
      screen.put(line, 0,
                 "Signal for " + state.pending.words.front() + " (TERM): " + state.input + "_",
                 Ink::bold);
      return;
    case Mode::confirm: screen.put(line, 0, state.question + " y/N", Ink::bad); return;
    default: break;
  }
  if (!state.message.empty()) {
    screen.put(line, 0, state.message, Ink::warn);
    return;
  }
  screen.put(line, 0, "? help  / filter  s sort  w why  l logs  t stacks  k signal  x stop  q quit",
             Ink::dim);
}

void draw_list(Screen& screen, TopState& state) {
  const auto rows = make_rows(state.view, state.tree);
  const auto space = screen.rows() - kFrameLines;
  draw_head(screen, state);
  draw_titles(screen, 2);
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const auto& row) { return row.key == state.selected; });
  const auto at = static_cast<std::size_t>(found == rows.end() ? 0 : found - rows.begin());
  if (!rows.empty()) state.selected = rows[at].key;
  state.first = std::min(state.first, rows.size() > space ? rows.size() - space : 0);
  if (at < state.first) state.first = at;
  if (at >= state.first + space) state.first = at + 1 - space;
  for (std::size_t i = 0; i < space && state.first + i < rows.size(); ++i) {
    draw_row(screen, 3 + i, rows[state.first + i], state.view.time);
    if (state.first + i == at) screen.select(3 + i);
  }
  if (rows.empty() && !state.tree.filter.empty())
    screen.put(3, 0, "Nothing fits the filter; Esc ends it.", Ink::dim);
  if (!rows.empty())
    screen.put(screen.rows() - 2, 0, detail_of(rows[at], state.view.time), Ink::dim);
  draw_foot(screen, state);
}

void draw_pane(Screen& screen, TopState& state) {
  auto& pane = state.pane;
  const auto space = screen.rows() - 2;
  const auto last = pane.lines.size() > space ? pane.lines.size() - space : 0;
  if (pane.is_at_end) pane.first = last;
  pane.first = std::min(pane.first, last);
  screen.put(0, 0, "meshbus " + pane.title, Ink::title);
  screen.paint(0, Ink::title);
  const auto shown = std::min(space, pane.lines.size() - pane.first);
  std::size_t longest = 0;
  for (std::size_t i = 0; i < shown; ++i)
    longest = std::max(longest, places_of(pane.lines[pane.first + i]));
  pane.left = std::min(pane.left, longest - std::min(longest, screen.columns()));
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& line = pane.lines[pane.first + i];
    screen.put(1 + i, 0, text_behind(line, pane.left));
    // The text goes on, to the left or to the right.
    if (pane.left != 0) screen.put(1 + i, 0, "<", Ink::warn);
    if (places_of(line) > pane.left + screen.columns())
      screen.put(1 + i, screen.columns() - 1, ">", Ink::warn);
  }
  if (pane.lines.empty())
    screen.put(1, 0, pane.is_running ? "..." : "It printed nothing.", Ink::dim);
  screen.put(screen.rows() - 1, 0,
             "q back  Up Down Left Right PgUp PgDn Home End  line " +
                 std::to_string(pane.first + 1) + " of " + std::to_string(pane.lines.size()) +
                 (pane.is_running ? ", running" : ""),
             Ink::dim);
}

void draw_help(Screen& screen) {
  screen.put(0, 0, "Keys of meshbus top", Ink::bold);
  for (std::size_t i = 0; i < kHelp.size(); ++i) screen.put(2 + i, 2, kHelp[i]);
  screen.put(screen.rows() - 1, 0, "any key goes back", Ink::dim);
}

}  // namespace

Screen render(TopState& state, std::size_t columns, std::size_t lines) {
  Screen screen(columns, lines);
  if (columns < kLeastColumns || lines < kLeastLines) {
    const std::string words = "window " + std::to_string(columns) + "x" + std::to_string(lines) +
                              ": top needs " + std::to_string(kLeastColumns) + "x" +
                              std::to_string(kLeastLines);
    for (std::size_t line = 0; columns > 0 && line < lines && line * columns < words.size(); ++line)
      screen.put(line, 0, std::string_view(words).substr(line * columns, columns), Ink::bold);
    return screen;
  }
  switch (state.mode) {
    case Mode::pane: draw_pane(screen, state); break;
    case Mode::help: draw_help(screen); break;
    default: draw_list(screen, state); break;
  }
  return screen;
}

std::string table_of(const SiteView& view) {
  std::vector<Table::Column> columns = {{"HOST MESH RANK"}};
  for (const auto& column : kColumns)
    columns.push_back(
        {std::string(column.title), column.is_right ? Table::Side::right : Table::Side::left});
  columns.push_back({"LAST LINE"});
  Table table(std::move(columns));
  for (const auto& row : make_rows(view, {})) {
    std::vector<std::string> cells = {name_of(row)};
    for (const auto& column : kColumns) {
      auto text = text_of(row, column.field, view.time);
      cells.push_back(text.empty() ? "-" : std::move(text));
    }
    cells.push_back(text_of(row, Field::last_line, view.time));
    table.add(std::move(cells));
  }
  return table.text();
}

}  // namespace meshbus::cli
