// Sleeping ranks on host processes of this build, and their launcher: this program.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/world/client_library.h"

namespace meshbus::test::sleeping {

using namespace std::chrono_literals;

/// Sleeping ranks on host processes.
struct Sleepers {
  explicit Sleepers(std::string_view host_extent, std::string_view per_host,
                    std::vector<std::pair<std::string, std::string>> settings = {},
                    ProcSpec spec = {})
      : context(must(Context::create(quick(std::move(settings))))),
        hosts(must(HostMesh::process(context, extent(host_extent), of_this_build()))) {
    if (spec.command.empty()) spec.command = {"sh", "-c", "echo alive >&2; exec " + sleep};
    mesh.emplace(
        must(hosts.spawn("sleepers", extent(per_host), std::move(spec), heard.handlers())));
  }
  pid_t pid(std::uint64_t rank) const { return static_cast<pid_t>(mesh->known().ranks[rank].pid); }
  std::string describe() const {
    std::string text;
    for (const auto& rank : mesh->known().ranks)
      text += rank.describe() + ", wrote \"" + heard.output(rank.rank) + "\"\n";
    return text;
  }
  Roles roles(std::size_t host) const {
    std::optional<Roles> roles;
    const auto wardens = wardens_of(::getpid());
    for (const auto warden : wardens) {
      const auto found = find_roles(warden);
      if (found && found->agent == must(hosts.states())[host].pid) roles = found;
    }
    REQUIRE(roles.has_value());
    return *roles;
  }

  std::string sleep = own_sleep();
  Heard heard;
  Context context;
  HostMesh hosts;
  std::optional<ProcMesh> mesh;
};

}  // namespace meshbus::test::sleeping
