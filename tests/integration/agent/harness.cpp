#include "tests/integration/agent/harness.h"

#include <unistd.h>

#include <stdexcept>

#include "agent/host/model/mesh_spec.h"
#include "agent/os/packet.h"
#include "common/wire/wire_region.h"
#include "tests/support/environment.h"
#include "tests/world/session_options.h"
#include "wire/bus_generated.h"
#include "wire/logs_generated.h"
#include "wire/supervision_generated.h"

using namespace std::chrono_literals;

namespace meshbus::test {
wire::GetStateT get_state(const std::string& mesh) {
  wire::GetStateT request;
  request.mesh = mesh;
  return request;
}

AgentHarness::AgentHarness(Options options) {
  start_broker();
  UniqueFd keeper_socket = std::move(keeper_.agent);
  if (options.between) keeper_socket = options.between(loop_.reactor, std::move(keeper_socket));
  ConfigSources sources;
  sources.test = std::move(options.settings);
  auto config = Config::load(std::move(sources));
  if (!config) throw std::runtime_error(config.error().to_string());
  host::HostAgent::Events events;
  events.on_up = [this] { ++ups; };
  events.on_refused = [](const Error& error) { throw std::runtime_error(error.to_string()); };
  events.on_shutdown = [this](bool ok) { shut_down = ok; };
  events.on_keeper_lost = [this] { keeper_lost = true; };
  agent_ = std::make_unique<host::HostAgent>(
      loop_.reactor,
      host::HostAgent::Options{.host = *host_,
                               .broker = *host_,
                               .containment = "sweep",
                               .tokens = tokens(),
                               .config = std::move(*config),
                               .environment = std::move(options.environment),
                               .keeper = std::move(keeper_socket)},
      std::move(events));
  launcher = make_launcher("client");
  wait("the agent's session", [this] { return ups > 0; });
}

AgentHarness::~AgentHarness() {
  launcher.reset();
  agent_.reset();
  broker_.reset();
}

void AgentHarness::start_broker() {
  broker_ = test::start_broker(loop_, "unix:" + (dir_ / "b"));
  host_ = broker_->address();
}

std::unique_ptr<TestLauncher> AgentHarness::make_launcher(const std::string& name) {
  auto made = std::make_unique<TestLauncher>(loop_, endpoint(),
                                             ProcId(host(), *Name::make(name)).to_string());
  wait("a launcher's session", [&] { return made->bus().is_up(); });
  return made;
}

void AgentHarness::wait(const std::string& what, const std::function<bool()>& predicate,
                        std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!predicate()) {
    if (std::chrono::steady_clock::now() > end) {
      std::string text = "waited " + std::to_string(deadline.count()) + " ms for " + what;
      if (launcher) {
        for (const auto& [name, mesh] : launcher->meshes) {
          for (const auto& [rank, known] : mesh)
            text += "\n" + name + " rank " + std::to_string(rank) + ": " +
                    wire::EnumNameProcState(known.state()) +
                    (known.exit_report ? " (" + known.exit_report->reason + ")" : "");
        }
      }
      throw std::runtime_error(text);
    }
    loop_.reactor.turn(5ms);
  }
}

void AgentHarness::run_for(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  wait("time to pass", [&] { return std::chrono::steady_clock::now() >= end; }, time + 30s);
}

wire::SpawnProcsT AgentHarness::command(std::vector<std::string> argv, std::uint64_t count) {
  wire::SpawnProcsT request;
  request.mesh = Name::make("jobs")->to_string();
  request.region = to_wire(*Extent::make({{"rank", count}}));
  request.hosts = {host().to_string()};
  request.create_ranks = {wire::RankInterval(0, count)};
  request.command = std::make_unique<wire::CommandT>();
  request.command->program = argv.at(0);
  request.command->arguments = std::move(argv);
  request.owner = launcher->id().to_string();
  request.grace_ms = 10'000;
  return request;
}

wire::SpawnProcsT AgentHarness::shell(const std::string& script, std::uint64_t count) {
  return command({"/bin/sh", "-c", script}, count);
}

std::string AgentHarness::spawn(wire::SpawnProcsT request) {
  const std::string name = request.mesh;
  const auto accepted = ask<wire::SpawnAccepted>(std::move(request));
  if (!accepted) throw std::runtime_error(accepted.error().to_string());
  return name;
}

std::string AgentHarness::run_until_up(const std::string& script, std::uint64_t count) {
  auto request = shell(script, count);
  request.output = wire::OutputMode::stream;
  const auto mesh = spawn(std::move(request));
  wait("the scripts to be up", [&] {
    const auto& known = launcher->mesh(mesh);
    return known.size() == count && std::all_of(known.begin(), known.end(), [](const auto& entry) {
             return entry.second.out.starts_with("up");
           });
  });
  return mesh;
}

void AgentHarness::stop(const std::string& mesh, std::chrono::milliseconds grace,
                        std::vector<wire::RankInterval> ranks) {
  wire::StopProcsT request;
  request.mesh = mesh;
  request.ranks = std::move(ranks);
  request.reason = "the test is over";
  request.requester = launcher->id().to_string();
  request.grace_ms = static_cast<std::uint32_t>(grace.count());
  if (const auto stopped = ask<wire::Ack>(std::move(request)); !stopped)
    throw std::runtime_error(stopped.error().to_string());
}

void AgentHarness::wait_state(const std::string& mesh, wire::ProcState state, std::size_t ranks) {
  wait(std::string("state ") + wire::EnumNameProcState(state), [&] {
    const auto& known = launcher->mesh(mesh);
    return known.size() == ranks && std::all_of(known.begin(), known.end(), [&](const auto& entry) {
             return entry.second.state() >= state;
           });
  });
}

void AgentHarness::wait_ended(const std::string& mesh, std::size_t ranks) {
  wait("exit reports", [&] {
    const auto& known = launcher->mesh(mesh);
    return known.size() == ranks && std::all_of(known.begin(), known.end(), [&](const auto& entry) {
             return entry.second.has_ended() && entry.second.exit_report;
           });
  });
}

}  // namespace meshbus::test
