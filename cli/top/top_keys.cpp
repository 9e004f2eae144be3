#include "cli/top/top_keys.h"

#include <algorithm>
#include <iterator>

#include "mesh/text.h"

namespace meshbus::cli {
namespace {

constexpr std::size_t kMostInput = 60;

/// The row that is selected: that of the key, or else the first.
std::size_t find_selected(const std::vector<TreeRow>& rows, const std::string& key) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.key == key; });
  return found == rows.end() ? 0 : static_cast<std::size_t>(std::distance(rows.begin(), found));
}

/// "train-13Se1Maqzryj[0-5]"
std::string target_of(const TreeRow& row) {
  const RankSet ranks = row.kind == TreeRow::Kind::rank
                            ? RankSet{{row.rank->report.rank, row.rank->report.rank + 1}}
                            : row.ranks;
  return row.mesh->name + "[" + to_string(ranks) + "]";
}

TopOrder command(const TopState& state, TopOrder::Kind kind, std::vector<std::string> words) {
  words.insert(words.end(), state.host_words.begin(), state.host_words.end());
  return {.kind = kind, .words = std::move(words)};
}

TopOrder show(TopState& state, std::vector<std::string> words) {
  state.pane = {};
  for (const auto& word : words) state.pane.title += (state.pane.title.empty() ? "" : " ") + word;
  state.pane.is_running = true;
  state.mode = TopState::Mode::pane;
  return command(state, TopOrder::Kind::show, std::move(words));
}

void move_to(TopState& state, const std::vector<TreeRow>& rows, std::size_t to) {
  if (!rows.empty()) state.selected = rows[std::min(to, rows.size() - 1)].key;
}

void fold(TopState& state, const TreeRow& row, bool is_folded) {
  if (row.kind == TreeRow::Kind::rank) return;
  is_folded ? void(state.tree.folded.insert(row.key)) : void(state.tree.folded.erase(row.key));
}

/// Folds or unfolds every row of one kind: meshes, and when they are folded already, hosts.
void fold_all(TopState& state, const std::vector<TreeRow>& rows) {
  const auto all_folded = [&rows](TreeRow::Kind kind) {
    return std::all_of(rows.begin(), rows.end(),
                       [kind](const auto& row) { return row.kind != kind || row.is_folded; });
  };
  if (all_folded(TreeRow::Kind::mesh) && all_folded(TreeRow::Kind::host)) {
    state.tree.folded.clear();
    return;
  }
  const auto kind = all_folded(TreeRow::Kind::mesh) ? TreeRow::Kind::host : TreeRow::Kind::mesh;
  for (const auto& row : rows) {
    if (row.kind == kind) state.tree.folded.insert(row.key);
  }
}

TopOrder on_mesh_key(TopState& state, const TreeRow& row, int key) {
  if (row.kind == TreeRow::Kind::host) {
    state.message = "Choose a mesh or a rank first.";
    return {};
  }
  const auto& name = row.mesh->name;
  switch (key) {
    case 'w':
      return row.kind == TreeRow::Kind::rank
                 ? show(state, {"why", name, "--rank", std::to_string(row.rank->report.rank)})
                 : show(state, {"why", name});
    case 'l':
      return row.kind == TreeRow::Kind::rank
                 ? show(state, {"logs", name, "--rank", std::to_string(row.rank->report.rank),
                                "--tail", "1000", "-f"})
                 : show(state,
                        {"logs", name, "--rank", to_string(row.ranks), "--tail", "20", "-f"});
    case 't': return show(state, {"stacks", target_of(row)});
    case 'k':
      state.mode = TopState::Mode::signal;
      state.input.clear();
      state.pending = {.kind = TopOrder::Kind::act, .words = {target_of(row)}};
      break;
    default:
      state.mode = TopState::Mode::confirm;
      state.question = "Stop " + target_of(row) + "?";
      state.pending = command(state, TopOrder::Kind::act, {"stop", target_of(row)});
      break;
  }
  return {};
}

TopOrder on_list_key(TopState& state, int key, std::size_t lines) {
  const auto rows = make_rows(state.view, state.tree);
  const auto at = find_selected(rows, state.selected);
  const auto page = lines > kFrameLines + 1 ? lines - kFrameLines - 1 : 1;
  state.message.clear();
  switch (key) {
    case 'q': return {.kind = TopOrder::Kind::quit};
    case '?':
    case 'h': state.mode = TopState::Mode::help; return {};
    case '/':
      state.mode = TopState::Mode::filter;
      state.input = state.tree.filter;
      return {};
    case kKeyEscape: state.tree.filter.clear(); return {};
    case 'r': state.tree.is_reversed = !state.tree.is_reversed; return {};
    case 's':
      state.tree.sort = static_cast<SortKey>((static_cast<int>(state.tree.sort) + 1) % 6);
      return {};
    case 'N': state.tree.sort = SortKey::name; return {};
    case 'S': state.tree.sort = SortKey::state; return {};
    case 'C': state.tree.sort = SortKey::cpu; return {};
    case 'M': state.tree.sort = SortKey::memory; return {};
    case 'A': state.tree.sort = SortKey::attempts; return {};
    case 'Q': state.tree.sort = SortKey::queue; return {};
    case 'e': state.tree.has_ended = !state.tree.has_ended; return {};
    case 'f': fold_all(state, rows); return {};
    default: break;
  }
  if (rows.empty()) return {};
  switch (key) {
    case kKeyUp: move_to(state, rows, at - std::min<std::size_t>(at, 1)); break;
    case kKeyDown: move_to(state, rows, at + 1); break;
    case kKeyPageUp: move_to(state, rows, at - std::min(at, page)); break;
    case kKeyPageDown: move_to(state, rows, at + page); break;
    case kKeyHome: move_to(state, rows, 0); break;
    case kKeyEnd: move_to(state, rows, rows.size() - 1); break;
    case kKeyLeft: fold(state, rows[at], true); break;
    case kKeyRight: fold(state, rows[at], false); break;
    case kKeyEnter:
    case ' ': fold(state, rows[at], !rows[at].is_folded); break;
    case 'w':
    case 'l':
    case 't':
    case 'k':
    case 'x': return on_mesh_key(state, rows[at], key);
    default: break;
  }
  return {};
}

/// Types into `input`. True when the key was one for that.
bool type(TopState& state, int key) {
  if (key == kKeyBackspace) {
    while (!state.input.empty() && (static_cast<unsigned char>(state.input.back()) & 0xC0) == 0x80)
      state.input.pop_back();
    if (!state.input.empty()) state.input.pop_back();
    return true;
  }
  if (key < 0x20 || key > 0x7E || state.input.size() >= kMostInput) return false;
  state.input += static_cast<char>(key);
  return true;
}

TopOrder on_signal_key(TopState& state, int key) {
  if (key == kKeyEscape) {
    state.mode = TopState::Mode::list;
    return {};
  }
  if (key != kKeyEnter) {
    type(state, key);
    return {};
  }
  const auto signal = state.input.empty() ? std::string("TERM") : state.input;
  const auto target = state.pending.words.front();
  state.mode = TopState::Mode::confirm;
  state.question = "Send " + signal + " to " + target + "?";
  state.pending = command(state, TopOrder::Kind::act, {"signal", signal, target});
  return {};
}

/// Columns by which Left and Right move a pane.
constexpr std::size_t kSideStep = 20;

TopOrder on_pane_key(TopState& state, int key, std::size_t lines) {
  auto& pane = state.pane;
  const auto page = lines > 2 ? lines - 2 : 1;
  const auto last = pane.lines.size() > page ? pane.lines.size() - page : 0;
  if (pane.is_at_end) pane.first = last;
  switch (key) {
    case 'q':
    case kKeyEscape: state.mode = TopState::Mode::list; return {.kind = TopOrder::Kind::end_pane};
    case kKeyUp: pane.first -= std::min<std::size_t>(pane.first, 1); break;
    case kKeyDown: ++pane.first; break;
    case kKeyPageUp: pane.first -= std::min(pane.first, page); break;
    case kKeyPageDown:
    case ' ': pane.first += page; break;
    case kKeyLeft: pane.left -= std::min(pane.left, kSideStep); break;
    case kKeyRight: pane.left += kSideStep; break;
    case kKeyHome: pane.first = 0; break;
    case kKeyEnd: pane.first = last; break;
    default: return {};
  }
  pane.first = std::min(pane.first, last);
  pane.is_at_end = pane.first == last;
  return {};
}

}  // namespace

TopOrder on_key(TopState& state, int key, std::size_t lines) {
  using Mode = TopState::Mode;
  switch (state.mode) {
    case Mode::list: return on_list_key(state, key, lines);
    case Mode::help: state.mode = Mode::list; return {};
    case Mode::filter:
      if (key == kKeyEscape) state.tree.filter.clear();
      if (key == kKeyEscape || key == kKeyEnter) {
        state.mode = Mode::list;
      } else if (type(state, key)) {
        state.tree.filter = state.input;
      }
      return {};
    case Mode::signal: return on_signal_key(state, key);
    case Mode::confirm:
      state.mode = Mode::list;
      if (key == 'y' || key == 'Y') {
        state.message = "...";
        return std::exchange(state.pending, {});
      }
      state.message = "Nothing was done.";
      return {};
    case Mode::pane: return on_pane_key(state, key, lines);
  }
  return {};
}

}  // namespace meshbus::cli
