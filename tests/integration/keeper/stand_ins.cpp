// Other programs that the keeper's and the warden's tests need: this test program, started under
// another name, is one of them, before main() and never returning to it. Broker and agent in their
// simplest form, so that the warden's side of every death is tested by itself; a wrapper that
// forbids clone3; a process that sweeps.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "agent/keeper/keeper_client.h"
#include "agent/os/lifeline.h"
#include "agent/os/sweep.h"
#include "agent/warden/warden.h"
#include "tests/integration/keeper/harness.h"

namespace {

using meshbus::UniqueFd;
using meshbus::keeper::KeeperClient;
using meshbus::os::Lifeline;
using Clock = std::chrono::steady_clock;

using Arguments = std::vector<std::string>;

Arguments own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  Arguments arguments;
  for (std::string one; std::getline(file, one, '\0');) arguments.push_back(one);
  return arguments;
}

std::string value_of(const Arguments& arguments, const std::string& name) {
  const auto at = std::find(arguments.begin(), arguments.end(), name);
  return at == arguments.end() || at + 1 == arguments.end() ? std::string() : *(at + 1);
}

bool has_setting(const Arguments& arguments, const std::string& setting) {
  return std::find(arguments.begin(), arguments.end(), setting) != arguments.end();
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Serves nothing, and ends when told to or when the warden is gone.
int run_broker(const Arguments& arguments) {
  const Lifeline lifeline{UniqueFd(std::stoi(value_of(arguments, "--lifeline-fd")))};
  unsigned char secret[33];
  if (::pread(std::stoi(value_of(arguments, "--secret-fd")), secret, sizeof secret, 0) != 32)
    return 70;
  if (has_setting(arguments, "broker=refuses")) {
    lifeline.send("failed the address is taken");
    return 78;
  }
  lifeline.send("ready " + value_of(arguments, "--advertise"));
  for (;;) {
    pollfd watched{lifeline.fd(), POLLIN, 0};
    ::poll(&watched, 1, -1);
    const auto received = lifeline.receive();
    if (received.ended) return 0;
    if (received.text && meshbus::os::parse_lifeline(*received.text).word == "stop") return 0;
  }
}

// Spawns eight zoos and stops them when told to: TERM, the grace, KILL.
class Agent {
 public:
  explicit Agent(const Arguments& arguments)
      : arguments_(arguments),
        lifeline_(UniqueFd(std::stoi(value_of(arguments, "--lifeline-fd")))),
        client_(UniqueFd(std::stoi(value_of(arguments, "--keeper-fd"))),
                {.on_birth = [this](meshbus::keeper::Birth birth) { on_birth(std::move(birth)); },
                 .on_exit = [](const meshbus::keeper::Exit&) {},
                 .on_gone = [this](const meshbus::keeper::Gone&) { ++gone_; },
                 .on_lost = [this] { keeper_lost_ = true; }}) {}

  int run() {
    meshbus::os::SpawnBatch batch;
    batch.shared.program = "sh";
    const std::string first = environment("MBTEST_DEAF").empty() ? "" : "trap '' TERM\n";
    batch.shared.argv = {"sh", "-c",
                         first + meshbus::test::zoo_script(environment("MBTEST_MARKER"))};
    batch.shared.env = meshbus::test::own_environment();
    batch.shared.mesh = "zoo";
    batch.procs.resize(procs);
    for (std::size_t i = 0; i < procs; ++i) batch.procs[i].id = i + 1;
    if (!client_.spawn(std::move(batch))) return 70;
    client_.flush();
    while (!done_) turn();
    return 0;
  }

 private:
  static constexpr std::size_t procs = 8;

  void on_birth(meshbus::keeper::Birth birth) {
    births_.push_back(std::move(birth));
    if (births_.size() != procs) return;
    lifeline_.send("ready agent");
    if (has_setting(arguments_, "agent=shuts-down")) lifeline_.send("shutdown 3");
  }

  void signal_all(int signal) {
    for (std::size_t i = 0; i < procs; ++i) {
      if (!client_.signal({i + 1, signal, true})) return;
    }
    client_.flush();
  }

  void turn() {
    pollfd watched[2] = {{lifeline_.fd(), POLLIN, 0},
                         {keeper_lost_ ? -1 : client_.fd(), POLLIN, 0}};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(kill_at_ - Clock::now()).count();
    ::poll(watched, 2,
           stopping_ ? static_cast<int>(std::max<long>(0, static_cast<long>(left)) + 1) : -1);
    if (watched[1].revents != 0) {
      client_.on_ready();
      client_.flush();
    }
    if (watched[0].revents != 0) on_lifeline();
    if (stopping_ && Clock::now() >= kill_at_) {
      signal_all(SIGKILL);
      kill_at_ = Clock::now() + std::chrono::hours(1);
    }
    if (stopping_ && (gone_ == procs || keeper_lost_)) done_ = true;
  }

  void on_lifeline() {
    const auto received = lifeline_.receive();
    if (received.ended) done_ = true;
    if (!received.text) return;
    const auto message = meshbus::os::parse_lifeline(*received.text);
    if (message.word != "stop") return;
    if (!stopping_) signal_all(SIGTERM);
    stopping_ = true;
    kill_at_ = Clock::now() + std::chrono::milliseconds(std::stoi("0" + std::string(message.rest)));
  }

  const Arguments& arguments_;
  Lifeline lifeline_;
  std::vector<meshbus::keeper::Birth> births_;
  std::size_t gone_ = 0;
  bool keeper_lost_ = false;
  bool stopping_ = false;
  bool done_ = false;
  Clock::time_point kill_at_{};
  KeeperClient client_;
};

int run_warden_stand_in(const Arguments& arguments) {
  meshbus::WardenOptions options;
  options.libexec = std::filesystem::path(arguments.front()).parent_path();
  options.run_dir = environment("MBTEST_RUN_DIR");
  options.print_ready = true;
  options.grace = std::chrono::milliseconds(std::stoi("0" + environment("MBTEST_GRACE_MS")));
  const auto fd = [](const char* name) {
    return environment(name).empty() ? -1 : std::stoi(environment(name));
  };
  options.lifeline_fd = fd("MBTEST_LIFELINE_FD");
  options.ready_fd = fd("MBTEST_READY_FD");
  options.end_on_agent_loss = true;  // ours takes nothing over
  for (std::size_t i = 1; i < arguments.size(); ++i) options.settings.push_back(arguments[i]);
  return meshbus::run_warden(options);
}

// What container runtimes do whose seccomp profile is older than clone3: ENOSYS.
int run_without_clone3(const Arguments& arguments) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),  // the system call's number
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{4, program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    return 71;
  std::vector<char*> argv;
  for (std::size_t i = 1; i < arguments.size(); ++i)
    argv.push_back(const_cast<char*>(arguments[i].c_str()));
  argv.push_back(nullptr);
  ::execv(argv.front(), argv.data());
  return 72;
}

// Makes zoos below itself, waits for a line on stdin, and sweeps them. 0: proven clean.
int run_sweeper(const Arguments& arguments) {
  using meshbus::os::Sweeper;
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return 71;
  for (int i = 0; i < 4; ++i) {
    if (std::system((meshbus::test::zoo_script(arguments.at(2)) + "\n")
                        .insert(0, "(")
                        .append(") &")
                        .c_str()) != 0)
      return 71;
  }
  char line = 0;
  if (::read(STDIN_FILENO, &line, 1) != 1) return 71;
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child, nullptr);
  Sweeper sweeper({}, {},
                  arguments.at(1) == "table" ? Sweeper::Source::table : Sweeper::Source::automatic);
  return sweeper.run(std::chrono::seconds(20)) ? 0 : 1;
}

// Its main thread ends, another one stays: a zombie to look at, and alive.
int run_headless() {
  static const auto stay = [](void*) -> void* {
    ::sleep(300);  // sleep-ok: a process that is to be killed
    ::_exit(0);
  };
  pthread_t thread{};
  if (::pthread_create(&thread, nullptr, stay, nullptr) != 0) return 71;
  ::syscall(SYS_exit, 0);
  return 71;
}

const struct StandIn {
  StandIn() {
    const Arguments arguments = own_arguments();
    const std::string name =
        arguments.empty() ? "" : std::filesystem::path(arguments.front()).filename().string();
    int code = -1;
    if (name == "meshbus-broker") code = run_broker(arguments);
    if (name == "meshbus-agent") code = Agent(arguments).run();
    if (name == "without-clone3") code = run_without_clone3(arguments);
    if (name == "test-headless") code = run_headless();
    if (name == "test-sweeper") code = run_sweeper(arguments);
    if (name == "test-warden") code = run_warden_stand_in(arguments);
    if (code >= 0) ::_exit(code);
  }
} runs_when_named_so;

}  // namespace
