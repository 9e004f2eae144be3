#include "cli/top/site_tree.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <sstream>
#include <unordered_map>

namespace meshbus::cli {
namespace {

struct Branch {
  TreeRow row;
  std::vector<TreeRow> leaves = {};
};

std::string lower(std::string text) {
  for (auto& letter : text)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

/// Whether a text has all the words.
class Filter {
 public:
  explicit Filter(const std::string& text) {
    std::istringstream words(lower(text));
    for (std::string word; words >> word;) words_.push_back(word);
  }
  bool is_empty() const { return words_.empty(); }
  bool fits(const std::string& text) const {
    const auto low = lower(text);
    return std::all_of(words_.begin(), words_.end(),
                       [&low](const auto& word) { return low.find(word) != std::string::npos; });
  }

 private:
  std::vector<std::string> words_;
};

std::string text_of(const SiteHost& host) {
  return host.host.to_string() + " " + host.report.node + " " + std::string(to_string(host.state));
}

std::string text_of(const SiteRank& rank) {
  const auto& report = rank.report;
  return " #" + std::to_string(report.rank) + " " + report.point + " " +
         std::string(to_string(report.state)) + " " +
         (report.trouble == Trouble::none ? "" : std::string(to_string(report.trouble))) + " " +
         std::to_string(report.pid) + " " + (report.is_terminal() ? report.words() : "") + " " +
         rank.last_line;
}

bool is_shown(const SiteRank& rank, const TreeOptions& options) {
  return options.has_ended || !rank.report.is_terminal() || rank.report.is_failure();
}

/// How much a row needs attention.
double urgency(const TreeRow& row) {
  const auto& sum = row.figures;
  return static_cast<double>(sum.failed) * 1e6 + static_cast<double>(sum.troubled) * 1e3 +
         static_cast<double>(sum.live - std::min(sum.live, sum.ready)) +
         (row.kind == TreeRow::Kind::host && row.host->state != SiteHostState::up ? 1e9 : 0);
}

/// The rows with more come first.
double value_of(const TreeRow& row, SortKey key) {
  switch (key) {
    case SortKey::name: return 0;
    case SortKey::state: return urgency(row);
    case SortKey::cpu: return row.figures.cpu;
    case SortKey::memory: return static_cast<double>(row.figures.memory);
    case SortKey::attempts: return static_cast<double>(row.figures.restarts);
    case SortKey::queue: return static_cast<double>(row.figures.queued);
  }
  return 0;
}

/// Numbers in names count as numbers: h2 before h10.
bool is_named_before(std::string_view a, std::string_view b) {
  const auto is_digit = [](char one) { return one >= '0' && one <= '9'; };
  while (!a.empty() && !b.empty()) {
    const auto number_in = [&](std::string_view text) {
      std::size_t length = 0;
      while (length < text.size() && is_digit(text[length])) ++length;
      return text.substr(0, length);
    };
    auto left = number_in(a), right = number_in(b);
    if (left.empty() || right.empty()) {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
      continue;
    }
    a.remove_prefix(left.size());
    b.remove_prefix(right.size());
    left.remove_prefix(std::min(left.find_first_not_of('0'), left.size()));
    right.remove_prefix(std::min(right.find_first_not_of('0'), right.size()));
    if (left != right)
      return left.size() != right.size() ? left.size() < right.size() : left < right;
  }
  return a.size() < b.size();
}

/// They come in the order of their keys' names, ranks by number.
template <typename Row, typename Of>
void sort_rows(std::vector<Row>& rows, const TreeOptions& options, Of of) {
  if (options.sort != SortKey::name) {
    std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
      return value_of(of(a), options.sort) > value_of(of(b), options.sort);
    });
  } else {
    std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
      return is_named_before(of(a).key, of(b).key);
    });
  }
  if (options.is_reversed) std::reverse(rows.begin(), rows.end());
}

void add_rank(RankSet& set, std::uint64_t rank) {
  if (!set.empty() && set.back().end == rank) {
    ++set.back().end;
  } else {
    set.push_back({rank, rank + 1});
  }
}

using MeshBranches = std::map<std::string, Branch>;

void add_mesh(const SiteMesh& mesh, const std::map<std::string, const SiteHost*>& hosts,
              std::unordered_map<std::string, MeshBranches>& tree, const Filter& filter,
              const TreeOptions& options) {
  const HostAddr* last = nullptr;
  Branch* branch = nullptr;
  for (const auto& rank : mesh.ranks) {
    if (!is_shown(*rank, options)) continue;
    // Ranks lie on hosts in blocks.
    if (last == nullptr || rank->report.host != *last) {
      last = &rank->report.host;
      branch = nullptr;
      const auto at = last->to_string();
      const auto host = hosts.find(at);
      if (host == hosts.end()) continue;
      branch = &tree[at][mesh.name];
      branch->row = {.kind = TreeRow::Kind::mesh,
                     .key = at + "\n" + mesh.name,
                     .host = host->second,
                     .mesh = &mesh,
                     .figures = branch->row.figures,
                     .ranks = std::move(branch->row.ranks)};
    }
    if (branch == nullptr) continue;
    if (!filter.is_empty() && !filter.fits(text_of(*branch->row.host) + " " + mesh.name + " " +
                                           mesh.command + text_of(*rank)))
      continue;
    TreeRow leaf{.kind = TreeRow::Kind::rank,
                 .key = branch->row.key + "\n" + std::to_string(rank->report.rank),
                 .host = branch->row.host,
                 .mesh = &mesh,
                 .rank = rank.get(),
                 .figures = figures_of(*rank)};
    branch->row.figures.add(leaf.figures);
    add_rank(branch->row.ranks, rank->report.rank);
    branch->leaves.push_back(std::move(leaf));
  }
}

}  // namespace

std::string_view to_string(SortKey key) noexcept {
  switch (key) {
    case SortKey::name: return "name";
    case SortKey::state: return "state";
    case SortKey::cpu: return "cpu";
    case SortKey::memory: return "memory";
    case SortKey::attempts: return "attempts";
    case SortKey::queue: return "queue";
  }
  return "name";
}

void Figures::add(const Figures& other) {
  ranks += other.ranks;
  live += other.live;
  ready += other.ready;
  failed += other.failed;
  troubled += other.troubled;
  cpu += other.cpu;
  cpu_time += other.cpu_time;
  memory += other.memory;
  restarts += other.restarts;
  queued += other.queued;
}

Figures figures_of(const SiteRank& rank) {
  const auto& report = rank.report;
  Figures figures;
  figures.ranks = 1;
  const bool is_live = !report.is_terminal() && report.state != ProcState::unknown;
  figures.live = is_live ? 1 : 0;
  figures.ready = report.state == ProcState::ready ? 1 : 0;
  figures.failed = report.is_failure() ? 1 : 0;
  figures.troubled = report.trouble != Trouble::none || rank.queue_waits.count() != 0 ? 1 : 0;
  figures.restarts = report.restarts;
  figures.queued = rank.queued_messages;
  if (is_live && report.usage) {
    figures.cpu = report.usage->load;
    figures.memory = report.usage->rss_bytes;
    figures.cpu_time = report.usage->user_time + report.usage->system_time;
  }
  return figures;
}

std::vector<TreeRow> make_rows(const SiteView& view, const TreeOptions& options) {
  const Filter filter(options.filter);
  std::map<std::string, const SiteHost*> hosts;
  for (const auto& host : view.hosts) hosts.emplace(host.host.to_string(), &host);
  std::unordered_map<std::string, MeshBranches> tree;
  for (const auto& mesh : view.meshes) add_mesh(mesh, hosts, tree, filter, options);
  struct Trunk {
    TreeRow row;
    std::vector<Branch> branches;
  };
  std::vector<Trunk> trunks;
  for (const auto& host : view.hosts) {
    auto& trunk = trunks.emplace_back();
    trunk.row.key = host.host.to_string();
    trunk.row.host = &host;
    for (auto& [name, branch] : tree[trunk.row.key]) {
      if (branch.leaves.empty()) continue;
      trunk.row.figures.add(branch.row.figures);
      trunk.branches.push_back(std::move(branch));
    }
    if (!filter.is_empty() && trunk.branches.empty() && !filter.fits(text_of(host)))
      trunks.pop_back();
  }
  sort_rows(trunks, options, [](const Trunk& trunk) -> const TreeRow& { return trunk.row; });
  std::vector<TreeRow> rows;
  for (auto& trunk : trunks) {
    trunk.row.is_folded = options.folded.contains(trunk.row.key);
    rows.push_back(trunk.row);
    if (trunk.row.is_folded) continue;
    sort_rows(trunk.branches, options,
              [](const Branch& branch) -> const TreeRow& { return branch.row; });
    for (auto& branch : trunk.branches) {
      branch.row.is_folded = options.folded.contains(branch.row.key);
      rows.push_back(branch.row);
      if (branch.row.is_folded) continue;
      sort_rows(branch.leaves, options, std::identity());
      rows.insert(rows.end(), branch.leaves.begin(), branch.leaves.end());
    }
  }
  return rows;
}

}  // namespace meshbus::cli
