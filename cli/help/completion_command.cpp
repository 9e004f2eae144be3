#include "cli/help/completion_command.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>

#include "cli/help/completion.h"
#include "cli/help/shells.h"
#include "cli/support/choose_mesh.h"
#include "cli/support/command.h"
#include "cli/support/contexts.h"
#include "cli/support/exit_codes.h"
#include "cli/support/find_hosts.h"
#include "cli/support/reach.h"
#include "cli/support/text_error.h"

namespace meshbus::cli {
namespace {

using namespace std::chrono_literals;

/// Somebody waits at the keyboard: hosts that do not answer soon are left out.
constexpr auto kPatience = 700ms;
/// A mesh of thousands of ranks fills no screen.
constexpr std::size_t kMostRanks = 64;

/// The hosts that the words on the command line mean.
HostChoice hosts_of(const std::vector<std::string>& words) {
  HostChoice choice{.timeout = kPatience, .is_timeout_given = true};
  const auto take = [&](std::size_t at, const std::string& flag, std::string& target) {
    if (words[at] == flag && at + 2 < words.size()) target = words[at + 1];
    if (words[at].starts_with(flag + "=")) target = words[at].substr(flag.size() + 1);
  };
  for (std::size_t i = 0; i + 1 < words.size() && words[i] != "--"; ++i) {
    take(i, "--hosts", choice.said.list);
    take(i, "--hostfile", choice.said.file);
    take(i, "--context", choice.said.context);
  }
  return choice;
}

bool is_live(const MeshReport& mesh) {
  return std::any_of(mesh.ranks.begin(), mesh.ranks.end(),
                     [](const RankReport& rank) { return !rank.is_terminal(); });
}

std::string ranks_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " rank" : " ranks");
}

/// What is live on the hosts that are meant. It asks them once.
class Site {
 public:
  explicit Site(HostChoice choice) : choice_(std::move(choice)) {}

  std::vector<Candidate> meshes(bool is_live_only) {
    std::vector<Candidate> found;
    const auto& all = listing().meshes;
    for (const auto& mesh : all) {
      const bool lives = is_live(mesh);
      if (is_live_only && !lives) continue;
      const auto same = std::count_if(all.begin(), all.end(), [&](const MeshReport& other) {
        return base_of(other.name) == base_of(mesh.name) && (!is_live_only || is_live(other));
      });
      found.push_back({same == 1 ? base_of(mesh.name) : mesh.name,
                       ranks_text(mesh.ranks.size()) + (lives ? ", live" : ", ended")});
    }
    return found;
  }

  /// `name` empty: of the only mesh there is.
  std::vector<Candidate> ranks(const std::string& name) {
    const MeshReport* meant = nullptr;
    for (const auto& mesh : listing().meshes) {
      if (name.empty() ? listing().meshes.size() == 1
                       : mesh.name == name || base_of(mesh.name) == name)
        meant = &mesh;
    }
    std::vector<Candidate> found;
    if (meant == nullptr) return found;
    const auto count = meant->ranks.size();
    if (count > 1) found.push_back({"0-" + std::to_string(count - 1), "all"});
    for (const auto& rank : meant->ranks) {
      if (found.size() > kMostRanks) break;
      found.push_back({std::to_string(rank.rank), rank.point});
    }
    return found;
  }

  std::vector<Candidate> hosts() const {
    std::vector<Candidate> found;
    for (const auto& host : local_hosts())
      found.push_back({host.address.to_string(), "on this machine"});
    if (const auto said = choose_hosts({})) {
      for (const auto& word : said->words) found.push_back({word.text, said->source});
    }
    return found;
  }

  static std::vector<Candidate> contexts() {
    const auto store = ContextStore::of_user();
    std::vector<Candidate> found;
    if (const auto names = store.names()) {
      for (const auto& name : *names) {
        const auto context = store.read(name);
        found.push_back({name, context ? context->hosts : std::string()});
      }
    }
    return found;
  }

 private:
  const MeshListing& listing() {
    if (!listing_) {
      auto reached = reach_hosts(choice_);
      listing_.emplace();
      if (auto* hosts = std::get_if<ReachedHosts>(&reached)) listing_ = std::move(hosts->listing);
    }
    return *listing_;
  }

  HostChoice choice_;
  std::optional<MeshListing> listing_;
};

int answer(const CLI::App& app, const std::string& name, std::vector<std::string> words) {
  const auto shell = parse_shell(name);
  if (!shell) {
    complain("complete takes bash, zsh or fish, not '" + name + "'");
    return kUsage;
  }
  if (*shell == Shell::bash && words.size() == 1) {
    words = split_line(words.front());
    words.erase(words.begin());
  }
  if (words.empty()) words.emplace_back();
  Site site(hosts_of(words));
  const auto completion =
      complete(app, words,
               {.meshes = [&site](bool is_live_only) { return site.meshes(is_live_only); },
                .ranks = [&site](const std::string& mesh) { return site.ranks(mesh); },
                .hosts = [&site] { return site.hosts(); },
                .contexts = [] { return Site::contexts(); }});
  std::fputs(completion_lines(*shell, completion, words.back()).c_str(), stdout);
  return 0;
}

}  // namespace

void add_completion(CLI::App& app, Commands& commands) {
  const auto shell = std::make_shared<std::string>();
  commands
      .add(app, "completion",
           {.meaning = "Print a script that completes commands, flags, hosts, meshes and ranks",
            .examples = {"completion bash > ~/.local/share/bash-completion/completions/meshbus"},
            .details = "bash: source the output, or keep it in the file above. zsh: keep it as "
                       "_meshbus in a folder of $fpath. fish: keep it as "
                       "~/.config/fish/completions/meshbus.fish."},
           [shell] {
             std::fputs(completion_script(*parse_shell(*shell)).c_str(), stdout);
             return 0;
           })
      .add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));

  const auto name = std::make_shared<std::string>();
  auto& verb =
      commands.add(app, "complete",
                   {.meaning = "Complete a command line, for the scripts of completion",
                    .examples = {"complete bash -- 'meshbus st'"}},
                   [&app, name, &commands] { return answer(app, *name, commands.command()); });
  verb.group("");
  commands.takes_command(verb);
  verb.prefix_command();
  verb.add_option("SHELL", *name)->required();
}

}  // namespace meshbus::cli
