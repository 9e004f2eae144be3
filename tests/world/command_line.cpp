#include "tests/world/command_line.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <sstream>
#include <stdexcept>

namespace meshbus::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

Words cli(const Words& words) {
  Words all = {bin("meshbus")};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

Finished run_cli(const Words& words, ProcessOptions options) {
  return run(cli(words), in_time, std::move(options));
}

Words lines_of(std::string_view text) {
  Words lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

Words sorted(Words lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::string last_line(std::string_view text) {
  const Words lines = lines_of(text);
  return lines.empty() ? "" : lines.back();
}

nlohmann::json parse_json(const std::string& text) {
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  INFO(text);
  REQUIRE_FALSE(json.is_discarded());
  return json;
}

std::string own_sleep() {
  static int count = 0;
  // Always as many digits: no other test program's is the beginning of it.
  return "sleep 100." + std::to_string(10'000'000 + ::getpid()) + std::to_string(1000 + ++count);
}

std::vector<ProcessInfo> sleepers(const std::string& sleep) {
  auto found = processes_with(sleep);
  std::erase_if(found, [&](const ProcessInfo& one) { return one.command != sleep; });
  return found;
}

std::string Roles::to_string() const {
  std::string text;
  for (const pid_t pid : all()) {
    const auto found = find_process(pid);
    text += found ? found->to_string() + "\n" : std::to_string(pid) + " is gone\n";
  }
  return text;
}

std::optional<Roles> find_roles(pid_t warden) {
  Roles roles;
  roles.warden = warden;
  for (const ProcessInfo& child : children_of(warden)) {
    if (child.is_dead()) continue;
    if (child.name == "meshbus-keeper") roles.keeper = child.pid;
    if (child.name == "meshbus-agent") roles.agent = child.pid;
    if (child.name == "meshbus-broker") roles.broker = child.pid;
  }
  if (roles.keeper == 0 || roles.agent == 0 || roles.broker == 0) return std::nullopt;
  return roles;
}

std::vector<pid_t> wardens_of(pid_t launcher) {
  std::vector<pid_t> found;
  for (const ProcessInfo& child : children_of(launcher)) {
    if (!child.is_dead() && child.command.find("meshbus host") != std::string::npos)
      found.push_back(child.pid);
  }
  return found;
}

std::vector<fs::path> host_directories() {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (auto at = fs::directory_iterator(environment_root() / "run" / "meshbus", ignored);
       at != fs::directory_iterator(); at.increment(ignored)) {
    if (at->path().filename().string().starts_with("host-")) found.push_back(at->path());
  }
  return found;
}

namespace {

/// Where cgroup v2 is mounted, or the hierarchy of v1 that has this controller; empty when it is
/// not.
std::string cgroup_mount(const std::string& controller = {}) {
  for (const std::string& line : lines_of(read_file("/proc/self/mounts"))) {
    std::istringstream fields(line);
    std::string device, point, type, options;
    if (!(fields >> device >> point >> type >> options)) continue;
    if (controller.empty()
            ? type == "cgroup2"
            : type == "cgroup" &&
                  ("," + options + ",").find("," + controller + ",") != std::string::npos)
      return point;
  }
  return {};
}

std::vector<fs::path> find_cgroups(const std::string& mount,
                                   const std::vector<fs::path>& host_directories) {
  std::vector<fs::path> found;
  if (mount.empty()) return found;
  std::error_code ignored;
  for (auto at = fs::recursive_directory_iterator(
           mount, fs::directory_options::skip_permission_denied, ignored);
       at != fs::recursive_directory_iterator(); at.increment(ignored)) {
    std::error_code gone;
    if (!at->is_directory(gone)) continue;
    for (const fs::path& directory : host_directories) {
      if (at->path().filename() == "meshbus-" + directory.filename().string().substr(5))
        found.push_back(at->path());
    }
  }
  return found;
}

}  // namespace

std::vector<fs::path> cgroups_of(const std::vector<fs::path>& directories) {
  return find_cgroups(cgroup_mount(), directories);
}

std::vector<fs::path> limits_of(const std::vector<fs::path>& directories) {
  return find_cgroups(cgroup_mount("pids"), directories);
}

std::vector<fs::path> group_directories_of(const std::vector<fs::path>& directories) {
  std::vector<fs::path> found;
  for (const char* controller : {"", "memory", "pids", "cpu"}) {
    for (const auto& top : find_cgroups(cgroup_mount(controller), directories)) {
      found.push_back(top);
      std::error_code ignored;
      for (auto at = fs::recursive_directory_iterator(top, ignored);
           at != fs::recursive_directory_iterator(); at.increment(ignored)) {
        std::error_code gone;
        if (at->is_directory(gone)) found.push_back(at->path());
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

fs::path mesh_folder_in(const fs::path& logs) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(logs)) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  REQUIRE(folders.size() == 1);
  return folders.front();
}

std::optional<std::chrono::milliseconds> time_until(const std::function<bool()>& condition,
                                                    std::chrono::milliseconds deadline) {
  const auto start = std::chrono::steady_clock::now();
  if (!wait_until(condition, deadline)) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               start);
}

namespace {

Words host_words(const Words& options) {
  Words words = {"host"};
  words.insert(words.end(), options.begin(), options.end());
  return cli(words);
}

}  // namespace

StandingHost::StandingHost(const Words& options, ProcessOptions process)
    : process_(host_words(options), std::move(process)) {
  // On stdout: warnings come on stderr.
  wait_until(
      [this] { return process_.out().find('\n') != std::string::npos || !process_.is_running(); },
      in_time);
  if (process_.out().find('\n') == std::string::npos)
    throw std::runtime_error("the host did not become ready: " + process_.describe());
  ready_ = parse_json(lines_of(process_.out()).front());
  address_ = ready_.at("host").get<std::string>();
}

StandingHost::~StandingHost() {
  if (!process_.is_running()) return;
  process_.send_signal(SIGTERM);
  wait_until([this] { return !process_.is_running(); }, 15s);
}

Roles StandingHost::roles() const {
  return {ready_.at("pid").get<pid_t>(), ready_.at("keeper_pid").get<pid_t>(),
          ready_.at("agent_pid").get<pid_t>(), ready_.at("broker_pid").get<pid_t>()};
}

SleepingJob::SleepingJob(const std::string& hosts, const std::string& name, std::size_t ranks)
    : process_(cli({"run", "--hosts", hosts, "-n", std::to_string(ranks), "--name", name, "--",
                    "sh", "-c", "exec " + sleep_})) {
  wait_until([&] { return left() == ranks || !process_.is_running(); }, in_time);
  INFO(process_.describe());
  REQUIRE(left() == ranks);
}

FrozenHost::FrozenHost(const Roles& roles) : roles_(roles) {
  for (const pid_t pid : {roles_.broker, roles_.agent}) ::kill(pid, SIGSTOP);
}

FrozenHost::~FrozenHost() {
  for (const pid_t pid : {roles_.broker, roles_.agent}) ::kill(pid, SIGCONT);
}

}  // namespace meshbus::test
