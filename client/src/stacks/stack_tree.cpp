#include "client/src/stacks/stack_tree.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "meshbus/client.h"

namespace meshbus {
namespace {

std::string rank_list(const std::set<std::uint64_t>& ranks) {
  return to_string(to_rank_set({ranks.begin(), ranks.end()}));
}

std::string counted_ranks(const std::set<std::uint64_t>& ranks) {
  if (ranks.size() == 1) return "rank " + rank_list(ranks);
  return std::to_string(ranks.size()) + " ranks: " + rank_list(ranks);
}

/// The name of a file; with its folder where the name alone says nothing.
std::string short_file(const std::string& path) {
  auto slash = path.find_last_of('/');
  if (slash == std::string::npos) return path;
  const auto name = path.substr(slash + 1);
  if (name != "__init__.py" && name != "__main__.py" && name != "main.py") return name;
  slash = slash == 0 ? std::string::npos : path.find_last_of('/', slash - 1);
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

/// Terminals do what control characters of others say.
std::string without_controls(std::string text) {
  for (auto& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  }
  return text;
}

/// Branches of a tree of lines.
constexpr std::string_view kBranch = "├─ ";
constexpr std::string_view kLastBranch = "└─ ";
constexpr std::string_view kBeside = "│  ";
constexpr std::string_view kBelow = "   ";

}  // namespace

std::string frame_text(const wire::StackFrameT& frame) {
  if (frame.kind == wire::FrameKind::python)
    return without_controls(frame.function + " (" + short_file(frame.file) + ":" +
                            (frame.line == 0 ? "?" : std::to_string(frame.line)) + ")");
  if (frame.function.empty())
    return without_controls(frame.file.empty() ? "code without a file" : frame.file + frame.source);
  // Where the C library was built says nothing to its users.
  const bool has_line = !frame.source.empty() && !frame.file.starts_with("libc.so");
  return without_controls(frame.function + " (" + (has_line ? frame.source : frame.file) + ")");
}

std::string site_text(const wire::StackThreadT& thread) {
  std::string text;
  if (!thread.system_call.empty()) text = "in " + thread.system_call;
  if (!thread.kernel_function.empty())
    text += (text.empty() ? "in the kernel: " : ", kernel: ") + thread.kernel_function;
  if (thread.state == 'R') text = "runs";
  if (thread.state == 'D') text += (text.empty() ? "" : ", ") + std::string("uninterruptible");
  if (thread.state == 'T' || thread.state == 't') text = "stopped by a signal";
  if (thread.state == 'Z') text = "has ended, but its parent has not taken its exit";
  if (!thread.note.empty()) text += (text.empty() ? "" : "; ") + thread.note;
  return without_controls(text);
}

StackTree::Node& StackTree::Node::child(const std::string& text) {
  auto& entry = next[text];
  if (entry == nullptr) {
    entry = std::make_unique<Node>();
    entry->label = text;
  }
  return *entry;
}

std::vector<const StackTree::Node*> StackTree::Node::sorted() const {
  std::vector<const Node*> nodes;
  for (const auto& [text, node] : next) nodes.push_back(node.get());
  std::stable_sort(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) {
    return a->ranks.size() != b->ranks.size() ? a->ranks.size() < b->ranks.size()
                                              : *a->ranks.begin() < *b->ranks.begin();
  });
  return nodes;
}

void StackTree::add(const wire::StacksT& stacks) {
  for (const auto& thread : stacks.threads) {
    ranks_.insert(thread->rank);
    cpu_ms_ += thread->cpu_ms;
    has_running_ = has_running_ || thread->state == 'R';
    Place place{*thread, {}};
    if (thread->stack < stacks.stacks.size()) {
      for (const auto index : stacks.stacks[thread->stack]->frames) {
        if (index < stacks.frames.size()) place.frames.push_back(*stacks.frames[index]);
      }
    }
    std::string path;
    auto* node = &kinds_[Kind(without_controls(thread->process), without_controls(thread->name))];
    const auto count = [&](Node& at) {
      at.ranks.insert(thread->rank);
      ++at.threads;
    };
    count(*node);
    for (auto frame = place.frames.rbegin(); frame != place.frames.rend(); ++frame) {
      const auto text = frame_text(*frame);
      node = &node->child(text);
      count(*node);
      path += text + '\n';
    }
    if (const auto site = site_text(*thread); !site.empty()) {
      node = &node->child(site);
      node->is_function = false;
      count(*node);
      path += site;
    }
    auto& found = stacks_[thread->process + '\n' + thread->name + '\n' + path];
    found.ranks.insert(thread->rank);
    if (found.threads++ == 0) found.place = std::move(place);
  }
  for (const auto& problem : stacks.problems) {
    ranks_.insert(problem->rank);
    problems_[without_controls(problem->text)].insert(problem->rank);
  }
}

std::vector<const std::pair<const StackTree::Kind, StackTree::Node>*> StackTree::sorted_kinds()
    const {
  std::vector<const std::pair<const Kind, Node>*> kinds;
  for (const auto& kind : kinds_) kinds.push_back(&kind);
  const auto depth = [](const Kind& kind) {
    return std::count(kind.first.begin(), kind.first.end(), '/');
  };
  std::stable_sort(kinds.begin(), kinds.end(), [&](const auto* a, const auto* b) {
    const auto order = [&](const Kind& kind) {
      return std::tuple(!kind.second.empty(), depth(kind));
    };
    return order(a->first) < order(b->first);
  });
  return kinds;
}

void StackTree::find_odd(const Node& node, std::vector<OddRanks>& odd) {
  const auto nodes = node.sorted();
  if (nodes.empty()) return;
  const Node* most = nodes.back();
  if (most->ranks.size() * 2 <= node.ranks.size()) return;
  for (const Node* few : nodes) {
    if (few == most) continue;
    OddRanks found;
    std::set_difference(few->ranks.begin(), few->ranks.end(), most->ranks.begin(),
                        most->ranks.end(), std::inserter(found.ranks, found.ranks.end()));
    // A thread of a pool: its rank has others where most are. Few ranks have one here.
    if (found.ranks.empty() && few->ranks.size() * 2 < node.ranks.size()) found.ranks = few->ranks;
    if (found.ranks.empty()) continue;
    // The innermost function that is the program's own, and what the kernel says.
    std::string function = few->label;
    std::string site;
    for (const Node* at = few; at != nullptr;) {
      if (!at->is_function)
        site = at->label;
      else if (at->label.find("(libc.so") == std::string::npos && !at->label.starts_with("libc.so"))
        function = at->label;
      const auto below = at->sorted();
      at = below.empty() ? nullptr : below.back();
    }
    found.where = site.empty() || site == function ? function : function + ", " + site;
    odd.push_back(std::move(found));
  }
  find_odd(*most, odd);
}

std::vector<OddRanks> StackTree::odd_ranks() const {
  std::vector<OddRanks> odd;
  for (const auto* kind : sorted_kinds()) {
    find_odd(kind->second, odd);
    if (!odd.empty()) break;
  }
  std::stable_sort(odd.begin(), odd.end(), [](const OddRanks& a, const OddRanks& b) {
    return a.ranks.size() < b.ranks.size();
  });
  return odd;
}

void StackTree::write(const Node& node, const std::string& indent, std::string& text) {
  const auto nodes = node.sorted();
  if (nodes.size() == 1) {
    const Node& only = *nodes.front();
    text += indent + (only.is_function ? "" : "· ") + only.label + "\n";
    write(only, indent, text);
    return;
  }
  for (const Node* branch : nodes) {
    const bool is_last = branch == nodes.back();
    text += indent + std::string(is_last ? kLastBranch : kBranch) + counted_ranks(branch->ranks);
    if (branch->threads > branch->ranks.size())
      text += ", " + std::to_string(branch->threads) + " threads";
    text += "\n";
    const auto below = indent + std::string(is_last ? kBelow : kBeside);
    text += below + (branch->is_function ? "" : "· ") + branch->label + "\n";
    write(*branch, below, text);
  }
}

std::string StackTree::text(bool main_only) const {
  std::string text;
  for (const auto& odd : odd_ranks())
    text += counted_ranks(odd.ranks) + ", unlike most: " + odd.where + "\n";
  for (const auto* kind : sorted_kinds()) {
    const auto& [process, thread] = kind->first;
    if (main_only && !thread.empty()) continue;
    if (!text.empty()) text += "\n";
    const auto& node = kind->second;
    text += process + ", " + (thread.empty() ? "main thread" : "thread " + thread) + ", " +
            counted_ranks(node.ranks);
    if (node.threads > node.ranks.size()) text += ", " + std::to_string(node.threads) + " threads";
    text += "\n";
    write(node, "  ", text);
  }
  if (!problems_.empty() && !text.empty()) text += "\n";
  for (const auto& [problem, ranks] : problems_)
    text += counted_ranks(ranks) + ": " + problem + "\n";
  return text;
}

nlohmann::ordered_json StackTree::json() const {
  auto odd = nlohmann::ordered_json::array();
  for (const auto& one : odd_ranks())
    odd.push_back({{"ranks", rank_list(one.ranks)}, {"where", one.where}});
  std::vector<const Found*> sorted;
  for (const auto& [path, found] : stacks_) sorted.push_back(&found);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Found* a, const Found* b) {
    return a->ranks.size() < b->ranks.size();
  });
  auto stacks = nlohmann::ordered_json::array();
  for (const Found* found : sorted) {
    const auto& thread = found->place.thread;
    auto frames = nlohmann::ordered_json::array();
    for (const auto& frame : found->place.frames)
      frames.push_back({{"function", frame.function},
                        {"file", frame.file},
                        {"line", frame.line},
                        {"source", frame.source},
                        {"language", frame.kind == wire::FrameKind::python ? "python" : "native"}});
    stacks.push_back({{"ranks", rank_list(found->ranks)},
                      {"process", thread.process},
                      {"thread", thread.name},
                      {"threads", found->threads},
                      {"state", std::string(1, static_cast<char>(thread.state))},
                      {"system_call", thread.system_call},
                      {"kernel_function", thread.kernel_function},
                      {"note", thread.note},
                      {"frames", std::move(frames)}});
  }
  auto problems = nlohmann::ordered_json::array();
  for (const auto& [problem, ranks] : problems_)
    problems.push_back({{"ranks", rank_list(ranks)}, {"text", problem}});
  return {
      {"odd", std::move(odd)}, {"stacks", std::move(stacks)}, {"problems", std::move(problems)}};
}

}  // namespace meshbus
