// Actors in procs that are real processes, on hosts of their own, and their launcher: this program.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/world/client_library.h"

namespace meshbus::test::actor_world {

using namespace std::chrono_literals;

/// Procs with the actors of actor_program, and a launcher.
struct Actors {
  explicit Actors(std::string_view host_extent, std::string_view per_host,
                  std::vector<std::string> arguments = {})
      : context(must(Context::create())),
        hosts(must(HostMesh::process(context, extent(host_extent), of_this_build()))) {
    ProcSpec spec{.kind = ProcKind::mesh, .command = {bin("meshbus_test_actors")}};
    spec.command.insert(spec.command.end(), arguments.begin(), arguments.end());
    spec.output = OutputMode::stream;
    spec.grace = 8s;
    procs.emplace(must(hosts.spawn("actors", extent(per_host), std::move(spec), heard.handlers())));
  }
  ActorSpawnOptions listening() {
    return {.on_failure = [this](const ActorReport& report) {
      const std::lock_guard lock(mutex);
      failures.push_back(report);
    }};
  }
  std::vector<ActorReport> heard_failures() {
    const std::lock_guard lock(mutex);
    return failures;
  }
  ActorMesh spawn(const std::string& type, std::string_view name, std::string_view params) {
    return must(procs->spawn_actors(type, name, params, listening()));
  }
  /// Waits until that rank has written this to stderr.
  bool says(std::uint64_t rank, const std::string& text) {
    return wait_until(
        [&] { return heard.output(rank, Stream::err).find(text) != std::string::npos; }, in_time);
  }
  pid_t pid(std::uint64_t rank) const { return static_cast<pid_t>(procs->known().ranks[rank].pid); }

  Heard heard;
  std::mutex mutex;
  std::vector<ActorReport> failures;  // guarded by mutex
  Context context;
  HostMesh hosts;
  std::optional<ProcMesh> procs;
};

inline std::vector<std::string> values(const RankAnswers& answers) {
  std::vector<std::string> texts;
  for (const auto& answer : answers) texts.push_back(answer ? *answer : answer.error().to_string());
  return texts;
}

using Texts = std::vector<std::string>;

}  // namespace meshbus::test::actor_world
