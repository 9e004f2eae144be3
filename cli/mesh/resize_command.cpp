#include "cli/mesh/resize_command.h"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/mesh/stop_report.h"
#include "cli/support/choose_mesh.h"
#include "cli/support/command.h"
#include "cli/support/exit_codes.h"
#include "cli/support/rank_json.h"
#include "cli/support/reach.h"
#include "cli/support/selector.h"
#include "cli/support/text_error.h"
#include "common/address/host_range.h"
#include "meshbus/client.h"

namespace meshbus::cli {
namespace {

using Json = nlohmann::ordered_json;

/// An order has no more blocks than this.
constexpr std::uint64_t kMostBlocks = 65'536;

struct ResizeArguments {
  HostChoice hosts;
  std::string mesh;
  /// Where blocks are to come; empty: the launcher chooses.
  std::vector<HostAddr> on;
  /// Nothing: one, or one on each of `on`.
  std::optional<std::uint64_t> by;
  std::optional<std::chrono::milliseconds> grace;
};

Result<std::vector<HostAddr>> parse_places(const std::string& text) {
  const auto words = expand_hosts(text);
  if (!words) return fail(words.error());
  std::vector<HostAddr> hosts;
  for (const auto& word : *words) {
    auto host = HostAddr::parse(word);
    if (!host) return fail(host.error().within("'" + word + "'"));
    hosts.push_back(std::move(*host));
  }
  if (hosts.empty()) return fail(ErrorCode::configuration_error, "names no host");
  return hosts;
}

Result<std::uint64_t> parse_blocks(const std::string& text) {
  std::uint64_t blocks = 0;
  const auto* const end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, blocks);
  if (problem != std::errc() || at != end || blocks == 0 || blocks > kMostBlocks)
    return fail(ErrorCode::configuration_error, "takes a number of blocks from 1 to " +
                                                    std::to_string(kMostBlocks) + ", not '" + text +
                                                    "'");
  return blocks;
}

/// The live mesh that is meant, or the exit code; stderr says why.
struct Meant {
  const MeshReport* mesh = nullptr;
  int code = 0;
};
Meant find_mesh(const ReachedHosts& hosts, const std::string& word) {
  const auto parsed = Selector::parse(word);
  if (!parsed) {
    complain(parsed.error().detail());
    return {.code = kUsage};
  }
  if (!parsed->ranks.empty() || !parsed->slices.empty()) {
    complain("a mesh grows and shrinks at its end: name a whole mesh, not ranks as in '" + word +
             "'");
    return {.code = kUsage};
  }
  const auto* const mesh = choose_mesh(hosts.listing, word, Among::live);
  return {.mesh = mesh, .code = kFailed};
}

/// `--by` blocks on the hosts of `--on`, one after the other; without --by one on each.
std::vector<HostAddr> places_of(const ResizeArguments& arguments) {
  if (arguments.on.empty() || !arguments.by) return arguments.on;
  std::vector<HostAddr> places;
  for (std::uint64_t i = 0; i < *arguments.by; ++i)
    places.push_back(arguments.on[i % arguments.on.size()]);
  return places;
}

using Give = std::function<Result<OrderedResize>(HostMesh&, const std::string& mesh)>;

/// By way of a host of the mesh that has answered.
Result<OrderedResize> give_order(ReachedHosts& hosts, const MeshReport& mesh, const Give& give) {
  Result<OrderedResize> outcome =
      fail(ErrorCode::host_unreachable, "no host of mesh " + mesh.name + " answers");
  for (auto& part : hosts.parts) {
    const bool has_it = std::any_of(part.hosts().begin(), part.hosts().end(), [&](const auto& one) {
      return std::find(mesh.hosts.begin(), mesh.hosts.end(), one) != mesh.hosts.end();
    });
    if (!has_it) continue;
    outcome = give(part, mesh.name);
    if (outcome || outcome.error().code() != ErrorCode::not_exist) break;
  }
  return outcome;
}

/// "on unix:/run/h1/bus and unix:/run/h2/bus (2)"
std::string places_text(const std::vector<HostAddr>& hosts) {
  std::vector<std::pair<HostAddr, std::uint64_t>> counts;
  for (const auto& host : hosts) {
    const auto found = std::find_if(counts.begin(), counts.end(),
                                    [&](const auto& entry) { return entry.first == host; });
    if (found == counts.end()) {
      counts.emplace_back(host, 1);
    } else {
      ++found->second;
    }
  }
  std::string text;
  for (const auto& [host, count] : counts) {
    text += (text.empty() ? "" : ", ") + host.to_string();
    if (count > 1) text += " (" + std::to_string(count) + " blocks)";
  }
  return text;
}

int run(const ResizeArguments& arguments, const std::string& done_word, const Give& give) {
  auto reached = reach_hosts(arguments.hosts);
  if (const int* code = std::get_if<int>(&reached)) return *code;
  auto& hosts = std::get<ReachedHosts>(reached);
  const auto meant = find_mesh(hosts, arguments.mesh);
  if (meant.mesh == nullptr) return meant.code;
  const auto done = give_order(hosts, *meant.mesh, give);
  if (!done) {
    complain(error_words(done.error()));
    return kFailed;
  }
  if (arguments.hosts.json) {
    Json places = Json::array();
    for (const auto& host : done->hosts) places.push_back(host.to_string());
    std::cout << dump(Json{{"mesh", meant.mesh->name},
                           {"size", done->size},
                           {"ranks", to_string(done->ranks)},
                           {"hosts", places}},
                      2)
              << "\n";
  } else {
    std::cout << done_word << " " << meant.mesh->name << ": " << named(done->ranks) << " on "
              << places_text(done->hosts) << "; it has " << done->size
              << (done->size == 1 ? " rank" : " ranks") << " now\n";
  }
  return 0;
}

/// What both commands take. `meaning`: of --by.
void add_both(CLI::App& verb, ResizeArguments& arguments, const std::string& meaning) {
  add_host_choice(verb, arguments.hosts);
  verb.add_option("MESH", arguments.mesh, "A live mesh, with or without its uuid")->required();
  add_text(
      verb, "--by",
      [&arguments](const std::string& text) -> Result<void> {
        const auto blocks = parse_blocks(text);
        if (!blocks) return fail(blocks.error());
        arguments.by = *blocks;
        return {};
      },
      meaning, "BLOCKS");
}

constexpr const char* kExitCodes =
    "0 the mesh has its new size; 1 no such mesh, or its launcher has refused or failed: the mesh "
    "is as it was";
constexpr const char* kDetails =
    "A block is the ranks that the mesh has on one of its hosts. Blocks come and go at the end of "
    "its first axis, and the other ranks keep their numbers and addresses. The order goes to the "
    "launcher of the mesh, which has to take it: meshbus run does, but not for MPI and torch jobs, "
    "whose world is fixed.";

}  // namespace

void add_grow(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<ResizeArguments>();
  auto& verb = commands.add(
      app, "grow",
      {.meaning = "Add ranks to a running mesh",
       .examples = {"grow train", "grow train --by 2", "grow train --on tcp:node[7-8]:7420"},
       .details = kDetails,
       .exit_codes = kExitCodes},
      [arguments] {
        return run(*arguments, "grew", [&](HostMesh& hosts, const std::string& mesh) {
          return hosts.grow_mesh(
              mesh, {.hosts = places_of(*arguments), .blocks = arguments->by.value_or(1)},
              arguments->hosts.timeout);
        });
      });
  add_both(verb, *arguments,
           "How many blocks are added; default: 1, or with --on one on each of these hosts");
  add_text(
      verb, "--on",
      [arguments](const std::string& text) -> Result<void> {
        auto hosts = parse_places(text);
        if (!hosts) return fail(hosts.error());
        arguments->on = std::move(*hosts);
        return {};
      },
      "Where: running hosts, as in --hosts, also such that the mesh does not have yet; default: "
      "idle spares of the run, then the hosts that the mesh has, those with the fewest blocks "
      "first",
      "ADDRESS,...");
}

void add_shrink(CLI::App& app, Commands& commands) {
  const auto arguments = std::make_shared<ResizeArguments>();
  auto& verb = commands.add(
      app, "shrink",
      {.meaning = "Take the last ranks of a running mesh away",
       .examples = {"shrink train", "shrink train --by 2 --grace 5s"},
       .details = kDetails,
       .exit_codes = kExitCodes},
      [arguments] {
        return run(*arguments, "shrank", [&](HostMesh& hosts, const std::string& mesh) {
          return hosts.shrink_mesh(mesh,
                                   {.blocks = arguments->by.value_or(1), .grace = arguments->grace},
                                   arguments->hosts.timeout);
        });
      });
  add_both(verb, *arguments, "How many blocks are taken away; default 1");
  add_grace(verb, arguments->grace);
}

}  // namespace meshbus::cli
