#include "cli/drain_command.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <vector>

#include "cli/hosts_command.h"
#include "cli/rank_json.h"
#include "cli/text_error.h"

namespace meshbus::cli {
namespace {

std::string scope_words(const std::string& mesh, const std::string& owner) {
  return (mesh.empty() ? "all meshes" : "mesh " + mesh) + (owner.empty() ? "" : " of " + owner);
}

/// The whole names of the meshes that are meant; one empty name = every mesh. None: it has been said.
std::vector<std::string> scopes(const HostMesh& hosts, const HostsArguments& arguments) {
  if (arguments.mesh.empty()) return {""};
  const auto listing = hosts.meshes(arguments.timeout);
  if (!listing) {
    complain(listing.error().to_string());
    return {};
  }
  std::vector<std::string> names;
  for (const auto* mesh : matching(*listing, arguments.mesh)) names.push_back(mesh->name);
  // One that is not there (any more) can be kept from being started, and what is held can be ended.
  if (const auto name = Name::parse(arguments.mesh); names.empty() && name && name->to_string() != name->base())
    names.push_back(arguments.mesh);
  if (names.empty()) complain("no mesh '" + arguments.mesh + "' on these hosts; meshbus ps -a lists what is there");
  return names;
}

}  // namespace

std::string words_of(const DrainReport& drain) {
  std::string words = scope_words(drain.mesh, drain.owner) + ", asked for by " + (drain.requester.empty() ? "somebody" : drain.requester) +
                      ": " + drain.reason;
  if (drain.left > 0) words += "; " + std::to_string(drain.left) + (drain.left == 1 ? " proc" : " procs") + " left";
  return words + (drain.hold ? "; held" : "");
}

int drain_command(HostMesh& hosts, const HostsArguments& arguments) {
  const auto names = scopes(hosts, arguments);
  int code = names.empty() ? 1 : 0;
  auto json = nlohmann::ordered_json::array();
  for (const auto& name : names) {
    const auto scope = scope_words(name, arguments.owner);
    if (arguments.resume) {
      if (const auto resumed = hosts.resume(name, arguments.owner, arguments.timeout); !resumed) {
        complain(resumed.error().to_string());
        code = 1;
      } else if (!arguments.json) {
        std::cout << scope << ": may be started again\n";
      }
      continue;
    }
    DrainOptions options{.mesh = name, .owner = arguments.owner, .hold = arguments.hold, .grace = arguments.grace};
    options.reason = arguments.reason.empty() ? "meshbus drain" : arguments.reason;
    if (arguments.is_timeout_given) options.deadline = arguments.timeout;
    const auto summary = hosts.drain(options);
    if (!summary) {
      complain(summary.error().to_string());
      code = 1;
      continue;
    }
    json.push_back({{"mesh", name.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(name)},
                    {"owner", arguments.owner.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(arguments.owner)},
                    {"attempted", summary->attempted},
                    {"ok", summary->ok},
                    {"failed", summary->failed},
                    {"hold", arguments.hold}});
    if (!arguments.json)
      std::cout << "drained " << scope << ": " << summary->ok << " of " << summary->attempted << " procs ended"
                << (arguments.hold ? "; nothing of that is started here until meshbus drain --resume" : "") << "\n";
  }
  if (arguments.json && !arguments.resume) std::cout << dump(json, 2) << "\n";
  return code;
}

}  // namespace meshbus::cli
