#include "tests/lab/lab.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "tests/lab/cgroup.h"
#include "tests/support/environment.h"
#include "tests/support/own_cgroups.h"
#include "tests/support/process_table.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait.h"

namespace meshbus::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

std::unique_ptr<Process> start(std::vector<std::string> argv, ProcessOptions options = {}) {
  return std::make_unique<Process>(std::move(argv), std::move(options));
}

/// What it wrote. Throws when it fails.
std::string finish(Process& process) {
  const ExitStatus status = process.wait_exit(in_time);
  if (status != ExitStatus::exited(0))
    throw std::runtime_error("lab: this failed: " + process.describe());
  return process.out();
}

std::string checked_run(std::vector<std::string> argv, ProcessOptions options = {}) {
  return finish(*start(std::move(argv), std::move(options)));
}

/// `argv`, run in the network namespace of process `pid`.
std::vector<std::string> in_network(pid_t pid, std::vector<std::string> argv) {
  const std::vector<std::string> before = {"nsenter", "--target", std::to_string(pid), "--net",
                                           "--"};
  argv.insert(argv.begin(), before.begin(), before.end());
  return argv;
}

/// How many pid namespaces deep a process is.
std::size_t depth_of(pid_t pid) {
  std::istringstream lines(read_file("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream pids(line.substr(6));
    return static_cast<std::size_t>(std::distance(std::istream_iterator<pid_t>(pids), {}));
  }
  return 0;
}

/// A pid namespace is not over before all its processes are reaped. One whose way in
/// (meshbus_lab_tool enter) was killed became a child of this program, if that is a subreaper.
void reap_orphans() {
  const std::size_t own = depth_of(::getpid());
  for (const ProcessInfo& child : children_of(::getpid())) {
    if (child.is_dead() && depth_of(child.pid) > own) ::waitpid(child.pid, nullptr, WNOHANG);
  }
}

bool wait_for_end(const std::function<bool()>& is_over) {
  return wait_until([&] { return reap_orphans(), is_over(); }, in_time);
}

std::string make_room() {
  std::string name =
      "/tmp/mblab-XXXXXX";  // short: the path of a unix socket has room for 107 bytes
  if (::mkdtemp(name.data()) == nullptr)
    throw std::system_error(errno, std::generic_category(), "cannot make " + name);
  return name;
}

pid_t pid_in(const std::string& text) {
  const int pid = std::atoi(text.c_str());
  if (pid <= 0) throw std::runtime_error("lab: \"" + text + "\" is no pid");
  return pid;
}

std::string address_of(std::size_t index) {
  return "10.66." + std::to_string(index / 250) + "." + std::to_string(index % 250 + 1);
}

std::string hex_byte(std::size_t value) {
  constexpr std::string_view digits = "0123456789abcdef";
  return {digits[value / 16 % 16], digits[value % 16]};
}

/// The same after every boot, as of a real card: else the neighbours would go on sending to the old
/// one for a while.
std::string mac_of(std::size_t index) {
  return "02:00:00:00:" + hex_byte(index / 256) + ":" + hex_byte(index % 256);
}

}  // namespace

struct Lab::State {
  struct Machine {
    pid_t init = 0;  ///< 0: its power is off.
    std::unique_ptr<Process> delayer;
  };

  explicit State(std::size_t hosts);
  ~State();
  /// All at once: starting the tools one after the other is what takes the time.
  void boot(const std::vector<std::size_t>& indices);
  void power_off(std::size_t index);
  void remove_link(const std::string& name);
  void render_losses();
  std::vector<std::string> take_down();

  Machine& up(std::size_t index) {
    Machine& machine = machines.at(index);
    if (machine.init == 0) throw std::runtime_error("lab: " + name_of(index) + " has no power");
    return machine;
  }
  static std::string name_of(std::size_t index) { return "host" + std::to_string(index); }
  std::string cgroup_of(std::size_t index) const {
    return cgroup.empty() ? "-" : cgroup + "/" + name_of(index);
  }
  /// The port of the switch, and the other end of the host's cable: the same but with a delay
  /// between them.
  static std::string port_of(std::size_t index) { return "p" + std::to_string(index); }
  std::string cable_of(std::size_t index) const {
    return (machines.at(index).delayer ? "w" : "p") + std::to_string(index);
  }
  void ip(const std::string& batch) {
    checked_run(in_network(lab_init, {"ip", "-batch", "-"}), {.input = batch});
  }
  void nft(const std::string& rules) {
    checked_run(in_network(lab_init, {"nft", "-f", "-"}), {.input = rules});
  }

  std::string room;
  std::string cgroup;
  std::optional<Process> holder;
  pid_t lab_init = 0;
  std::vector<Machine> machines;
  std::map<std::pair<std::size_t, std::size_t>, double> losses;  // (from, to) -> share
};

Lab::State::State(std::size_t hosts)
    : room(make_room()), cgroup(make_lab_cgroup()), machines(hosts) {
  try {
    std::ofstream names(room + "/hosts");
    names << "127.0.0.1 localhost\n";
    for (std::size_t i = 0; i < hosts; ++i) names << address_of(i) << " " << name_of(i) << "\n";
    names.close();
    holder.emplace(std::vector<std::string>{bin("meshbus_lab_tool"), "hold", room,
                                            cgroup.empty() ? "-" : cgroup},
                   ProcessOptions{.stdin_pipe = true});
    holder->wait_for_output("\n", in_time);
    lab_init = pid_in(holder->out());
    ip("link set lo up\nlink add br0 type bridge\nlink set br0 up\n");
    nft("add table bridge lab\nadd chain bridge lab path { type filter hook forward priority 0; "
        "}\n");
    std::vector<std::size_t> all(hosts);
    std::iota(all.begin(), all.end(), std::size_t{0});
    boot(all);
  } catch (...) {
    take_down();
    throw;
  }
}

Lab::State::~State() {
  const auto left = take_down();
  for (const std::string& one : left) std::fprintf(stderr, "lab: %s\n", one.c_str());
  if (!left.empty()) std::abort();
}

void Lab::State::boot(const std::vector<std::size_t>& indices) {
  std::vector<std::unique_ptr<Process>> booting, connecting;
  const std::string lab = std::to_string(lab_init);
  for (const std::size_t index : indices) {
    if (machines.at(index).init != 0)
      throw std::runtime_error("lab: " + name_of(index) + " is up already");
    if (!cgroup.empty()) make_cgroup(cgroup_of(index));
    booting.push_back(
        start({bin("meshbus_lab_tool"), "boot", lab, cgroup_of(index), name_of(index), room}));
  }
  std::string ports;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::size_t index = indices[i];
    machines[index].init = pid_in(finish(*booting[i]));
    const std::string batch = "link set lo up\nlink add eth0 address " + mac_of(index) +
                              " type veth peer name " + port_of(index) + " netns /proc/" + lab +
                              "/ns/net\naddr add " + address_of(index) +
                              "/16 dev eth0\nlink set eth0 up\n";
    connecting.push_back(
        start(in_network(machines[index].init, {"ip", "-batch", "-"}), {.input = batch}));
    ports += "link set " + port_of(index) + " master br0 up\n";
  }
  for (const auto& one : connecting) finish(*one);
  ip(ports);
}

void Lab::State::power_off(std::size_t index) {
  Machine& machine = up(index);
  // First the cable: what dies closes its connections, and that must not be heard outside.
  ip("link set " + cable_of(index) + " down\n");
  const pid_t init = std::exchange(machine.init, 0);
  if (!cgroup.empty()) write_cgroup(cgroup_of(index), "cgroup.kill", "1");
  ::kill(init, SIGKILL);
  // It is gone when everything in its pid namespace is.
  if (!wait_for_end([&] { return is_gone(init); }))
    throw std::runtime_error("lab: " + name_of(index) + " does not die");
  // The kernel does this too, some time after the end of the host's network: what is gone already
  // is no error.
  remove_link(cable_of(index));
  if (machine.delayer) remove_link(port_of(index));
  machine.delayer.reset();
  if (!cgroup.empty() && !wait_until([&] { return remove_cgroup(cgroup_of(index)); }, in_time))
    throw std::runtime_error("lab: the cgroup " + cgroup_of(index) + " cannot be removed");
  remove_empty_host_cgroups();
}

void Lab::State::remove_link(const std::string& name) {
  const auto removing = start(in_network(lab_init, {"ip", "link", "del", name}));
  if (removing->wait_exit(in_time) != ExitStatus::exited(0) &&
      removing->err().find("Cannot find device") == std::string::npos)
    throw std::runtime_error("lab: this failed: " + removing->describe());
}

void Lab::State::render_losses() {
  std::ostringstream rules;
  rules << "flush chain bridge lab path\n";
  for (const auto& [way, share] : losses) {
    rules << "add rule bridge lab path iifname " << port_of(way.first) << " oifname "
          << port_of(way.second);
    if (share < 1) rules << " numgen random mod 1000000 < " << static_cast<long>(share * 1e6);
    rules << " drop\n";
  }
  nft(rules.str());
}

std::vector<std::string> Lab::State::take_down() {
  std::vector<std::string> left;
  for (Machine& machine : machines) machine.delayer.reset();
  if (holder && holder->is_running()) {
    holder->close_stdin();
    if (!wait_for_end([&] { return !holder->is_running(); }))
      left.push_back("the lab's holder does not end: " + holder->describe());
  }
  if (!holder || lab_init == 0) {  // nothing was made yet that could be in use
    fs::remove_all(room);
    if (!cgroup.empty()) remove_cgroup(cgroup);
  } else if (!holder->is_running() && holder->wait_exit(0ms) != ExitStatus::exited(0)) {
    left.push_back(holder->describe());
  }
  for (Machine& machine : machines) {
    if (const pid_t init = std::exchange(machine.init, 0); init != 0 && !is_gone(init))
      left.push_back("a host is left: " + std::to_string(init));
  }
  if (fs::exists(room)) left.push_back(room + " is left");
  if (!cgroup.empty() && fs::exists(cgroup)) left.push_back(cgroup + " is left");
  remove_empty_host_cgroups();
  return left;
}

Lab::Lab(std::size_t hosts) : state_(std::make_unique<State>(hosts)) {}
Lab::Lab(Lab&&) noexcept = default;
Lab::~Lab() = default;

const std::string& Lab::why_not() {
  static const std::string reason = [] {
    if (::geteuid() != 0)
      return std::string("hosts are made of network namespaces, and only root may make them");
    for (const auto& [tool, package] : {std::pair("ip", "iproute2"), std::pair("nft", "nftables"),
                                        std::pair("nsenter", "util-linux")}) {
      if (test::run({"sh", "-c", std::string("command -v ") + tool}, in_time).status !=
          ExitStatus::exited(0))
        return std::string(tool) + " is not in PATH (package " + package + ")";
    }
    // Only what the kernel may refuse: a mistake of the lab's own must fail the tests, not skip
    // them.
    const auto tried = test::run({"unshare", "--net", "--pid", "--mount", "--uts", "--ipc",
                                  "--fork", "--mount-proc", "sh", "-ec",
                                  "mount -t sysfs lab /sys; ip link add br0 type bridge; ip link "
                                  "add p0 type veth peer name q0; nft add table bridge lab"},
                                 in_time);
    return tried.status == ExitStatus::exited(0)
               ? std::string()
               : "the kernel does not let us make a host: " + tried.err;
  }();
  return reason;
}

std::size_t Lab::size() const {
  return state_->machines.size();
}
Lab::Host Lab::host(std::size_t index) const {
  if (index >= size()) throw std::out_of_range("lab: there is no host " + std::to_string(index));
  return Host(*state_, index);
}

void Lab::cut(std::size_t a, std::size_t b) {
  lose(a, b, 1);
  lose(b, a, 1);
}

void Lab::lose(std::size_t from, std::size_t to, double share) {
  if (from >= size() || to >= size())
    throw std::out_of_range("lab: there are only " + std::to_string(size()) + " hosts");
  if (share > 0) {
    state_->losses[{from, to}] = share;
  } else {
    state_->losses.erase({from, to});
  }
  state_->render_losses();
}

void Lab::heal(std::size_t a, std::size_t b) {
  state_->losses.erase({a, b});
  state_->losses.erase({b, a});
  state_->render_losses();
}

void Lab::heal() {
  state_->losses.clear();
  state_->render_losses();
}

void Lab::unplug(std::size_t host) {
  state_->up(host);
  state_->ip("link set " + state_->cable_of(host) + " down\n");
}

void Lab::plug(std::size_t host) {
  state_->up(host);
  state_->ip("link set " + state_->cable_of(host) + " up\n");
}

void Lab::delay(std::size_t host, CableDelay delay) {
  State::Machine& machine = state_->up(host);
  if (!machine.delayer) {
    const std::string n = std::to_string(host);
    state_->ip("link set p" + n + " nomaster down\nlink set p" + n + " name w" + n +
               "\nlink set w" + n + " up\nlink add q" + n + " type veth peer name p" + n +
               "\nlink set q" + n + " up\nlink set p" + n + " master br0 up\n");
    machine.delayer = meshbus::test::start(
        in_network(state_->lab_init, {bin("meshbus_lab_delay"), "w" + n, "q" + n}),
        {.stdin_pipe = true});
    machine.delayer->wait_for_output("ready\n", in_time);
  }
  const std::size_t seen = machine.delayer->out().size();
  machine.delayer->write_stdin(std::to_string(delay.delay.count()) + " " +
                               std::to_string(delay.jitter.count()) + "\n");
  if (!wait_until([&] { return machine.delayer->out().size() > seen; }, in_time))
    throw std::runtime_error("lab: the delay is not taken: " + machine.delayer->describe());
}

void Lab::freeze(std::size_t host) {
  State::Machine& machine = state_->up(host);
  const std::string group = state_->cgroup_of(host);
  if (group == "-") {
    // Without a cgroup: all but process 1 of its pid namespace, which does nothing anyhow.
    checked_run({bin("meshbus_lab_tool"), "enter", std::to_string(machine.init), "-", "sh", "-c",
                 "kill -STOP -1"});
    return;
  }
  write_cgroup(group, "cgroup.freeze", "1");
  if (!wait_until([&] { return has_event(group, "frozen 1"); }, in_time))
    throw std::runtime_error("lab: " + State::name_of(host) + " does not freeze");
}

void Lab::thaw(std::size_t host) {
  State::Machine& machine = state_->up(host);
  const std::string group = state_->cgroup_of(host);
  if (group == "-") {
    checked_run({bin("meshbus_lab_tool"), "enter", std::to_string(machine.init), "-", "sh", "-c",
                 "kill -CONT -1"});
    return;
  }
  write_cgroup(group, "cgroup.freeze", "0");
  if (!wait_until([&] { return has_event(group, "frozen 0"); }, in_time))
    throw std::runtime_error("lab: " + State::name_of(host) + " does not thaw");
}

void Lab::power_off(std::size_t host) {
  state_->power_off(host);
}
void Lab::boot(std::size_t host) {
  state_->boot({host});
}
std::vector<std::string> Lab::take_down() {
  return state_->take_down();
}
const std::string& Lab::cgroup() const {
  return state_->cgroup;
}
const std::string& Lab::room() const {
  return state_->room;
}

std::vector<std::string> Lab::namespaces() const {
  std::vector<std::string> found;
  const auto add = [&](pid_t init) {
    for (const char* kind : {"net", "pid", "mnt", "uts", "ipc"})
      found.push_back(fs::read_symlink("/proc/" + std::to_string(init) + "/ns/" + kind).string());
  };
  add(state_->lab_init);
  for (const State::Machine& machine : state_->machines) {
    if (machine.init != 0) add(machine.init);
  }
  return found;
}

std::string Lab::Host::name() const {
  return State::name_of(index_);
}
std::string Lab::Host::address() const {
  return address_of(index_);
}
bool Lab::Host::is_up() const {
  return lab_->machines.at(index_).init != 0;
}
pid_t Lab::Host::init() const {
  return lab_->up(index_).init;
}
std::string Lab::Host::file(std::string_view path) const {
  return "/proc/" + std::to_string(init()) + "/root" + std::string(path);
}

std::vector<std::string> Lab::Host::command(std::vector<std::string> argv) const {
  const std::vector<std::string> before = {bin("meshbus_lab_tool"), "enter", std::to_string(init()),
                                           lab_->cgroup_of(index_)};
  argv.insert(argv.begin(), before.begin(), before.end());
  return argv;
}

Process Lab::Host::start(std::vector<std::string> argv, ProcessOptions options) const {
  const std::string& room = lab_->room;
  // First, so that what the caller gives wins.
  std::vector<std::pair<std::string, std::optional<std::string>>> environment = {
      {"XDG_RUNTIME_DIR", room + "/run"}, {"TMPDIR", room + "/tmp"}, {"HOME", room + "/home"}};
  for (const char* one : {"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"})
    environment.emplace_back(one, room + "/home");
  environment.insert(environment.end(), options.environment.begin(), options.environment.end());
  options.environment = std::move(environment);
  return Process(command(std::move(argv)), std::move(options));
}

Finished Lab::Host::run(std::vector<std::string> argv, std::chrono::milliseconds deadline,
                        ProcessOptions options) const {
  const auto started = std::chrono::steady_clock::now();
  Process process = start(std::move(argv), std::move(options));
  const ExitStatus status = process.wait_exit(deadline);
  return {status, process.out(), process.err(),
          std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                started)};
}

std::vector<std::string> Lab::Host::processes() const {
  const pid_t first = init();
  const fs::path own = fs::read_symlink("/proc/" + std::to_string(first) + "/ns/pid");
  std::vector<std::string> found;
  for (const ProcessInfo& one : all_processes()) {
    std::error_code gone;
    if (one.pid != first && !one.is_dead() &&
        fs::read_symlink("/proc/" + std::to_string(one.pid) + "/ns/pid", gone) == own)
      found.push_back(one.to_string());
  }
  return found;
}

}  // namespace meshbus::test
