#include "tests/integration/proc/harness.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "tests/support/environment.h"
#include "tests/support/sanitizer_scale.h"
#include "tests/world/session_options.h"
#include "wire/bootstrap_generated.h"
#include "wire/bus_generated.h"

using namespace std::chrono_literals;

namespace meshbus::test {
namespace {

constexpr auto long_enough = 20s;  // for what should come at once, on a busy machine
constexpr std::uint64_t incarnation = 4711;

Session::Options session(const Broker& broker, const std::string& peer, wire::PeerKind kind) {
  auto options =
      session_options(broker.binds().front().zmq_endpoint(), hello_of(kind, peer, incarnation));
  options.hello.pid = static_cast<std::uint32_t>(::getpid());
  return options;
}

UniqueFd sealed(const std::string& bytes) {
  UniqueFd fd(::memfd_create("bootstrap", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (::write(fd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()) ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
          0) {
    throw std::runtime_error("no sealed memory");
  }
  return fd;
}

}  // namespace

ProcHarness::ProcHarness(Options options) : options_(std::move(options)) {
  start_broker();
  start_agent();
  start_launcher();
  mesh_ = *ProcMeshRef::make(*Name::parse("trainers-13Se1Maqzryj"), {broker_->address()},
                             *Extent::make({{"gpu", options_.ranks}}));
}

ProcHarness::~ProcHarness() {
  for (auto& [rank, process] : processes_) process->send_signal(SIGKILL);
  launcher_.reset();
  agent_.reset();
  broker_.reset();
}

void ProcHarness::start_broker() {
  // One that was there before leaves its address a moment after its end.
  wait("a broker", [&] {
    auto started = try_start_broker(loop_, "unix:" + (dir_ / "b"),
                                    {{"delivery.starting", std::to_string(200 * slowness) + "ms"}});
    if (started) broker_ = std::move(*started);
    return broker_ != nullptr;
  });
}

void ProcHarness::stop_broker() {
  // Its peers lose it at once, as by a crash.
  broker_.reset();
}

void ProcHarness::start_agent() {
  const auto self = host_service(broker_->address()).to_string();
  auto options = session(*broker_, self, wire::PeerKind::agent);
  options.hello.token = tokens().make(self, incarnation);
  Dispatcher handlers;
  handlers
      .on<wire::ProcReady>(Role::proc,
                           [this](const Request& request, const wire::ProcReady& ready) {
                             ++readies[ready.proc()->str()];
                             agent_->answer(request, wire::AckT());
                           })
      .on<wire::ProcHeartbeat>(
          Role::proc, [this](const Request& request, const wire::ProcHeartbeat& heartbeat) {
            ++heartbeats[heartbeat.proc()->str()];
            agent_->answer(request, wire::AckT());
          });
  agent_ =
      std::make_unique<Bus>(loop_.reactor, std::move(options), std::move(handlers), Bus::Events());
  wait("the agent's session", [this] { return agent_->is_up(); });
}

void ProcHarness::start_launcher() {
  Bus::Events events;
  events.on_data = [this](const wire::Envelope&, const wire::CallHeader&, Bytes body) {
    messages.emplace_back(body);
  };
  events.on_undeliverable = [this](const wire::Envelope& envelope, const Error& error) {
    undelivered.push_back("port " + std::to_string(envelope.port()) + " " + error.to_string());
  };
  const auto self = ProcId(broker_->address(), *Name::make("client")).to_string();
  launcher_ =
      std::make_unique<Bus>(loop_.reactor, session(*broker_, self, wire::PeerKind::launcher),
                            Dispatcher(), std::move(events));
  wait("the launcher's session", [this] { return launcher_->is_up(); });
}

std::string ProcHarness::bootstrap_of(std::uint64_t rank) {
  wire::BootstrapT bootstrap;
  auto self = std::make_unique<wire::BootstrapProcT>();
  self->proc = mesh_->proc_at(rank)->to_string();
  self->incarnation = incarnation + rank + options_.ranks * restarts_[rank];
  self->token = tokens().make(self->proc, self->incarnation + (options_.wrong_token ? 1 : 0));
  bootstrap.procs.push_back(std::move(self));
  bootstrap.broker = broker_->binds().front().zmq_endpoint();
  bootstrap.host = broker_->address().to_string();
  bootstrap.mesh = mesh_->mesh().to_string();
  bootstrap.region = std::make_unique<wire::RegionT>();
  bootstrap.region->labels = mesh_->region().labels();
  bootstrap.region->sizes = mesh_->region().sizes();
  bootstrap.region->strides = mesh_->region().strides();
  bootstrap.hosts = {bootstrap.host};
  bootstrap.rank = rank;
  bootstrap.away_ms = static_cast<std::uint32_t>(options_.away.count());
  bootstrap.heartbeat_ms = static_cast<std::uint32_t>(options_.heartbeat.count());
  bootstrap.version = options_.protocol.newest;
  bootstrap.oldest = options_.protocol.oldest;
  bootstrap.release = options_.protocol.release;
  for (const auto& [key, value] : options_.config) {
    auto entry = std::make_unique<wire::KeyValueT>();
    entry->key = key;
    entry->value = value;
    bootstrap.config.push_back(std::move(entry));
  }
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(wire::Bootstrap::Pack(builder, &bootstrap));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

Process& ProcHarness::start(std::uint64_t rank, std::vector<std::string> arguments,
                            std::vector<std::string> wrapper) {
  wrapper.push_back(bin("meshbus_test_proc"));
  wrapper.insert(wrapper.end(), arguments.begin(), arguments.end());
  return start_command(rank, std::move(wrapper));
}

Process& ProcHarness::start_command(std::uint64_t rank, std::vector<std::string> argv) {
  auto& fd = bootstraps_[rank] = sealed(bootstrap_of(rank));
  struct stat status{};
  ::fstat(fd.get(), &status);
  const std::string variable = std::to_string(fd.get()) + ":" + std::to_string(::getpid()) + ":" +
                               std::to_string(status.st_ino);
  processes_[rank] = std::make_unique<Process>(
      std::move(argv),
      ProcessOptions{.environment = {{"MESHBUS_BOOTSTRAP", variable}}, .inherit = {fd.get()}});
  return *processes_[rank];
}

void ProcHarness::restart(std::uint64_t rank, std::vector<std::string> arguments,
                          std::vector<std::string> wrapper) {
  process(rank).send_signal(SIGKILL);
  wait_exit(rank);
  ++restarts_[rank];
  const int before = readies[mesh_->proc_at(rank)->to_string()];
  start(rank, std::move(arguments), std::move(wrapper));
  wait("rank " + std::to_string(rank) + " is ready again",
       [&] { return readies[mesh_->proc_at(rank)->to_string()] > before; });
}

void ProcHarness::wait(const std::string& what, const std::function<bool()>& predicate) {
  const bool done = wait_until(
      [&] {
        for (int turn = 0; turn < 10; ++turn) loop_.reactor.turn(0ms);
        loop_.reactor.turn(1ms);
        return predicate();
      },
      long_enough);
  if (done) return;
  std::string message = "not within " + std::to_string(long_enough.count()) + " s: " + what;
  for (auto& [rank, process] : processes_) message += "\n" + process->describe();
  throw std::runtime_error(message);
}

void ProcHarness::wait_ready(std::uint64_t rank) {
  const auto name = mesh_->proc_at(rank)->to_string();
  wait("rank " + std::to_string(rank) + " is ready", [&] { return readies.contains(name); });
}

void ProcHarness::wait_output(std::uint64_t rank, const std::string& text) {
  auto& process = *processes_.at(rank);
  wait("rank " + std::to_string(rank) + " writes: " + text, [&] {
    return process.err().find(text) != std::string::npos ||
           process.out().find(text) != std::string::npos;
  });
}

ExitStatus ProcHarness::wait_exit(std::uint64_t rank) {
  auto& process = *processes_.at(rank);
  wait("rank " + std::to_string(rank) + " ends", [&] { return !process.is_running(); });
  return process.wait_exit(1s);
}

void ProcHarness::call_later(std::uint64_t rank, std::uint32_t port, const std::string& body,
                             std::function<void(Result<std::string>)> answer) {
  launcher_->call(Destination::to(*mesh_->proc_at(rank)), port, body, long_enough,
                  std::move(answer));
}

Result<std::string> ProcHarness::call(std::uint64_t rank, std::uint32_t port,
                                      const std::string& body) {
  std::optional<Result<std::string>> answer;
  call_later(rank, port, body, [&](Result<std::string> result) { answer = std::move(result); });
  wait("an answer of rank " + std::to_string(rank), [&] { return answer.has_value(); });
  return *answer;
}

void ProcHarness::send(std::uint64_t rank, std::uint32_t port, const std::string& body) {
  if (auto sent = launcher_->send(Destination::to(*mesh_->proc_at(rank)), port, body); !sent)
    throw std::runtime_error(sent.error().to_string());
}

Result<void> ProcHarness::stop(std::uint64_t rank, int code, std::chrono::milliseconds grace,
                               const std::string& reason) {
  wire::StopAndExitT stop;
  stop.code = code;
  stop.grace_ms = static_cast<std::uint32_t>(grace.count());
  stop.reason = reason;
  std::optional<Result<ControlMessage>> answer;
  agent_->request(Destination::to(*mesh_->proc_at(rank)), std::move(stop), 10s,
                  [&](Result<ControlMessage> result) { answer = std::move(result); });
  wait("an answer to StopAndExit", [&] { return answer.has_value(); });
  if (!*answer) return fail(answer->error());
  return {};
}

void ProcHarness::order_exit(std::uint64_t rank, int code) {
  wire::ExitT exit;
  exit.code = code;
  agent_->tell(Destination::to(*mesh_->proc_at(rank)), std::move(exit));
}

}  // namespace meshbus::test
