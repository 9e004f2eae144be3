#include "tests/integration/keeper/harness.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "agent/os/cgroup.h"
#include "agent/os/cgroup_placement.h"
#include "agent/os/packet.h"
#include "tests/support/environment.h"
#include "tests/support/process_table.h"
#include "tests/support/wait.h"

namespace meshbus::test {

namespace {
void must(const Result<void>& done) {
  if (!done) throw std::runtime_error(done.error().to_string());
}
}  // namespace

KeeperUnderTest::KeeperUnderTest(const Options& options) {
  std::vector<std::string> arguments = options.arguments;
  if (options.cgroup) {
    cgroup_ =
        os::make_host_cgroup(os::plan_cgroup_placement().base, "test" + make_marker()).value();
    arguments.insert(arguments.end(), {"--containment", "cgroup", "--cgroup", cgroup_});
  }
  keeper_.emplace(KeeperProcess::Options{options.wrapper, std::move(arguments)});
  make_client(std::move(keeper_->agent));
}

void KeeperUnderTest::make_client(UniqueFd socket) {
  const auto unexpected = [this](const char* what, std::uint64_t id) {
    disorder.push_back(what + std::to_string(id));
  };
  keeper::KeeperClient::Events events;
  events.on_birth = [=, this](keeper::Birth birth) {
    const auto id = birth.id;
    if (!births.emplace(id, std::move(birth)).second) unexpected("second birth of ", id);
  };
  events.on_exit = [=, this](const keeper::Exit& exit) {
    if (!births.contains(exit.id)) unexpected("exit before birth of ", exit.id);
    if (!exits.emplace(exit.id, exit).second) unexpected("second exit of ", exit.id);
  };
  events.on_gone = [=, this](const keeper::Gone& done) {
    if (!exits.contains(done.id)) unexpected("gone before exit of ", done.id);
    if (!gone.insert(done.id).second) unexpected("second gone of ", done.id);
  };
  events.on_replayed = [this] { replayed = true; };
  events.on_lost = [this] { lost = true; };
  client_ = std::make_unique<keeper::KeeperClient>(std::move(socket), std::move(events));
}

void KeeperUnderTest::replace_agent() {
  client_.reset();
  births.clear();
  exits.clear();
  gone.clear();
  replayed = false;
  auto agent = os::make_packet_pair().value();
  if (!keeper_->lifeline.send("agent", agent.second.get()))
    throw std::runtime_error("the keeper takes no new agent");
  make_client(std::move(agent.first));
}

std::uint64_t KeeperUnderTest::spawn(os::SpawnSpec shared, std::vector<os::ProcSpec> procs) {
  const std::uint64_t first = next_id_;
  for (os::ProcSpec& proc : procs) proc.id = next_id_++;
  if (shared.env.empty()) shared.env = own_environment();
  must(client_->spawn({std::move(shared), std::move(procs)}));
  client_->flush();
  return first;
}

std::uint64_t KeeperUnderTest::spawn_shell(const std::string& script, std::size_t count) {
  os::SpawnSpec spec;
  spec.program = "sh";
  spec.argv = {"sh", "-c", script};
  spec.mesh = "shells";
  return spawn(std::move(spec), std::vector<os::ProcSpec>(count));
}

void KeeperUnderTest::signal(std::uint64_t id, int signal, bool group) {
  must(client_->signal({id, signal, group}));
  client_->flush();
}

void KeeperUnderTest::pump() {
  if (lost) return;
  client_->on_ready();
  client_->flush();
}

bool KeeperUnderTest::wait_for(const std::function<bool()>& is_enough) {
  const bool is_done = wait_until([&] { return pump(), is_enough(); }, long_enough);
  if (!is_done) MESSAGE("the keeper under test: " << describe());
  return is_done;
}
bool KeeperUnderTest::wait_births(std::size_t count) {
  return wait_for([&] { return births.size() >= count; });
}
bool KeeperUnderTest::wait_exits(std::size_t count) {
  return wait_for([&] { return exits.size() >= count; });
}
bool KeeperUnderTest::wait_gone(std::size_t count) {
  return wait_for([&] { return gone.size() >= count; });
}

std::string KeeperUnderTest::describe() const {
  std::string text = std::to_string(births.size()) + " births, " + std::to_string(exits.size()) +
                     " exits, " + std::to_string(gone.size()) + " gone" + (lost ? ", lost" : "");
  for (const auto& [id, birth] : births) {
    if (birth.failure)
      text += "\nnot born: " + std::to_string(id) + ": " + os::describe(*birth.failure);
  }
  const auto of_process = std::filesystem::path("/proc") / std::to_string(keeper_->process.pid());
  text += "\nwaits in " + read_file(of_process / "wchan") + ", system call " +
          read_file(of_process / "syscall");
  if (const auto process = find_process(keeper_->process.pid())) text += to_string({*process});
  return text + "\nchildren:\n" + to_string(children_of(keeper_->process.pid()));
}

std::string KeeperUnderTest::read_stdout(std::uint64_t id) {
  std::string text;
  const int fd = births.at(id).stdout_pipe.get();
  wait_until(
      [&] {
        char buffer[65536];
        for (;;) {
          const ssize_t got = ::read(fd, buffer, sizeof buffer);
          if (got == 0) return true;
          if (got < 0) return errno != EAGAIN;
          text.append(buffer, static_cast<std::size_t>(got));
        }
      },
      long_enough);
  return text;
}

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** at = environ; *at != nullptr; ++at) entries.emplace_back(*at);
  return entries;
}

bool cgroup_is_usable() {
  const auto made = os::make_host_cgroup(os::plan_cgroup_placement().base, "probe" + make_marker());
  return made && os::remove_cgroup_tree(*made);
}

os::SpawnSpec command(std::vector<std::string> argv) {
  os::SpawnSpec spec;
  spec.program = argv.front();
  spec.argv = std::move(argv);
  spec.mesh = "a mesh/with a strange name";
  return spec;
}

std::string stand_in(const TempDir& directory, const std::string& name) {
  const auto path = directory.path() / name;
  std::filesystem::create_symlink(std::filesystem::read_symlink("/proc/self/exe"), path);
  return path.string();
}

std::string make_marker() {
  std::uint32_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random)
    random = static_cast<std::uint32_t>(::getpid());
  return "300." + std::to_string(random);
}

std::string zoo_script(const std::string& marker) {
  const std::string sleep = "sleep " + marker;
  return "(setsid " + sleep +
         " &)\n"  // double-forked, own session
         "setsid sh -c \"trap '' TERM HUP INT; (" +
         sleep + " &); exec " + sleep +
         "\" &\n"  // deaf, with a deaf orphan
         "((trap '' TERM; " +
         sleep +
         ") &)\n"  // an orphan in our session
         "setsid sh -c 'kill -STOP $$; : " +
         marker +
         "' &\n"  // stopped, in its own session
         "exec " +
         sleep + "\n";
}

}  // namespace meshbus::test
