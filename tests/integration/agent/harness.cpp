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
TestLauncher::TestLauncher(Reactor& reactor, zmq::context_t& context, const std::string& endpoint,
                           std::string name) {
  auto options = session_options(endpoint, hello_of(wire::PeerKind::launcher, name));
  options.hello.pid = static_cast<std::uint32_t>(::getpid());
  Dispatcher handlers;
  handlers
      .on<wire::StateChanged>(
          Role::host,
          [this](const Request&, const wire::StateChanged& message) { on_state_changed(message); })
      .on<wire::Output>(Role::host,
                        [this](const Request& request, const wire::Output& message) {
                          on_output(request, message);
                        })
      .on<wire::Log>(Role::host, [this](const Request& request, const wire::Log& message) {
        on_log(request, message);
      });
  bus_ = std::make_unique<Bus>(reactor, context, std::move(options), std::move(handlers),
                               Bus::Events());
}

void TestLauncher::on_state_changed(const wire::StateChanged& message) {
  ++state_messages;
  Mesh& mesh = meshes[message.mesh()->str()];
  if (message.ranks() != nullptr) {
    for (const auto* state : *message.ranks()) {
      Rank& rank = mesh[state->rank()];
      if (!rank.states.empty() && state->generation() == rank.states.back().generation()) {
        if (!message.snapshot())
          problems.push_back("rank " + std::to_string(state->rank()) +
                             ": a change that was told before");
        continue;
      }
      if (!rank.states.empty() && state->generation() < rank.states.back().generation())
        problems.push_back("rank " + std::to_string(state->rank()) + ": generation " +
                           std::to_string(state->generation()) + " after " +
                           std::to_string(rank.states.back().generation()));
      rank.states.push_back(*state);
    }
  }
  if (message.exit_reports() == nullptr) return;
  for (const auto* exit_report : *message.exit_reports()) {
    Rank& rank = mesh[exit_report->rank()];
    if (rank.exit_report && !message.snapshot())
      problems.push_back("rank " + std::to_string(exit_report->rank()) +
                         ": an exit report that was told before");
    // A subscriber that came after the end has not been told of it.
    if (!rank.states.empty() && !rank.has_ended())
      problems.push_back("rank " + std::to_string(exit_report->rank()) +
                         ": an exit report before the end");
    rank.exit_report.emplace();
    exit_report->UnPackTo(&*rank.exit_report);
  }
}

void TestLauncher::on_output(const Request& request, const wire::Output& message) {
  Mesh& mesh = meshes[message.mesh()->str()];
  wire::OutputTakenT taken;
  if (message.chunks() != nullptr) {
    for (const auto* chunk : *message.chunks()) {
      Rank& rank = mesh[chunk->rank()];
      std::string& text = chunk->stream() == wire::Stream::out ? rank.out : rank.err;
      if (chunk->offset() > text.size()) continue;  // it comes again
      const std::string data(chunk->data()->begin(), chunk->data()->end());
      const auto known = std::min<std::size_t>(data.size(), text.size() - chunk->offset());
      if (text.compare(chunk->offset(), known, data, 0, known) != 0)
        problems.push_back("rank " + std::to_string(chunk->rank()) +
                           ": other bytes at an offset that has come before");
      if (rank.output_ended && known < data.size())
        problems.push_back("rank " + std::to_string(chunk->rank()) + ": output after its end");
      text += data.substr(known);
      untaken += data.size() - known;
      taken.positions.emplace_back(chunk->rank(), text.size(), chunk->stream());
    }
  }
  if (message.ends() != nullptr) {
    for (const auto* end : *message.ends()) {
      Rank& rank = mesh[end->rank()];
      if (rank.out.size() != end->out() || rank.err.size() != end->err()) continue;
      rank.output_ended = true;
      taken.ended.push_back(end->rank());
    }
  }
  if (!takes_output) return;
  taken.mesh = message.mesh()->str();
  taken.bytes = std::exchange(untaken, 0);
  bus_->tell(Destination::back(request.envelope), std::move(taken));
}

wire::GetStateT get_state(const std::string& mesh) {
  wire::GetStateT request;
  request.mesh = mesh;
  return request;
}

std::unique_ptr<Process> start_keeper(UniqueFd& agent, os::Lifeline& lifeline) {
  auto line = os::make_packet_pair().value();
  auto socket = os::make_packet_pair().value();
  auto process = std::make_unique<Process>(
      std::vector<std::string>{bin("meshbus-keeper"), "--lifeline-fd",
                               std::to_string(line.second.get()), "--agent-fd",
                               std::to_string(socket.second.get())},
      ProcessOptions{.inherit = {line.second.get(), socket.second.get()}});
  agent = std::move(socket.first);
  lifeline = os::Lifeline(std::move(line.first));
  return process;
}

AgentHarness::AgentHarness(Options options) : tokens_(std::string(TokenMaker::kSecretSize, 's')) {
  start_broker();
  UniqueFd keeper_socket;
  keeper_ = start_keeper(keeper_socket, lifeline_);
  if (options.between) keeper_socket = options.between(reactor_, std::move(keeper_socket));
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
      reactor_, context_,
      host::HostAgent::Options{.host = *host_,
                               .broker = *host_,
                               .containment = "sweep",
                               .tokens = tokens_,
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
  lifeline_.close();
  keeper_->wait_exit(30s);
}

void AgentHarness::start_broker() {
  BrokerOptions options;
  options.binds = {*HostAddr::unix_socket(dir_ / "b")};
  options.tokens = tokens_;
  auto started = Broker::start(reactor_, context_, std::move(options));
  if (!started) throw std::runtime_error(started.error().to_string());
  broker_ = std::move(*started);
  host_ = broker_->address();
}

std::unique_ptr<TestLauncher> AgentHarness::make_launcher(const std::string& name) {
  auto made = std::make_unique<TestLauncher>(reactor_, context_, endpoint(),
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
    reactor_.turn(5ms);
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
