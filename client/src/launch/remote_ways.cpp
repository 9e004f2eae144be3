// The ways to start a host on another machine: ssh, and srun inside of a Slurm job.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "client/src/launch/launched_host.h"
#include "meshbus/remote_hosts.h"

namespace meshbus {
namespace {

/// For a shell there, whatever it is.
std::string quoted(const std::string& word) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("/._-+=:,@%").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<RemoteHost> ssh_host(const std::string& destination, const std::string& program) {
  const auto refuse = [&](const std::string& why) { return fail(ErrorCode::parse_error, "ssh:" + destination + ": " + why); };
  std::string host = destination;
  std::string user;
  std::string port;
  if (const auto at = host.rfind('@'); at != std::string::npos) {
    user = host.substr(0, at);
    host = host.substr(at + 1);
    if (user.empty()) return refuse("no user stands in front of the @");
  }
  if (host.starts_with('[')) {
    const auto close = host.find(']');
    if (close == std::string::npos) return refuse("the bracket is not closed");
    const auto rest = host.substr(close + 1);
    if (!rest.empty() && rest[0] != ':') return refuse("expected a port after the bracket");
    if (!rest.empty()) port = rest.substr(1);
    if (!rest.empty() && port.empty()) return refuse("no port stands behind the colon");
    host = host.substr(1, close - 1);
  } else if (const auto colon = host.rfind(':'); colon != std::string::npos) {
    port = host.substr(colon + 1);
    host = host.substr(0, colon);
    if (host.find(':') != std::string::npos) return refuse("an IPv6 address stands in brackets");
    if (port.empty()) return refuse("no port stands behind the colon");
  }
  if (!std::all_of(port.begin(), port.end(), [](unsigned char c) { return std::isdigit(c) != 0; }) || port.size() > 5)
    return refuse("'" + port + "' is no port");
  // Nothing that ssh would take for an option.
  if (host.empty() || host[0] == '-' || (!user.empty() && user[0] == '-')) return refuse("that is no name of a machine");
  RemoteHost remote{destination, {"ssh", "-T", "-x", "-o", "BatchMode=yes", "-o", "ForwardAgent=no", "-o", "ClearAllForwardings=yes"}};
  // A master that the user keeps is used; none is made, which would stay behind.
  remote.command.insert(remote.command.end(), {"-o", "ControlMaster=no", "-o", "RequestTTY=no", "-o", "LogLevel=ERROR"});
  if (!port.empty()) remote.command.insert(remote.command.end(), {"-p", port});
  if (!user.empty()) remote.command.insert(remote.command.end(), {"-l", user});
  remote.command.insert(remote.command.end(), {"--", host, "exec " + quoted(program.empty() ? "meshbus" : program) + " host --remote"});
  return remote;
}

/// "h[1-2],x" as the names that Slurm means by it.
Result<std::vector<std::string>> node_names(const std::string& list) {
  const auto refuse = [&](const std::string& why) {
    return fail(ErrorCode::configuration_error, "the nodes of this Slurm job (" + list + ") cannot be told: " + why);
  };
  const std::string command = "scontrol show hostnames " + quoted(list) + " 2>/dev/null";
  FILE* const pipe = ::popen(command.c_str(), "re");
  if (pipe == nullptr) return refuse("scontrol cannot be started");
  std::string text;
  std::array<char, 4096> buffer;
  while (const auto got = std::fread(buffer.data(), 1, buffer.size(), pipe)) text.append(buffer.data(), got);
  if (::pclose(pipe) != 0) return refuse("scontrol show hostnames fails; is Slurm's bin folder in PATH?");
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    if (end > begin) names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (names.empty()) return refuse("scontrol names none");
  return names;
}

}  // namespace

Result<std::vector<RemoteHost>> ssh_hosts(const std::vector<std::string>& destinations, const std::string& program) {
  if (destinations.empty()) return fail(ErrorCode::configuration_error, "ssh: names no machine");
  std::vector<RemoteHost> hosts;
  for (const auto& destination : destinations) {
    auto host = ssh_host(destination, program);
    if (!host) return fail(host.error());
    hosts.push_back(std::move(*host));
  }
  return hosts;
}

bool is_in_slurm_job() {
  if (environment("SLURM_JOB_ID").empty() || environment("SLURM_JOB_NODELIST").empty()) return false;
  // Inside of a step srun has chosen who runs where. The highest numbers are those of batch scripts and interactive shells.
  const auto step = environment("SLURM_STEP_ID");
  return step.empty() || std::strtoul(step.c_str(), nullptr, 10) >= 0xfffffff0UL;
}

Result<std::vector<RemoteHost>> slurm_hosts(const std::string& program) {
  const auto list = environment("SLURM_JOB_NODELIST");
  if (environment("SLURM_JOB_ID").empty() || list.empty())
    return fail(ErrorCode::not_exist, "this is no Slurm job: SLURM_JOB_ID and SLURM_JOB_NODELIST are not set");
  const auto names = node_names(list);
  if (!names) return fail(names.error());
  auto path = program.empty() ? own_executable() : Result<std::string>(program);
  if (!path) return fail(path.error());
  std::vector<RemoteHost> hosts;
  for (const auto& name : *names) {
    // --overlap: beside other steps; all of the node's share of the job is the host's to hand on. A step ends with its one task.
    hosts.push_back({name,
                     {"srun", "--nodes=1", "--ntasks=1", "--nodelist=" + name, "--overlap", "--mem=0", "--cpu-bind=none", "--unbuffered",
                      "--quiet", "--job-name=meshbus-host", "--", *path, "host", "--remote"}});
  }
  return hosts;
}

}  // namespace meshbus
